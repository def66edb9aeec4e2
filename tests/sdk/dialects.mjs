// What a caller with the OpenAI Node SDK can do with a provider of any dialect behind a gateway.
//
// Usage: node dialects.mjs BASE_URL KEY MODEL DIALECT [direct]    MODEL is one that a fake provider of
// that dialect serves. With `direct`, BASE_URL is the fake's own, and what only a gateway can do is
// left out. Prints `ok`, `FAIL` or `n/a` (the provider has no such ability) for each ability; exits 1 if
// one fails. Node looks for packages beside the script, so it runs from a copy of this folder.
import { readFileSync } from "node:fs";
import OpenAI from "openai";
import { ARGUMENTS, CITY_SCHEMA, IMAGE, SEEN, TIME_SCHEMA, count, isCity, same } from "./node/checks.mjs";

const [baseURL, apiKey, model, dialect, direct] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0, timeout: 30_000 });
const known = JSON.parse(readFileSync(new URL("./abilities.json", import.meta.url), "utf8"));
const lacks = new Set([...(known.lacks[dialect] ?? []), ...(direct ? known.gateway : [])]);
const [limited, invalid, context, overloaded, inside] = known.errors[dialect];

const THOUGHT = "Let me think about it.";
const tools = ["get_time", "get_date"].map((name) => ({
  type: "function",
  function: { name, description: name, parameters: TIME_SCHEMA },
}));
const BOTH = [["get_time", ARGUMENTS[0]], ["get_date", ARGUMENTS[1]]];

function expect(condition, seen) {
  if (!condition) throw new Error(JSON.stringify(seen) ?? "not as expected");
}

const user = (content) => ({ role: "user", content });

function ask(content, more = {}, turns = []) {
  return client.chat.completions.create({ model, messages: [user(content), ...turns], ...more });
}

async function listen(content, more = {}, chunks = []) {
  for await (const chunk of await ask(content, { stream: true, ...more })) chunks.push(chunk);
  return chunks;
}

const deltas = (chunks) => chunks.flatMap((chunk) => (chunk.choices[0] ? [chunk.choices[0].delta] : []));
const textOf = (chunks) => deltas(chunks).map((delta) => delta.content ?? "").join("");
const finishes = (chunks) => chunks.flatMap((chunk) => chunk.choices[0]?.finish_reason ?? []);
const made = (message) =>
  (message.tool_calls ?? []).map((call) => [call.function.name, JSON.parse(call.function.arguments)]);

function madeIn(chunks) {
  const calls = [];
  for (const item of deltas(chunks).flatMap((delta) => delta.tool_calls ?? [])) {
    const call = (calls[item.index] ??= ["", ""]);
    call[0] += item.function?.name ?? "";
    call[1] += item.function?.arguments ?? "";
  }
  return calls.map(([name, text]) => [name, JSON.parse(text)]);
}

async function refused(status, call, code) {
  try {
    await call();
  } catch (error) {
    expect(error instanceof OpenAI.APIError && error.status === status, String(error));
    expect(code === undefined || error.code === code, [error.code, String(error)]);
    return;
  }
  expect(false, "no error");
}

async function broken(prompt) {
  const chunks = [];
  try {
    await listen(prompt, {}, chunks);
  } catch (error) {
    expect(error instanceof OpenAI.APIError, String(error));
    expect(count(textOf(chunks), "🙂") === 3 && finishes(chunks).length === 0, chunks);
    return;
  }
  expect(false, "no error");
}

const abilities = {
  text: async () => {
    const answer = await ask("hi");
    expect(answer.choices[0].message.content === "You said: hi", answer);
    expect(answer.choices[0].finish_reason === "stop", answer);
  },
  system: async () => {
    const messages = [{ role: "system", content: "be kind" }, user("hi")];
    const answer = await client.chat.completions.create({ model, messages });
    expect(answer.choices[0].message.content === "You said: hi (I was told: be kind)", answer);
  },
  turns: async () => {
    const turns = [{ role: "assistant", content: "two" }, user("three"), user("four")];
    const answer = await ask("one", {}, turns);
    expect(answer.choices[0].message.content.includes("four"), answer);
  },
  stream: async () => {
    const chunks = await listen("long 字");
    expect(count(textOf(chunks), "🙂") === 300 && same(finishes(chunks), ["stop"]), chunks.slice(-2));
  },
  "stream: the SDK's helper": async () => {
    const stream = client.chat.completions.stream({ model, messages: [user("hi")] });
    const final = await stream.finalChatCompletion();
    expect(final.choices[0].message.content === "You said: hi", final);
  },
  usage: async () => {
    const { usage } = await ask("hi");
    expect(same([usage.prompt_tokens, usage.completion_tokens, usage.total_tokens], [6, 3, 9]), usage);
  },
  "usage: streamed": async () => {
    const chunks = await listen("hi", { stream_options: { include_usage: true } });
    const told = chunks.flatMap((chunk) => chunk.usage ?? []);
    expect(told.length === 1 && told[0].prompt_tokens === 6 && told[0].completion_tokens === 3, told);
  },
  "usage: cached": async () => {
    const { usage } = await ask("hi cached:64");
    expect(usage.prompt_tokens === 71 && usage.prompt_tokens_details.cached_tokens === 64, usage);
  },
  length: async () => {
    const answer = await ask("one two three", { max_tokens: 2 });
    expect(answer.choices[0].finish_reason === "length", answer);
  },
  "content filter": async () => {
    const answer = await ask("a b c finish:content_filter");
    expect(answer.choices[0].finish_reason === "content_filter", answer);
  },
  tools: async () => {
    const [choice] = (await ask("go", { tools })).choices;
    expect(same(made(choice.message), BOTH.slice(0, 1)) && choice.finish_reason === "tool_calls", choice);
  },
  "tools: streamed": async () => {
    const chunks = await listen("go", { tools });
    expect(same(madeIn(chunks), BOTH.slice(0, 1)) && same(finishes(chunks), ["tool_calls"]), chunks);
  },
  "tools: parallel": async () => {
    const [choice] = (await ask("go both", { tools })).choices;
    expect(same(made(choice.message), BOTH), choice);
  },
  "tools: parallel, streamed": async () => {
    const chunks = await listen("go both", { tools });
    expect(same(madeIn(chunks), BOTH), chunks);
  },
  "tools: required": async () => {
    const answer = await ask("go", { tools, tool_choice: "required" });
    expect(made(answer.choices[0].message).length === 1, answer);
  },
  "tools: none": async () => {
    const answer = await ask("go", { tools, tool_choice: "none" });
    expect(answer.choices[0].message.content === "You said: go", answer);
  },
  "tools: result": async () => {
    const prompt = lacks.has("tools: parallel") ? "go" : "go both";
    const turn = (await ask(prompt, { tools })).choices[0].message;
    const results = turn.tool_calls.map((call, n) => ({
      role: "tool",
      tool_call_id: call.id,
      content: `result ${n}`,
    }));
    const answer = await ask(prompt, { tools }, [turn, ...results]);
    const told = results.map((result) => result.content).join(" and ");
    expect(answer.choices[0].message.content === `The tool says: ${told}`, answer);
  },
  "json schema": async () => {
    const json_schema = { name: "city", schema: CITY_SCHEMA, strict: true };
    const answer = await ask("a city", { response_format: { type: "json_schema", json_schema } });
    expect(isCity(answer.choices[0].message.content), answer);
  },
  "json object": async () => {
    const answer = await ask("some json", { response_format: { type: "json_object" } });
    expect(typeof JSON.parse(answer.choices[0].message.content) === "object", answer);
  },
  image: async () => {
    const image = { type: "image_url", image_url: { url: `data:image/png;base64,${IMAGE}` } };
    const answer = await ask([{ type: "text", text: "look" }, image]);
    expect(answer.choices[0].message.content === SEEN, answer);
  },
  reasoning: async () => {
    const { message } = (await ask("hi", { reasoning_effort: "low" })).choices[0];
    expect(message.reasoning_content === THOUGHT && message.content === "You said: hi", message);
  },
  "reasoning: streamed": async () => {
    const chunks = await listen("hi", { reasoning_effort: "low" });
    const thought = deltas(chunks).map((delta) => delta.reasoning_content ?? "").join("");
    expect(thought === THOUGHT && textOf(chunks) === "You said: hi", chunks);
  },
  "reasoning: counted": async () => {
    const { usage } = await ask("hi", { reasoning_effort: "low" });
    expect(usage.completion_tokens_details.reasoning_tokens === 5 && usage.completion_tokens === 8, usage);
  },
  "reasoning: kept for the next turn": async () => {
    const more = { tools, reasoning_effort: "low" };
    const turn = (await ask("go", more)).choices[0].message;
    const result = { role: "tool", tool_call_id: turn.tool_calls[0].id, content: "noon" };
    const answer = await ask("go", more, [turn, result]);
    expect(answer.choices[0].message.content === "The tool says: noon", answer);
  },
  embeddings: async () => {
    const { data } = await client.embeddings.create({ model, input: ["a", "b"] });
    expect(data.length === 2 && data[1].embedding.length === 16, data);
  },
  "error: limited": () => refused(429, () => ask(`fail:${limited}`)),
  "error: invalid": () => refused(400, () => ask(`fail:${invalid}`)),
  "error: context": () => refused(400, () => ask(`fail:${context}`), "context_length_exceeded"),
  "error: overloaded": () => refused(503, () => ask(`fail:${overloaded}`)),
  "error: before a stream": () => refused(400, () => ask(`fail:${invalid}`, { stream: true })),
  "error: inside a stream": () => broken(`long break:${inside}:3`),
  "error: a stream without its end": () => broken("long break:eof:3"),
};

let failed = false;
for (const [name, act] of Object.entries(abilities)) {
  if (lacks.has(name)) {
    console.log(`n/a  ${name}`);
    continue;
  }
  try {
    await act();
    console.log(`ok   ${name}`);
  } catch (error) {
    failed = true;
    console.log(`FAIL ${name}: ${String(error).slice(0, 500)}`);
  }
}
process.exit(failed ? 1 : 0);
