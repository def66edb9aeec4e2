"""The DashScope SDK against the fake of DashScope."""

import json
from http import HTTPStatus

import dashscope

from checks import ARGUMENTS, CITY_SCHEMA, IMAGE_URL, SEEN, TIME_SCHEMA, check, fails, is_city

TOOLS = [
    {"type": "function", "function": {"name": name, "description": name, "parameters": TIME_SCHEMA}}
    for name in ("get_time", "get_date")
]


def run(_dialect, base_url, key):
    dashscope.base_http_api_url = base_url
    dashscope.api_key = key
    texts()
    tools()
    form = {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY_SCHEMA}}
    check("schema", is_city(content(ask("a city", response_format=form))))
    multimodal()
    answer = list(ask("hi", stream=True, incremental_output=True, enable_thinking=True))
    messages = [frame.output.choices[0].message for frame in answer]
    text = "".join(message.get("reasoning_content") or "" for message in messages)
    check("reasoning", text == "Let me think about it.", messages)
    check("reasoning: counted", answer[-1].usage["output_tokens_details"]["reasoning_tokens"] == 5, answer[-1])
    answer = dashscope.TextEmbedding.call(model="e1", input=["a", "b"])
    vectors = answer.output["embeddings"]
    check("embeddings", len(vectors) == 2 and len(vectors[1]["embedding"]) == 16, answer)
    errors()


def ask(text, **more):
    more.setdefault("result_format", "message")
    messages = more.pop("messages", None) or [{"role": "user", "content": text}]
    return dashscope.Generation.call(model="qwen-x", messages=messages, **more)


def content(answer):
    check("status", answer.status_code == HTTPStatus.OK, answer)
    return answer.output.choices[0].message.content


def texts():
    messages = [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hi"}]
    answer = ask(None, messages=messages)
    check("text", content(answer) == "You said: hi (I was told: be kind)", answer)
    check("text: usage", (answer.usage.input_tokens, answer.usage.output_tokens) == (8, 8), answer.usage)
    older = dashscope.Generation.call(model="qwen-x", prompt="hi")
    check("text: older form", older.output.text == "You said: hi", older)
    frames = list(ask("long", stream=True, incremental_output=True))
    text = "".join(content_of(frame) for frame in frames)
    check("stream", text.count("🙂") == 300 and finish(frames[-1]) == "stop", frames[-1])
    check("stream: usage", frames[-1].usage.output_tokens == 300, frames[-1].usage)
    frames = list(ask("hi there", stream=True, incremental_output=False))
    texts = [content_of(frame) for frame in frames]
    check("stream: cumulative", texts[-1] == "You said: hi there" and len(texts) > 3, texts)
    check("stream: cumulative grows", all(b.startswith(a) for a, b in zip(texts, texts[1:])), texts)
    answer = ask("one two three", max_tokens=2)
    check("length", (content(answer), finish(answer)) == ("You said: ", "length"), answer)


def content_of(frame):
    return frame.output.choices[0].message.content


def finish(frame):
    return frame.output.choices[0].finish_reason


def tools():
    answer = ask("go", tools=TOOLS)
    call = answer.output.choices[0].message.tool_calls[0]
    check("tool", json.loads(call["function"]["arguments"]) == ARGUMENTS[0], answer)
    check("tool: finish", finish(answer) == "tool_calls", answer)
    calls = {}
    for frame in ask("go both", tools=TOOLS, stream=True, incremental_output=True):
        for item in frame.output.choices[0].message.get("tool_calls") or []:
            made = calls.setdefault(item["index"], {"id": "", "name": "", "arguments": ""})
            made["id"] += item.get("id") or ""
            made["name"] += item["function"].get("name") or ""
            made["arguments"] += item["function"].get("arguments") or ""
    made = [(call["name"], json.loads(call["arguments"])) for call in calls.values()]
    check("tools: streamed, parallel", made == [("get_time", ARGUMENTS[0]), ("get_date", ARGUMENTS[1])], calls)
    turn = {"role": "assistant", "content": "", "tool_calls": [
        {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}
        for call in calls.values()
    ]}
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": f"result {n}"} for n, call in calls.items()
    ]
    turns = [{"role": "user", "content": "go both"}, turn]
    answer = ask(None, messages=turns + results, tools=TOOLS)
    check("tools: result", content(answer) == "The tool says: result 0 and result 1", answer)
    refused("tools: result is missing", ask(None, messages=turns + results[:1], tools=TOOLS), 400, "InvalidParameter")


def multimodal():
    def see(parts, **more):
        messages = [{"role": "user", "content": parts}]
        return dashscope.MultiModalConversation.call(model="qwen-vl-x", messages=messages, **more)

    parts = [{"image": IMAGE_URL}, {"text": "look"}]
    answer = see(parts)
    check("image", content(answer) == [{"text": SEEN}], answer)
    frames = list(see(parts, stream=True, incremental_output=True))
    text = "".join(part["text"] for frame in frames for part in content_of(frame))
    check("image: streamed", text == SEEN, frames)


def refused(name, answer, status, code):
    check(name, (answer.status_code, answer.code) == (status, code), answer)


def errors():
    refused("limited", ask("fail:Throttling.RateQuota"), 429, "Throttling.RateQuota")
    refused("no money", ask("fail:Arrearage"), 400, "Arrearage")
    refused("wrong key", ask("hi", api_key="wrong"), 401, "InvalidApiKey")
    refused("temperature", ask("hi", temperature=2), 400, "InvalidParameter")
    refused("tools need messages", ask("hi", tools=TOOLS, result_format="text"), 400, "InvalidParameter")
    frames = list(ask("long break:DataInspectionFailed:3", stream=True, incremental_output=True))
    refused("error in a stream", frames[-1], 400, "DataInspectionFailed")
    check("error in a stream: what came before", len(frames) == 4, frames)
