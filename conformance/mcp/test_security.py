"""Whoever is not let in, and what a sandbox cannot do to those who are."""

import asyncio

import pytest

from connections import API, KEY, URL, asynchronous, over_http, post, text

BEARER = {"authorization": f"Bearer {KEY}"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}},
}
LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}


@pytest.mark.feature("mcp.security")
def test_without_a_key_there_is_nothing():
    for headers in ({}, {"authorization": "Bearer e2b_" + "0" * 40}, {"authorization": "Basic eDp5"}):
        for method in ("POST", "GET", "DELETE"):
            status, answered, _ = post(INITIALIZE, headers, method)
            assert status == 401 and answered["www-authenticate"].startswith("Bearer"), (headers, method)
    status, _, _ = post(INITIALIZE, {"x-api-key": KEY})
    assert status == 200


@pytest.mark.feature("mcp.security")
def test_pages_and_names_of_others_are_refused():
    for headers in (
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"host": "evil.example"},
        {"host": "127.0.0.1.evil.example", "origin": "http://127.0.0.1.evil.example"},
    ):
        status, answered, _ = post(INITIALIZE, {**BEARER, **headers})
        assert status == 403, headers
        assert "access-control-allow-origin" not in answered
    status, _, _ = post(INITIALIZE, {**BEARER, "origin": API})
    assert status == 200


@pytest.mark.feature("mcp.security")
def test_a_session_that_is_not_there_and_a_body_that_is_no_message_are_refused():
    assert post(LIST, {**BEARER, "mcp-session-id": "guessed"})[0] == 404
    assert post(b"not json", BEARER)[0] in (400, 415)
    assert post(b" " * (17 << 20), BEARER)[0] == 413


@pytest.mark.feature("mcp.security")
@asynchronous
async def test_output_cannot_write_on_the_terminal_of_a_client():
    async with over_http("auto", name="hostile") as client:
        evil = "\x1b]0;owned\x07\x1b[2J\x1b]52;c;Y3VybA==\x07\x9b31mshown\u202e\U000e0041"
        ran = await client.call_tool("run_code", {"code": f"print({evil!r}); raise Exception({evil!r})"})
        wrote = await client.call_tool("write_file", {"path": "evil\x1b[2J.txt", "content": evil})
        listed = await client.call_tool("list_files", {})
        read = await client.call_tool("read_file", {"path": "evil\x1b[2J.txt"})
        failed = await client.call_tool("read_file", {"path": "none\x1b[2J"})
        for result in (ran, wrote, listed, read, failed):
            said = text(result) + str(result.structured_content)
            assert not any(ord(letter) < 32 and letter not in "\n\t" or 127 <= ord(letter) < 160 for letter in said)
            assert "\u202e" not in said and "\U000e0041" not in said
        assert "shown" in text(ran) and "shown" in text(read)
        await client.call_tool("stop_sandbox", {})


@pytest.mark.feature("mcp.security")
@asynchronous
async def test_a_flood_of_calls_is_answered():
    async with over_http("auto", name="flood") as client:
        await client.call_tool("run_code", {"code": "1"})
        calls = [client.call_tool("run_code", {"code": str(number)}) for number in range(100)]
        answered = await asyncio.gather(*calls)
        right = [number for number, result in enumerate(answered) if text(result) == str(number)]
        refused = [text(result) for result in answered if result.is_error]
        assert len(right) + len(refused) == 100 and len(right) >= 60
        assert all("Wait until one has ended" in refusal for refusal in refused)
        await client.call_tool("stop_sandbox", {})
    assert URL.endswith("/mcp")
