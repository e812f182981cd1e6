"""Variables stay between calls, contexts do not share them, and an exception is a value."""

from e2b_code_interpreter import Sandbox

with Sandbox.create() as sandbox:
    sandbox.run_code("import statistics\nmeasured = [3, 1, 4, 1, 5, 9, 2, 6]")
    print("median:", sandbox.run_code("statistics.median(measured)").text)

    other = sandbox.create_code_context()
    execution = sandbox.run_code("measured", context=other)
    print("in another context:", execution.error.name)

    execution = sandbox.run_code("1 / 0")
    print("failed:", execution.error.name, "-", execution.error.value)
    print("and goes on:", sandbox.run_code("len(measured)").text)
