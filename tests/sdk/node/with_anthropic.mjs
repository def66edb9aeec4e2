// The Anthropic SDK against the fake of Anthropic.
import Anthropic from "@anthropic-ai/sdk";
import { ARGUMENTS, CITY_SCHEMA, IMAGE, SEEN, TIME_SCHEMA, check, count, fails, isCity, same } from "./checks.mjs";

const tools = ["get_time", "get_date"].map((name) => ({ name, description: name, input_schema: TIME_SCHEMA }));
const thinking = { type: "enabled", budget_tokens: 1024 };
const user = (content) => [{ role: "user", content }];

export async function run(_dialect, baseURL, apiKey) {
  const client = new Anthropic({ baseURL, apiKey, maxRetries: 0, timeout: 30_000 });
  const body = (content, more = {}) => ({ model: "m1", max_tokens: 4000, messages: user(content), ...more });
  const ask = (content, more) => client.messages.create(body(content, more));
  const listen = (content, more) => client.messages.stream(body(content, more)).finalMessage();

  const answer = await ask("hi", { system: "be kind" });
  check("text", answer.content[0].text === "You said: hi (I was told: be kind)", answer);
  check("text: usage", answer.usage.input_tokens === 8 && answer.usage.output_tokens === 8, answer.usage);
  const long = await listen("long");
  check("stream", count(long.content[0].text, "🙂") === 300 && long.stop_reason === "end_turn", long);
  check("stream: usage", long.usage.output_tokens === 300, long.usage);

  const both = await listen("go both", { tools });
  const made = both.content.map((block) => [block.name, block.input]);
  check("tools: streamed, parallel", same(made, [["get_time", ARGUMENTS[0]], ["get_date", ARGUMENTS[1]]]), made);
  const results = both.content.map((block, n) => ({
    type: "tool_result",
    tool_use_id: block.id,
    content: `result ${n}`,
  }));
  const turns = [...user("go both"), { role: "assistant", content: both.content }];
  const told = await client.messages.create({ ...body("", { tools }), messages: [...turns, ...user(results)] });
  check("tools: result", told.content[0].text === "The tool says: result 0 and result 1", told);
  await fails("tools: result is missing", Anthropic.BadRequestError, () =>
    client.messages.create({ ...body("", { tools }), messages: [...turns, ...user([results[0]])] }),
  );

  const city = await ask("a city", { output_config: { format: { type: "json_schema", schema: CITY_SCHEMA } } });
  check("schema", isCity(city.content[0].text), city);
  const image = { type: "image", source: { type: "base64", media_type: "image/png", data: IMAGE } };
  const seen = await ask([image, { type: "text", text: "look" }]);
  check("image", seen.content[0].text === SEEN, seen);

  const thought = await listen("go", { tools, thinking });
  check("reasoning: streamed", thought.content[0].thinking === "Let me think about it.", thought);
  const result = user([{ type: "tool_result", tool_use_id: thought.content[1].id, content: "noon" }]);
  const second = (content) =>
    client.messages.create({
      ...body("", { tools, thinking }),
      messages: [...user("go"), { role: "assistant", content }, ...result],
    });
  check("reasoning: second turn", (await second(thought.content)).content.at(-1).text === "The tool says: noon");
  await fails("reasoning: is left out", Anthropic.BadRequestError, () => second(thought.content.slice(1)));

  await fails("limited", Anthropic.RateLimitError, () => ask("fail:rate_limit_error"), { status: 429 });
  const wrong = new Anthropic({ baseURL, apiKey: "wrong", maxRetries: 0 });
  await fails("wrong key", Anthropic.AuthenticationError, () => wrong.messages.create(body("hi")));
  await fails("unknown field", Anthropic.BadRequestError, () => ask("hi", { n: 2 }));
  const before = [];
  await fails("error in a stream", Anthropic.APIError, async () => {
    for await (const event of await ask("long break:overloaded_error:3", { stream: true })) before.push(event);
  });
  const deltas = before.filter((event) => event.type === "content_block_delta");
  check("error in a stream: what came before", deltas.length === 3, before);
}
