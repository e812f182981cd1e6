"""Which package is under test: the official SDK as published, or ours, which extends it."""

import os

import e2b
import e2b_code_interpreter

OURS = os.environ.get("CONFORMANCE_PACKAGE") == "skep"

if OURS:
    import skep

    INTERPRETERS = {"sync": skep.Sandbox, "async": skep.AsyncSandbox}
    # The cases of the SDK without an interpreter expect its template.
    SANDBOXES = {
        name: type(sandbox.__name__, (sandbox,), {"default_template": "base"}) for name, sandbox in INTERPRETERS.items()
    }
else:
    INTERPRETERS = {"sync": e2b_code_interpreter.Sandbox, "async": e2b_code_interpreter.AsyncSandbox}
    SANDBOXES = {"sync": e2b.Sandbox, "async": e2b.AsyncSandbox}
