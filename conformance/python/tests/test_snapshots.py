"""Sandboxes that are kept and copied: snapshots, sandboxes made of them, forks, and the way back."""

import asyncio
import time

import pytest

import web
from flavour import in_thread
from generation import expect_error

pytestmark = pytest.mark.new_only
feature = pytest.mark.feature


async def output(sdk, sandbox, command):
    return (await sdk.call(sandbox.commands.run, command)).stdout.strip()


async def snapshot(sandbox, **body):
    path = f"/sandboxes/{sandbox.sandbox_id}/snapshots"
    answer = await in_thread(web.api, "POST", path, {"memory": False, **body})
    assert answer.status == 201, answer
    return answer.json


@pytest.fixture
def name():
    return f"conformance-{time.time_ns()}"


@feature("snapshots.files")
@pytest.mark.deadline(180)
async def test_many_sandboxes_are_made_of_one_that_goes_on(sdk, name):
    source = await sdk.call(sdk.Sandbox.create, timeout=120, envs={"SECRET": "of the source"})
    made = []
    try:
        await sdk.call(source.files.write, "note.txt", "before")
        taken = await snapshot(source, name=name)
        await sdk.call(source.files.write, "note.txt", "after")
        assert taken["names"] and taken["snapshotID"] == f"{taken['names'][0]}:default"
        for template in (taken["snapshotID"], name):
            made.append(await sdk.call(sdk.Sandbox.create, template, timeout=120, envs={"COLOUR": "green"}))
        assert len({sandbox.sandbox_id for sandbox in [source, *made]}) == 3
        for sandbox in made:
            assert await sdk.call(sandbox.files.read, "note.txt") == "before"
            assert await output(sdk, sandbox, "echo $COLOUR$SECRET $E2B_SANDBOX_ID") == f"green {sandbox.sandbox_id}"
            await sdk.call(sandbox.files.write, "note.txt", sandbox.sandbox_id)
        assert await sdk.call(source.files.read, "note.txt") == "after", "the source goes on"
        assert await sdk.call(made[0].files.read, "note.txt") == made[0].sandbox_id, "each has a disk of its own"
        await sdk.call(source.kill)
        listed = await sdk.every(sdk.Sandbox.list_snapshots(sandbox_id=source.sandbox_id))
        assert [item.snapshot_id for item in listed] == [taken["snapshotID"]]
        assert await sdk.call(sdk.Sandbox.delete_snapshot, taken["snapshotID"])
        assert not await sdk.call(sdk.Sandbox.delete_snapshot, taken["snapshotID"])
        assert await output(sdk, made[0], "echo alive") == "alive", "deleting a snapshot disturbs nobody"
    finally:
        for sandbox in [source, *made]:
            await sdk.call(sandbox.kill)


@feature("snapshots.files")
@pytest.mark.deadline(120)
async def test_the_sdk_keeps_files_alone_and_lists_snapshots_page_by_page(sdk, name):
    source = await sdk.call(sdk.Sandbox.create, timeout=120)
    taken = []
    try:
        await sdk.call(source.files.write, "note.txt", "kept")
        for tag in ("v1", "v2", "v3"):
            kept = await sdk.call(source.create_snapshot, name=f"{name}:{tag}", mode="filesystem")
            taken.append(kept.snapshot_id)
        pages, pager = [], sdk.Sandbox.list_snapshots(sandbox_id=source.sandbox_id, limit=2)
        while pager.has_next:
            pages.append([item.snapshot_id for item in await sdk.call(pager.next_items)])
        assert pages == [[taken[2], taken[1]], [taken[0]]], "the newest first"
        named = await sdk.every(sdk.Sandbox.list_snapshots(name=f"{name}:v2"))
        assert [item.snapshot_id for item in named] == [taken[1]]
        assert await sdk.every(sdk.Sandbox.list_snapshots(name=f"{name}-unknown")) == []
        answer = await in_thread(web.api, "GET", f"/templates/aliases/{name}")
        assert answer.status == 200, "it is a template"
    finally:
        await sdk.call(source.kill)
        assert await sdk.call(sdk.Sandbox.delete_snapshot, name)
    assert await sdk.every(sdk.Sandbox.list_snapshots(sandbox_id=source.sandbox_id)) == []


@feature("snapshots.files")
@pytest.mark.deadline(120)
async def test_the_same_name_gets_a_new_content_and_a_tag_keeps_the_old(sdk, name):
    sandbox = await sdk.call(sdk.Sandbox.create, timeout=120)
    try:
        for tag, text in (("v1", "one"), ("default", "two"), ("default", "three")):
            await sdk.call(sandbox.files.write, "note.txt", text)
            await snapshot(sandbox, name=f"{name}:{tag}")
        for template, text in ((f"{name}:v1", "one"), (name, "three")):
            made = await sdk.call(sdk.Sandbox.create, template, timeout=60)
            assert await sdk.call(made.files.read, "note.txt") == text
            await sdk.call(made.kill)
    finally:
        await sdk.call(sandbox.kill)
        await in_thread(web.api, "DELETE", f"/templates/{name}")


@feature("snapshots.files")
@pytest.mark.deadline(120)
async def test_a_paused_sandbox_is_kept_and_stays_paused(sdk):
    sandbox = await sdk.call(sdk.Sandbox.create, timeout=120)
    try:
        await sdk.call(sandbox.files.write, "note.txt", "asleep")
        for memory in (True, False):
            await in_thread(web.api, "POST", f"/sandboxes/{sandbox.sandbox_id}/pause", {"memory": memory})
            taken = await snapshot(sandbox)
            state = await in_thread(web.api, "GET", f"/sandboxes/{sandbox.sandbox_id}")
            assert state.json["state"] == "paused"
            made = await sdk.call(sdk.Sandbox.create, taken["snapshotID"], timeout=60)
            assert await sdk.call(made.files.read, "note.txt") == "asleep"
            await sdk.call(made.kill)
            await in_thread(web.api, "DELETE", f"/templates/{taken['snapshotID'].replace(':', '%3A')}")
            await sdk.call(sandbox.connect)
            assert await sdk.call(sandbox.files.read, "note.txt") == "asleep"
    finally:
        await sdk.call(sandbox.kill)


@feature("snapshots.rollback")
@pytest.mark.deadline(120)
async def test_a_sandbox_goes_back_in_place_and_its_history_is_a_tree(sdk):
    sandbox = await sdk.call(sdk.Sandbox.create, timeout=120)
    one = f"/skep/sandboxes/{sandbox.sandbox_id}"
    try:
        await sdk.call(sandbox.files.write, "note.txt", "first")
        first = await snapshot(sandbox)
        await sdk.call(sandbox.files.write, "note.txt", "second")
        second = await snapshot(sandbox)
        for _ in range(2):
            answer = await in_thread(web.api, "POST", f"{one}/rollback", {"snapshotID": first["snapshotID"]})
            assert answer.status == 200 and answer.json["sandboxID"] == sandbox.sandbox_id, answer
            assert await sdk.call(sandbox.files.read, "note.txt") == "first"
            await sdk.call(sandbox.files.write, "note.txt", "third")
        third = await snapshot(sandbox)
        history = (await in_thread(web.api, "GET", f"{one}/checkpoints")).json
        parents = {item["snapshotID"]: item.get("parentID") for item in history}
        ids = {item["snapshotID"]: item["checkpointID"] for item in history}
        assert parents[first["snapshotID"]] is None
        assert parents[second["snapshotID"]] == parents[third["snapshotID"]] == ids[first["snapshotID"]]
        answer = await in_thread(web.api, "POST", f"{one}/rollback", {"snapshotID": "nothing"})
        assert answer.status == 404, answer
    finally:
        await sdk.call(sandbox.kill)
        for taken in (first, second, third):
            await in_thread(web.api, "DELETE", f"/templates/{taken['snapshotID'].replace(':', '%3A')}")


@feature("snapshots.files")
@pytest.mark.once
async def test_what_is_no_snapshot_is_refused(sdk, sandbox):
    one = f"/sandboxes/{sandbox.sandbox_id}"
    for body, status in (({"name": "no/such/name"}, 400), ({"name": "others/mine", "memory": False}, 400)):
        assert (await in_thread(web.api, "POST", f"{one}/snapshots", body)).status == status
    assert (await in_thread(web.api, "POST", "/sandboxes/iunknown/snapshots", {})).status == 404
    assert (await in_thread(web.api, "DELETE", "/templates/iunknown")).status == 404
    for count in (0, 101, 1.5):
        assert (await in_thread(web.api, "POST", f"{one}/fork", {"count": count})).status == 400
    answers = await asyncio.gather(*[in_thread(web.api, "GET", "/snapshots?name=nothing") for _ in range(3)])
    assert [answer.json for answer in answers] == [[], [], []]


@feature("snapshots.memory")
@pytest.mark.deadline(180)
async def test_a_snapshot_keeps_what_runs(sdk, name):
    source = await sdk.call(sdk.Sandbox.create, timeout=120, envs={"SECRET": "of the source"})
    made = []
    try:
        command = await sdk.call(source.commands.run, "sleep 600", background=True)
        taken = await sdk.call(source.create_snapshot, name)
        for _ in range(2):
            made.append(await sdk.call(sdk.Sandbox.create, taken.snapshot_id, timeout=120, envs={"COLOUR": "green"}))
        await sdk.call(source.kill)
        for sandbox in made:
            assert await output(sdk, sandbox, "echo $COLOUR$SECRET $E2B_SANDBOX_ID") == f"green {sandbox.sandbox_id}"
            assert await sdk.call(sandbox.commands.kill, command.pid), "it runs on in the copy"
        # The token of the source opens nothing of a copy.
        assert made[0]._envd_access_token != made[1]._envd_access_token
        assert await sdk.call(sdk.Sandbox.delete_snapshot, taken.snapshot_id)
    finally:
        for sandbox in [source, *made]:
            await sdk.call(sandbox.kill)


@feature("fork.fork")
@pytest.mark.deadline(180)
async def test_copies_go_on_from_the_same_point_each_by_itself(sdk):
    source = await sdk.call(sdk.Sandbox.create, timeout=120, metadata={"colour": "green"})
    copies = []
    try:
        await sdk.call(source.files.write, "note.txt", "before")
        command = await sdk.call(source.commands.run, "sleep 600", background=True)
        ends = (await sdk.call(source.get_info)).end_at
        copies = await sdk.call(source.fork, count=2, timeout=60)
        assert not [copy for copy in copies if isinstance(copy, Exception)], copies
        assert len({sandbox.sandbox_id for sandbox in [source, *copies]}) == 3
        for copy in copies:
            assert await sdk.call(copy.files.read, "note.txt") == "before"
            assert await output(sdk, copy, "echo $E2B_SANDBOX_ID") == copy.sandbox_id
            assert (await sdk.call(copy.get_info)).metadata == {"colour": "green"}
            assert await sdk.call(copy.commands.kill, command.pid), "it runs on in the copy"
            await sdk.call(copy.files.write, "note.txt", copy.sandbox_id)
        again = await sdk.call(copies[0].fork)
        copies += again
        assert await sdk.call(again[0].files.read, "note.txt") == copies[0].sandbox_id, "a fork of a fork"
        assert await sdk.call(source.files.read, "note.txt") == "before"
        assert await sdk.call(source.commands.kill, command.pid), "the source goes on"
        assert (await sdk.call(source.get_info)).end_at == ends
        assert not await sdk.every(sdk.Sandbox.list_snapshots(sandbox_id=source.sandbox_id)), "a fork leaves no snapshot"
    finally:
        for sandbox in [source, *copies]:
            if not isinstance(sandbox, Exception):
                await sdk.call(sandbox.kill)


@feature("fork.fork")
async def test_what_does_not_run_is_not_forked(sdk):
    sandbox = await sdk.call(sdk.Sandbox.create, timeout=120)
    try:
        await sdk.call(sandbox.pause)
        expect_error(await sdk.error(sandbox.fork), "SandboxException", "paused and cannot be forked")
        assert not await sdk.call(sandbox.pause), "it is paused still"
    finally:
        await sdk.call(sandbox.kill)
    expect_error(await sdk.error(sandbox.fork), "SandboxNotFoundException", "")
    gone = await sdk.error(sandbox.create_snapshot)
    expect_error(gone, "SandboxNotFoundException", "")


@feature("fork.fork")
@pytest.mark.once
async def test_a_fork_that_cannot_be_is_refused(sdk, sandbox):
    path = f"/sandboxes/{sandbox.sandbox_id}/fork"
    for count in (0, -1, 101):
        assert (await in_thread(web.api, "POST", path, {"count": count})).status == 400
    assert (await in_thread(web.api, "POST", "/sandboxes/i000000000000000000/fork", {})).status == 404
