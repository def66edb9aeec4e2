"""An official Python SDK against a fake provider: proof that the fake speaks as the provider does.

Usage: providers.py DIALECT BASE_URL KEY    Prints one line for each check; exits 1 at the first that fails.
"""

import importlib
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "python"))

OWN = {"anthropic": "with_anthropic", "gemini": "with_gemini", "dashscope": "with_dashscope", "bedrock": "with_bedrock"}

dialect, base_url, key = sys.argv[1:4]
importlib.import_module(OWN.get(dialect, "with_openai")).run(dialect, base_url, key)
print("ok   all", flush=True)
