"""A figure as a PNG file, and its numbers."""

import base64
import pathlib
import sys

from e2b_code_interpreter import Sandbox

CODE = """
import matplotlib.pyplot as plt
plt.bar(["Oslo", "Rome", "Cairo"], [4, 16, 28])
plt.title("degrees")
plt.show()
"""

with Sandbox.create() as sandbox:
    figure = sandbox.run_code(CODE).results[0]

target = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "plot.png")
target.write_bytes(base64.b64decode(figure.png))
print("wrote", target)
for bar in figure.chart.elements:
    print(bar.label, bar.value)
