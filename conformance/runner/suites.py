"""The suites: one per SDK and generation, each a process of its own."""

import os
import pathlib
import subprocess
import sys

from . import environments

HERE = pathlib.Path(__file__).resolve().parents[1]
SDKS = ("python", "js", "cli", "frameworks", "notebooks")
GENERATIONS = ("new", "year")
# What decides where an SDK connects must come from the runner alone.
CLIENT_VARIABLES = ("E2B_", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "NODE_TEST_CONTEXT", "PYTEST_")


def chosen(sdks, generations):
    """The suites asked for, longest first, so that none is left alone at the end."""
    suites = [
        kind(generation)
        for sdk in sdks or SDKS
        for kind in KINDS[sdk]
        for generation in generations or GENERATIONS
        if generation in kind.generations
    ]
    return sorted(suites, key=lambda suite: suite.generation != "new")


class Suite:
    """An SDK of one generation and the cases that drive it."""

    generations = GENERATIONS

    def __init__(self, generation):
        self.generation = generation

    def install(self):
        raise NotImplementedError

    def command(self, pattern):
        raise NotImplementedError

    def variables(self):
        return {}

    def run(self, target, results, mode, options):
        """Runs all cases; the outcome of each is in the results file. Says whether it came to its end."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(CLIENT_VARIABLES)}
        asked = {
            "CONFORMANCE_RESULTS": str(results),
            "CONFORMANCE_MODE": mode,
            "CONFORMANCE_LANGUAGE": options.language or "",
            "CONFORMANCE_WHOLE": "1" if options.whole else "",
        }
        done = subprocess.run(
            [*target.prefix, *self.command(options.pattern)],
            cwd=self.folder,
            env={**kept, **target.variables, **self.variables(), **asked},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        ended = done.returncode in self.ended_codes
        if not ended:
            print(f"\n{self.name} {self.generation} ended with {done.returncode}:\n{done.stdout}", file=sys.stderr)
        return ended


class Python(Suite):
    """The cases that are written once for two SDKs, with one of them."""

    folder = HERE / "python"
    # pytest: all passed, some failed, none selected.
    ended_codes = (0, 1, 5)

    def install(self):
        self.interpreter = environments.python(self.folder / f"{self.generation}.txt")
        self.modules = environments.node(f"js-{self.generation}", HERE / "js" / self.generation)

    def command(self, pattern):
        return [self.interpreter, "-m", "pytest", *(["-k", pattern] if pattern else [])]

    def variables(self):
        return {
            "CONFORMANCE_FLAVOUR": self.flavour,
            "CONFORMANCE_NODE_MODULES": str(self.modules),
            "PYTHONDONTWRITEBYTECODE": "1",
        }


class PythonSync(Python):
    name, flavour = "python sync", "sync"


class PythonAsync(Python):
    name, flavour = "python async", "async"


class JavaScript(Suite):
    name = "js"
    folder = HERE / "js"
    ended_codes = (0, 1)

    def install(self):
        self.modules = environments.node(f"js-{self.generation}", self.folder / self.generation)

    def command(self, pattern):
        selected = ["--test-name-pattern", pattern.replace(" or ", "|")] if pattern else []
        return ["node", *selected, "all.mjs"]

    def variables(self):
        return {"CONFORMANCE_NODE_MODULES": str(self.modules)}


class CommandLine(Suite):
    name = "cli"
    folder = HERE / "cli"
    ended_codes = (0, 1, 5)

    def install(self):
        # The cases are Python and make their sandboxes with the newest SDK; only the CLI is of its generation.
        self.interpreter = environments.python(HERE / "python" / "new.txt")
        self.modules = environments.node(f"cli-{self.generation}", self.folder / self.generation)

    def command(self, pattern):
        return [self.interpreter, "-m", "pytest", *(["-k", pattern] if pattern else [])]

    def variables(self):
        return {
            "CONFORMANCE_CLI": str(self.modules / "@e2b" / "cli"),
            "CONFORMANCE_GENERATION": self.generation,
            "PYTHONDONTWRITEBYTECODE": "1",
        }


class Frameworks(Suite):
    """Frameworks that embed the newest SDK."""

    name = "frameworks"
    folder = HERE / "frameworks"
    generations = ("new",)
    ended_codes = (0, 1, 5)

    def install(self):
        self.interpreter = environments.python(self.folder / "frameworks.txt")

    def command(self, pattern):
        return [self.interpreter, "-m", "pytest", *(["-k", pattern] if pattern else [])]

    def variables(self):
        # They would tell their makers how they are used.
        return {"AGNO_TELEMETRY": "false", "HF_HUB_DISABLE_TELEMETRY": "1", "PYTHONDONTWRITEBYTECODE": "1"}


class Notebooks(Suite):
    """`skep notebook`, held to what Jupyter itself makes of a notebook and calls valid."""

    name = "notebooks"
    folder = HERE / "notebooks"
    generations = ("new",)
    ended_codes = (0, 1, 5)

    def install(self):
        self.interpreter = environments.python(self.folder / "notebooks.txt")

    def command(self, pattern):
        return [self.interpreter, "-m", "pytest", *(["-k", pattern] if pattern else [])]

    def variables(self):
        return {"PYTHONDONTWRITEBYTECODE": "1"}


KINDS = {
    "python": (PythonSync, PythonAsync),
    "js": (JavaScript,),
    "cli": (CommandLine,),
    "frameworks": (Frameworks,),
    "notebooks": (Notebooks,),
}
