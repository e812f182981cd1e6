"""Every snippet of the README runs as it stands.

A fenced block marked `python`, `javascript` or `bash` is executed unless the line above says
`<!-- not executed: reason -->`. Blocks that call the `e2b` package run with this SDK.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.feature("readme.snippets")

README = pathlib.Path(__file__).parents[3] / "README.md"
FENCE = re.compile(r"(?P<above>[^\n]*)\n```(?P<language>\w+)\n(?P<code>.*?)\n```", re.DOTALL)


def snippets():
    text = README.read_text() if README.exists() else ""
    for found in FENCE.finditer(text):
        if found["language"] in ("python", "javascript", "js") and "not executed:" not in found["above"]:
            line = text[: found.start("code")].count("\n") + 1
            yield pytest.param(found["language"], found["code"], id=f"line {line}")


@pytest.mark.once
@pytest.mark.deadline(120)
@pytest.mark.parametrize("language, code", list(snippets()))
async def test_the_snippet_runs(sdk, language, code, tmp_path):
    if language == "python":
        command = [sys.executable, "-c", code]
    else:
        modules = pathlib.Path(os.environ["CONFORMANCE_NODE_MODULES"])
        (tmp_path / "node_modules").symlink_to(modules)
        (tmp_path / "snippet.mjs").write_text(code)
        command = ["node", str(tmp_path / "snippet.mjs")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr


@pytest.mark.once
async def test_the_readme_has_a_snippet_for_each_language(sdk):
    languages = {parameter.values[0] for parameter in snippets()}
    assert "python" in languages
    assert languages & {"javascript", "js"}


@pytest.mark.once
async def test_the_matrix_has_a_row_for_each_feature(sdk):
    conformance = README.parent / "conformance"
    groups = json.loads((conformance / "features.json").read_text())
    text = (conformance / "MATRIX.md").read_text()
    titles = [title for group in groups for title in group["features"].values()]
    assert [title for title in titles if f"| {title} |" not in text] == []
