"""Records each outcome, and knows where the server is."""

import importlib.metadata

import pytest

import results

VERSION = importlib.metadata.version("mcp")


def pytest_itemcollected(item):
    results.check_feature(item)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    results.record_report(item, report, sdk="mcp", version=VERSION, generation="new")
