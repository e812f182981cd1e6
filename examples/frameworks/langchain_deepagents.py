"""A deep agent (deepagents, on langgraph) whose files and commands are in a sandbox, by langchain-e2b.

    pip install langchain-e2b deepagents

A list stands in for the model.
"""

from deepagents import create_deep_agent
from e2b import Sandbox
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_e2b import E2BSandbox


class Script(GenericFakeChatModel):
    """Says what it was told to say, whatever tools there are."""

    def bind_tools(self, tools, **options):
        return self


def call(name, **arguments):
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": name}])


said = [
    call("write_file", file_path="/home/user/sum.py", content="print('the sum is', sum(range(10)))\n"),
    call("execute", command="python3 sum.py; exit 3"),
    call("edit_file", file_path="/home/user/sum.py", old_string="10", new_string="101"),
    call("execute", command="python3 sum.py"),
    call("grep", pattern="range", path="/home/user"),
    AIMessage("The sum is 5050."),
]

sandbox = Sandbox.create(timeout=120)
try:
    agent = create_deep_agent(model=Script(messages=iter(said)), backend=E2BSandbox(sandbox=sandbox))
    answer = agent.invoke({"messages": [("user", "Add the numbers up to 100.")]})
    for message in answer["messages"]:
        print(f"{message.type}: {message.content}")
finally:
    sandbox.kill()
