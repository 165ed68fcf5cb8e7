"""The official client of OpenAI for Python, against a gateway that offers its API.

Arguments: base URL, token. Ends with "all is well", or with what is wrong.
"""

import sys

import openai

DOT = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGA"
    "WjR9awAAAABJRU5ErkJggg=="
)
ADD = {"type": "object", "properties": {"a": {"type": "number"}}}

client = openai.OpenAI(base_url=sys.argv[1], api_key=sys.argv[2], max_retries=0)


def says(text):
    return [{"role": "user", "content": text}]


def models():
    names = [model.id for model in client.models.list()]
    assert names[:2] == ["openclaw", "openclaw/default"] and "openclaw/ops" in names, names
    assert client.models.retrieve("openclaw/ops").id == "openclaw/ops"


def completions():
    whole = client.chat.completions.create(
        model="openclaw/ops", messages=says('@mock text text="hello"'), user="py"
    )
    assert whole.choices[0].message.content == "hello", whole
    assert whole.choices[0].finish_reason == "stop"
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens

    stream = client.chat.completions.create(
        model="openclaw",
        messages=says("@mock stream n=5 delay=5"),
        stream=True,
        stream_options={"include_usage": True},
    )
    pieces = list(stream)
    text = "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
    assert text == "w1 w2 w3 w4 w5", text
    assert pieces[-1].usage.total_tokens > 0 and pieces[-2].choices[0].finish_reason == "stop"

    with client.chat.completions.stream(
        model="openclaw", messages=says("@mock stream n=3 delay=5")
    ) as events:
        assert events.get_final_completion().choices[0].message.content == "w1 w2 w3"


def images():
    content = [
        {"type": "text", "text": '@mock text text="seen"'},
        {"type": "image_url", "image_url": {"url": DOT}},
    ]
    whole = client.chat.completions.create(model="openclaw", messages=says(content))
    assert whole.choices[0].message.content == "seen", whole


def tools():
    messages = says('@mock tool name=add args={"a":1} then="never"')
    tools = [{"type": "function", "function": {"name": "add", "parameters": ADD}}]
    whole = client.chat.completions.create(model="openclaw", messages=messages, tools=tools)
    choice = whole.choices[0]
    assert choice.finish_reason == "tool_calls", whole
    call = choice.message.tool_calls[0]
    assert (call.function.name, call.function.arguments) == ("add", '{"a":1}'), call
    result = {"role": "tool", "tool_call_id": call.id, "content": '3 @mock text text="three"'}
    messages = [*messages, choice.message, result]
    whole = client.chat.completions.create(model="openclaw", messages=messages, tools=tools)
    assert whole.choices[0].message.content == "three", whole

    with client.chat.completions.stream(
        model="openclaw", messages=says('@mock tool name=add args={"a":1}'), tools=tools
    ) as events:
        choice = events.get_final_completion().choices[0]
    assert choice.finish_reason == "tool_calls", choice
    assert choice.message.tool_calls[0].function.arguments == '{"a":1}', choice


def responses():
    first = client.responses.create(model="openclaw", input='@mock text text="one"')
    assert first.output_text == "one" and first.status == "completed", first
    details = first.usage.input_tokens_details, first.usage.output_tokens_details
    assert (details[0].cached_tokens, details[1].reasoning_tokens) == (0, 0), first
    second = client.responses.create(
        model="openclaw", input='@mock text text="two"', previous_response_id=first.id
    )
    assert second.output_text == "two", second
    events = list(
        client.responses.create(model="openclaw", input="@mock stream n=3 delay=5", stream=True)
    )
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == "w1 w2 w3", events
    assert events[-1].type == "response.completed"
    assert events[-1].response.output_text == "w1 w2 w3"
    with client.responses.stream(model="openclaw", input="@mock stream n=2 delay=5") as stream:
        assert stream.get_final_response().output_text == "w1 w2"

    tools = [{"type": "function", "name": "add", "parameters": ADD, "strict": False}]
    called = client.responses.create(
        model="openclaw", input='@mock tool name=add args={"a":1} then="never"', tools=tools
    )
    call = next(item for item in called.output if item.type == "function_call")
    result = {
        "type": "function_call_output",
        "call_id": call.call_id,
        "output": '3 @mock text text="three"',
    }
    told = client.responses.create(
        model="openclaw", input=[result], previous_response_id=called.id, tools=tools
    )
    assert told.output_text == "three", told
    with client.responses.stream(
        model="openclaw", input='@mock tool name=add args={"a":1}', tools=tools
    ) as stream:
        made = stream.get_final_response()
    call = next(item for item in made.output if item.type == "function_call")
    assert (call.name, call.arguments) == ("add", '{"a":1}'), made
    parts = [
        {"type": "input_text", "text": '@mock text text="seen"'},
        {"type": "input_image", "image_url": DOT, "detail": "auto"},
    ]
    told = client.responses.create(model="openclaw", input=[{"role": "user", "content": parts}])
    assert told.output_text == "seen", told


def embeddings():
    # Without a format the client asks for base64, and reads it itself.
    made = client.embeddings.create(model="openclaw", input=["1", "2"])
    assert [round(row.embedding[0], 5) for row in made.data] == [1, 2], made
    assert [row.index for row in made.data] == [0, 1] and made.usage.total_tokens == 2, made
    plain = client.embeddings.create(
        model="openclaw/ops", input="3", encoding_format="float", dimensions=2
    )
    assert plain.data[0].embedding == [3, 0.2], plain
    try:
        client.embeddings.create(model="openclaw", input=["x"] * 129)
        raise AssertionError("so many texts are taken")
    except openai.BadRequestError as error:
        assert "Too many inputs" in error.message, error


def failures():
    wrong = openai.OpenAI(base_url=sys.argv[1], api_key="wrong", max_retries=0)
    try:
        wrong.models.list()
        raise AssertionError("somebody else is let in")
    except openai.AuthenticationError as error:
        assert error.status_code == 401
    try:
        client.chat.completions.create(model="gpt-4", messages=says("x"))
        raise AssertionError("another model answers")
    except openai.BadRequestError as error:
        assert error.body["type"] == "invalid_request_error", error.body
    try:
        list(
            client.chat.completions.create(
                model="openclaw", messages=says("@mock err status=400"), stream=True
            )
        )
        raise AssertionError("a failure looks like an answer")
    except openai.APIError as error:
        assert "internal error" in error.message, error


for part in (models, completions, images, tools, responses, embeddings, failures):
    part()
print("all is well")
