// What the checks of all SDKs share: how a check is told, and what they all send.

// A PNG of one pixel.
export const IMAGE =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
export const SEEN = `I see image/png of ${Buffer.from(IMAGE, "base64").length} bytes`;

export const TIME_SCHEMA = {
  type: "object",
  properties: { tz: { type: "string", description: "a time zone" }, day: { type: "integer" } },
  required: ["tz"],
};
export const CITY_SCHEMA = {
  type: "object",
  properties: { city: { type: "string" }, size: { type: "number" } },
  required: ["city", "size"],
  additionalProperties: false,
};
// What a fake calls the tools with, the first and the second time.
export const ARGUMENTS = [1, 2].map((n) => ({ tz: `tz ${n} "東京"`, day: n }));

// Tells of one check; the first that fails ends the program.
export function check(name, condition, seen) {
  console.log((condition ? "ok   " : "FAIL ") + name + (condition ? "" : ": " + JSON.stringify(seen)));
  if (!condition) process.exit(1);
}

// Checks that a call fails with that error, and gives it.
export async function fails(name, kind, call, expected = {}) {
  let caught;
  try {
    await call();
  } catch (error) {
    caught = error;
  }
  check(name, caught instanceof kind, String(caught ?? "no error"));
  for (const [field, value] of Object.entries(expected)) {
    check(`${name}: ${field}`, caught[field] === value, caught[field]);
  }
  return caught;
}

export function same(a, b) {
  return JSON.stringify(a) === JSON.stringify(b);
}

// Whether a text is JSON that fits the schema of a city.
export function isCity(text) {
  const city = JSON.parse(text);
  return same(Object.keys(city).sort(), ["city", "size"]) && typeof city.city === "string";
}

export const count = (text, part) => text.split(part).length - 1;
