"""Watching directories: polled by the sync SDK, streamed to the async one."""

import e2b
import pytest

from flavour import eventually
from generation import expect_error

feature = pytest.mark.feature
Kind = e2b.FilesystemEventType


def kinds(events, name):
    return [event.type for event in events if event.name == name]


@feature("watch.events")
async def test_a_new_file_gives_exactly_create_chmod_write(sdk, sandbox, place):
    await sdk.call(sandbox.files.make_dir, place)
    watch = await sdk.watch(sandbox, place)
    await sdk.call(sandbox.files.write, f"{place}/a.txt", "x")
    await watch.until(lambda events: len(events) >= 3, "three events")
    # The end mark proves that nothing came between: events are delivered in order.
    await sdk.call(sandbox.commands.run, f"mkdir {place}/end")
    events = await watch.until(lambda events: kinds(events, "end"), "the end mark")
    assert [(event.name, event.type) for event in events if event.name != "end"] == [
        ("a.txt", Kind.CREATE),
        ("a.txt", Kind.CHMOD),
        ("a.txt", Kind.WRITE),
    ]
    await watch.stop()


@feature("watch.events")
@pytest.mark.sync_only
async def test_the_very_next_poll_has_the_events(sdk, sandbox, place):
    await sdk.call(sandbox.files.make_dir, place)
    watch = await sdk.watch(sandbox, place)
    assert await sdk.call(watch.handle.get_new_events) == []
    await sdk.call(sandbox.files.write, f"{place}/a.txt", "x")
    assert len(await sdk.call(watch.handle.get_new_events)) == 3
    assert await sdk.call(watch.handle.get_new_events) == []
    await watch.stop()


@feature("watch.events")
async def test_changing_moving_and_removing_are_seen(sdk, sandbox, place):
    await sdk.call(sandbox.files.write, f"{place}/a.txt", "x")
    watch = await sdk.watch(sandbox, place)
    await sdk.call(sandbox.commands.run, f"cd {place}; echo y >> a.txt; chmod 600 a.txt; mv a.txt b.txt; rm b.txt")
    events = await watch.until(lambda events: Kind.REMOVE in kinds(events, "b.txt"), "the removal")
    assert Kind.WRITE in kinds(events, "a.txt")
    assert Kind.CHMOD in kinds(events, "a.txt")
    assert Kind.RENAME in kinds(events, "a.txt")
    assert Kind.CREATE in kinds(events, "b.txt")
    await watch.stop()


@feature("watch.events")
async def test_without_recursion_what_is_below_is_not_seen(sdk, sandbox, place):
    await sdk.call(sandbox.files.make_dir, f"{place}/below")
    watch = await sdk.watch(sandbox, place)
    await sdk.call(sandbox.files.write, f"{place}/below/a.txt", "x")
    await sdk.call(sandbox.files.write, f"{place}/top.txt", "x")
    events = await watch.until(lambda events: Kind.WRITE in kinds(events, "top.txt"), "the write at the top")
    assert not [event for event in events if "a.txt" in event.name]
    await watch.stop()


@feature("watch.recursive")
async def test_with_recursion_names_are_relative_to_the_watched_directory(sdk, sandbox, place):
    await sdk.call(sandbox.files.make_dir, f"{place}/one/two")
    watch = await sdk.watch(sandbox, place, recursive=True)
    await sdk.call(sandbox.files.write, f"{place}/one/two/a.txt", "x")
    await watch.until(lambda events: Kind.WRITE in kinds(events, "one/two/a.txt"), "the write below")
    await watch.stop()


@feature("watch.recursive")
async def test_a_directory_made_later_is_watched_too(sdk, sandbox, place):
    await sdk.call(sandbox.files.make_dir, place)
    watch = await sdk.watch(sandbox, place, recursive=True)
    await sdk.call(sandbox.files.make_dir, f"{place}/new")
    await watch.until(lambda events: Kind.CREATE in kinds(events, "new"), "the new directory")
    await sdk.call(sandbox.files.write, f"{place}/new/a.txt", "x")
    await watch.until(lambda events: Kind.WRITE in kinds(events, "new/a.txt"), "the write in the new directory")
    await watch.stop()


@feature("watch.entry")
@pytest.mark.new_only
async def test_an_event_can_carry_the_entry(sdk, sandbox, place):
    await sdk.call(sandbox.files.make_dir, place)
    watch = await sdk.watch(sandbox, place, include_entry=True)
    await sdk.call(sandbox.files.write, f"{place}/a.txt", "12345")
    events = await watch.until(lambda events: Kind.WRITE in kinds(events, "a.txt"), "the write")
    (written,) = [event for event in events if event.type == Kind.WRITE]
    assert (written.entry.path, written.entry.size, written.entry.owner) == (f"{place}/a.txt", 5, "user")
    await watch.stop()


@feature("watch.entry")
@pytest.mark.new_only
async def test_allowing_network_mounts_changes_nothing_on_a_local_directory(sdk, sandbox, place):
    await sdk.call(sandbox.files.make_dir, place)
    watch = await sdk.watch(sandbox, place, allow_network_mounts=True)
    await sdk.call(sandbox.files.write, f"{place}/a.txt", "x")
    await watch.until(lambda events: Kind.WRITE in kinds(events, "a.txt"), "the write")
    await watch.stop()


@feature("watch.events")
@pytest.mark.sync_only
async def test_a_stopped_watcher_is_gone(sdk, sandbox, place):
    await sdk.call(sandbox.files.make_dir, place)
    watch = await sdk.watch(sandbox, place)
    await watch.stop()
    error = await sdk.error(watch.handle.get_new_events)
    assert isinstance(error, e2b.SandboxException)


@feature("watch.events")
@pytest.mark.async_only
async def test_a_stopped_watch_tells_nothing_more(sdk, sandbox, place):
    await sdk.call(sandbox.files.make_dir, place)
    watch = await sdk.watch(sandbox, place)
    await watch.stop()
    await sdk.call(sandbox.files.write, f"{place}/a.txt", "x")
    second = await sdk.watch(sandbox, place)
    await sdk.call(sandbox.files.write, f"{place}/b.txt", "x")
    await second.until(lambda events: kinds(events, "b.txt"), "an event of the second watch")
    assert watch.events == []
    await second.stop()


@feature("watch.events")
@pytest.mark.async_only
async def test_a_watch_ends_at_its_timeout_with_an_error(sdk, sandbox, place):
    await sdk.call(sandbox.files.make_dir, place)
    watch = await sdk.watch(sandbox, place, timeout=1)
    await eventually(lambda: watch.exits, "the end of the watch")
    expect_error(watch.exits[0], "TimeoutException", "timeout")


@feature("watch.events")
async def test_watching_nothing_or_a_file_is_refused(sdk, sandbox, place):
    arguments = [] if sdk.name == "sync" else [lambda event: None]
    error = await sdk.error(sandbox.files.watch_dir, f"{place}/missing", *arguments)
    expect_error(error, new="FileNotFoundException", year="NotFoundException", says="missing")
    await sdk.call(sandbox.files.write, f"{place}/file", "x")
    error = await sdk.error(sandbox.files.watch_dir, f"{place}/file", *arguments)
    expect_error(error, "InvalidArgumentException", "not a directory")
