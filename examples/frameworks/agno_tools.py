"""The E2BTools of agno: code, commands, files and a port in one sandbox.

    pip install agno e2b-code-interpreter

The tools are called here as an agent calls them.
"""

from agno.tools.e2b import E2BTools

tools = E2BTools(timeout=120)
try:
    run = tools.functions
    print("code:", run["run_python_code"].entrypoint(code="kept = 6 * 7\nkept"))
    print("state:", run["run_python_code"].entrypoint(code="kept + 1"))
    print("command:", run["run_command"].entrypoint(command="echo out; echo err >&2"))
    print("url:", run["run_server"].entrypoint(command="python3 -m http.server 8000", port=8000))
finally:
    tools.shutdown_sandbox()
