"""Runs the official CLI as a person would, and records each outcome."""

import json
import os
import pathlib
import subprocess
import uuid
from dataclasses import dataclass

import pytest

import e2b
import results

PACKAGE = pathlib.Path(os.environ["CONFORMANCE_CLI"])
VERSION = json.loads((PACKAGE / "package.json").read_text())["version"]
GENERATION = os.environ["CONFORMANCE_GENERATION"]
COLUMN = {"sdk": "cli", "version": VERSION, "generation": GENERATION}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    kept = []
    for item in items:
        results.check_feature(item)
        if item.get_closest_marker("new_only") and GENERATION == "year":
            results.record_case(item, "absent", 0, "", **COLUMN)
        else:
            kept.append(item)
    items[:] = kept


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    results.record_report(item, report, **COLUMN)


@dataclass
class Done:
    code: int
    out: bytes
    err: bytes

    @property
    def text(self):
        return self.out.decode()

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture(scope="session")
def command(tmp_path_factory):
    """The beginning of every command line, and an environment without anybody's login."""
    home = tmp_path_factory.mktemp("home")
    environment = {**os.environ, "HOME": str(home), "NO_COLOR": "1", "FORCE_COLOR": "0"}
    return ["node", str(PACKAGE / "dist/index.js")], environment


@pytest.fixture(scope="session")
def cli(command):
    """Runs the CLI to its end. Without `stdin` it gets none, as from a script."""
    start, environment = command

    def run(*arguments, stdin=None, timeout=40, **extra):
        given = {"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}
        done = subprocess.run([*start, *arguments], capture_output=True, timeout=timeout, env={**environment, **extra}, **given)
        return Done(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture(scope="session")
def tag():
    return uuid.uuid4().hex


@pytest.fixture(scope="session")
def sandbox(tag):
    """A sandbox for the commands to look at, made with the newest SDK."""
    made = e2b.Sandbox.create(timeout=240, metadata={"tag": tag})
    yield made
    made.kill()
