// An official Node SDK against a fake provider: proof that the fake speaks as the provider does.
//
// Usage: node providers.mjs DIALECT BASE_URL KEY    Prints one line for each check; exits 1 at the
// first that fails. Node looks for packages beside the script, so it runs from a copy of this folder.
const own = { anthropic: "with_anthropic", gemini: "with_gemini" };
const [dialect, baseURL, key] = process.argv.slice(2);
const { run } = await import(`./node/${own[dialect] ?? "with_openai"}.mjs`);
await run(dialect, baseURL, key);
console.log("ok   all");
