"""Frameworks that embed the SDKs, installed as published: each runs its program of `examples/`."""

import json
import pathlib
import shutil
import sys
import tempfile
import threading
import time

from . import environments
from .suite import HERE, Suite, matches

FOLDER = HERE / "frameworks"
EXAMPLES = HERE.parent / "examples" / "frameworks"
LIST = json.loads((FOLDER / "frameworks.json").read_text())
# They are large and busy when they start: more at a time would only get in each other's way.
SLOTS = threading.Semaphore(2)
# What a model would be asked over the network, and what makers are told of the use of their work, is neither needed
# nor wanted here.
QUIET = {
    "AGNO_TELEMETRY": "false",
    "ANONYMIZED_TELEMETRY": "false",
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "HAYSTACK_TELEMETRY_ENABLED": "false",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "LANGSMITH_TRACING": "false",
    "MASTRA_TELEMETRY_DISABLED": "1",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "OTEL_SDK_DISABLED": "true",
    "PYTHONDONTWRITEBYTECODE": "1",
}


def suites():
    return [Cases(), *(Framework(**entry) for entry in LIST["frameworks"])]


class Cases(Suite):
    """Two of them in more depth."""

    name = "frameworks"
    folder = FOLDER
    modes = ("domain",)
    # pytest: all passed, some failed, none selected.
    ended_codes = (0, 1, 5)

    def install(self):
        self.interpreter = environments.python(FOLDER / "python" / "agents.txt", "framework-agents")

    def command(self, pattern):
        return [self.interpreter, "-m", "pytest", *(["-k", pattern] if pattern else [])]

    def variables(self):
        return QUIET


class Framework(Suite):
    """A framework and the program that a reader would start with."""

    folder = FOLDER
    # The SDKs have suites of their own for the other mode; here it would show the same twice.
    modes = ("domain",)

    def __init__(self, name, environment, program, version, prints, arguments=(), needs=()):
        self.name, self.environment, self.program, self.version = name, environment, program, version
        self.prints, self.arguments, self.needs = prints, arguments, needs
        self.feature = f"frameworks.{name}"

    def waits_for(self):
        """Why the program cannot run yet."""
        return [need for need in self.needs if not LIST["server"][need]]

    def install(self):
        if self.waits_for():
            return
        if self.program.endswith(".py"):
            lock = FOLDER / "python" / f"{self.environment}.txt"
            self.start = [environments.python(lock, f"framework-{self.environment}")]
        else:
            package = FOLDER / "javascript" / self.environment
            self.modules = environments.node(f"framework-{self.environment}", package)
            self.start = ["node"]

    def variables(self):
        return QUIET

    def run(self, target, results, mode, options):
        if not matches(options.pattern, self.feature):
            return True
        if self.waits_for():
            self.record(results, mode, "waits", 0, ", ".join(self.waits_for()))
            return True
        with SLOTS, tempfile.TemporaryDirectory(prefix="framework-") as folder:
            start = time.monotonic()
            # Beside its packages, as for a reader: modules of JavaScript are looked for from the file on.
            program = shutil.copy(EXAMPLES / self.program, folder)
            if hasattr(self, "modules"):
                pathlib.Path(folder, "node_modules").symlink_to(self.modules)
            command = [*self.start, program, *self.arguments]
            done = self.process(target, command, {"HOME": folder})
            if done.returncode < 0:
                # A signal ended the client's own process, after all its output in the one case that was seen:
                # libraries that a framework brings do that while Python shuts down. A server cannot.
                print(f"{self.program} ended with {done.returncode} and runs once more", file=sys.stderr)
                done = self.process(target, command, {"HOME": folder})
            seconds = round(time.monotonic() - start, 1)
        missing = [line for line in self.prints if line not in done.stdout]
        if done.returncode != 0:
            detail = f"ended with {done.returncode}:\n{done.stdout}"
        else:
            detail = f"did not print {missing}:\n{done.stdout}" if missing else ""
        self.record(results, mode, "failed" if detail else "passed", seconds, detail)
        return True

    def record(self, results, mode, outcome, seconds, detail):
        line = {
            "sdk": "frameworks",
            "version": "",
            "generation": "all",
            "mode": mode,
            "feature": self.feature,
            "case": f"its example runs with {self.version}",
            "outcome": outcome,
            "seconds": seconds,
            "detail": detail,
        }
        with open(results, "a") as file:
            file.write(json.dumps(line) + "\n")
