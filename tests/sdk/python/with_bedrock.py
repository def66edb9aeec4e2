"""boto3 against the fake of Bedrock: every frame of a stream is checked by its checksums."""

import json
import os

import boto3
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError, EventStreamError

from checks import ARGUMENTS, CITY_SCHEMA, IMAGE, SEEN, TIME_SCHEMA, check, fails, is_city

TOOLS = {"tools": [
    {"toolSpec": {"name": name, "description": name, "inputSchema": {"json": TIME_SCHEMA}}}
    for name in ("get_time", "get_date")
]}
THINKING = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
MODEL = "us.anthropic.claude-x-v1:0"


def client_of(base_url, key, secret=None):
    config = Config(retries={"max_attempts": 0}, read_timeout=30)
    return boto3.client(
        "bedrock-runtime", region_name="us-east-1", endpoint_url=base_url, config=config,
        aws_access_key_id=key, aws_secret_access_key=secret or f"secret-of-{key}",
    )


def run(_dialect, base_url, key):
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    os.environ.pop("AWS_BEARER_TOKEN_BEDROCK", None)
    client = client_of(base_url, key)
    texts(client)
    tools(client)
    schema = {"jsonSchema": {"name": "city", "schema": json.dumps(CITY_SCHEMA)}}
    form = {"textFormat": {"type": "json_schema", "structure": schema}}
    check("schema", is_city(text(ask(client, "a city", outputConfig=form))))
    image = {"image": {"format": "png", "source": {"bytes": IMAGE}}}
    check("image", text(ask(client, [image, {"text": "look"}])) == SEEN)
    reasoning(client)
    errors(client, base_url, key)
    # The SDK sends an API key over HTTPS only, so it is put in by hand.
    unsigned = boto3.client(
        "bedrock-runtime", region_name="us-east-1", endpoint_url=base_url, config=Config(signature_version=UNSIGNED)
    )
    bearer = lambda request, **_: request.headers.update(Authorization=f"Bearer {key}")
    unsigned.meta.events.register("before-send.bedrock-runtime.Converse", bearer)
    check("with an API key", text(ask(unsigned, "hi")) == "You said: hi")


def user(content):
    content = [{"text": content}] if isinstance(content, str) else content
    return [{"role": "user", "content": content}]


def ask(client, content, **more):
    return client.converse(modelId=MODEL, messages=user(content), **more)


def listen(client, content, **more):
    return list(client.converse_stream(modelId=MODEL, messages=user(content), **more)["stream"])


def text(answer):
    return answer["output"]["message"]["content"][-1]["text"]


def deltas(events):
    return [event["contentBlockDelta"] for event in events if "contentBlockDelta" in event]


def texts(client):
    answer = ask(client, "hi", system=[{"text": "be kind"}])
    check("text", text(answer) == "You said: hi (I was told: be kind)", answer)
    usage = answer["usage"]
    check("text: usage", (usage["inputTokens"], usage["outputTokens"], usage["totalTokens"]) == (8, 8, 16), usage)
    usage = ask(client, "hi cached:64")["usage"]
    check("text: cached", (usage["cacheReadInputTokens"], usage["inputTokens"]) == (64, 7), usage)
    events = listen(client, "long")
    whole = "".join(delta["delta"]["text"] for delta in deltas(events))
    check("stream", whole.count("🙂") == 300 and events[-2]["messageStop"]["stopReason"] == "end_turn", events[-2])
    check("stream: usage", events[-1]["metadata"]["usage"]["outputTokens"] == 300, events[-1])
    answer = ask(client, "one two three", inferenceConfig={"maxTokens": 2})
    check("length", (text(answer), answer["stopReason"]) == ("You said: ", "max_tokens"), answer)


def tools(client):
    answer = ask(client, "go", toolConfig=TOOLS)
    call = answer["output"]["message"]["content"][0]["toolUse"]
    check("tool", call["input"] == ARGUMENTS[0] and answer["stopReason"] == "tool_use", answer)
    events = listen(client, "go both", toolConfig=TOOLS)
    starts = [event["contentBlockStart"] for event in events if "contentBlockStart" in event]
    fragments = {start["contentBlockIndex"]: "" for start in starts}
    for delta in deltas(events):
        fragments[delta["contentBlockIndex"]] += delta["delta"]["toolUse"]["input"]
    made = [(start["start"]["toolUse"]["name"], json.loads(fragments[start["contentBlockIndex"]])) for start in starts]
    check("tools: streamed, parallel", made == [("get_time", ARGUMENTS[0]), ("get_date", ARGUMENTS[1])], events)
    both = ask(client, "go both", toolConfig=TOOLS)["output"]["message"]
    results = [
        {"toolResult": {"toolUseId": block["toolUse"]["toolUseId"], "content": [{"text": f"result {n}"}]}}
        for n, block in enumerate(both["content"])
    ]
    second = lambda results: client.converse(
        modelId=MODEL, messages=user("go both") + [both] + user(results), toolConfig=TOOLS)
    check("tools: result", text(second(results)) == "The tool says: result 0 and result 1")
    invalid(client, "tools: result is missing", lambda: second(results[:1]))
    turns = user("a") + user("b")
    invalid(client, "roles take turns", lambda: client.converse(modelId=MODEL, messages=turns))


def reasoning(client):
    more = {"additionalModelRequestFields": THINKING}
    block = ask(client, "hi", **more)["output"]["message"]["content"][0]["reasoningContent"]["reasoningText"]
    check("reasoning", block["text"] == "Let me think about it." and block["signature"], block)
    said = [delta["delta"].get("reasoningContent", {}) for delta in deltas(listen(client, "hi", **more))]
    whole = "".join(part.get("text", "") for part in said)
    check("reasoning: streamed", whole == block["text"] and any("signature" in part for part in said), said)
    turn = ask(client, "go", toolConfig=TOOLS, **more)["output"]["message"]
    use = turn["content"][1]["toolUse"]
    result = user([{"toolResult": {"toolUseId": use["toolUseId"], "content": [{"text": "noon"}]}}])

    def second(turn):
        return client.converse(modelId=MODEL, messages=user("go") + [turn] + result, toolConfig=TOOLS, **more)

    check("reasoning: second turn", text(second(turn)) == "The tool says: noon")
    invalid(client, "reasoning: is left out", lambda: second({**turn, "content": turn["content"][1:]}))


def invalid(client, name, call):
    fails(name, client.exceptions.ValidationException, call)


def errors(client, base_url, key):
    limited = client.exceptions.ThrottlingException
    caught = fails("limited", limited, lambda: ask(client, "fail:ThrottlingException"))
    check("limited: status", caught.response["ResponseMetadata"]["HTTPStatusCode"] == 429, caught.response)
    invalid(client, "bad request", lambda: ask(client, "fail:ValidationException"))
    missing = client.exceptions.ResourceNotFoundException
    fails("no such model", missing, lambda: client.converse(modelId="missing", messages=user("hi")))
    wrong = client_of(base_url, "AKIAWRONG")
    caught = fails("wrong key", ClientError, lambda: ask(wrong, "hi"))
    check("wrong key: class", caught.response["Error"]["Code"] == "UnrecognizedClientException", caught.response)
    wrong = client_of(base_url, key, "another")
    caught = fails("wrong secret", ClientError, lambda: ask(wrong, "hi"))
    check("wrong secret: class", caught.response["Error"]["Code"] == "InvalidSignatureException", caught.response)
    seen = []

    def interrupted():
        stream = client.converse_stream(modelId=MODEL, messages=user("long break:ThrottlingException:3"))
        for event in stream["stream"]:
            seen.append(event)

    caught = fails("error in a stream", EventStreamError, interrupted)
    check("error in a stream: class", caught.response["Error"]["Code"] == "throttlingException", caught.response)
    check("error in a stream: what came before", len(deltas(seen)) == 3, seen)
