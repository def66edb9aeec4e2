"""The Anthropic SDK against the fake of Anthropic."""

import base64
import json

import anthropic

from checks import ARGUMENTS, CITY_SCHEMA, IMAGE, SEEN, TIME_SCHEMA, check, fails, is_city

TOOLS = [{"name": name, "description": name, "input_schema": TIME_SCHEMA} for name in ("get_time", "get_date")]
THINKING = {"type": "enabled", "budget_tokens": 1024}


def run(_dialect, base_url, key):
    client = anthropic.Anthropic(base_url=base_url, api_key=key, max_retries=0, timeout=30)
    texts(client)
    tools(client)
    form = {"format": {"type": "json_schema", "schema": CITY_SCHEMA}}
    answer = ask(client, "a city", output_config=form)
    check("schema", is_city(answer.content[0].text), answer)
    data = base64.b64encode(IMAGE).decode()
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    answer = ask(client, [image, {"type": "text", "text": "look"}])
    check("image", answer.content[0].text == SEEN, answer)
    reasoning(client)
    count = client.messages.count_tokens(model="m1", messages=user("one two"))
    check("tokens are counted", count.input_tokens == 2, count)
    check("models", [model.id for model in client.models.list()] == ["m1"])
    errors(client, base_url)


def user(content):
    return [{"role": "user", "content": content}]


def ask(client, content, **more):
    more.setdefault("max_tokens", 4000)
    return client.messages.create(model="m1", messages=user(content), **more)


def listen(client, content, **more):
    with client.messages.stream(model="m1", max_tokens=4000, messages=user(content), **more) as stream:
        events = list(stream)
        return events, stream.get_final_message()


def texts(client):
    answer = ask(client, "hi", system="be kind")
    check("text", answer.content[0].text == "You said: hi (I was told: be kind)", answer)
    check("text: usage", (answer.usage.input_tokens, answer.usage.output_tokens) == (8, 8), answer.usage)
    usage = ask(client, "hi cached:64").usage
    check("text: cached", (usage.cache_read_input_tokens, usage.input_tokens) == (64, 7), usage)
    events, final = listen(client, "long")
    check("stream", final.content[0].text.count("🙂") == 300 and final.stop_reason == "end_turn", final.stop_reason)
    check("stream: usage", final.usage.output_tokens == 300 and final.usage.input_tokens == 6, final.usage)
    check("stream: events", sum(event.type == "text" for event in events) == 300)
    answer = ask(client, "one two three", max_tokens=2)
    check("length", (answer.stop_reason, answer.content[0].text) == ("max_tokens", "You said: "), answer)
    check("refusal", ask(client, "finish:content_filter").stop_reason == "refusal")


def tools(client):
    answer = ask(client, "go aloud", tools=TOOLS)
    check("tool", [b.type for b in answer.content] == ["text", "tool_use"], answer)
    check("tool: arguments", answer.content[1].input == ARGUMENTS[0] and answer.stop_reason == "tool_use", answer)
    _, both = listen(client, "go both", tools=TOOLS)
    made = [(block.name, block.input) for block in both.content]
    check("tools: streamed, parallel", made == [("get_time", ARGUMENTS[0]), ("get_date", ARGUMENTS[1])], both)
    _, none = listen(client, "go", tools=[{"name": "ping", "input_schema": {"type": "object"}}])
    check("tools: no arguments", none.content[0].input == {}, none)
    one = ask(client, "go both", tools=TOOLS, tool_choice={"type": "auto", "disable_parallel_tool_use": True})
    check("tools: one at a time", len(one.content) == 1, one)
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": f"result {n}"}
        for n, block in enumerate(both.content)
    ]
    turns = user("go both") + [{"role": "assistant", "content": both.content}]
    answer = client.messages.create(model="m1", max_tokens=99, messages=turns + user(results), tools=TOOLS)
    check("tools: result", answer.content[0].text == "The tool says: result 0 and result 1", answer)
    late = [{"type": "text", "text": "here"}] + results
    for name, content in (("missing", results[:1]), ("after text", late)):
        fails(f"tools: result is {name}", anthropic.BadRequestError,
              lambda content=content: client.messages.create(
                  model="m1", max_tokens=99, messages=turns + user(content), tools=TOOLS))


def reasoning(client):
    answer = ask(client, "hi", thinking=THINKING)
    check("reasoning", answer.content[0].thinking == "Let me think about it.", answer)
    _, final = listen(client, "go", thinking=THINKING, tools=TOOLS)
    thought, call = final.content
    check("reasoning: streamed", thought.thinking == "Let me think about it." and thought.signature, final)
    result = user([{"type": "tool_result", "tool_use_id": call.id, "content": "noon"}])

    def second(content):
        turns = user("go") + [{"role": "assistant", "content": content}] + result
        return client.messages.create(model="m1", max_tokens=4000, messages=turns, tools=TOOLS, thinking=THINKING)

    check("reasoning: second turn", second([thought, call]).content[-1].text == "The tool says: noon")
    fails("reasoning: is left out", anthropic.BadRequestError, lambda: second([call]))
    forged = thought.model_copy(update={"signature": "Zm9yZ2Vk"})
    fails("reasoning: is forged", anthropic.BadRequestError, lambda: second([forged, call]))


def errors(client, base_url):
    limited = fails("limited", anthropic.RateLimitError, lambda: ask(client, "fail:rate_limit_error"), status_code=429)
    check("limited: wait", limited.response.headers["retry-after"] == "14")
    fails("overloaded", anthropic.APIStatusError, lambda: ask(client, "fail:overloaded_error"), status_code=529)
    wrong = anthropic.Anthropic(base_url=base_url, api_key="wrong", max_retries=0)
    fails("wrong key", anthropic.AuthenticationError, lambda: ask(wrong, "hi"), status_code=401)
    bad = anthropic.BadRequestError
    fails("temperature", bad, lambda: ask(client, "hi", extra_body={"temperature": 1.5}))
    fails("unknown field", bad, lambda: ask(client, "hi", extra_body={"n": 2}))
    fails("budget", bad, lambda: ask(client, "hi", thinking={"type": "enabled", "budget_tokens": 100}))
    fails("empty text", bad, lambda: ask(client, [{"type": "text", "text": ""}]))
    fails("no version", bad, lambda: ask(client, "hi", extra_headers={"anthropic-version": anthropic.Omit()}))
    fails("no max_tokens", bad, lambda: client.post(
        "/v1/messages", body={"model": "m1", "messages": user("hi")}, cast_to=object))
    fails("no such model", anthropic.NotFoundError,
          lambda: client.messages.create(model="missing", max_tokens=9, messages=user("hi")))
    seen = []

    def interrupted():
        for event in ask(client, "long break:overloaded_error:3", stream=True):
            seen.append(event)

    caught = fails("error in a stream", anthropic.APIStatusError, interrupted)
    check("error in a stream: which", "overloaded_error" in json.dumps(caught.body), caught.body)
    check("error in a stream: what came before", sum(e.type == "content_block_delta" for e in seen) == 3, seen)
