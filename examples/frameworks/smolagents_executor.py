"""A code agent of smolagents whose code runs in a sandbox, with its variables, tools and errors.

    pip install 'smolagents[e2b]'

A list stands in for the model.
"""

from smolagents import CodeAgent, tool
from smolagents.models import ChatMessage, MessageRole, Model


class Script(Model):
    """Says what it was told to say, and shows what it hears."""

    def __init__(self, *codes):
        super().__init__(model_id="script")
        self.codes = list(codes)

    def generate(self, messages, **options):
        heard = messages[-1].content[-1]["text"]
        print("heard:", heard.replace("\n", " ")[:120])
        return ChatMessage(role=MessageRole.ASSISTANT, content=f"<code>\n{self.codes.pop(0)}\n</code>")


@tool
def price_of(fruit: str) -> int:
    """Looks a price up.

    Args:
        fruit: what is bought
    """
    return {"apple": 4, "pear": 8}[fruit]


script = Script("total = price_of('apple') + price_of('pear')\nprint(total)", "total / 0", "final_answer(total)")
with CodeAgent(tools=[price_of], model=script, executor_type="e2b", verbosity_level=0) as agent:
    print("answer:", agent.run("What do an apple and a pear cost?"))
