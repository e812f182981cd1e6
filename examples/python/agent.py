"""The loop of a data agent.

A model writes code, the code runs, and what it printed or how it failed goes back to the model, until the
model is content. Here a list stands in for the model, so the program runs without one: put your call into
`ask`. The first answer is wrong on purpose.
"""

from e2b_code_interpreter import Sandbox

QUESTION = "Which product earns the most?"
TABLE = "product,price,sold\nhoney,7,120\nwax,3,310\npropolis,19,45\n"

ANSWERS = [
    "table.assign(earned=table.prize * table.sold)",
    "table = table.assign(earned=table.price * table.sold)\ntable.sort_values('earned').tail(1)",
    None,
]


def ask(messages):
    """The next piece of code, or None when the question is answered."""
    turns = sum(message["role"] == "assistant" for message in messages)
    return ANSWERS[turns]


def told(execution):
    """What the model is told about an execution."""
    if execution.error:
        return f"{execution.error.name}: {execution.error.value}"
    return "".join(execution.logs.stdout) + (execution.text or "")


with Sandbox.create() as sandbox:
    sandbox.files.write("/home/user/table.csv", TABLE)
    sandbox.run_code("import pandas as pd\ntable = pd.read_csv('/home/user/table.csv')")

    messages = [{"role": "user", "content": QUESTION}]
    while code := ask(messages):
        # Limits of time keep an endless loop from holding the agent up.
        execution = sandbox.run_code(code, timeout=30)
        messages += [{"role": "assistant", "content": code}, {"role": "user", "content": told(execution)}]

    for message in messages:
        print(f"{message['role']}: {message['content']}\n")
