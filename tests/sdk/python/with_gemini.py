"""The Google Gen AI SDK against the fake of Gemini."""

from google import genai
from google.genai import errors, types

from checks import ARGUMENTS, CITY_SCHEMA, IMAGE, SEEN, TIME_SCHEMA, check, fails, is_city

TOOLS = types.Tool(function_declarations=[
    types.FunctionDeclaration(name=name, description=name, parameters_json_schema=TIME_SCHEMA)
    for name in ("get_time", "get_date")
])
AUTOMATIC = types.AutomaticFunctionCallingConfig(disable=True)


def client_of(base_url, key):
    options = types.HttpOptions(base_url=base_url, timeout=30_000)
    return genai.Client(api_key=key, http_options=options)


def run(_dialect, base_url, key):
    client = client_of(base_url, key)
    texts(client)
    tools(client)
    answer = ask(client, "a city", response_mime_type="application/json", response_json_schema=CITY_SCHEMA)
    check("schema", is_city(answer.text), answer)
    plain = {name: value for name, value in CITY_SCHEMA.items() if name != "additionalProperties"}
    answer = ask(client, "a city", response_mime_type="application/json", response_schema=plain)
    check("schema: of the subset", is_city(answer.text), answer)
    image = types.Part.from_bytes(data=IMAGE, mime_type="image/png")
    answer = client.models.generate_content(model="gemini-x", contents=[image, "look"])
    check("image", answer.text == SEEN, answer)
    reasoning(client)
    embeddings(client)
    failures(client, base_url)


def ask(client, contents, model="gemini-x", **config):
    return client.models.generate_content(model=model, contents=contents, config=config or None)


def listen(client, contents, **config):
    return list(client.models.generate_content_stream(model="gemini-x", contents=contents, config=config or None))


def texts(client):
    answer = ask(client, "hi", system_instruction="be kind")
    check("text", answer.text == "You said: hi (I was told: be kind)", answer)
    usage = answer.usage_metadata
    check("text: usage", (usage.prompt_token_count, usage.candidates_token_count) == (8, 8), usage)
    check("text: cached", ask(client, "hi cached:64").usage_metadata.cached_content_token_count == 64)
    chunks = listen(client, "long")
    text = "".join(chunk.text or "" for chunk in chunks)
    last = chunks[-1]
    check("stream", text.count("🙂") == 300 and last.candidates[0].finish_reason == types.FinishReason.STOP, last)
    check("stream: usage", last.usage_metadata.candidates_token_count == 300, last)
    answer = ask(client, "one two three", max_output_tokens=2)
    reason = answer.candidates[0].finish_reason
    check("length", (reason, answer.text) == (types.FinishReason.MAX_TOKENS, "You said: "), answer)
    answer = ask(client, "fail:blocked")
    check("blocked", answer.prompt_feedback.block_reason and not answer.candidates, answer)


def tools(client):
    with_tools = {"tools": [TOOLS], "automatic_function_calling": AUTOMATIC}
    answer = ask(client, "go", **with_tools)
    call = answer.function_calls[0]
    check("tool", (call.name, call.args, len(call.id)) == ("get_time", ARGUMENTS[0], 8), answer)
    chunks = listen(client, "go both", **with_tools)
    made = [part for chunk in chunks for part in chunk.candidates[0].content.parts if part.function_call]
    names = [(part.function_call.name, part.function_call.args) for part in made]
    check("tools: streamed, parallel", names == [("get_time", ARGUMENTS[0]), ("get_date", ARGUMENTS[1])], made)
    check("tools: only the first is signed", made[0].thought_signature and not made[1].thought_signature, made)
    response = lambda part, n: types.Part(function_response=types.FunctionResponse(
        id=part.function_call.id, name=part.function_call.name, response={"output": f"result {n}"}))
    responses = [response(part, n) for n, part in enumerate(made)]

    def second(calls, results, model="gemini-x"):
        turns = [
            types.UserContent("go both"), types.ModelContent(calls), types.UserContent(results)
        ]
        return ask(client, turns, model=model, **with_tools)

    check("tools: result", second(made, responses).text == "The tool says: result 0 and result 1")
    unsigned = [part.model_copy(update={"thought_signature": None}) for part in made]
    fails("tools: unsigned", errors.ClientError, lambda: second(unsigned, responses), code=400)
    forged = [part.model_copy(update={"thought_signature": b"forged"}) for part in made]
    fails("tools: forged", errors.ClientError, lambda: second(forged, responses), code=400)
    older = second(unsigned, responses, model="gemini-2.5-flash")
    check("tools: an older model does not sign", older.text.startswith("The tool says"), older)
    fails("tools: result is missing", errors.ClientError, lambda: second(made, responses[:1]), code=400)


def reasoning(client):
    thinking = types.ThinkingConfig(include_thoughts=True)
    answer = ask(client, "hi", thinking_config=thinking)
    part = answer.candidates[0].content.parts[0]
    check("reasoning", part.thought and part.text == "Let me think about it.", answer)
    check("reasoning: counted", answer.usage_metadata.thoughts_token_count == 5, answer)
    chunks = listen(client, "hi", thinking_config=thinking)
    parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts]
    text = "".join(part.text for part in parts if part.thought)
    check("reasoning: streamed", text == "Let me think about it.", parts)
    hidden = ask(client, "hi", thinking_config=types.ThinkingConfig(thinking_level="low"))
    check("reasoning: hidden", len(hidden.candidates[0].content.parts) == 1, hidden)


def embeddings(client):
    answer = client.models.embed_content(model="e1", contents=["a", "b"])
    check("embeddings", len(answer.embeddings) == 2 and len(answer.embeddings[1].values) == 16, answer)
    config = types.EmbedContentConfig(output_dimensionality=8)
    one = client.models.embed_content(model="e1", contents="b", config=config)
    check("embeddings: dimensions", len(one.embeddings[0].values) == 8, one)


def failures(client, base_url):
    for name, code, status in (
        ("minute", 429, "RESOURCE_EXHAUSTED"), ("NOT_FOUND", 404, "NOT_FOUND"), ("INVALID_ARGUMENT", 400, "INVALID_ARGUMENT"),
    ):
        fails(f"error {name}", errors.ClientError, lambda name=name: ask(client, f"fail:{name}"), code=code, status=status)
    fails("overloaded", errors.ServerError, lambda: ask(client, "fail:UNAVAILABLE"), code=503)
    wrong = client_of(base_url, "wrong")
    caught = fails("wrong key", errors.ClientError, lambda: ask(wrong, "hi"), code=400)
    check("wrong key: reason", "API_KEY_INVALID" in str(caught.details), caught.details)
    fails("temperature", errors.ClientError, lambda: ask(client, "hi", temperature=3), code=400)
    fails("no such model", errors.ClientError, lambda: ask(client, "hi", model="missing"), code=404)
    extra = types.HttpOptions(extra_body={"frequencyPenalty": 1})
    caught = fails("unknown field", errors.ClientError, lambda: ask(client, "hi", http_options=extra), code=400)
    check("unknown field: which", "frequencyPenalty" in caught.message, caught)
    for word in ("", " bare"):
        seen = []

        def interrupted():
            stream = client.models.generate_content_stream(
                model="gemini-x", contents=f"long break:UNAVAILABLE:3{word}")
            for chunk in stream:
                seen.append(chunk)

        fails(f"error in a stream{word}", errors.APIError, interrupted)
        check(f"error in a stream{word}: what came before", len(seen) == 3, seen)
