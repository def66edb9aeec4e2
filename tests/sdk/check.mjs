// The official OpenAI Node SDK against a running gateway: only the base URL and the key change.
//
// Usage: node check.mjs BASE_URL KEY MODEL    Prints one line for each check; exits 1 at the first
// that fails.
import OpenAI from "openai";

const [baseURL, apiKey, model] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0, timeout: 30_000 });
const messages = [{ role: "user", content: "say hi" }];

function check(name, condition, seen) {
  console.log((condition ? "ok   " : "FAIL ") + name + (condition ? "" : ": " + JSON.stringify(seen)));
  if (!condition) process.exit(1);
}

async function refused(name, call, expected) {
  try {
    await call();
  } catch (error) {
    for (const [field, value] of Object.entries(expected)) {
      check(`${name}: ${field}`, error[field] === value, error[field]);
    }
    return;
  }
  check(name, false, "no error");
}

const answer = await client.chat.completions.create({ model, messages });
check("chat", answer.choices[0].message.content && answer.choices[0].finish_reason === "stop", answer);

const chunks = [];
for await (const chunk of await client.chat.completions.create({ model, messages, stream: true })) {
  chunks.push(chunk);
}
const text = chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join("");
check("stream", chunks.length > 2 && text === answer.choices[0].message.content, chunks);

const helper = client.chat.completions.stream({ model, messages, stream_options: { include_usage: true } });
const final = await helper.finalChatCompletion();
check("stream: helper", final.choices[0].message.content === text, final);
check("stream: usage when asked", final.usage?.completion_tokens > 0, final.usage);

const tools = [{ type: "function", function: { name: "get_time", parameters: { type: "object", properties: {} } } }];
const call = await client.chat.completions.create({
  model,
  messages: [{ role: "user", content: "call get_time" }],
  tools,
});
check("tools", call.choices[0].message.tool_calls[0].function.name === "get_time", call);

const vectors = await client.embeddings.create({ model, input: ["a", "b"] });
check("embeddings", vectors.data.length === 2 && vectors.data[0].embedding.length > 8, vectors);
const names = (await client.models.list()).data.map((entry) => entry.id);
check("models", names.includes(model), names);

await refused(
  "unknown model",
  () => client.chat.completions.create({ model: model.toUpperCase(), messages }),
  { status: 404, code: "model_not_found" },
);
const wrong = new OpenAI({ baseURL, apiKey: "sk-wrong", maxRetries: 0 });
await refused("wrong key", () => wrong.models.list(), { status: 401, code: "invalid_api_key" });
