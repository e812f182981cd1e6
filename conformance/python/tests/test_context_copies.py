"""Forks, checkpoints and rollbacks of contexts, which no SDK has. Not the SDKs' business, so once."""

from concurrent.futures import ThreadPoolExecutor

import pytest

import web
from test_beyond import Raw, raw

feature = pytest.mark.feature
pytestmark = [pytest.mark.once]


@pytest.fixture(scope="module")
def plain():
    with raw() as sandbox:
        yield sandbox


@pytest.fixture
def context(plain):
    made = plain.call("POST", "/contexts", {"language": "python"})
    assert made.status == 200, made.text
    yield made.json["id"]
    plain.call("DELETE", f"/contexts/{made.json['id']}")


def value(sandbox, code, context):
    """What the code prints in a context."""
    return sandbox.printed(code, context_id=context).strip()


@feature("interpreter.contexts")
def test_branches_run_side_by_side_from_one_state(plain, context):
    plain.run("import os, random; rows = [1, 2, 3]", context_id=context)

    def branch(number):
        fork = plain.call("POST", f"/contexts/{context}/fork")
        assert fork.status == 200, fork.text
        made = fork.json
        assert (made["language"], made["cwd"]) == ("python", "/home/user")
        code = f"rows.append({number}); print(rows, random.random(), os.getpid())"
        rows, _, rest = value(plain, code, made["id"]).partition("] ")
        assert rows == f"[1, 2, 3, {number}"
        removed = plain.call("DELETE", f"/contexts/{made['id']}")
        assert removed.status == 200
        return rest.split()

    with ThreadPoolExecutor(4) as branches:
        drawn = list(branches.map(branch, range(4)))
    assert len({number for number, _ in drawn}) == 4
    assert value(plain, "print(rows)", context) == "[1, 2, 3]"


@feature("interpreter.contexts")
def test_a_context_goes_back_also_from_its_death(plain, context):
    plain.run("kept = 'apples'", context_id=context)
    checkpoint = plain.call("POST", f"/contexts/{context}/checkpoints").json
    assert (checkpoint["id"], checkpoint["parent_id"], checkpoint["current"]) == ("1", None, True)
    for end in [
        "del kept",
        "import os; os._exit(1)",
        "import time; time.sleep(60)",
        "hog = bytearray(1 << 30)",
    ]:
        limits = {"limits": {"memory_bytes": 512 << 20, "time_seconds": 0.5}}
        plain.run(end, limits, context_id=context)
        back = plain.call("POST", f"/contexts/{context}/rollback", {"checkpoint_id": "1"})
        assert back.status == 200, (end, back.text)
        assert value(plain, "print(kept)", context) == "apples", end
    plain.call("POST", f"/contexts/{context}/checkpoints")
    listed = plain.call("GET", f"/contexts/{context}/checkpoints").json
    assert [(one["id"], one["parent_id"], one["lost"]) for one in listed] == [("1", None, None), ("2", "1", None)]
    assert plain.call("DELETE", f"/contexts/{context}/checkpoints/1").status == 200
    assert plain.call("POST", f"/contexts/{context}/rollback", {"checkpoint_id": "1"}).status == 404


@feature("interpreter.contexts")
def test_a_copy_has_a_receipt_of_its_own(plain, context):
    plain.run("hog = bytearray(b'x' * (64 << 20))", context_id=context)
    fork = plain.call("POST", f"/contexts/{context}/fork").json["id"]
    receipt = plain.run("more = bytearray(b'x' * (16 << 20))", context_id=fork)[-2]
    assert receipt["outcome"] == "ok"
    # What it shares was counted where it was first used.
    assert 16 << 20 <= receipt["peak_memory_bytes"] < 64 << 20, receipt
    idle = plain.run("1", context_id=context)[-2]
    assert idle["cpu_us"] < 2_000_000
    plain.call("DELETE", f"/contexts/{fork}")


@feature("interpreter.contexts")
def test_what_is_not_copied_is_refused_with_a_reason(plain, context):
    plain.run("import threading; stop = threading.Event()", context_id=context)
    plain.run("threading.Thread(target=stop.wait, name='mine').start()", context_id=context)
    refused = plain.call("POST", f"/contexts/{context}/fork")
    assert (refused.status, refused.text.endswith(": mine")) == (409, True), refused.text
    plain.run("stop.set()", context_id=context)
    files = plain.call("POST", f"/contexts/{context}/fork", {"files": True})
    assert files.status == 501
    other = plain.call("POST", "/contexts", {"language": "bash"})
    if other.status == 200:
        refused = plain.call("POST", f"/contexts/{other.json['id']}/fork")
        assert refused.status == 501
        assert refused.text.startswith("contexts of language bash cannot be forked")


# The kernel says hello in the place of its copy, and that it is the agent.
LIE = """import json, os, struct
import skep_kernel.server
def lie(server, descriptor, exit_now):
    hello = json.dumps({"type": "hello", "protocol": 1, "pid": 1, "forks": True}).encode()
    os.write(descriptor, struct.pack(">I", len(hello)) + hello)
    return False
skep_kernel.server.make_copy = lie"""


@feature("interpreter.contexts")
def test_a_kernel_that_offers_itself_as_its_copy_stays_where_it_is_counted(plain, context):
    cgroup = "print(open('/proc/self/cgroup').read())"
    before = value(plain, cgroup, context)
    assert "kernel-" in before
    plain.run(LIE, context_id=context)
    refused = plain.call("POST", f"/contexts/{context}/fork")
    assert refused.status == 500, refused.text
    assert value(plain, cgroup, context) == before


@feature("interpreter.contexts")
def test_checkpoints_outlive_a_pause():
    with raw() as sandbox:
        made = sandbox.call("POST", "/contexts", {"language": "python"}).json["id"]
        sandbox.run("kept = 'apples'", context_id=made)
        assert sandbox.call("POST", f"/contexts/{made}/checkpoints").status == 200
        sandbox.run("kept = 'pears'", context_id=made)
        name = sandbox.sandbox.sandbox_id
        assert web.api("POST", f"/sandboxes/{name}/pause").status == 204
        assert web.api("POST", f"/sandboxes/{name}/connect", {"timeout": 300}).status in (200, 201)
        back = sandbox.call("POST", f"/contexts/{made}/rollback", {"checkpoint_id": "1"})
        assert back.status == 200, back.text
        assert value(sandbox, "print(kept)", made) == "apples"


@feature("interpreter.contexts")
def test_a_copy_of_the_sandbox_has_its_checkpoints():
    with raw() as sandbox:
        made = sandbox.call("POST", "/contexts", {"language": "python"}).json["id"]
        sandbox.run("kept = 'apples'", context_id=made)
        assert sandbox.call("POST", f"/contexts/{made}/checkpoints").status == 200
        sandbox.run("kept = 'pears'", context_id=made)
        forked = web.api("POST", f"/sandboxes/{sandbox.sandbox.sandbox_id}/fork", {"count": 1})
        if forked.status == 501:
            pytest.skip("this host writes no memory to disk")
        assert forked.status == 201, forked.text
        copy = Raw.of(forked.json[0]["sandbox"])
        try:
            for either in (copy, sandbox):
                back = either.call("POST", f"/contexts/{made}/rollback", {"checkpoint_id": "1"})
                assert back.status == 200, back.text
                assert value(either, "print(kept)", made) == "apples"
                fork = either.call("POST", f"/contexts/{made}/fork")
                assert fork.status == 200, fork.text
        finally:
            web.api("DELETE", f"/sandboxes/{copy.sandbox.sandbox_id}")
