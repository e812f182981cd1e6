"""Fixtures, the deadline of each case, and the record of each outcome."""

import asyncio
import inspect
import os
import uuid

import e2b
import pytest

import results
from flavour import FLAVOURS
from generation import NEW, VERSION, YEAR
from interpreters import AWKWARD, HAS_WHOLE, LANGUAGE, Interpreter
from package import OURS

USUAL_DEADLINE = 60
# The runner gives each SDK a process of its own; by hand both run.
CHOSEN = [os.environ["CONFORMANCE_FLAVOUR"]] if os.environ.get("CONFORMANCE_FLAVOUR") else list(FLAVOURS)


def pytest_generate_tests(metafunc):
    if "sdk" in metafunc.fixturenames:
        metafunc.parametrize("sdk", CHOSEN, indirect=True, scope="session")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Leaves out what this SDK does not have, and records that it was left out."""
    kept = []
    for item in items:
        results.check_feature(item)
        if flavour_of(item) not in CHOSEN:
            continue
        if item.get_closest_marker("once") and not is_first(item):
            continue
        if item.get_closest_marker("whole") and not HAS_WHOLE:
            continue
        if item.get_closest_marker("ours") and not OURS:
            continue
        if absent(item):
            results.record_case(item, "absent", 0, "", **column(item))
        else:
            kept.append(item)
    items[:] = kept


def flavour_of(item):
    return item.callspec.params.get("sdk", "sync") if hasattr(item, "callspec") else "sync"


def is_first(item):
    """Whether this is the one combination in which cases run that say nothing about an SDK."""
    return flavour_of(item) == "sync" and NEW and results.MODE == "url" and not OURS


def absent(item):
    if item.get_closest_marker("new_only") and YEAR:
        return True
    if item.get_closest_marker("own_kernel") and LANGUAGE:
        return True
    other = {"sync": "async_only", "async": "sync_only"}[flavour_of(item)]
    return item.get_closest_marker(other) is not None


def pytest_pyfunc_call(pyfuncitem):
    """Runs a coroutine test in the session's loop, with a deadline."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    marker = pyfuncitem.get_closest_marker("deadline")
    seconds = marker.args[0] if marker else USUAL_DEADLINE
    wanted = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: value for name, value in pyfuncitem.funcargs.items() if name in wanted}
    run_until_complete(asyncio.wait_for(pyfuncitem.obj(**arguments), seconds))
    return True


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    results.record_report(item, report, **column(item))


def column(item):
    """The column of the matrix that a case belongs to."""
    return {"sdk": f"{'skep ' if OURS else ''}python {flavour_of(item)}", "version": VERSION, "generation": "new" if NEW else "year"}


_loop = asyncio.new_event_loop()


def run_until_complete(awaitable):
    return _loop.run_until_complete(awaitable)


@pytest.fixture(scope="session")
def sdk(request):
    """The sync or the async SDK."""
    return FLAVOURS[request.param]()


@pytest.fixture(scope="module")
def sandbox(sdk):
    """One sandbox for the cases of a file that do not disturb each other."""
    made = run_until_complete(sdk.call(sdk.Sandbox.create, timeout=240, metadata={"suite": "conformance"}))
    yield made
    run_until_complete(sdk.call(made.kill))


@pytest.fixture(scope="module")
def interpreter(sdk):
    """One sandbox with an interpreter for the cases of a file."""
    made = run_until_complete(Interpreter.create(sdk, envs={"GLOBAL": AWKWARD}))
    yield made
    run_until_complete(made.kill())


@pytest.fixture
def run(interpreter):
    """Runs code in the default context of that sandbox."""
    return interpreter.run


@pytest.fixture
def fresh(sdk):
    """Makes sandboxes that only this case uses; they are killed at its end."""
    made = []

    async def create(**options):
        options.setdefault("timeout", 120)
        sandbox = await sdk.call(sdk.Sandbox.create, **options)
        made.append(sandbox)
        return sandbox

    yield create
    for sandbox in made:
        run_until_complete(sdk.call(sandbox.kill))


@pytest.fixture
def Volume(sdk):
    """The class of volumes of this SDK."""
    return e2b.Volume if sdk.name == "sync" else e2b.AsyncVolume


@pytest.fixture
def volume(sdk, Volume):
    """A volume that only this case uses."""
    made = run_until_complete(sdk.call(Volume.create, f"conformance-{uuid.uuid4().hex[:12]}"))
    yield made
    run_until_complete(sdk.call(Volume.destroy, made.volume_id))


@pytest.fixture
def place():
    """A directory name that no other case uses."""
    return f"/home/user/place-{uuid.uuid4().hex[:10]}"


@pytest.fixture
def tag():
    """A metadata value that no other case uses."""
    return uuid.uuid4().hex
