"""The official OpenAI Python SDK with a model whose targets are away and that answers politely.

Usage: polite.py BASE_URL KEY MODEL    Prints one line for each check; exits 1 at the first that fails.
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


answer = client.chat.completions.create(model=model, messages=HI)
choice = answer.choices[0]
check("chat", "come back" in choice.message.content and choice.finish_reason == "stop", answer)
check("chat: usage", answer.usage.total_tokens == 0, answer.usage)
check("chat: extension", answer.sluicegate["status"] == "degraded", answer)
check("chat: wait", answer.sluicegate["estimated_wait_ms"] > 0, answer)

with client.chat.completions.stream(model=model, messages=HI) as stream:
    final = stream.get_final_completion()
check("stream", final.choices[0].message.content == choice.message.content, final)
chunks = list(client.chat.completions.create(model=model, messages=HI, stream=True))
check("stream: choices", all(chunk.choices for chunk in chunks), chunks)
check("stream: finish", chunks[-1].choices[0].finish_reason == "stop", chunks)
check("stream: extension", chunks[0].sluicegate["status"] == "degraded", chunks[0])

answer = client.completions.create(model=model, prompt="say hi")
check("completions", "come back" in answer.choices[0].text, answer)
try:
    client.embeddings.create(model=model, input="a")
    check("embeddings", False)
except openai.APIStatusError as error:
    check("embeddings", error.status_code == 503 and error.code == "target_unavailable", error)
