"""What a user reads when something about the request is wrong."""

import pytest

import web
from flavour import in_thread
from generation import NEW, expect_error

feature = pytest.mark.feature
WRONG_KEY = "e2b_" + "0" * 40


@feature("errors.key")
async def test_a_wrong_key_is_refused_everywhere(sdk, sandbox):
    calls = [
        (sdk.Sandbox.create, []),
        (sdk.Sandbox.connect, [sandbox.sandbox_id]),
        (sdk.Sandbox.get_info, [sandbox.sandbox_id]),
        (sdk.Sandbox.kill, [sandbox.sandbox_id]),
        (sdk.Sandbox.set_timeout, [sandbox.sandbox_id, 10]),
        (sdk.Sandbox.list(api_key=WRONG_KEY).next_items, []),
    ]
    for function, arguments in calls:
        options = {} if function.__name__ == "next_items" else {"api_key": WRONG_KEY}
        error = await sdk.error(function, *arguments, **options)
        expect_error(error, "AuthenticationException", ["401", "Unauthorized", "Invalid API key"])
    assert await sdk.call(sandbox.is_running)


@feature("errors.key")
async def test_a_missing_key_is_told_before_any_request(sdk, monkeypatch):
    monkeypatch.delenv("E2B_API_KEY")
    error = await sdk.error(sdk.Sandbox.create)
    expect_error(error, "AuthenticationException", "API key is required")


@feature("errors.key")
@pytest.mark.once
async def test_the_refusal_is_json_with_code_and_message(sdk):
    for key in ("", "invalid-api-key", WRONG_KEY):
        for method, path in [("GET", "/v2/sandboxes"), ("POST", "/sandboxes"), ("PUT", "/sandboxes/nosuch/network")]:
            answer = await in_thread(web.api, method, path, {} if method != "GET" else None, key)
            assert answer.status == 401
            assert answer.headers["content-type"].startswith("application/json")
            assert answer.json["code"] == 401 and answer.json["message"]


@feature("errors.template")
async def test_an_unknown_template_is_named(sdk):
    error = await sdk.error(sdk.Sandbox.create, template="no-such-template")
    expect_error(error, "SandboxException", "404: template 'no-such-template' not found")
    if NEW:
        assert error.status_code == 404


@feature("errors.template")
async def test_an_unknown_tag_is_named(sdk):
    error = await sdk.error(sdk.Sandbox.create, template="base:no-such-tag")
    expect_error(error, "SandboxException", "404: tag 'no-such-tag' does not exist for template 'base'")


@feature("errors.sandbox")
@pytest.mark.parametrize("sandbox_id", ["nonexistingsandbox", "i00000000000000000000", "non-existing"])
async def test_an_unknown_sandbox_is_named(sdk, sandbox_id):
    calls = [
        (sdk.Sandbox.connect, [], f"Paused sandbox {sandbox_id} not found"),
        (sdk.Sandbox.get_info, [], f"Sandbox {sandbox_id} not found"),
        (sdk.Sandbox.set_timeout, [10], f"andbox {sandbox_id} not found"),
    ]
    for function, arguments, says in calls:
        error = await sdk.error(function, sandbox_id, *arguments)
        expect_error(error, new="SandboxNotFoundException", year="NotFoundException", says=says)


@feature("errors.sandbox")
async def test_a_killed_sandbox_cannot_be_connected_to(sdk, fresh):
    sandbox = await fresh()
    await sdk.call(sandbox.kill)
    error = await sdk.error(sdk.Sandbox.connect, sandbox.sandbox_id)
    expect_error(error, new="SandboxNotFoundException", year="NotFoundException", says=sandbox.sandbox_id)
    error = await sdk.error(sandbox.get_info)
    expect_error(error, new="SandboxNotFoundException", year="NotFoundException", says=sandbox.sandbox_id)


@feature("errors.sandbox")
async def test_a_malformed_id_is_refused(sdk):
    error = await sdk.error(sdk.Sandbox.get_info, "two-many-dashes")
    expect_error(error, "SandboxException", ["400", "Invalid sandbox ID"])


@feature("sandbox.timeout")
# The year-old SDK takes 0 for "not given".
@pytest.mark.parametrize("seconds", [pytest.param(0, marks=pytest.mark.new_only), -5])
async def test_a_timeout_that_is_no_time_is_refused(sdk, seconds):
    error = await sdk.error(sdk.Sandbox.create, timeout=seconds)
    expect_error(error, "SandboxException", "400: ")


@feature("sandbox.timeout")
async def test_a_timeout_beyond_the_limit_is_refused_before_the_sandbox_is_looked_up(sdk):
    error = await sdk.error(sdk.Sandbox.connect, "nonexistingsandbox", timeout=60 * 60 * 24 * 365)
    expect_error(error, "SandboxException", ["400", "Timeout cannot be greater than"])


@feature("errors.sandbox")
@pytest.mark.once
async def test_a_running_sandbox_cannot_be_resumed(sdk, sandbox):
    answer = await in_thread(web.api, "POST", f"/sandboxes/{sandbox.sandbox_id}/resume", {"timeout": 60})
    assert (answer.status, answer.json["code"]) == (409, 409)
    assert f"Sandbox {sandbox.sandbox_id} is already running" in answer.json["message"]


# Reserves what is left without writing it, so that filling a disk costs nothing on the host.
FILL = "fallocate -l $(df --output=avail -B1 / | tail -1) /fill; while fallocate -l 64K /more.$((number++)); do :; done"


@feature("errors.disk")
async def test_a_full_disk_is_told_and_heals_when_there_is_room_again(sdk, fresh):
    sandbox = await fresh()
    await sdk.call(sandbox.commands.run, f"({FILL}) 2>/dev/null; true", user="root")
    error = await sdk.error(sandbox.files.write, "big.txt", "x" * 2_000_000)
    expect_error(error, "NotEnoughSpaceException", "not enough disk space available")
    await sdk.call(sandbox.commands.run, "rm -f /fill /more.*", user="root")
    await sdk.call(sandbox.files.write, "big.txt", "x" * 2_000_000)
    assert (await sdk.call(sandbox.files.get_info, "big.txt")).size == 2_000_000
