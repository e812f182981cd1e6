"""Every program of `examples/` runs as it stands, and prints what its readers expect."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

pytestmark = pytest.mark.feature("readme.examples")

EXAMPLES = pathlib.Path(__file__).parents[3] / "examples"

# What a program that did its work has printed.
PRINTED = {
    "python/state.py": ["median: 3.5", "in another context: NameError", "failed: ZeroDivisionError", "and goes on: 8"],
    "python/streaming.py": ["0.0 s  step 0", "s  step 2", "s  line 1", "s  line 3"],
    "python/files.py": ["fahrenheit.csv", "Cairo,28,82.4", "archive: "],
    "python/plot.py": ["wrote ", "Cairo 28.0"],
    "python/agent.py": ["has no attribute 'prize'", "wax      3   310     930"],
    "javascript/interpreter.mjs": ["mean: 16.0", "printed: Cairo", "failed: AttributeError", "wrote ", "[ 1, 4, 9 ]"],
    "curl/sandbox.sh": ["sandbox i", '"text":"hello\\n"', '"text":"42"', "e2b.local"],
}


def command(name, folder):
    """How a user would start it, in a folder where its packages are."""
    source = EXAMPLES / name
    if source.suffix == ".py":
        return [sys.executable, str(source)]
    if source.suffix == ".sh":
        return ["sh", str(source)]
    (folder / "node_modules").symlink_to(os.environ["CONFORMANCE_NODE_MODULES"])
    (folder / source.name).write_text(source.read_text())
    return ["node", source.name]


@pytest.mark.once
@pytest.mark.deadline(120)
@pytest.mark.parametrize("name", PRINTED)
async def test_the_example_runs(sdk, name, tmp_path):
    done = subprocess.run(command(name, tmp_path), cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert [text for text in PRINTED[name] if text not in done.stdout] == [], done.stdout
    for picture in tmp_path.glob("*.png"):
        assert picture.read_bytes().startswith(b"\x89PNG"), picture


@pytest.mark.once
async def test_no_example_is_left_out(sdk):
    there = {str(path.relative_to(EXAMPLES)) for path in EXAMPLES.glob("*/*")}
    frameworks = json.loads((EXAMPLES.parent / "conformance/frameworks/frameworks.json").read_text())["frameworks"]
    # Those of our own packages run in test_built_packages.py.
    run_elsewhere = {f"frameworks/{framework['program']}" for framework in frameworks} | {"sdk/branches.py", "sdk/stream.mjs"}
    assert there == set(PRINTED) | run_elsewhere
    listed = (EXAMPLES / "README.md").read_text()
    assert [name for name in there if f"]({name})" not in listed] == []
