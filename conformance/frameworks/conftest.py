"""Records each outcome. The frameworks are installed as published and told nothing about the server."""

import importlib.metadata

import pytest

import results

VERSION = importlib.metadata.version("e2b")


def pytest_collection_modifyitems(items):
    for item in items:
        feature = item.get_closest_marker("feature")
        assert feature and feature.args[0] in results.FEATURES, f"{item.nodeid} names no feature of features.json"
        item.extra_keyword_matches.add(feature.args[0])


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.when == "call" or report.failed:
        results.record(
            sdk="frameworks",
            version=VERSION,
            generation="new",
            feature=item.get_closest_marker("feature").args[0],
            case=results.sentence(item),
            outcome="passed" if report.passed else "failed",
            seconds=round(report.duration, 3),
            detail="" if report.passed else str(report.longrepr),
        )
