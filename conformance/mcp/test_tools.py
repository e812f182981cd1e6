"""What agents do, over both transports and in both eras of the protocol."""

import asyncio
import base64
import os
import uuid

import pytest

from connections import MODES, asynchronous, images, over_http, over_stdio, sandboxes, text

# A program finds the server by its address alone, which names of a domain are not outside of it.
STDIO = [] if os.environ.get("E2B_DOMAIN") else [over_stdio]
PLOT = "import matplotlib.pyplot as plt\nplt.plot([1, 2, 4])\nplt.show()"


@pytest.mark.feature("mcp.code")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("connect", [*STDIO, over_http])
@asynchronous
async def test_code_keeps_its_state_and_shows_text_images_and_data(connect, mode):
    async with connect(mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools["read_file"].annotations.read_only_hint
        assert tools["stop_sandbox"].annotations.destructive_hint
        assert all(tool.output_schema for tool in tools.values())

        await client.call_tool("run_code", {"code": "x = 20"})
        told = []

        async def progress(done, total, message):
            told.append((done, message))

        code = "import time\nfor i in range(3):\n    print('step', i, flush=True)\n    time.sleep(0.4)\nx + 22"
        result = await client.call_tool("run_code", {"code": code}, progress_callback=progress)
        assert not result.is_error
        assert text(result) == "step 0\nstep 1\nstep 2\n42"
        assert result.structured_content["stdout"] == "step 0\nstep 1\nstep 2\n"
        assert result.structured_content["results"] == [{"text/plain": "42"}]
        assert result.structured_content["duration_ms"] >= 1000
        assert [message for _, message in told if message], "progress has the last line"
        assert told == sorted(told, key=lambda item: item[0]), "progress goes on"

        [image] = images(await client.call_tool("run_code", {"code": PLOT}))
        assert image.mime_type == "image/png" and base64.b64decode(image.data).startswith(b"\x89PNG")

        failed = await client.call_tool("run_code", {"code": "1 / 0"})
        assert failed.is_error and "ZeroDivisionError" in text(failed)
        assert failed.structured_content["error"]["name"] == "ZeroDivisionError"
        late = await client.call_tool("run_code", {"code": "while True: pass", "timeout_seconds": 1})
        assert late.is_error and late.structured_content["error"]["kind"] == "timeout"

        beside = await client.call_tool("run_code", {"code": "'x' in globals()", "state": "isolated"})
        assert text(beside) == "False"
        await client.call_tool("run_code", {"code": "pass", "state": "fresh"})
        assert (await client.call_tool("run_code", {"code": "x"})).is_error, "forgotten"
        shell = await client.call_tool("run_code", {"code": "echo $((6 * 7))", "language": "bash"})
        assert text(shell) == "42"
        await client.call_tool("stop_sandbox", {})


@pytest.mark.feature("mcp.files")
@pytest.mark.parametrize("connect", [*STDIO, over_http])
@asynchronous
async def test_commands_and_files_work_and_files_are_resources(connect):
    async with connect("auto", name="files") as client:
        ran = await client.call_tool("run_command", {"command": "cat; exit 3", "stdin": "hello"})
        assert ran.is_error and ran.structured_content["exit_code"] == 3
        assert ran.structured_content["stdout"] == "hello"

        written = await client.call_tool("write_file", {"path": "notes/a b.txt", "content": "one\ntwo\nthree\n"})
        assert written.structured_content["size"] == 14
        part = await client.call_tool("read_file", {"path": "notes/a b.txt", "offset": 1, "limit": 1})
        assert part.structured_content["text"] == "two\n" and part.structured_content["next_offset"] == 2
        listed = await client.call_tool("list_files", {"depth": 2})
        assert "/home/user/notes/a b.txt" in [entry["path"] for entry in listed.structured_content["entries"]]

        [resource] = [item for item in (await client.list_resources()).resources if item.name == "a b.txt"]
        [content] = (await client.read_resource(str(resource.uri))).contents
        assert content.text == "one\ntwo\nthree\n"
        sandbox = listed.structured_content["sandbox"]
        for uri in ("file:///etc/passwd", f"skep://{sandbox}%2F..%2Fx/files/etc/passwd", f"skep://{sandbox}/files/none"):
            with pytest.raises(Exception, match="(?i)no resource|not found|no such|cannot"):
                await client.read_resource(uri)

        missing = await client.call_tool("read_file", {"path": "none.txt"})
        assert missing.is_error and "list_files" in text(missing)
        picture = base64.b64encode(b"\x89PNG\r\n").decode()
        await client.call_tool("write_file", {"path": "p.png", "content": picture, "encoding": "base64"})
        [image] = images(await client.call_tool("read_file", {"path": "p.png"}))
        assert image.data == picture
        await client.call_tool("stop_sandbox", {})


@pytest.mark.feature("mcp.files")
@asynchronous
async def test_long_output_is_cut_and_kept_in_a_file():
    async with over_http("auto", name="long") as client:
        long = await client.call_tool("run_code", {"code": "print('a' * 10_000_000)\nprint('end')"})
        assert len(text(long)) < 30_000 and "end" in text(long)
        path = long.structured_content["full_output"]
        size = await client.call_tool("run_command", {"command": f"wc -c < {path}"})
        assert int(size.structured_content["stdout"]) > 1_000_000
        await client.call_tool("stop_sandbox", {})


@pytest.mark.feature("mcp.packages")
@asynchronous
async def test_packages_are_installed_and_options_are_none():
    async with over_http("auto", name="packages") as client:
        done = await client.call_tool("install_packages", {"packages": ["roman==5.2"]})
        assert not done.is_error, text(done)
        assert text(await client.call_tool("run_code", {"code": "import roman; roman.toRoman(42)"})) == "XLII"
        odd = await client.call_tool("install_packages", {"packages": ["--index-url=http://127.0.0.1:1"]})
        assert odd.is_error and "not the name of a package" in text(odd)
        await client.call_tool("stop_sandbox", {})


@pytest.mark.feature("mcp.sandboxes")
@pytest.mark.parametrize("connect", [*STDIO, over_http])
@asynchronous
async def test_a_sandbox_is_found_again_by_its_name_and_one_without_ends_with_its_session(connect):
    name = f"case-{uuid.uuid4().hex[:8]}"
    async with connect("legacy") as client:
        first = await client.call_tool("start_sandbox", {"name": name})
        assert first.structured_content["reused"] is False
        await client.call_tool("run_code", {"code": "kept = 1", "sandbox": name})
        usual = await client.call_tool("run_code", {"code": "'kept' in globals()"})
        assert text(usual) == "False", "the usual one is another"
        listed = await client.call_tool("list_sandboxes", {})
        assert name in [item["name"] for item in listed.structured_content["sandboxes"]]
    usual = usual.structured_content["sandbox"]
    for _ in range(100):
        if usual not in sandboxes():
            break
        await asyncio.sleep(0.1)
    assert usual not in sandboxes(), "it ended with its session"
    async with connect("auto") as client:
        again = await client.call_tool("start_sandbox", {"name": name})
        assert again.structured_content == {**first.structured_content, "reused": True}
        assert text(await client.call_tool("run_code", {"code": "kept", "sandbox": name})) == "1"
        await client.call_tool("stop_sandbox", {"sandbox": name})
        gone = await client.call_tool("run_code", {"code": "1", "sandbox": name})
        assert gone.is_error and "start_sandbox" in text(gone)
        unknown = await client.call_tool("start_sandbox", {"template": "nope"})
        assert unknown.is_error and "nope" in text(unknown)


@pytest.mark.feature("mcp.ports")
@asynchronous
async def test_a_port_has_a_url_and_says_whether_somebody_listens():
    async with over_http("auto", name="ports") as client:
        silent = await client.call_tool("expose_port", {"port": 8000})
        assert silent.structured_content["listening"] is False
        started = await client.call_tool("run_command", {"command": "python3 -m http.server 8000", "background": True})
        assert started.structured_content["process"]
        for _ in range(100):
            port = (await client.call_tool("expose_port", {"port": 8000})).structured_content
            if port["listening"]:
                break
            await asyncio.sleep(0.1)
        assert port["listening"]
        assert f"://8000-{port['sandbox']}." in port["url"]
        await client.call_tool("stop_sandbox", {})


@pytest.mark.feature("mcp.code")
@asynchronous
async def test_a_call_that_nobody_waits_for_is_interrupted():
    async with over_http("legacy") as client:
        await client.call_tool("run_code", {"code": "ran = 0"})
        with pytest.raises(Exception):
            forever = "import time\nwhile True:\n    ran += 1\n    time.sleep(0.05)"
            await client.call_tool("run_code", {"code": forever}, read_timeout_seconds=1)
        # It runs after the one before has ended, which by itself never does.
        result = await client.call_tool("run_code", {"code": "ran > 0"}, read_timeout_seconds=60)
        assert text(result).endswith("True")
