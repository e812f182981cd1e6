"""The tools that crewai-tools gives to a crew: Python, a shell and files, in sandboxes.

    pip install 'crewai-tools[e2b]'

The tools are called here as a crew's agent calls them.
"""

from crewai_tools import E2BExecTool, E2BFileTool, E2BPythonTool

# A sandbox for each call, unless it is kept.
print("python:", E2BPythonTool().run(code="prices = [4, 8, 15]\nprint(sum(prices))\nmax(prices)"))

shell = E2BExecTool(persistent=True)
try:
    print("shell:", shell.run(command="echo 'a,b' > kept.csv; wc -c kept.csv"))
    # Two tools that are to share a sandbox are told so.
    files = E2BFileTool(sandbox_id=shell._persistent_sandbox.sandbox_id)
    print("file:", files.run(action="read", path="/home/user/kept.csv"))
    print("list:", files.run(action="list", path="/home/user"))
finally:
    shell.close()
