"""The agents of OpenAI's SDK for Python, with a tool, against a gateway that offers its API.

Arguments: base URL, token. Ends with "all is well", or with what is wrong.
"""

import asyncio
import sys

import openai
from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)

# Traces would go to OpenAI.
set_tracing_disabled(True)
client = openai.AsyncOpenAI(base_url=sys.argv[1], api_key=sys.argv[2], max_retries=0)
done = []


@function_tool
def add(a: int, b: int) -> str:
    """Adds two numbers."""
    done.append((a, b))
    return f'@mock text text="sum {a + b}"'


async def whole(agent, text):
    return (await Runner.run(agent, text, max_turns=3)).final_output


async def streamed(agent, text):
    run = Runner.run_streamed(agent, text, max_turns=3)
    async for _ in run.stream_events():
        pass
    return run.final_output


async def main():
    for kind in (OpenAIResponsesModel, OpenAIChatCompletionsModel):
        model = kind("openclaw", client)
        agent = Agent(name="x", instructions="be brief", model=model, tools=[add])
        for ask in (whole, streamed):
            said = await ask(agent, '@mock text text="hello"')
            assert said == "hello", (kind, ask, said)
            said = await ask(agent, '@mock tool name=add args={"a":1,"b":2} then="never"')
            assert said == "sum 3", (kind, ask, said)
    assert done == [(1, 2)] * 4, done


asyncio.run(main())
print("all is well")
