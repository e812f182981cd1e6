"""Sandboxes that sleep: pause, connect, resume, auto-pause, auto-resume, and what is the same afterwards."""

import asyncio
import time

import pytest

import web
from flavour import eventually, failure, in_thread
from generation import NEW, expect_error

feature = pytest.mark.feature

BOOT_ID = "cat /proc/sys/kernel/random/boot_id"


async def pause(sdk, sandbox, **options):
    """Pauses by the method that this generation has."""
    return await sdk.call(sandbox.pause if NEW else sandbox.beta_pause, **options)


async def output(sdk, sandbox, command):
    return (await sdk.call(sandbox.commands.run, command)).stdout.strip()


async def state(sandbox):
    answer = await in_thread(web.api, "GET", f"/sandboxes/{sandbox.sandbox_id}")
    assert answer.status == 200, answer
    return answer.json


async def create(sdk, **options):
    return await sdk.call(sdk.Sandbox.create, **{"timeout": 120, "metadata": {"suite": "pause"}, **options})


@feature("pause.pause")
async def test_a_paused_sandbox_goes_on_as_it_was(sdk):
    sandbox = await create(sdk, envs={"COLOUR": "green"})
    try:
        await sdk.call(sandbox.files.write, "note.txt", "kept")
        started = await sdk.start(sandbox, "while true; do date +%s%N > /tmp/beat; sleep 0.1; done")
        boot = await output(sdk, sandbox, BOOT_ID)
        before = await state(sandbox)

        # The generation before says nothing.
        assert await pause(sdk, sandbox) in (True, None)

        paused = await state(sandbox)
        assert (paused["state"], paused["pauseMode"]) == ("paused", "full")
        assert (paused["keptIn"], paused["lost"]) == ("memory", []), "SDKs pass over what they do not know"
        assert not await sdk.call(sandbox.is_running)
        again = await sdk.call(sdk.Sandbox.connect, sandbox.sandbox_id, timeout=120)
        assert again.sandbox_id == sandbox.sandbox_id
        assert await sdk.call(sandbox.is_running)
        after = await state(sandbox)
        assert after["envdAccessToken"] == before["envdAccessToken"]
        assert after["metadata"] == before["metadata"] and "pauseMode" not in after
        assert await sdk.call(again.files.read, "note.txt") == "kept"
        assert await output(sdk, sandbox, BOOT_ID) == boot
        assert await output(sdk, again, "echo $COLOUR") == "green"
        processes = await sdk.call(again.commands.list)
        assert started.pid in [process.pid for process in processes]
        beat = await output(sdk, again, "cat /tmp/beat")
        await eventually(lambda: moved(sdk, again, beat), "the next beat of a command that went on")
        attached = await sdk.attach(again, started.pid)
        assert await sdk.call(again.commands.kill, started.pid)
        expect_error(await failure(attached.wait()), "CommandExitException", "")
    finally:
        await sdk.call(sandbox.kill)


async def moved(sdk, sandbox, beat):
    return await output(sdk, sandbox, "cat /tmp/beat") not in (beat, "")


@feature("pause.pause")
@pytest.mark.new_only
async def test_a_second_pause_says_that_it_was_paused_already(sdk):
    sandbox = await create(sdk)
    try:
        assert await pause(sdk, sandbox) is True
        assert await pause(sdk, sandbox) is False
        await sdk.call(sandbox.connect)
        assert await pause(sdk, sandbox) is True
    finally:
        await sdk.call(sandbox.kill)


@feature("pause.pause")
async def test_a_paused_sandbox_is_out_of_reach_and_has_no_deadline(sdk):
    sandbox = await create(sdk, timeout=10)
    try:
        await pause(sdk, sandbox)
        answer = await in_thread(web.port, sandbox, 49983, "/health")
        assert (answer.status, answer.json["message"]) == (502, "The sandbox was not found")
        token = {"X-Access-Token": (await state(sandbox))["envdAccessToken"]}
        answer = await in_thread(web.port, sandbox, 49983, "/health", token)
        assert answer.status == 502 and "was not found: it is paused; connect to it" in answer.json["message"], answer
        error = await sdk.error(sandbox.set_timeout, 60)
        assert "404" in str(error) or "not found" in str(error), repr(error)
        end = (await state(sandbox))["endAt"]
        await asyncio.sleep(0.2)
        assert (await state(sandbox))["endAt"] == end, "the moment of the pause"
    finally:
        await sdk.call(sandbox.kill)


@feature("pause.pause")
async def test_a_paused_sandbox_is_killed_and_is_gone(sdk):
    sandbox = await create(sdk)
    await pause(sdk, sandbox)
    start = time.monotonic()
    assert await sdk.call(sandbox.kill)
    assert time.monotonic() - start < 5
    answer = await in_thread(web.api, "POST", f"/v2/sandboxes/{sandbox.sandbox_id}/connect")
    assert answer.status == 404
    error = await sdk.error(sdk.Sandbox.connect, sandbox.sandbox_id)
    expect_error(error, "SandboxNotFoundException", "not found", year="NotFoundException")


@feature("pause.pause")
async def test_a_stream_that_is_open_at_a_pause_dies(sdk):
    sandbox = await create(sdk)
    try:
        started = await sdk.start(sandbox, "echo begin; sleep 600")
        waiting = asyncio.ensure_future(started.wait())
        await asyncio.sleep(0.2)
        await pause(sdk, sandbox)
        error = await failure(asyncio.wait_for(waiting, 10))
        assert not isinstance(error, TimeoutError), "the stream is still open"
        await sdk.call(sandbox.connect)
        assert await sdk.call(sandbox.commands.kill, started.pid), "the command goes on"
    finally:
        await sdk.call(sandbox.kill)


@feature("pause.list")
async def test_lists_tell_paused_sandboxes_from_running_ones(sdk):
    mark = {"pause-list": str(time.time_ns())}
    sandboxes = [await create(sdk, metadata=mark) for _ in range(3)]
    try:
        await pause(sdk, sandboxes[0])
        await pause(sdk, sandboxes[1])

        async def found(query):
            path = f"/v2/sandboxes?metadata=pause-list%3D{mark['pause-list']}&{query}"
            answer = await in_thread(web.api, "GET", path)
            assert answer.status == 200, answer
            return {item["sandboxID"] for item in answer.json}, answer.headers.get("x-next-token")

        ids = [sandbox.sandbox_id for sandbox in sandboxes]
        assert (await found("state=paused"))[0] == set(ids[:2])
        assert (await found("state=running"))[0] == {ids[2]}
        assert (await found("state=running,paused"))[0] == set(ids)
        first, token = await found("state=paused&limit=1")
        second, _ = await found(f"state=paused&limit=1&nextToken={token}")
        assert first | second == set(ids[:2]) and first != second
    finally:
        for sandbox in sandboxes:
            await sdk.call(sandbox.kill)


@feature("pause.races")
@pytest.mark.deadline(180)
async def test_fifty_calls_at_once_leave_one_sandbox_that_answers(sdk):
    sandbox = await create(sdk, timeout=300)
    try:
        one = f"/sandboxes/{sandbox.sandbox_id}"
        calls = [
            ("POST", f"{one}/pause", {}),
            ("POST", f"/v2{one}/connect", {"timeout": 300}),
            ("POST", f"{one}/connect", {"timeout": 300}),
            ("POST", f"{one}/resume", {"timeout": 300}),
            ("POST", f"{one}/timeout", {"timeout": 300}),
        ]
        allowed = {"pause": {204, 409}, "connect": {200, 201}, "resume": {201, 409}, "timeout": {204, 404, 409}}
        answers = await asyncio.gather(*[in_thread(web.api, *calls[number % 5]) for number in range(50)])
        for number, answer in enumerate(answers):
            verb = calls[number % 5][1].rsplit("/", 1)[1]
            assert answer.status in allowed[verb], (verb, answer)
        await sdk.call(sandbox.connect)
        assert await output(sdk, sandbox, "echo alive") == "alive"
    finally:
        await sdk.call(sandbox.kill)


@feature("pause.races")
async def test_pauses_side_by_side_are_one_pause_and_a_later_one_is_told(sdk):
    sandbox = await create(sdk)
    try:
        path = f"/sandboxes/{sandbox.sandbox_id}/pause"
        assert await in_thread(web.side_by_side, 5, "POST", path, {}) == [204] * 5
        answer = await in_thread(web.api, "POST", path, {})
        assert answer.status == 409 and "already paused" in answer.json["message"], answer
    finally:
        await sdk.call(sandbox.kill)


@feature("pause.races")
async def test_many_who_connect_get_a_sandbox_that_runs(sdk):
    sandbox = await create(sdk)
    try:
        await pause(sdk, sandbox)

        async def one():
            path = f"/v2/sandboxes/{sandbox.sandbox_id}/connect"
            answer = await in_thread(web.api, "POST", path, {})
            alive = await output(sdk, sandbox, "echo alive")
            return answer.status, alive

        answers = await asyncio.gather(*[one() for _ in range(5)])
        assert {status for status, _ in answers} <= {200, 201} and (201, "alive") in answers, answers
        assert {alive for _, alive in answers} == {"alive"}
    finally:
        await sdk.call(sandbox.kill)


@feature("pause.races")
async def test_a_kill_among_pauses_and_connections_wins(sdk):
    sandbox = await create(sdk)
    one = f"/sandboxes/{sandbox.sandbox_id}"
    calls = [("POST", f"{one}/pause", {}), ("POST", f"/v2{one}/connect", {}), ("DELETE", one, None)] * 5
    answers = await asyncio.gather(*[in_thread(web.api, *call) for call in calls])
    statuses = [answer.status for answer in answers]
    assert 204 in statuses[2::3] and set(statuses[2::3]) <= {204, 404}, statuses
    assert set(statuses[0::3]) <= {204, 404, 409} and set(statuses[1::3]) <= {200, 201, 404, 409}, statuses
    answer = await in_thread(web.api, "GET", one)
    assert answer.status == 404


@feature("pause.filesystem")
@pytest.mark.new_only
async def test_a_pause_without_memory_keeps_the_files_and_starts_anew(sdk):
    sandbox = await create(sdk, envs={"COLOUR": "green"})
    try:
        await sdk.call(sandbox.files.write, "note.txt", "kept")
        await output(sdk, sandbox, "sudo touch /etc/mine; rm -f /home/user/.profile")
        await sdk.start(sandbox, "sleep 600")
        boot = await output(sdk, sandbox, BOOT_ID)
        answer = await in_thread(web.api, "POST", f"/sandboxes/{sandbox.sandbox_id}/pause", {"memory": False})
        assert answer.status == 204, answer
        paused = await state(sandbox)
        assert (paused["state"], paused["pauseMode"]) == ("paused", "filesystem")

        await sdk.call(sandbox.connect)

        assert await sdk.call(sandbox.files.read, "note.txt") == "kept"
        assert await output(sdk, sandbox, "ls /etc/mine; ls -A /home/user | grep -c profile || true") == "/etc/mine\n0"
        assert await output(sdk, sandbox, BOOT_ID) != boot
        assert await output(sdk, sandbox, "echo $COLOUR $(whoami) $PWD") == "green user /home/user"
        assert await sdk.call(sandbox.commands.list) == []
        # And once more, on what was written since, by the deprecated route.
        await sdk.call(sandbox.files.write, "note.txt", "kept again")
        await in_thread(web.api, "POST", f"/sandboxes/{sandbox.sandbox_id}/pause", {"memory": False})
        answer = await in_thread(web.api, "POST", f"/sandboxes/{sandbox.sandbox_id}/resume", {"timeout": 120})
        assert (answer.status, answer.json["keptIn"]) == (201, "files"), answer
        assert "processes" in answer.json["lost"], "said in the answer"
        assert await sdk.call(sandbox.files.read, "note.txt") == "kept again"
    finally:
        await sdk.call(sandbox.kill)


@feature("pause.filesystem")
@pytest.mark.new_only
async def test_a_frozen_sandbox_can_be_started_anew_on_its_files(sdk):
    sandbox = await create(sdk)
    try:
        await sdk.call(sandbox.files.write, "note.txt", "kept")
        boot = await output(sdk, sandbox, BOOT_ID)
        await pause(sdk, sandbox)
        path = f"/v2/sandboxes/{sandbox.sandbox_id}/connect"
        answer = await in_thread(web.api, "POST", path, {"memory": False})
        assert answer.status == 201, answer
        assert await sdk.call(sandbox.files.read, "note.txt") == "kept"
        assert await output(sdk, sandbox, BOOT_ID) != boot
    finally:
        await sdk.call(sandbox.kill)


@feature("pause.filesystem")
@pytest.mark.new_only
async def test_the_sdk_says_what_a_pause_keeps_and_what_a_resume_starts_from(sdk):
    sandbox = await create(sdk)
    try:
        await sdk.call(sandbox.files.write, "note.txt", "kept")
        boot = await output(sdk, sandbox, BOOT_ID)
        for kept in ({"mode": "filesystem"}, {"keep_memory": False}):
            assert await pause(sdk, sandbox, **kept)
            assert (await state(sandbox))["pauseMode"] == "filesystem"
            await sdk.call(sandbox.connect, timeout=120)
            again = await output(sdk, sandbox, BOOT_ID)
            assert again != boot
            boot = again
        await pause(sdk, sandbox)
        await sdk.call(sandbox.connect, timeout=120, on_resume="reboot")
        again = await output(sdk, sandbox, BOOT_ID)
        assert again != boot
        assert await sdk.call(sandbox.files.read, "note.txt") == "kept"
        await sdk.call(sandbox.connect, timeout=120, on_resume="reboot")
        assert await output(sdk, sandbox, BOOT_ID) == again, "one that runs is left alone"
    finally:
        await sdk.call(sandbox.kill)


@feature("pause.auto_pause")
@pytest.mark.new_only
async def test_a_sandbox_is_paused_when_its_time_is_over_and_again_after_a_resume(sdk):
    sandbox = await create(sdk, timeout=2, lifecycle={"on_timeout": "pause"})
    try:
        await sdk.call(sandbox.files.write, "note.txt", "kept")
        assert (await state(sandbox))["lifecycle"] == {"onTimeout": "pause", "autoResume": False}

        async def is_paused():
            return (await state(sandbox))["state"] == "paused"

        await eventually(is_paused, "the pause at the deadline", 4)
        answer = await in_thread(web.port, sandbox, 49983, "/health")
        assert answer.status == 502, "traffic does not wake it"
        await sdk.call(sandbox.connect, timeout=2)
        assert await sdk.call(sandbox.files.read, "note.txt") == "kept"
        await eventually(is_paused, "the pause at the next deadline", 4)
        await sdk.call(sandbox.connect, timeout=120)
        assert not await is_paused()
    finally:
        await sdk.call(sandbox.kill)


@feature("pause.auto_pause")
@pytest.mark.new_only
async def test_a_sandbox_that_is_paused_without_memory_reboots(sdk):
    lifecycle = {"on_timeout": {"action": "pause", "mode": "filesystem"}}
    sandbox = await create(sdk, timeout=2, lifecycle=lifecycle)
    try:
        boot = await output(sdk, sandbox, BOOT_ID)

        async def mode():
            return (await state(sandbox)).get("pauseMode")

        # The rule outlives the resume.
        for timeout in (2, 120):
            assert await eventually(mode, "the pause at the deadline", 5) == "filesystem"
            await sdk.call(sandbox.connect, timeout=timeout)
            again = await output(sdk, sandbox, BOOT_ID)
            assert again != boot
            boot = again
    finally:
        await sdk.call(sandbox.kill)


@feature("pause.auto_resume")
@pytest.mark.new_only
@pytest.mark.deadline(90)
async def test_a_request_wakes_a_sandbox_that_was_made_so_and_a_stranger_does_not(sdk):
    lifecycle = {"on_timeout": "pause", "auto_resume": True}
    sandbox = await create(sdk, timeout=60, lifecycle=lifecycle)
    try:
        # No stream is left open: an SDK whose stream is cut asks whether the sandbox lives, which wakes it.
        await output(sdk, sandbox, "nohup python3 -m http.server 8000 >/dev/null 2>&1 &")

        async def serves():
            return (await in_thread(web.port, sandbox, 8000)).status == 200

        await eventually(serves, "a service inside")
        await pause(sdk, sandbox)
        answer = await in_thread(web.port, sandbox, 49983, "/health")
        assert answer.status == 403, answer
        assert (await state(sandbox))["state"] == "paused"
        answers = await asyncio.gather(*[in_thread(web.port, sandbox, 8000) for _ in range(10)])
        assert {answer.status for answer in answers} == {200}
        shown = await state(sandbox)
        assert shown["state"] == "running"
        await pause(sdk, sandbox)
        assert await output(sdk, sandbox, "echo awake") == "awake"
        await pause(sdk, sandbox)
        assert await sdk.call(sandbox.is_running)
    finally:
        await sdk.call(sandbox.kill)


@feature("pause.auto_resume")
@pytest.mark.new_only
async def test_a_sandbox_that_was_not_made_so_stays_paused(sdk):
    sandbox = await create(sdk, lifecycle={"on_timeout": "pause"})
    try:
        await pause(sdk, sandbox)
        answer = await in_thread(web.port, sandbox, 8000)
        assert (answer.status, answer.json["message"]) == (502, "The sandbox was not found")
        assert (await state(sandbox))["state"] == "paused"
    finally:
        await sdk.call(sandbox.kill)


@feature("pause.auto_pause")
@pytest.mark.once
async def test_what_cannot_be_combined_is_refused(sdk):
    base = {"templateID": "base", "timeout": 60}
    for body in (
        {**base, "autoPauseMemory": False},
        {**base, "autoPause": True, "autoPauseMemory": False, "autoResume": {"enabled": True}},
    ):
        answer = await in_thread(web.api, "POST", "/v2/sandboxes", body)
        assert answer.status == 400, answer


@feature("pause.pause")
@pytest.mark.deadline(120)
async def test_an_interpreter_remembers(sdk, interpreter):
    sandbox = interpreter.sandbox
    await interpreter.run("x = 41")
    await in_thread(web.api, "POST", f"/sandboxes/{sandbox.sandbox_id}/pause", {})
    answer = await in_thread(web.api, "POST", f"/v2/sandboxes/{sandbox.sandbox_id}/connect", {})
    assert answer.status == 201
    execution = await interpreter.run("x + 1")
    assert execution.text == "42"
