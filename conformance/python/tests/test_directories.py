"""Listing, describing and moving what is in the file system."""

import datetime

import e2b
import pytest

from generation import by_generation, expect_error

feature = pytest.mark.feature


@feature("files.list")
async def test_a_listing_is_ordered_and_as_deep_as_asked(sdk, sandbox, place):
    await sdk.call(
        sandbox.commands.run, f"mkdir -p {place}/b/c/d {place}/a && touch {place}/b/c/d/deep {place}/b/file {place}/z"
    )
    at_depth = {
        1: ["a", "b", "z"],
        2: ["a", "b", "b/c", "b/file", "z"],
        3: ["a", "b", "b/c", "b/c/d", "b/file", "z"],
        9: ["a", "b", "b/c", "b/c/d", "b/c/d/deep", "b/file", "z"],
    }
    for depth, names in at_depth.items():
        listed = await sdk.call(sandbox.files.list, place, depth=depth)
        assert [entry.path for entry in listed] == [f"{place}/{name}" for name in names], f"depth {depth}"


@feature("files.list")
async def test_an_empty_directory_lists_nothing(sdk, sandbox, place):
    await sdk.call(sandbox.files.make_dir, place)
    assert await sdk.call(sandbox.files.list, place) == []


@feature("files.list")
async def test_a_thousand_entries_are_all_listed(sdk, sandbox, place):
    await sdk.call(sandbox.commands.run, f"mkdir -p {place} && cd {place} && seq -w 1 1000 | xargs touch")
    listed = await sdk.call(sandbox.files.list, place)
    assert [entry.name for entry in listed] == [f"{number:04}" for number in range(1, 1001)]


@feature("files.list")
async def test_a_depth_below_one_is_refused(sdk, sandbox):
    error = await sdk.error(sandbox.files.list, "/", depth=0)
    expect_error(error, "InvalidArgumentException", "depth should be at least")


@feature("files.list")
async def test_listing_a_missing_path_or_a_file_is_refused(sdk, sandbox, place):
    error = await sdk.error(sandbox.files.list, f"{place}/missing")
    expect_error(error, new="FileNotFoundException", year="NotFoundException", says="missing")
    await sdk.call(sandbox.files.write, f"{place}/file", "x")
    error = await sdk.error(sandbox.files.list, f"{place}/file")
    expect_error(error, "InvalidArgumentException", "not a directory")


@feature("files.info")
async def test_a_file_is_described_completely(sdk, sandbox, place):
    await sdk.call(sandbox.files.write, f"{place}/a.txt", "12345")
    info = await sdk.call(sandbox.files.get_info, f"{place}/a.txt")
    assert (info.name, info.path, info.type, info.size) == ("a.txt", f"{place}/a.txt", e2b.FileType.FILE, 5)
    assert (info.mode, info.permissions, info.owner, info.group) == (0o644, "-rw-r--r--", "user", "user")
    assert info.symlink_target is None
    age = datetime.datetime.now(datetime.timezone.utc) - as_utc(info.modified_time)
    assert abs(age.total_seconds()) < 30


def as_utc(moment):
    return moment if moment.tzinfo else moment.replace(tzinfo=datetime.timezone.utc)


@feature("files.info")
async def test_a_directory_is_described_completely(sdk, sandbox, place):
    await sdk.call(sandbox.files.make_dir, place)
    info = await sdk.call(sandbox.files.get_info, place)
    assert (info.path, info.type, info.mode, info.permissions) == (place, e2b.FileType.DIR, 0o755, "drwxr-xr-x")
    assert (info.owner, info.group) == ("user", "user")
    assert info.size > 0


@feature("files.info")
@pytest.mark.parametrize("target, kind", [("file", "FILE"), ("directory", "DIR")])
async def test_a_symlink_shows_where_it_leads(sdk, sandbox, place, target, kind):
    await sdk.call(sandbox.commands.run, f"mkdir -p {place}/directory && cd {place} && echo x > file && ln -s {target} link")
    info = await sdk.call(sandbox.files.get_info, f"{place}/link")
    assert info.symlink_target == f"{place}/{target}"
    assert info.path == f"{place}/link"
    year_kind = getattr(e2b.FileType, kind)
    assert info.type == by_generation(getattr(e2b.FileType, "SYMLINK", None), year_kind)


@feature("files.info")
async def test_a_missing_path_is_named(sdk, sandbox, place):
    error = await sdk.error(sandbox.files.get_info, f"{place}/missing")
    expect_error(error, new="FileNotFoundException", year="NotFoundException", says=["file not found", "missing"])


@feature("files.exists")
async def test_exists_tells_files_and_directories_from_nothing(sdk, sandbox, place):
    assert await sdk.call(sandbox.files.exists, place) is False
    await sdk.call(sandbox.files.write, f"{place}/a", "x")
    assert await sdk.call(sandbox.files.exists, place) is True
    assert await sdk.call(sandbox.files.exists, f"{place}/a") is True
    assert await sdk.call(sandbox.files.exists, f"{place}/b") is False


@feature("files.rename")
async def test_a_file_moves_and_the_new_entry_is_returned(sdk, sandbox, place):
    await sdk.call(sandbox.files.write, f"{place}/old", "content")
    info = await sdk.call(sandbox.files.rename, f"{place}/old", f"{place}/new/parents/new")
    assert (info.name, info.path) == ("new", f"{place}/new/parents/new")
    assert await sdk.call(sandbox.files.read, f"{place}/new/parents/new") == "content"
    assert not await sdk.call(sandbox.files.exists, f"{place}/old")


@feature("files.rename")
async def test_a_directory_moves_with_its_content(sdk, sandbox, place):
    await sdk.call(sandbox.files.write, f"{place}/from/a", "content")
    info = await sdk.call(sandbox.files.rename, f"{place}/from", f"{place}/to")
    assert info.type == e2b.FileType.DIR
    assert await sdk.call(sandbox.files.read, f"{place}/to/a") == "content"


@feature("files.rename")
async def test_a_missing_source_is_named(sdk, sandbox, place):
    error = await sdk.error(sandbox.files.rename, f"{place}/missing", f"{place}/other")
    expect_error(error, new="FileNotFoundException", year="NotFoundException", says=["source file not found", "missing"])


@feature("files.remove")
async def test_files_and_whole_directories_are_removed_and_nothing_is_no_error(sdk, sandbox, place):
    await sdk.call(sandbox.files.write, f"{place}/a/b/c", "x")
    await sdk.call(sandbox.files.remove, f"{place}/a/b/c")
    assert await sdk.call(sandbox.files.exists, f"{place}/a/b")
    await sdk.call(sandbox.files.remove, place)
    assert not await sdk.call(sandbox.files.exists, place)
    await sdk.call(sandbox.files.remove, place)


@feature("files.remove")
async def test_removing_a_link_leaves_what_it_leads_to(sdk, sandbox, place):
    await sdk.call(sandbox.commands.run, f"mkdir -p {place}/kept && touch {place}/kept/file && ln -s kept {place}/link")
    await sdk.call(sandbox.files.remove, f"{place}/link")
    assert await sdk.call(sandbox.files.exists, f"{place}/kept/file")


@feature("files.make_dir")
async def test_a_new_directory_is_true_and_an_old_one_false(sdk, sandbox, place):
    assert await sdk.call(sandbox.files.make_dir, f"{place}/with/parents") is True
    assert await sdk.call(sandbox.files.make_dir, f"{place}/with/parents") is False
    listed = await sdk.call(sandbox.files.list, place, depth=2)
    assert [(entry.name, entry.owner) for entry in listed] == [("with", "user"), ("parents", "user")]


@feature("files.make_dir")
async def test_a_directory_over_a_file_is_refused(sdk, sandbox, place):
    await sdk.call(sandbox.files.write, f"{place}/file", "x")
    error = await sdk.error(sandbox.files.make_dir, f"{place}/file")
    expect_error(error, "InvalidArgumentException", "file")


@feature("files.users")
async def test_what_root_writes_is_root_s(sdk, sandbox):
    info = await sdk.call(sandbox.files.write, "by-root.txt", "x", user="root")
    assert info.path == "/root/by-root.txt"
    described = await sdk.call(sandbox.files.get_info, "by-root.txt", user="root")
    assert (described.path, described.owner, described.group) == ("/root/by-root.txt", "root", "root")
    error = await sdk.error(sandbox.commands.run, "cat /root/by-root.txt")
    assert isinstance(error, e2b.CommandExitException)


@feature("files.users")
async def test_what_user_writes_belongs_to_user_with_its_new_parents(sdk, sandbox):
    await sdk.call(sandbox.files.write, "/opt/made/by/user.txt", "x", user="user")
    listed = await sdk.call(sandbox.files.list, "/opt/made", depth=3)
    assert {entry.owner for entry in listed} == {"user"}


ODD_NAMES = {
    "space": "a b  c.txt",
    "unicode": "naïve-日本-🐝.txt",
    "single-quote": "it's.txt",
    "double-quote": 'say "hi".txt',
    "newline": "two\nlines.txt",
    "backslash": "back\\slash.txt",
    "percent": "100%25.txt",
    "plus-and-query": "a+b&c=d?e#f.txt",
    "dashes": "--help",
    "dots": "..hidden..",
}


@feature("files.names")
@pytest.mark.parametrize("name", list(ODD_NAMES.values()), ids=list(ODD_NAMES))
async def test_odd_names_are_written_read_listed_moved_and_removed(sdk, sandbox, place, name):
    path = f"{place}/{name}"
    info = await sdk.call(sandbox.files.write, path, f"content of {name}")
    assert (info.name, info.path) == (name, path)
    assert await sdk.call(sandbox.files.read, path) == f"content of {name}"
    assert [entry.name for entry in await sdk.call(sandbox.files.list, place)] == [name]
    moved = await sdk.call(sandbox.files.rename, path, f"{place}/moved {name}")
    assert moved.name == f"moved {name}"
    await sdk.call(sandbox.files.remove, f"{place}/moved {name}")
    assert await sdk.call(sandbox.files.list, place) == []


@feature("files.names")
async def test_odd_names_survive_one_call_with_many_files(sdk, sandbox, place):
    files = [{"path": f"{place}/{name}", "data": name} for name in ODD_NAMES.values()]
    infos = await sdk.call(sandbox.files.write_files, files)
    assert [info.path for info in infos] == [file["path"] for file in files]
    listed = await sdk.call(sandbox.files.list, place)
    assert sorted(entry.name for entry in listed) == sorted(ODD_NAMES.values())
