"""An agent of Pydantic AI with a shell, in a sandbox that the harness makes its workspace.

    pip install 'pydantic-ai-harness[e2b]'
    python pydantic_ai_harness_agent.py            in a sandbox that is there already
    python pydantic_ai_harness_agent.py --own      in one of its own, which it has paused at its timeout

A list stands in for the model.
"""

import asyncio
import sys

import e2b
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.workspaces import WorkspaceRef
from pydantic_ai_harness.e2b_sandbox import E2BSandbox
from pydantic_ai_harness.shell import Shell


def call(command):
    return ModelResponse(parts=[ToolCallPart("run_command", {"command": command})])


said = [
    call("echo 'print(6 * 7)' > sum.py && python3 sum.py"),
    call("echo told; exit 3"),
    ModelResponse(parts=[TextPart("It is 42.")]),
]


def script(messages, info):
    """Says what it was told to say, and shows what it hears."""
    for part in messages[-1].parts:
        if part.part_kind == "tool-return":
            print("heard:", part.content)
    return said.pop(0)


async def main():
    sandbox = None if "--own" in sys.argv else await e2b.AsyncSandbox.create(timeout=120)
    capability = E2BSandbox(sandbox_timeout=120)
    agent = Agent(FunctionModel(script), capabilities=[capability, Shell()])
    workspace = WorkspaceRef(provider="e2b", id=sandbox.sandbox_id) if sandbox else None
    run = await agent.run("How much is 6 times 7?", workspace=workspace)
    print("answer:", run.output)
    if sandbox:
        await sandbox.kill()
    else:
        await capability.destroy(run.workspace.ref)


asyncio.run(main())
