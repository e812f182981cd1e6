"""An agent of Google's ADK whose environment, shell and files, is a sandbox.

    pip install 'google-adk[e2b]'

A list stands in for the model.
"""

import asyncio
import warnings

warnings.filterwarnings("ignore")  # The integration is marked as experimental.

from google.adk.agents import Agent
from google.adk.integrations.e2b import E2BEnvironment
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools.environment import EnvironmentToolset
from google.genai import types


def call(name, **arguments):
    return types.Part(function_call=types.FunctionCall(name=name, args=arguments))


class Script(BaseLlm):
    """Says what it was told to say."""

    said: list[types.Part]

    async def generate_content_async(self, llm_request, stream=False):
        yield LlmResponse(content=types.Content(role="model", parts=[self.said.pop(0)]))


async def main():
    environment = E2BEnvironment(timeout=120)
    said = [
        call("WriteFile", path="sum.py", content="print('the sum is', sum(range(101)))\n"),
        call("Execute", command="python3 sum.py"),
        call("ReadFile", path="sum.py"),
        types.Part(text="The sum is 5050."),
    ]
    toolset = EnvironmentToolset(environment=environment)
    agent = Agent(name="clerk", model=Script(model="script", said=said), tools=[toolset])
    runner = InMemoryRunner(agent=agent, app_name="example")
    session = await runner.session_service.create_session(app_name="example", user_id="me")
    question = types.Content(role="user", parts=[types.Part(text="Add the numbers up to 100.")])
    async for event in runner.run_async(user_id="me", session_id=session.id, new_message=question):
        for part in event.content.parts if event.content else []:
            if part.function_response:
                print("heard:", part.function_response.response)
            elif part.text:
                print("answer:", part.text)
    await toolset.close()
    await environment.close()


asyncio.run(main())
