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


def record_case(item, outcome, seconds, detail, *, sdk, version, generation):
    """Appends the outcome of one test."""
    record(
        sdk=sdk,
        version=version,
        generation=generation,
        feature=item.get_closest_marker("feature").args[0],
        case=sentence(item),
        outcome=outcome,
        seconds=round(seconds, 3),
        detail=detail,
    )


def record_report(item, report, **column):
    """Appends the outcome that pytest reports, once for each test: of its call, or of what failed around it."""
    if report.failed or (report.when == "call" and report.passed):
        detail = "" if report.passed else str(report.longrepr)
        record_case(item, "passed" if report.passed else "failed", report.duration, detail, **column)


def check_feature(item):
    """Refuses a test that names no feature of features.json, and lets `-k` find it by that name."""
    feature = item.get_closest_marker("feature")
    assert feature and feature.args[0] in FEATURES, f"{item.nodeid} names no feature of features.json"
    item.extra_keyword_matches.add(feature.args[0])


def sentence(item):
    """The name of a test as the sentence it states."""
    words = item.originalname.removeprefix("test_").replace("_", " ")
    parameters = re.sub(r"^(sync|async)-?", "", item.callspec.id) if hasattr(item, "callspec") else ""
    return f"{words} [{parameters}]" if parameters else words
