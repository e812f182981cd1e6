"""Records each outcome, as the column of Jupyter's own clients."""

import importlib.metadata

import pytest

import results

VERSION = importlib.metadata.version("jupyter_server")


def pytest_itemcollected(item):
    results.check_feature(item)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    results.record_report(item, report, sdk="jupyter", version=VERSION, generation="new")
