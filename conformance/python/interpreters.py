"""A sandbox with an interpreter, as the cases use it."""

import os

import pytest

import results
from generation import NEW
from package import INTERPRETERS, OURS

# What the cases run in: the smallest template that has an interpreter.
TEMPLATE = "code-interpreter-slim"
# The one with every language.
LANGUAGES = "code-interpreter-languages"
# The one with every package; built only if the run asks for it.
WHOLE = "code-interpreter-v1"
HAS_WHOLE = bool(os.environ.get("CONFORMANCE_WHOLE"))
# Another kernel for Python than the usual one, by the name of its language.
LANGUAGE = os.environ.get("CONFORMANCE_LANGUAGE") or None

# How much is large, in mebibytes. With TLS in a build for debugging the same would take a minute for each SDK.
LARGE_OUTPUT, LARGE_RESULT = (100, 50) if results.MODE == "url" else (10, 5)

# What a shell, a parser or a line splitter would trip over.
AWKWARD = "it's \"quoted\" \\ back\nline — 日本語 🐝\u2028"

# The year-old interpreter SDK knows no address but names below a domain; ours teaches it one.
REACHABLE = NEW or OURS or results.MODE == "domain"


class Interpreter:
    """A sandbox and how to run code in it, with the sync or the async SDK."""

    def __init__(self, sdk, sandbox):
        self.sdk, self.sandbox = sdk, sandbox

    @classmethod
    async def create(cls, sdk, template=TEMPLATE, **options):
        if not REACHABLE:
            pytest.skip("this SDK reaches interpreters by name alone")
        options.setdefault("timeout", 300)
        return cls(sdk, await sdk.call(INTERPRETERS[sdk.name].create, template=template, **options))

    async def run(self, code, **options):
        """Runs code in the default context, or where the options say."""
        if LANGUAGE and "context" not in options:
            options.setdefault("language", LANGUAGE)
        return await self.sdk.call(self.sandbox.run_code, code, **options)

    async def printed(self, code, **options):
        """Runs code that must not fail, and returns all it printed."""
        execution = await self.run(code, **options)
        assert execution.error is None, execution.error.traceback
        return "".join(execution.logs.stdout)

    async def context(self, **options):
        """A context of its own."""
        if LANGUAGE:
            options.setdefault("language", LANGUAGE)
        return await self.sdk.call(self.sandbox.create_code_context, **options)

    async def kill(self):
        await self.sdk.call(self.sandbox.kill)
