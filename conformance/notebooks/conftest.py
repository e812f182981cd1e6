"""Records each outcome, as the column of the standard that notebooks are held to."""

import importlib.metadata

import pytest

import results

VERSION = importlib.metadata.version("nbformat")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    results.record_report(item, report, sdk="notebooks", version=VERSION, generation="new")
