"""What a caller with the OpenAI Python SDK can do with a provider of any dialect behind a gateway.

Usage: dialects.py BASE_URL KEY MODEL DIALECT [direct]    MODEL is one that a fake provider of that dialect serves.
With `direct`, BASE_URL is the fake's own, and what only a gateway can do is left out.
Prints `ok`, `FAIL` or `n/a` (the provider has no such ability) for each ability; exits 1 if one fails.
"""

import json
import pathlib
import sys

import openai

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "python"))

from checks import ARGUMENTS, CITY_SCHEMA, IMAGE_URL, SEEN, TIME_SCHEMA, is_city

base_url, key, model, dialect, *direct = sys.argv[1:]
client = openai.OpenAI(base_url=base_url, api_key=key, max_retries=0, timeout=30)
known = json.loads((HERE / "abilities.json").read_text())
lacks = set(known["lacks"].get(dialect, []) + (known["gateway"] if direct else []))
limited, invalid, context, overloaded, inside = known["errors"][dialect]

THOUGHT = "Let me think about it."
TOOLS = [
    {"type": "function", "function": {"name": name, "description": name, "parameters": TIME_SCHEMA}}
    for name in ("get_time", "get_date")
]
BOTH = [("get_time", ARGUMENTS[0]), ("get_date", ARGUMENTS[1])]
ABILITIES = []


def ability(name):
    """Registers a check; it fails by an exception."""
    return lambda act: ABILITIES.append((name, act))


def expect(condition, seen):
    if not condition:
        raise AssertionError(repr(seen))


def user(content):
    return {"role": "user", "content": content}


def ask(content, *more_turns, **more):
    return client.chat.completions.create(model=model, messages=[user(content), *more_turns], **more)


def listen(content, **more):
    return list(ask(content, stream=True, **more))


def deltas(chunks):
    return [chunk.choices[0].delta for chunk in chunks if chunk.choices]


def text_of(chunks):
    return "".join(delta.content or "" for delta in deltas(chunks))


def finishes(chunks):
    return [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason]


def made(message):
    return [(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls or []]


def made_in(chunks):
    calls = {}
    for delta in deltas(chunks):
        for item in delta.tool_calls or []:
            call = calls.setdefault(item.index, ["", ""])
            call[0] += item.function.name or ""
            call[1] += item.function.arguments or ""
    return [(name, json.loads(arguments)) for name, arguments in calls.values()]


@ability("text")
def _():
    answer = ask("hi")
    expect(answer.choices[0].message.content == "You said: hi", answer)
    expect(answer.choices[0].finish_reason == "stop" and answer.object == "chat.completion", answer)


@ability("system")
def _():
    messages = [{"role": "system", "content": "be kind"}, user("hi")]
    answer = client.chat.completions.create(model=model, messages=messages)
    expect(answer.choices[0].message.content == "You said: hi (I was told: be kind)", answer)


@ability("turns")
def _():
    messages = [user("one"), {"role": "assistant", "content": "two"}, user("three"), user("four")]
    answer = client.chat.completions.create(model=model, messages=messages)
    expect("four" in answer.choices[0].message.content, answer)


@ability("stream")
def _():
    chunks = listen("long 字")
    expect(text_of(chunks).count("🙂") == 300 and finishes(chunks) == ["stop"], chunks[-2:])


@ability("stream: the SDK's helper")
def _():
    with client.chat.completions.stream(model=model, messages=[user("hi")]) as stream:
        final = stream.get_final_completion()
    expect(final.choices[0].message.content == "You said: hi", final)


@ability("usage")
def _():
    usage = ask("hi").usage
    expect(usage.prompt_tokens == 6 and usage.completion_tokens == 3 and usage.total_tokens == 9, usage)


@ability("usage: streamed")
def _():
    chunks = listen("hi", stream_options={"include_usage": True})
    told = [chunk.usage for chunk in chunks if chunk.usage]
    expect(len(told) == 1 and told[0].prompt_tokens == 6 and told[0].completion_tokens == 3, told)


@ability("usage: cached")
def _():
    usage = ask("hi cached:64").usage
    expect(usage.prompt_tokens == 71 and usage.prompt_tokens_details.cached_tokens == 64, usage)


@ability("length")
def _():
    answer = ask("one two three", max_tokens=2)
    expect(answer.choices[0].finish_reason == "length", answer)


@ability("content filter")
def _():
    expect(ask("a b c finish:content_filter").choices[0].finish_reason == "content_filter", None)


@ability("tools")
def _():
    answer = ask("go", tools=TOOLS)
    expect(made(answer.choices[0].message) == BOTH[:1], answer)
    expect(answer.choices[0].finish_reason == "tool_calls", answer)


@ability("tools: streamed")
def _():
    chunks = listen("go", tools=TOOLS)
    expect(made_in(chunks) == BOTH[:1] and finishes(chunks) == ["tool_calls"], chunks)


@ability("tools: parallel")
def _():
    answer = ask("go both", tools=TOOLS)
    expect(made(answer.choices[0].message) == BOTH, answer)
    expect(len({call.id for call in answer.choices[0].message.tool_calls}) == 2, answer)


@ability("tools: parallel, streamed")
def _():
    expect(made_in(listen("go both", tools=TOOLS)) == BOTH, None)


@ability("tools: required")
def _():
    answer = ask("go", tools=TOOLS, tool_choice="required")
    expect(len(made(answer.choices[0].message)) == 1, answer)


@ability("tools: none")
def _():
    answer = ask("go", tools=TOOLS, tool_choice="none")
    expect(answer.choices[0].message.content == "You said: go", answer)


@ability("tools: result")
def _():
    prompt = "go" if "tools: parallel" in lacks else "go both"
    turn = ask(prompt, tools=TOOLS).choices[0].message
    results = [
        {"role": "tool", "tool_call_id": call.id, "content": f"result {n}"} for n, call in enumerate(turn.tool_calls)
    ]
    answer = ask(prompt, turn.model_dump(exclude_none=True), *results, tools=TOOLS)
    told = " and ".join(result["content"] for result in results)
    expect(answer.choices[0].message.content == f"The tool says: {told}", answer)


@ability("json schema")
def _():
    schema = {"name": "city", "schema": CITY_SCHEMA, "strict": True}
    answer = ask("a city", response_format={"type": "json_schema", "json_schema": schema})
    expect(is_city(answer.choices[0].message.content), answer)


@ability("json object")
def _():
    answer = ask("some json", response_format={"type": "json_object"})
    expect(isinstance(json.loads(answer.choices[0].message.content), dict), answer)


@ability("image")
def _():
    answer = ask([{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": IMAGE_URL}}])
    expect(answer.choices[0].message.content == SEEN, answer)


@ability("reasoning")
def _():
    message = ask("hi", reasoning_effort="low").choices[0].message
    expect(message.reasoning_content == THOUGHT and message.content == "You said: hi", message)


@ability("reasoning: streamed")
def _():
    chunks = listen("hi", reasoning_effort="low")
    thought = "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas(chunks))
    expect(thought == THOUGHT and text_of(chunks) == "You said: hi", chunks)


@ability("reasoning: counted")
def _():
    usage = ask("hi", reasoning_effort="low").usage
    expect(usage.completion_tokens_details.reasoning_tokens == 5 and usage.completion_tokens == 8, usage)


@ability("reasoning: kept for the next turn")
def _():
    more = {"tools": TOOLS, "reasoning_effort": "low"}
    turn = ask("go", **more).choices[0].message
    result = {"role": "tool", "tool_call_id": turn.tool_calls[0].id, "content": "noon"}
    answer = ask("go", turn.model_dump(exclude_none=True), result, **more)
    expect(answer.choices[0].message.content == "The tool says: noon", answer)


@ability("embeddings")
def _():
    answer = client.embeddings.create(model=model, input=["a", "b"])
    expect(len(answer.data) == 2 and len(answer.data[1].embedding) == 16, answer)
    expect(answer.data[0].embedding != answer.data[1].embedding, answer)


def refused(status, call, code=None):
    try:
        call()
    except openai.APIStatusError as error:
        expect(error.status_code == status, error)
        expect(code is None or error.code == code, error)
        expect(isinstance(error.body, dict) and error.body.get("message"), error.body)
        return
    expect(False, "no error")


@ability("error: limited")
def _():
    refused(429, lambda: ask(f"fail:{limited}"))


@ability("error: invalid")
def _():
    refused(400, lambda: ask(f"fail:{invalid}"))


@ability("error: context")
def _():
    refused(400, lambda: ask(f"fail:{context}"), code="context_length_exceeded")


@ability("error: overloaded")
def _():
    refused(503, lambda: ask(f"fail:{overloaded}"))


@ability("error: before a stream")
def _():
    refused(400, lambda: ask(f"fail:{invalid}", stream=True))


def broken(prompt):
    seen = []
    try:
        for chunk in ask(prompt, stream=True):
            seen.append(chunk)
    except openai.APIError as error:
        expect(text_of(seen).count("🙂") == 3, seen)
        expect(not finishes(seen), seen)
        return error
    expect(False, "no error")


@ability("error: inside a stream")
def _():
    broken(f"long break:{inside}:3")


@ability("error: a stream without its end")
def _():
    broken("long break:eof:3")


failed = False
for name, act in ABILITIES:
    if name in lacks:
        print(f"n/a  {name}", flush=True)
        continue
    try:
        act()
        print(f"ok   {name}", flush=True)
    except Exception as error:
        failed = True
        print(f"FAIL {name}: {type(error).__name__}: {str(error)[:500]}", flush=True)
sys.exit(failed)
