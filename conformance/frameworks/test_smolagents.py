"""An agent of smolagents whose code runs in our sandboxes. What a model would say is written down here."""

import pytest
from smolagents import CodeAgent, Tool
from smolagents.agents import AgentError
from smolagents.models import ChatMessage, MessageRole, Model
from smolagents.monitoring import AgentLogger, LogLevel
from smolagents.remote_executors import E2BExecutor

pytestmark = pytest.mark.feature("frameworks.smolagents")


class Script(Model):
    """Says what it was told to say, one message at a time, and keeps what it was asked."""

    def __init__(self, *codes):
        super().__init__(model_id="script")
        self.codes, self.asked = list(codes), []

    def generate(self, messages, **_):
        self.asked.append(messages)
        content = f"Thought: as written.\n<code>\n{self.codes.pop(0)}\n</code>"
        return ChatMessage(role=MessageRole.ASSISTANT, content=content)


class Twice(Tool):
    name = "twice"
    description = "Doubles a number."
    inputs = {"number": {"type": "integer", "description": "what to double"}}
    output_type = "integer"

    def forward(self, number: int) -> int:
        return 2 * number


@pytest.fixture(scope="module")
def executor():
    made = E2BExecutor([], AgentLogger(level=LogLevel.OFF))
    yield made
    made.cleanup()


def test_code_gives_its_value_and_what_it_printed(executor):
    output = executor.run_code_raise_errors("print('seen')\n6 * 7")
    assert (output.output, output.logs, output.is_final_answer) == ("42", "seen\n", False)


def test_variables_go_in_and_stay(executor):
    executor.send_variables({"given": {"key": [1, 2, 3]}})
    assert executor.run_code_raise_errors("sum(given['key'])").output == "6"


def test_pictures_and_lists_come_back(executor):
    picture = executor.run_code_raise_errors("from PIL import Image\nImage.new('RGB', (3, 2))").output
    assert picture.size == (3, 2)
    assert executor.run_code_raise_errors("[1, 2]").output == [1, 2]


def test_an_exception_is_told_to_the_agent(executor):
    with pytest.raises(AgentError, match="ZeroDivisionError"):
        executor.run_code_raise_errors("1 / 0")


def test_an_agent_uses_tools_across_steps_recovers_from_an_error_and_answers():
    script = Script("kept = twice(21)\nprint('kept', kept)", "kept / 0", "final_answer(kept)")
    with CodeAgent(tools=[Twice()], model=script, executor_type="e2b", verbosity_level=LogLevel.OFF) as agent:
        assert agent.run("double it") == 42
    told = "\n".join(str(message.content) for message in script.asked[-1])
    assert "kept 42" in told and "ZeroDivisionError" in told
