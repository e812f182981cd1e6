"""The record of each case, one JSON line each, from which the runner makes the summary and the matrix."""

import json
import os
import pathlib
import re

MODE = os.environ.get("CONFORMANCE_MODE", "url")
FEATURES = {
    name
    for group in json.loads((pathlib.Path(__file__).parent.parent / "features.json").read_text())
    for name in group["features"]
}


def record(**line):
    """Appends one outcome; without a target (a run by hand) nothing is kept."""
    target = os.environ.get("CONFORMANCE_RESULTS")
    if target:
        line["mode"] = MODE
        # In one piece, because other suites write there, too.
        with open(target, "ab", buffering=0) as results:
            results.write(json.dumps(line).encode() + b"\n")


def sentence(item):
    """The name of a test as the sentence it states."""
    words = item.originalname.removeprefix("test_").replace("_", " ")
    parameters = re.sub(r"^(sync|async)-?", "", item.callspec.id) if hasattr(item, "callspec") else ""
    return f"{words} [{parameters}]" if parameters else words
