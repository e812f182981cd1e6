"""Records each outcome, as the column of the standard that notebooks are held to."""

import importlib.metadata

import pytest

import results

VERSION = importlib.metadata.version("nbformat")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.skipped or (report.when != "call" and not report.failed):
        return
    results.record(
        sdk="notebooks",
        version=VERSION,
        generation="new",
        feature=item.get_closest_marker("feature").args[0],
        case=results.sentence(item),
        outcome="passed" if report.passed else "failed",
        seconds=round(report.duration, 3),
        detail="" if report.passed else str(report.longrepr),
    )
