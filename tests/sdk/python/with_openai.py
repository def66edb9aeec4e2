"""The OpenAI SDK against the fake of OpenAI, of Azure, and of those who imitate them."""

import json

import openai

from checks import ARGUMENTS, CITY_SCHEMA, IMAGE_URL, SEEN, TIME_SCHEMA, check, fails, is_city

TOOLS = [
    {"type": "function", "function": {"name": name, "description": name, "parameters": TIME_SCHEMA}}
    for name in ("get_time", "get_date")
]
FORMAT = {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY_SCHEMA, "strict": True}}

# What a provider lacks or calls otherwise.
NO_SCHEMA = {"deepseek", "zhipu", "qwen-demo"}
NO_EMBEDDINGS = {"deepseek", "moonshot", "qwen-demo"}
NO_TOOLS = {"qwen-demo"}
NO_IMAGES = {"qwen-demo"}
NO_KEY = {"ollama"}
NO_USAGE = {"qwen-demo"}
HIDES_REASONING = {"openai", "azure", "qwen-demo"}
REASONING = {"vllm": "reasoning", "ollama": "reasoning"}
# The names of error rows: limited, bad request, in a stream.
ERRORS = {
    "openai": ("rate_limit_exceeded", "invalid_value", "server_error"),
    "azure": ("429", "BadRequest", "InternalServerError"),
    "deepseek": ("429", "400", "500"),
    "ark": ("RequestBurstTooFast", "InvalidParameter", "InternalServiceError"),
    "zhipu": ("1302", "1210", "1234"),
    "qwen-compat": ("limit_requests", "invalid_parameter_error", "data_inspection_failed"),
    "qianfan-v2": ("rpm_rate_limit_exceeded", "invalid_argument", "internal_error"),
    "moonshot": ("rate_limit_reached_error", "invalid_request_error", "server_error"),
    "mistral": ("1300", "invalid_request_error", "500"),
    "vllm": (None, "BadRequestError", "InternalServerError"),
    "sglang": (None, "BadRequestError", "InternalServerError"),
    "ollama": ("429", "400", "500"),
    "qwen-demo": (None, "400", "500"),
}


def client_of(dialect, base_url, key):
    if dialect == "azure":
        return openai.AzureOpenAI(
            azure_endpoint=base_url, api_key=key, api_version="2024-10-21", max_retries=0, timeout=30
        )
    return openai.OpenAI(base_url=base_url, api_key=key, max_retries=0, timeout=30)


def run(dialect, base_url, key):
    client = client_of(dialect, base_url, key)
    texts(client, dialect)
    if dialect not in NO_TOOLS:
        tools(client, dialect)
    if dialect not in NO_SCHEMA:
        answer = ask(client, "a city", response_format=FORMAT)
        check("schema", is_city(answer.choices[0].message.content), answer)
    if dialect not in NO_IMAGES:
        parts = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": IMAGE_URL}}]
        answer = ask(client, parts)
        check("image", answer.choices[0].message.content == SEEN, answer)
    reasoning(client, dialect)
    if dialect not in NO_EMBEDDINGS:
        answer = client.embeddings.create(model="e1", input=["a", "b"])
        check("embeddings", len(answer.data) == 2 and len(answer.data[1].embedding) == 16, answer)
        plain = client.embeddings.create(model="e1", input=["a", "b"], encoding_format="float")
        near = zip(plain.data[1].embedding, answer.data[1].embedding)
        check("embeddings: as floats", all(abs(a - b) < 1e-6 for a, b in near), plain)
    if dialect == "azure":
        newer = openai.OpenAI(base_url=base_url + "/openai/v1", api_key=key, max_retries=0, timeout=30)
        check("azure: v1", ask(newer, "hi").choices[0].message.content == "You said: hi")
        unknown = client.chat.completions
        fails("azure: no such deployment", openai.NotFoundError,
              lambda: unknown.create(model="missing", messages=user("hi")), code="DeploymentNotFound")
    errors(client, dialect, base_url)


def user(content):
    return [{"role": "user", "content": content}]


def ask(client, content, **more):
    return client.chat.completions.create(model="m1", messages=user(content), **more)


def listen(client, content, **more):
    return list(ask(client, content, stream=True, **more))


def text_of(chunks):
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    return "".join(delta.content or "" for delta in deltas if isinstance(delta.content, str))


def finish_of(chunks):
    return [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason]


def texts(client, dialect):
    system = [{"role": "system", "content": "be kind"}]
    answer = client.chat.completions.create(model="m1", messages=system + user("hi"))
    text = answer.choices[0].message.content
    check("text", text == "You said: hi (I was told: be kind)", answer)
    if dialect not in NO_USAGE:
        usage = answer.usage
        check("text: usage", usage.prompt_tokens == 8 and usage.total_tokens == 8 + usage.completion_tokens, usage)
        usage = ask(client, "hi cached:64").usage
        check("text: cached", usage.prompt_tokens_details.cached_tokens == 64, usage)
    if dialect == "qwen-demo":
        chunks = listen(client, "long 字")
        check("stream", text_of(chunks).count("🙂") == 300 and finish_of(chunks) == ["stop"], chunks[-1])
        return
    chunks = listen(client, "long 字", **({} if dialect == "mistral" else {"stream_options": {"include_usage": True}}))
    check("stream", text_of(chunks).count("🙂") == 300 and finish_of(chunks) == ["stop"], chunks[-1])
    told = [c.usage for c in chunks if c.usage] or [c.choices[0].usage for c in chunks if c.choices and hasattr(c.choices[0], "usage")]
    check("stream: usage", told[-1].completion_tokens == 300, told)
    answer = ask(client, "one two three", max_tokens=2)
    check("length", answer.choices[0].finish_reason == "length" and answer.choices[0].message.content == "You said: ", answer)


def tools(client, dialect):
    answer = ask(client, "go", tools=TOOLS)
    calls = answer.choices[0].message.tool_calls
    check("tool", answer.choices[0].finish_reason == "tool_calls" and len(calls) == 1, answer)
    check("tool: arguments", json.loads(calls[0].function.arguments) == ARGUMENTS[0], calls)
    both = ask(client, "go both", tools=TOOLS).choices[0].message
    check("tools: parallel", [c.function.name for c in both.tool_calls] == ["get_time", "get_date"], both)
    chunks = listen(client, "go both", tools=TOOLS)
    check("tools: streamed", gather(chunks) == [("get_time", ARGUMENTS[0]), ("get_date", ARGUMENTS[1])], chunks)
    check("tools: finish", finish_of(chunks) == ["tool_calls"], chunks[-1])
    results = [
        {"role": "tool", "tool_call_id": call.id, "content": f"result {n}"}
        for n, call in enumerate(both.tool_calls)
    ]
    turns = user("go both") + [both.model_dump(exclude_none=True, include={"role", "content", "tool_calls"})]
    answer = client.chat.completions.create(model="m1", messages=turns + results, tools=TOOLS)
    check("tools: result", answer.choices[0].message.content == "The tool says: result 0 and result 1", answer)
    fails("tools: result is missing", openai.BadRequestError,
          lambda: client.chat.completions.create(model="m1", messages=turns + results[:1], tools=TOOLS))


def gather(chunks):
    """Puts the fragments of calls together: by their index, or where there is none, one by one."""
    calls = []
    for chunk in chunks:
        for item in (chunk.choices[0].delta.tool_calls or []) if chunk.choices else []:
            if item.function.name:
                calls.append([item.function.name, ""])
            place = item.index if item.index is not None else len(calls) - 1
            calls[place][1] += item.function.arguments or ""
    return [(name, json.loads(arguments)) for name, arguments in calls]


def reasoning(client, dialect):
    extra = {"extra_body": {"prompt_mode": "reasoning"}} if dialect == "mistral" else {"reasoning_effort": "low"}
    answer = ask(client, "hi", **extra)
    if dialect in HIDES_REASONING:
        if dialect not in NO_USAGE:
            details = answer.usage.completion_tokens_details
            check("reasoning: counted", details.reasoning_tokens == 5, answer.usage)
        return
    if dialect == "mistral":
        part = answer.choices[0].message.content[0]
        check("reasoning", part["thinking"][0]["text"] == "Let me think about it.", answer)
        return
    name = REASONING.get(dialect, "reasoning_content")
    check("reasoning", getattr(answer.choices[0].message, name) == "Let me think about it.", answer)
    chunks = listen(client, "hi", **extra)
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    text = "".join(getattr(delta, name, None) or "" for delta in deltas)
    check("reasoning: streamed", text == "Let me think about it." and text_of(chunks) == "You said: hi", chunks)


def errors(client, dialect, base_url):
    limited, bad, inside = ERRORS[dialect]
    if limited:
        fails("limited", openai.RateLimitError, lambda: ask(client, f"fail:{limited}"), status_code=429)
    fails("bad request", openai.BadRequestError, lambda: ask(client, f"fail:{bad}"), status_code=400)
    if dialect not in NO_KEY:
        wrong = client_of(dialect, base_url, "wrong")
        fails("wrong key", openai.AuthenticationError, lambda: ask(wrong, "hi"), status_code=401)
    seen = []

    def interrupted():
        for chunk in ask(client, f"long break:{inside}:3", stream=True):
            seen.append(chunk)

    fails("error in a stream", openai.APIError, interrupted)
    check("error in a stream: what came before", text_of(seen).count("🙂") == 3, seen)
    if dialect == "openai":
        fails("unknown field", openai.BadRequestError, lambda: ask(client, "hi", extra_body={"x": 1}),
              code="unknown_parameter", param="x")
        fails("temperature", openai.BadRequestError, lambda: ask(client, "hi", temperature=3), param="temperature")
        fails("no such model", openai.NotFoundError,
              lambda: client.chat.completions.create(model="missing", messages=user("hi")), code="model_not_found")
        fails("no money", openai.RateLimitError, lambda: ask(client, "fail:insufficient_quota"),
              code="insufficient_quota")
