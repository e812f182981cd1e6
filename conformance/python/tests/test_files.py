"""Reading and writing files."""

import io

import e2b
import pytest

from generation import expect_error

feature = pytest.mark.feature
TEXT = "first line\nnaïve — 日本語 🐝\n"
BYTES = bytes(range(256)) * 64


@feature("files.write")
async def test_text_written_is_read_back(sdk, sandbox, place):
    info = await sdk.call(sandbox.files.write, f"{place}/deep/er/a.txt", TEXT)
    assert (info.name, info.path) == ("a.txt", f"{place}/deep/er/a.txt")
    # The year-old SDK hands on the text of the answer.
    assert e2b.FileType(info.type) == e2b.FileType.FILE
    assert await sdk.call(sandbox.files.read, f"{place}/deep/er/a.txt") == TEXT


@feature("files.write")
async def test_bytes_written_are_read_back(sdk, sandbox, place):
    await sdk.call(sandbox.files.write, f"{place}/a.bin", BYTES)
    assert bytes(await sdk.call(sandbox.files.read, f"{place}/a.bin", format="bytes")) == BYTES


@feature("files.write")
async def test_a_shorter_file_replaces_a_longer_one(sdk, sandbox, place):
    await sdk.call(sandbox.files.write, f"{place}/a.txt", "long " * 1000)
    await sdk.call(sandbox.files.write, f"{place}/a.txt", "short")
    assert await sdk.call(sandbox.files.read, f"{place}/a.txt") == "short"


@feature("files.write")
async def test_an_empty_file_is_a_file(sdk, sandbox, place):
    await sdk.call(sandbox.files.write, f"{place}/empty", "")
    assert await sdk.call(sandbox.files.read, f"{place}/empty") == ""
    assert bytes(await sdk.call(sandbox.files.read, f"{place}/empty", format="bytes")) == b""
    assert (await sdk.call(sandbox.files.get_info, f"{place}/empty")).size == 0


@feature("files.write")
async def test_relative_and_tilde_paths_start_at_home(sdk, sandbox):
    info = await sdk.call(sandbox.files.write, "relative.txt", "here")
    assert info.path == "/home/user/relative.txt"
    assert await sdk.call(sandbox.files.read, "~/relative.txt") == "here"
    assert (await sdk.call(sandbox.commands.run, "cat relative.txt")).stdout == "here"


@feature("files.write")
async def test_an_existing_file_keeps_its_mode(sdk, sandbox, place):
    await sdk.call(sandbox.files.write, f"{place}/run.sh", "#!/bin/sh\necho one\n")
    await sdk.call(sandbox.commands.run, f"chmod 755 {place}/run.sh")
    await sdk.call(sandbox.files.write, f"{place}/run.sh", "#!/bin/sh\necho two\n")
    assert (await sdk.call(sandbox.commands.run, f"{place}/run.sh")).stdout == "two\n"


@feature("files.read")
async def test_a_stream_gives_the_whole_file(sdk, sandbox, place):
    content = BYTES * 64
    await sdk.call(sandbox.files.write, f"{place}/big.bin", content)
    stream = await sdk.call(sandbox.files.read, f"{place}/big.bin", format="stream")
    chunks = await sdk.chunks(stream)
    assert b"".join(bytes(chunk) for chunk in chunks) == content


@feature("files.read")
async def test_a_stream_of_an_empty_file_is_empty(sdk, sandbox, place):
    await sdk.call(sandbox.files.write, f"{place}/empty", "")
    stream = await sdk.call(sandbox.files.read, f"{place}/empty", format="stream")
    assert b"".join(await sdk.chunks(stream)) == b""


@feature("files.read")
async def test_a_file_made_by_a_command_is_read(sdk, sandbox, place):
    await sdk.call(sandbox.commands.run, f"mkdir -p {place}; seq 1 3 > {place}/seq")
    assert await sdk.call(sandbox.files.read, f"{place}/seq") == "1\n2\n3\n"


@feature("files.write_many")
async def test_many_files_go_in_one_call_to_where_each_says(sdk, sandbox, place):
    files = [{"path": f"{place}/{number}/file.txt", "data": f"number {number}"} for number in range(12)]
    files.append({"path": "written-beside.bin", "data": BYTES})
    infos = await sdk.call(sandbox.files.write_files, files)
    assert [info.path for info in infos] == [file["path"] for file in files[:-1]] + ["/home/user/written-beside.bin"]
    for file in files[:-1]:
        assert await sdk.call(sandbox.files.read, file["path"]) == file["data"]
    assert bytes(await sdk.call(sandbox.files.read, "written-beside.bin", format="bytes")) == BYTES


@feature("files.write_many")
async def test_no_files_is_no_call(sdk, sandbox):
    assert await sdk.call(sandbox.files.write_files, []) == []


@feature("files.streams")
@pytest.mark.parametrize("data, content", [(io.BytesIO(BYTES), BYTES), (io.StringIO(TEXT), TEXT.encode())], ids=["bytes", "text"])
async def test_a_file_object_is_uploaded(sdk, sandbox, place, data, content):
    data.seek(0)
    await sdk.call(sandbox.files.write, f"{place}/object", data)
    assert bytes(await sdk.call(sandbox.files.read, f"{place}/object", format="bytes")) == content


@feature("files.streams")
@pytest.mark.new_only
async def test_an_iterable_is_uploaded_piece_by_piece(sdk, sandbox, place):
    pieces = [bytes([number]) * 10_000 for number in range(100)]
    await sdk.call(sandbox.files.write, f"{place}/pieces", sdk.iterable(pieces))
    assert bytes(await sdk.call(sandbox.files.read, f"{place}/pieces", format="bytes")) == b"".join(pieces)


@feature("files.streams")
async def test_objects_and_text_mix_in_one_call(sdk, sandbox, place):
    files = [
        {"path": f"{place}/text", "data": TEXT},
        {"path": f"{place}/object", "data": io.BytesIO(BYTES)},
    ]
    infos = await sdk.call(sandbox.files.write_files, files)
    assert sorted(info.path for info in infos) == [f"{place}/object", f"{place}/text"]
    assert await sdk.call(sandbox.files.read, f"{place}/text") == TEXT
    assert bytes(await sdk.call(sandbox.files.read, f"{place}/object", format="bytes")) == BYTES


@feature("files.octet_stream")
@pytest.mark.new_only
async def test_an_octet_stream_upload_makes_parents_and_keeps_bytes(sdk, sandbox, place):
    info = await sdk.call(sandbox.files.write, f"{place}/x/y/raw", BYTES, use_octet_stream=True)
    assert (info.name, info.path, info.type) == ("raw", f"{place}/x/y/raw", e2b.FileType.FILE)
    assert bytes(await sdk.call(sandbox.files.read, f"{place}/x/y/raw", format="bytes")) == BYTES


@feature("files.gzip")
@pytest.mark.new_only
async def test_gzip_shrinks_the_way_and_not_the_file(sdk, sandbox, place):
    content = "compress me " * 10_000
    await sdk.call(sandbox.files.write, f"{place}/z", content, gzip=True)
    assert (await sdk.call(sandbox.files.get_info, f"{place}/z")).size == len(content)
    assert await sdk.call(sandbox.files.read, f"{place}/z") == content
    assert await sdk.call(sandbox.files.read, f"{place}/z", gzip=True) == content
    stream = await sdk.call(sandbox.files.read, f"{place}/z", format="stream", gzip=True)
    assert b"".join(await sdk.chunks(stream)).decode() == content


@feature("files.gzip")
@pytest.mark.new_only
async def test_gzip_works_for_file_objects_and_for_many(sdk, sandbox, place):
    await sdk.call(sandbox.files.write, f"{place}/o", io.BytesIO(BYTES), gzip=True)
    await sdk.call(sandbox.files.write_files, [{"path": f"{place}/m", "data": TEXT}, {"path": f"{place}/n", "data": BYTES}], gzip=True)
    assert bytes(await sdk.call(sandbox.files.read, f"{place}/o", format="bytes", gzip=True)) == BYTES
    assert await sdk.call(sandbox.files.read, f"{place}/m") == TEXT
    assert bytes(await sdk.call(sandbox.files.read, f"{place}/n", format="bytes")) == BYTES


@feature("files.metadata")
@pytest.mark.new_only
@pytest.mark.parametrize("raw", [False, True], ids=["multipart", "octet-stream"])
async def test_metadata_stays_with_a_file(sdk, sandbox, place, raw):
    metadata = {"author": "somebody", "purpose": "a test; with signs"}
    info = await sdk.call(sandbox.files.write, f"{place}/m", "x", metadata=metadata, use_octet_stream=raw)
    assert info.metadata == metadata
    assert (await sdk.call(sandbox.files.get_info, f"{place}/m")).metadata == metadata
    (listed,) = await sdk.call(sandbox.files.list, place)
    assert listed.metadata == metadata
    moved = await sdk.call(sandbox.files.rename, f"{place}/m", f"{place}/n")
    assert moved.metadata == metadata


@feature("files.metadata")
@pytest.mark.new_only
async def test_writing_again_replaces_the_metadata(sdk, sandbox, place):
    await sdk.call(sandbox.files.write, f"{place}/m", "x", metadata={"old": "1"})
    await sdk.call(sandbox.files.write, f"{place}/m", "y", metadata={"New": "2"})
    assert (await sdk.call(sandbox.files.get_info, f"{place}/m")).metadata == {"new": "2"}
    info = await sdk.call(sandbox.files.write, f"{place}/m", "z")
    assert info.metadata is None
    assert (await sdk.call(sandbox.files.get_info, f"{place}/m")).metadata is None


@feature("files.metadata")
@pytest.mark.new_only
async def test_an_attribute_set_inside_is_metadata_outside(sdk, sandbox, place):
    await sdk.call(sandbox.files.write, f"{place}/m", "x")
    await sdk.call(sandbox.commands.run, f"""python3 -c "import os; os.setxattr('{place}/m', 'user.e2b.inside', b'yes')" """)
    assert (await sdk.call(sandbox.files.get_info, f"{place}/m")).metadata == {"inside": "yes"}


@feature("errors.files")
async def test_a_missing_file_is_named(sdk, sandbox):
    for form in ("text", "bytes", "stream"):
        error = await sdk.error(sandbox.files.read, "/no/such/file", format=form)
        expect_error(error, new="FileNotFoundException", year="NotFoundException", says="path '/no/such/file' does not exist")


@feature("errors.files")
async def test_reading_a_directory_is_refused(sdk, sandbox):
    error = await sdk.error(sandbox.files.read, "/etc")
    expect_error(error, "InvalidArgumentException", "path '/etc' is a directory")


@feature("errors.files")
async def test_writing_over_a_directory_is_refused(sdk, sandbox, place):
    await sdk.call(sandbox.files.make_dir, place)
    error = await sdk.error(sandbox.files.write, place, "x")
    expect_error(error, "InvalidArgumentException", "path is a directory")


@feature("errors.user")
async def test_a_file_of_an_unknown_user_is_refused(sdk, sandbox):
    error = await sdk.error(sandbox.files.read, "a.txt", user="nobody2")
    expect_error(error, "AuthenticationException", "nobody2")
    error = await sdk.error(sandbox.files.list, "/", user="nobody2")
    expect_error(error, "AuthenticationException", "invalid username: 'nobody2'")
