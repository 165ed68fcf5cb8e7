"""What JSON Schema cannot say of our requests: most that are made from the
description alone name an agent, a tool, a session or a response that there is not.
Half of them are made right here, so that what is answered to good ones is tried as
well. The description says which names there may be; those that are tried are plain.
"""

import random

import schemathesis

NAMES = ("x-openclaw-agent-id", "x-openclaw-session-key", "x-openclaw-model")
TOOLS = ("agents_list", "sessions_list", "session_status", "subagents")
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
CHOICE = random.Random(1)


def name(more=""):
    return "".join(CHOICE.choices(LETTERS + more, k=CHOICE.randint(1, 20)))


def renamed(values, key, made):
    if values and isinstance(values.get(key), str):
        values[key] = made
    return values


@schemathesis.hook
def map_headers(context, headers):
    if headers is not None:
        for known in NAMES:
            headers.pop(known, None)
    return renamed(headers, "x-openclaw-requester-session-key", name("/:_-"))


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    if path_parameters and "key" in path_parameters and CHOICE.random() < 0.5:
        path_parameters["key"] = "main"
        return path_parameters
    for key in ("key", "model"):
        renamed(path_parameters, key, name("/:_-"))
    return path_parameters


@schemathesis.hook
def map_query(context, query):
    return renamed(query, "sessionKey", name())


@schemathesis.hook
def map_body(context, body):
    if not isinstance(body, dict) or CHOICE.random() < 0.5:
        return body
    if context.operation.path == "/tools/invoke":
        return {"tool": CHOICE.choice(TOOLS), "args": {}, "dryRun": True}
    renamed(body, "model", "openclaw")
    body.pop("previous_response_id", None)
    if not isinstance(body.get("tool_choice"), str) or not body.get("tools"):
        body.pop("tool_choice", None)
    for member in ("messages", "input"):
        if isinstance(body.get(member), list):
            body[member] = [*body[member], {"role": "user", "content": "hello"}]
    return body
