"""The packages of our SDKs as `make dist` makes them, installed as their users do: READMEs and examples run with them."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

import results
from generation import NEW
from package import OURS

pytestmark = [pytest.mark.ours, pytest.mark.sync_only, pytest.mark.new_only, pytest.mark.feature("skep.package")]

ROOT = pathlib.Path(__file__).parents[3]
FENCE = re.compile(r"\n```(?:python|javascript)\n(.*?)\n```", re.DOTALL)
EXAMPLES = {
    "branches.py": ["mean: 499.5", "never ends: timeout", "untouched: 1000", "saved branches.ipynb", "the record says: killed"],
    "stream.mjs": ["step 2", "done after", "stopped: interrupted", "total: 3"],
}


def run(command, folder, variables=None):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=folder, env={**environment, **(variables or {})}, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A virtual environment and a folder of npm with the built packages, and the newest of what they extend."""
    if results.MODE != "url" or not NEW or not OURS:
        pytest.skip("once is enough")
    folder = tmp_path_factory.mktemp("packages")
    made = run([ROOT / "scripts/make-sdks", folder / "dist"], folder).split()
    run([sys.executable, "-m", "venv", folder / "venv"], folder)
    pip = [folder / "venv/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run([*pip, next(name for name in made if name.endswith(".whl"))], folder)
    (folder / "package.json").write_text('{"private": true}')
    tarball = next(name for name in made if name.endswith(".tgz"))
    run(["npm", "install", "--no-audit", "--no-fund", tarball, "@e2b/code-interpreter@2.8.0"], folder)
    return folder


def start(folder, name, code):
    """How a user would start a program."""
    (folder / name).write_text(code)
    return [folder / "venv/bin/python", name] if name.endswith(".py") else ["node", name]


@pytest.mark.deadline(500)
@pytest.mark.parametrize("language, name", [("python", "snippet.py"), ("js", "snippet.mjs")])
def test_every_snippet_of_the_readme_runs(installed, language, name):
    snippets = FENCE.findall((ROOT / "sdk" / language / "README.md").read_text())
    assert len(snippets) >= 3
    for snippet in snippets:
        run(start(installed, name, snippet), installed)


@pytest.mark.deadline(500)
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_runs(installed, name):
    printed = run(start(installed, name, (ROOT / "examples" / "sdk" / name).read_text()), installed)
    assert [text for text in EXAMPLES[name] if text not in printed] == [], printed


def test_the_wheel_says_that_it_is_typed_and_has_nothing_of_others(installed):
    found = sorted((installed / "venv").glob("lib/python*/site-packages/skep/*"))
    names = {path.name for path in found}
    assert "py.typed" in names and "sandbox.py" in names
    package = ROOT / "sdk" / "python" / "src" / "skep"
    assert {name for name in names if name.endswith(".py")} == {path.name for path in package.glob("*.py")}
