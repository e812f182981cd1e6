"""Files that outlive sandboxes and are shared by them."""

import time

import pytest

import web
from flavour import in_thread

pytestmark = pytest.mark.new_only
feature = pytest.mark.feature


async def output(sdk, sandbox, command, **options):
    return (await sdk.call(sandbox.commands.run, command, **options)).stdout.strip()


@feature("volumes.manage")
async def test_volumes_are_made_listed_found_and_destroyed(sdk, Volume):
    name = f"conformance-{time.time_ns()}"
    volume = await sdk.call(Volume.create, name)
    try:
        assert volume.name == name and volume.token
        assert (volume.volume_id, name) in [(item.volume_id, item.name) for item in await sdk.call(Volume.list)]
        info = await sdk.call(Volume.get_info, volume.volume_id)
        assert (info.volume_id, info.name) == (volume.volume_id, name)
        again = await sdk.call(Volume.connect, volume.volume_id)
        await sdk.call(again.write_file, "/a", "1")
        assert await sdk.call(volume.read_file, "/a") == "1"
        taken = await sdk.error(Volume.create, name)
        assert type(taken).__name__ == "VolumeException" and "already exists" in str(taken), repr(taken)
        bad = await sdk.error(Volume.create, "a b")
        assert type(bad).__name__ == "VolumeException" and "400" in str(bad), repr(bad)
    finally:
        assert await sdk.call(Volume.destroy, volume.volume_id)
    assert not await sdk.call(Volume.destroy, volume.volume_id)
    for unknown in (volume.volume_id, "no-such-volume"):
        gone = await sdk.error(Volume.get_info, unknown)
        assert type(gone).__name__ == "VolumeNotFoundException", repr(gone)


@feature("volumes.files")
async def test_files_of_a_volume(sdk, volume):
    entry = await sdk.call(volume.write_file, "/notes/ä b.txt", "hello", force=True)
    assert (entry.path, entry.size, entry.mode, entry.uid, entry.gid) == ("/notes/ä b.txt", 5, 0o666, 1000, 1000)
    assert entry.type.value == "file" and entry.mtime.tzinfo is not None
    assert await sdk.call(volume.read_file, "/notes/ä b.txt") == "hello"
    assert bytes(await sdk.call(volume.read_file, "/notes/ä b.txt", format="bytes")) == b"hello"
    await sdk.call(volume.write_file, "/empty", b"")
    assert await sdk.call(volume.read_file, "/empty") == ""
    made = await sdk.call(volume.make_dir, "/d/e", uid=5, gid=6, mode=0o700, force=True)
    assert (made.type.value, made.uid, made.gid, made.mode) == ("directory", 5, 6, 0o700)
    paths = [item.path for item in await sdk.call(volume.list, "/", depth=3)]
    assert paths == ["/d", "/d/e", "/empty", "/notes", "/notes/ä b.txt"]
    assert [item.path for item in await sdk.call(volume.list, "/notes")] == ["/notes/ä b.txt"]
    changed = await sdk.call(volume.update_metadata, "/empty", uid=7, mode=0o640)
    assert (changed.uid, changed.gid, changed.mode) == (7, 1000, 0o640)
    assert (await sdk.call(volume.get_info, "/empty")).uid == 7
    assert await sdk.call(volume.exists, "/d")
    await sdk.call(volume.remove, "/d")
    assert not await sdk.call(volume.exists, "/d")
    taken = await sdk.error(volume.write_file, "/empty", "x", force=False)
    assert type(taken).__name__ == "VolumeException" and "409" in str(taken), repr(taken)
    for call, arguments in ((volume.read_file, ["/none"]), (volume.remove, ["/none"]), (volume.list, ["/none"])):
        missing = await sdk.error(call, *arguments)
        assert type(missing).__name__ == "VolumePathNotFoundException", repr(missing)
    root = await sdk.error(volume.remove, "/")
    assert type(root).__name__ == "VolumeException" and "400" in str(root), repr(root)


@feature("volumes.files")
async def test_large_files_are_streamed_both_ways(sdk, volume):
    size, piece = 24 << 20, bytes(range(256)) * 4096
    await sdk.call(volume.write_file, "/big", piece * (size // len(piece)))
    stream = await sdk.call(volume.read_file, "/big", format="stream")
    total = 0
    if sdk.name == "sync":
        for part in stream:
            total += len(part)
    else:
        async for part in stream:
            total += len(part)
    assert total == size


@feature("volumes.mount")
@pytest.mark.deadline(180)
async def test_sandboxes_share_a_volume_that_outlives_them(sdk, volume, Volume):
    await sdk.call(volume.write_file, "/from-api", "hello")
    mounts = {"/mnt/data": volume, "/srv/seen": f"{volume.name}:ro"}
    one = await sdk.call(sdk.Sandbox.create, timeout=120, volume_mounts=mounts)
    two = await sdk.call(sdk.Sandbox.create, timeout=120, volume_mounts={"/data": volume.name})
    try:
        assert await output(sdk, one, "cat /mnt/data/from-api") == "hello"
        shown = await output(sdk, one, "mount | grep /mnt/data; stat -c '%U %a' /mnt/data/from-api")
        assert "nosuid" in shown and "nodev" in shown and shown.endswith("user 666")
        await sdk.call(one.files.write, "/mnt/data/from-one", "1")
        assert await sdk.call(two.files.read, "/data/from-one") == "1"
        assert await output(sdk, two, "stat -c %U /data/from-one") == "user"
        await sdk.call(two.commands.run, "sudo sh -c 'echo 2 > /data/of-root'")
        assert await sdk.call(volume.read_file, "/of-root") == "2\n"
        assert (await sdk.call(volume.get_info, "/of-root")).uid == 0
        refused = await output(sdk, one, "touch /srv/seen/x 2>&1; sudo mount -o remount,rw /srv/seen 2>&1; sudo touch /srv/seen/x 2>&1; true")
        assert "Read-only file system" in refused and not await sdk.call(volume.exists, "/x")
        size = int(await output(sdk, one, "df --output=size -BM /mnt/data | tail -1 | tr -d M"))
        assert 9_000 < size < 11_000, size
        info = await sdk.call(one.get_info)
        seen = [(mount["name"], mount["path"]) if isinstance(mount, dict) else (mount.name, mount.path) for mount in info.volume_mounts]
        assert sorted(seen) == [(volume.name, "/mnt/data"), (volume.name, "/srv/seen")]
        used = await sdk.error(Volume.destroy, volume.volume_id)
        assert type(used).__name__ == "VolumeException" and one.sandbox_id in str(used) and "409" in str(used), repr(used)
    finally:
        for sandbox in (one, two):
            await sdk.call(sandbox.kill)
    assert await sdk.call(volume.read_file, "/from-one") == "1"
    bad = await sdk.error(sdk.Sandbox.create, volume_mounts={"/mnt/a": "no-such-volume"})
    assert "volume 'no-such-volume' not found" in str(bad), repr(bad)


@feature("volumes.mount")
@pytest.mark.deadline(240)
async def test_a_volume_is_there_after_a_pause_and_in_a_fork(sdk, volume):
    sandbox = await sdk.call(sdk.Sandbox.create, timeout=200, volume_mounts={"/mnt/data": volume})
    forks = []
    try:
        await sdk.call(sandbox.commands.run, "exec 3>>/mnt/data/log; while sleep 0.2; do date >&3; done", background=True)
        await sdk.call(sandbox.pause)
        await sdk.call(volume.write_file, "/meanwhile", "here")
        again = await sdk.call(sdk.Sandbox.connect, sandbox.sandbox_id)
        assert await output(sdk, again, "cat /mnt/data/meanwhile") == "here"
        answer = await in_thread(web.api, "POST", f"/sandboxes/{sandbox.sandbox_id}/snapshots", {})
        assert answer.status in (400, 501), answer
        answer = await in_thread(web.api, "POST", f"/sandboxes/{sandbox.sandbox_id}/fork", {"count": 1})
        if answer.status != 501:
            assert answer.status == 201, answer
            forks = [await sdk.call(sdk.Sandbox.connect, item["sandbox"]["sandboxID"]) for item in answer.json]
            await sdk.call(forks[0].files.write, "/mnt/data/of-the-fork", "f")
            assert await sdk.call(volume.read_file, "/of-the-fork") == "f"
            assert await output(sdk, forks[0], "df --output=target /mnt/data | tail -1") == "/mnt/data"
    finally:
        for one in [sandbox, *forks]:
            await sdk.call(one.kill)


@feature("volumes.copies")
async def test_a_snapshot_stays_and_a_clone_goes_on(sdk, volume, Volume):
    await sdk.call(volume.write_file, "/a", "then")
    made = []
    try:
        for suffix, read_only in (("snapshot", True), ("clone", False)):
            body = {"name": f"{volume.name}-{suffix}", "skep": {"source": volume.volume_id, "readOnly": read_only}}
            answer = await in_thread(web.api, "POST", "/volumes", body)
            assert answer.status == 201, answer
            made.append(await sdk.call(Volume.connect, answer.json["volumeID"]))
        snapshot, clone = made
        await sdk.call(volume.write_file, "/a", "now", force=True)
        assert await sdk.call(snapshot.read_file, "/a") == "then"
        assert "403" in str(await sdk.error(snapshot.write_file, "/b", "x"))
        await sdk.call(clone.write_file, "/a", "else", force=True)
        assert await sdk.call(volume.read_file, "/a") == "now"
    finally:
        for copy in made:
            await sdk.call(Volume.destroy, copy.volume_id)
