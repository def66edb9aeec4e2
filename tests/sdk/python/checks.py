"""What the checks of all SDKs share: how a check is told, and what they all send."""

import base64
import json
import sys

# A PNG of one pixel.
IMAGE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
IMAGE_URL = "data:image/png;base64," + base64.b64encode(IMAGE).decode()
SEEN = f"I see image/png of {len(IMAGE)} bytes"

TIME_SCHEMA = {
    "type": "object",
    "properties": {"tz": {"type": "string", "description": "a time zone"}, "day": {"type": "integer"}},
    "required": ["tz"],
}
CITY_SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "size": {"type": "number"}},
    "required": ["city", "size"],
    "additionalProperties": False,
}
# What a fake calls the tools with, the first and the second time.
ARGUMENTS = [{"tz": f'tz {n} "東京"', "day": n} for n in (1, 2)]


def check(name, condition, seen=None):
    """Tells of one check; the first that fails ends the program."""
    print(("ok   " if condition else "FAIL ") + name + ("" if condition else f": {seen!r}"), flush=True)
    if not condition:
        sys.exit(1)


def fails(name, error, call, **expected):
    """Checks that a call fails with that error, and gives it."""
    try:
        call()
    except error as caught:
        for field, value in expected.items():
            check(f"{name}: {field}", getattr(caught, field) == value, getattr(caught, field))
        if not expected:
            check(name, True)
        return caught
    except Exception as other:
        check(name, False, other)
    check(name, False, "no error")


def is_city(text):
    """Whether a text is JSON that fits the schema of a city."""
    city = json.loads(text)
    return set(city) == {"city", "size"} and isinstance(city["city"], str)
