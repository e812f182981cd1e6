"""A sandbox agent of the OpenAI Agents SDK: its workspace and its shell are in a sandbox.

    pip install 'openai-agents[e2b]'
    python openai_agents.py              in a sandbox that ends at its timeout
    python openai_agents.py --pause      in one that is paused then, which is this framework's default

A list stands in for the model.
"""

import asyncio
import json
import sys

from agents import ModelResponse, Runner, Usage, set_tracing_disabled
from agents.extensions.sandbox import E2BSandboxClient, E2BSandboxClientOptions, E2BSandboxType
from agents.models.interface import Model
from agents.run import RunConfig
from agents.sandbox import Manifest, SandboxAgent, SandboxRunConfig
from agents.sandbox.capabilities import Shell
from agents.sandbox.entries import File
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

set_tracing_disabled(True)


def call(command):
    arguments = json.dumps({"cmd": command})
    return ResponseFunctionToolCall(type="function_call", call_id=command, name="exec_command", arguments=arguments)


def message(text):
    content = [ResponseOutputText(type="output_text", text=text, annotations=[])]
    return ResponseOutputMessage(id="1", type="message", role="assistant", status="completed", content=content)


class Script(Model):
    """Says what it was told to say, and shows what it hears."""

    def __init__(self, *said):
        self.said = list(said)

    async def get_response(self, system_instructions, input, *arguments, **options):
        for item in input if isinstance(input, list) else []:
            if item.get("type") == "function_call_output":
                print("heard:", item["output"])
        return ModelResponse(output=[self.said.pop(0)], usage=Usage(), response_id=None)

    def stream_response(self, *arguments, **options):
        raise NotImplementedError


async def main():
    agent = SandboxAgent(
        name="clerk",
        model=Script(call("cat notes.md"), call("sh -c 'echo kept > kept.txt; exit 3'"), message("Renewal is in April.")),
        instructions="Answer from the workspace.",
        default_manifest=Manifest(entries={"notes.md": File(content=b"Renewal: 15 April.\n")}),
        capabilities=[Shell()],
    )
    options = E2BSandboxClientOptions(
        sandbox_type=E2BSandboxType.E2B,
        timeout=120,
        on_timeout="pause" if "--pause" in sys.argv else "kill",
    )
    config = RunConfig(sandbox=SandboxRunConfig(client=E2BSandboxClient(), options=options))
    print("answer:", (await Runner.run(agent, "When is the renewal?", run_config=config)).final_output)


asyncio.run(main())
