"""What JSON Schema cannot say of our requests: most that are made from the
description alone name an agent, a tool or a response that there is not. Half of
them are made right here, so that what an agent answers is tried as well.
"""

import random

import schemathesis

NAMES = ("x-openclaw-agent-id", "x-openclaw-session-key", "x-openclaw-model")
CHOICE = random.Random(1)


@schemathesis.hook
def map_headers(context, headers):
    if headers is not None:
        for name in NAMES:
            headers.pop(name, None)
    return headers


@schemathesis.hook
def map_body(context, body):
    if not isinstance(body, dict) or CHOICE.random() < 0.5:
        return body
    body.pop("previous_response_id", None)
    if not isinstance(body.get("tool_choice"), str) or not body.get("tools"):
        body.pop("tool_choice", None)
    for member in ("messages", "input"):
        if isinstance(body.get(member), list):
            body[member] = [*body[member], {"role": "user", "content": "hello"}]
    return body
