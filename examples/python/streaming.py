"""Output arrives while it is written: of code, and of a command."""

import time

from e2b_code_interpreter import Sandbox

CODE = """
import time
for step in range(3):
    print("step", step, flush=True)
    time.sleep(0.3)
"""

with Sandbox.create() as sandbox:
    started = time.monotonic()

    def show(text):
        print(f"{time.monotonic() - started:4.1f} s  {text.strip()}")

    sandbox.run_code(CODE, on_stdout=lambda message: show(message.line))

    started = time.monotonic()
    sandbox.commands.run("for i in 1 2 3; do echo line $i; sleep 0.3; done", on_stdout=show)
