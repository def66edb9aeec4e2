// The Google Gen AI SDK against the fake of Gemini.
import { ApiError, GoogleGenAI } from "@google/genai";
import { ARGUMENTS, CITY_SCHEMA, IMAGE, SEEN, TIME_SCHEMA, check, count, fails, isCity, same } from "./checks.mjs";

const tools = [{
  functionDeclarations: ["get_time", "get_date"].map((name) => ({
    name,
    description: name,
    parametersJsonSchema: TIME_SCHEMA,
  })),
}];

function clientOf(baseUrl, apiKey) {
  return new GoogleGenAI({ apiKey, httpOptions: { baseUrl, timeout: 30_000 } });
}

export async function run(_dialect, baseUrl, key) {
  const client = clientOf(baseUrl, key);
  const ask = (contents, config) => client.models.generateContent({ model: "gemini-x", contents, config });
  const listen = async (contents, config) => {
    const chunks = [];
    const stream = await client.models.generateContentStream({ model: "gemini-x", contents, config });
    for await (const chunk of stream) chunks.push(chunk);
    return chunks;
  };

  const answer = await ask("hi", { systemInstruction: "be kind" });
  check("text", answer.text === "You said: hi (I was told: be kind)", answer);
  check("text: usage", answer.usageMetadata.promptTokenCount === 8, answer.usageMetadata);
  const long = await listen("long");
  const text = long.map((chunk) => chunk.candidates[0].content.parts[0].text ?? "").join("");
  check("stream", count(text, "🙂") === 300 && long.at(-1).candidates[0].finishReason === "STOP", long.at(-1));
  check("stream: usage", long.at(-1).usageMetadata.candidatesTokenCount === 300, long.at(-1));

  const chunks = await listen("go both", { tools });
  const parts = chunks.flatMap((chunk) => chunk.candidates[0].content.parts).filter((part) => part.functionCall);
  const made = parts.map((part) => [part.functionCall.name, part.functionCall.args]);
  check("tools: streamed, parallel", same(made, [["get_time", ARGUMENTS[0]], ["get_date", ARGUMENTS[1]]]), made);
  const responses = parts.map(({ functionCall: { id, name } }, n) => ({
    functionResponse: { id, name, response: { output: `result ${n}` } },
  }));
  const second = (calls, results) =>
    ask([
      { role: "user", parts: [{ text: "go both" }] },
      { role: "model", parts: calls },
      { role: "user", parts: results },
    ], { tools });
  check("tools: result", (await second(parts, responses)).text === "The tool says: result 0 and result 1");
  const unsigned = parts.map(({ functionCall }) => ({ functionCall }));
  await fails("tools: unsigned", ApiError, () => second(unsigned, responses), { status: 400 });
  await fails("tools: result is missing", ApiError, () => second(parts, responses.slice(1)), { status: 400 });

  const city = await ask("a city", { responseMimeType: "application/json", responseJsonSchema: CITY_SCHEMA });
  check("schema", isCity(city.text), city);
  const seen = await ask([{ inlineData: { mimeType: "image/png", data: IMAGE } }, { text: "look" }]);
  check("image", seen.text === SEEN, seen);
  const thought = await ask("hi", { thinkingConfig: { includeThoughts: true } });
  const first = thought.candidates[0].content.parts[0];
  check("reasoning", first.thought && first.text === "Let me think about it.", thought);
  const vectors = await client.models.embedContent({ model: "e1", contents: ["a", "b"] });
  check("embeddings", vectors.embeddings.length === 2 && vectors.embeddings[1].values.length === 16, vectors);

  await fails("limited", ApiError, () => ask("fail:minute"), { status: 429 });
  const wrong = clientOf(baseUrl, "wrong");
  const caught = await fails("wrong key", ApiError, () =>
    wrong.models.generateContent({ model: "gemini-x", contents: "hi" }),
  );
  check("wrong key: reason", caught.message.includes("API_KEY_INVALID"), caught.message);
  await fails("temperature", ApiError, () => ask("hi", { temperature: 3 }), { status: 400 });
  const before = [];
  await fails("error in a stream", ApiError, async () => {
    const contents = "long break:UNAVAILABLE:3";
    const stream = await client.models.generateContentStream({ model: "gemini-x", contents });
    for await (const chunk of stream) before.push(chunk);
  });
  check("error in a stream: what came before", before.length === 3, before);
}
