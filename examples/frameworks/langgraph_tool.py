"""A graph of langgraph whose model has one tool: code that runs in a sandbox and keeps its variables.

    pip install langgraph langchain e2b-code-interpreter

A list stands in for the model.
"""

from e2b_code_interpreter import Sandbox
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

sandbox = Sandbox.create(timeout=120)


@tool
def run_python(code: str) -> str:
    """Runs Python and returns what it printed, its value or how it failed."""
    execution = sandbox.run_code(code)
    if execution.error:
        return f"{execution.error.name}: {execution.error.value}"
    return "".join(execution.logs.stdout) + (execution.text or "")


def call(code):
    return AIMessage("", tool_calls=[{"name": "run_python", "args": {"code": code}, "id": code}])


script = GenericFakeChatModel(
    messages=iter([call("prices = [4, 8, 15]"), call("prices[3]"), call("sum(prices)"), AIMessage("27 in all.")])
)
graph = StateGraph(MessagesState)
graph.add_node("model", lambda state: {"messages": [script.invoke(state["messages"])]})
graph.add_node("tools", ToolNode([run_python]))
graph.add_edge(START, "model")
graph.add_conditional_edges("model", tools_condition)
graph.add_edge("tools", "model")

try:
    answer = graph.compile().invoke({"messages": [("user", "What do they cost together?")]})
    for message in answer["messages"]:
        print(f"{message.type}: {message.content}")
finally:
    sandbox.kill()
