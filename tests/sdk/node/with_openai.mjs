// The OpenAI SDK against the fake of OpenAI, and of Azure.
import OpenAI, { AzureOpenAI } from "openai";
import { ARGUMENTS, CITY_SCHEMA, IMAGE, SEEN, TIME_SCHEMA, check, count, fails, isCity, same } from "./checks.mjs";

const tools = ["get_time", "get_date"].map((name) => ({
  type: "function",
  function: { name, description: name, parameters: TIME_SCHEMA },
}));
const user = (content) => [{ role: "user", content }];

function clientOf(dialect, baseURL, apiKey) {
  const options = { apiKey, maxRetries: 0, timeout: 30_000 };
  if (dialect === "azure") {
    return new AzureOpenAI({ endpoint: baseURL, apiVersion: "2024-10-21", ...options });
  }
  return new OpenAI({ baseURL, ...options });
}

export async function run(dialect, baseURL, key) {
  const client = clientOf(dialect, baseURL, key);
  const ask = (content, more = {}) =>
    client.chat.completions.create({ model: "m1", messages: user(content), ...more });

  const system = { role: "system", content: "be kind" };
  const answer = await client.chat.completions.create({ model: "m1", messages: [system, ...user("hi")] });
  check("text", answer.choices[0].message.content === "You said: hi (I was told: be kind)", answer);
  check("text: usage", answer.usage.prompt_tokens === 8, answer.usage);

  const stream = client.chat.completions.stream({
    model: "m1",
    messages: user("long"),
    stream_options: { include_usage: true },
  });
  const long = await stream.finalChatCompletion();
  check("stream", count(long.choices[0].message.content, "🙂") === 300, long);
  check("stream: usage", long.usage.completion_tokens === 300, long.usage);

  const both = await client.chat.completions.stream({ model: "m1", messages: user("go both"), tools }).finalChatCompletion();
  const calls = both.choices[0].message.tool_calls;
  const made = calls.map((call) => [call.function.name, JSON.parse(call.function.arguments)]);
  check("tools: streamed, parallel", same(made, [["get_time", ARGUMENTS[0]], ["get_date", ARGUMENTS[1]]]), made);
  const results = calls.map((call, n) => ({ role: "tool", tool_call_id: call.id, content: `result ${n}` }));
  const { role, content, tool_calls } = both.choices[0].message;
  const turns = [...user("go both"), { role, content, tool_calls }];
  const told = await client.chat.completions.create({ model: "m1", messages: [...turns, ...results], tools });
  check("tools: result", told.choices[0].message.content === "The tool says: result 0 and result 1", told);
  await fails("tools: result is missing", OpenAI.BadRequestError, () =>
    client.chat.completions.create({ model: "m1", messages: [...turns, results[0]], tools }),
  );

  const format = { type: "json_schema", json_schema: { name: "city", schema: CITY_SCHEMA, strict: true } };
  const city = await ask("a city", { response_format: format });
  check("schema", isCity(city.choices[0].message.content), city);
  const image = { type: "image_url", image_url: { url: `data:image/png;base64,${IMAGE}` } };
  const seen = await ask([{ type: "text", text: "look" }, image]);
  check("image", seen.choices[0].message.content === SEEN, seen);
  const thought = await ask("hi", { reasoning_effort: "low" });
  check("reasoning: counted", thought.usage.completion_tokens_details.reasoning_tokens === 5, thought.usage);
  const vectors = await client.embeddings.create({ model: "e1", input: ["a", "b"] });
  check("embeddings", vectors.data.length === 2 && vectors.data[1].embedding.length === 16, vectors);

  const limited = dialect === "azure" ? "429" : "rate_limit_exceeded";
  await fails("limited", OpenAI.RateLimitError, () => ask(`fail:${limited}`), { status: 429 });
  const wrong = clientOf(dialect, baseURL, "wrong");
  await fails("wrong key", OpenAI.AuthenticationError, () =>
    wrong.chat.completions.create({ model: "m1", messages: user("hi") }),
  );
  await fails("temperature", OpenAI.BadRequestError, () => ask("hi", { temperature: 3 }), { param: "temperature" });
  const before = [];
  const inside = dialect === "azure" ? "InternalServerError" : "server_error";
  await fails("error in a stream", OpenAI.APIError, async () => {
    for await (const chunk of await ask(`long break:${inside}:3`, { stream: true })) before.push(chunk);
  });
  const texts = before.map((chunk) => chunk.choices[0]?.delta.content ?? "").join("");
  check("error in a stream: what came before", count(texts, "🙂") === 3, before);
}
