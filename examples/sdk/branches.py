"""Loads data once, tries three ways from there side by side, under limits, and keeps the history as a notebook.

pip install skep
"""

from concurrent.futures import ThreadPoolExecutor

from skep import Limits, Sandbox

sandbox = Sandbox.create()
context = sandbox.create_code_context()
sandbox.run_code("rows = list(range(1000))", context=context)

WAYS = {"mean": "sum(rows) / len(rows)", "never ends": "while True: rows.sort()", "largest": "max(rows)"}


def attempt(way):
    """Each has the data, and none sees what another does to it."""
    copy = context.fork()
    return way, sandbox.run_code(WAYS[way], context=copy, limits=Limits(time=2, memory="256M"))


with ThreadPoolExecutor() as branches:
    for way, run in branches.map(attempt, WAYS):
        outcome = run.error.kind if run.error else run.text
        print(f"{way}: {outcome} ({run.receipt.cpu:.3f} s of processor)")

print("untouched:", sandbox.run_code("len(rows)", context=context).text)
print("saved", context.notebook().save("branches.ipynb"))
sandbox.kill()
print("the record says:", sandbox.record().end_reason)
