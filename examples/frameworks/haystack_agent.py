"""An agent of Haystack with the tools of e2b-haystack: a shell and files in one sandbox.

    pip install e2b-haystack

A list stands in for the model.
"""

from haystack import component
from haystack.components.agents import Agent
from haystack.dataclasses import ChatMessage, ToolCall
from haystack_integrations.tools.e2b import E2BToolset


def call(name, **arguments):
    return ChatMessage.from_assistant(tool_calls=[ToolCall(tool_name=name, arguments=arguments, id=name)])


@component
class Script:
    """Says what it was told to say."""

    def __init__(self, *said):
        self.said = list(said)

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage], tools=None):
        return {"replies": [self.said.pop(0)]}


script = Script(
    call("write_file", path="/home/user/sum.py", content="print('the sum is', sum(range(101)))\n"),
    call("run_bash_command", command="python3 /home/user/sum.py"),
    call("list_directory", path="/home/user"),
    ChatMessage.from_assistant("The sum is 5050."),
)
tools = E2BToolset(timeout=120)
try:
    agent = Agent(chat_generator=script, tools=tools)
    agent.warm_up()
    for message in agent.run(messages=[ChatMessage.from_user("Add the numbers up to 100.")])["messages"]:
        results = [result.result for result in message.tool_call_results]
        print(f"{message.role.value}: {results or message.text}")
finally:
    tools.close()
