"""The official OpenAI Python SDK against a running gateway: only the base URL and the key change.

Usage: check.py BASE_URL KEY MODEL    Prints one line for each check; exits 1 at the first that fails.
"""

import sys

import openai

base_url, key, model = sys.argv[1:4]
client = openai.OpenAI(base_url=base_url, api_key=key, max_retries=0, timeout=30)
HI = [{"role": "user", "content": "say hi"}]


def check(name, condition, seen=None):
    print(("ok   " if condition else "FAIL ") + name + ("" if condition else f": {seen!r}"))
    if not condition:
        sys.exit(1)


def refused(name, error, call, **expected):
    try:
        call()
    except error as caught:
        for field, value in expected.items():
            check(f"{name}: {field}", getattr(caught, field) == value, getattr(caught, field))
        return caught
    check(name, False, "no error")


answer = client.chat.completions.create(model=model, messages=HI)
check("chat", answer.choices[0].message.content and answer.choices[0].finish_reason == "stop", answer)
check("chat: usage", answer.usage.prompt_tokens > 0 and answer.usage.completion_tokens > 0, answer.usage)

raw = client.chat.completions.with_raw_response.create(
    model=model, messages=HI, extra_headers={"x-request-id": "sdk-python-1"}
)
check("chat: request id", raw.headers["x-request-id"] == "sdk-python-1", raw.headers)

chunks = list(client.chat.completions.create(model=model, messages=HI, stream=True))
text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
check("stream", text and len(chunks) > 2, chunks)
check("stream: finish", [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop", chunks)
check("stream: no usage unasked", all(not chunk.usage for chunk in chunks), chunks)
check("stream: same text as whole", text == answer.choices[0].message.content, text)

chunks = list(
    client.chat.completions.create(
        model=model, messages=HI, stream=True, stream_options={"include_usage": True}
    )
)
check("stream: usage when asked", chunks[-1].usage and chunks[-1].usage.completion_tokens > 0, chunks[-1])

tool = {
    "type": "function",
    "function": {"name": "get_time", "parameters": {"type": "object", "properties": {}}},
}
call = [{"role": "user", "content": "call get_time"}]
answer = client.chat.completions.create(model=model, messages=call, tools=[tool])
check("tools", answer.choices[0].message.tool_calls[0].function.name == "get_time", answer)
with client.chat.completions.stream(model=model, messages=call, tools=[tool]) as stream:
    final = stream.get_final_completion()
check("tools: streamed", final.choices[0].message.tool_calls[0].function.name == "get_time", final)

answer = client.completions.create(model=model, prompt="say hi")
check("completions", answer.choices[0].text, answer)
answer = client.embeddings.create(model=model, input=["a", "b"])
check("embeddings", len(answer.data) == 2 and len(answer.data[0].embedding) > 8, answer)

names = [entry.id for entry in client.models.list()]
check("models", model in names, names)
check("models: one", client.models.retrieve(model).id == model)

refused("unknown model", openai.NotFoundError,
        lambda: client.chat.completions.create(model=model.upper(), messages=HI),
        status_code=404, code="model_not_found", param="model")
refused("unknown model: one", openai.NotFoundError, lambda: client.models.retrieve("no/such"), status_code=404)
wrong = openai.OpenAI(base_url=base_url, api_key="sk-wrong", max_retries=0)
refused("wrong key", openai.AuthenticationError,
        lambda: wrong.chat.completions.create(model=model, messages=HI),
        status_code=401, code="invalid_api_key")
