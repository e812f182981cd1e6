"""The life of a sandbox: create, connect, info, deadline, end."""

import datetime
import os
import re

import e2b
import pytest

from flavour import eventually
feature = pytest.mark.feature


@feature("sandbox.create")
async def test_a_sandbox_made_with_no_options_runs_the_base_template(sdk, fresh):
    sandbox = await fresh()
    info = await sdk.call(sandbox.get_info)
    assert info.name == "base"
    assert info.metadata == {}
    assert info.state == e2b.SandboxState.RUNNING


@feature("sandbox.create")
async def test_the_default_timeout_is_five_minutes(sdk, fresh):
    sandbox = await fresh(timeout=None)
    info = await sdk.call(sandbox.get_info)
    assert (info.end_at - info.started_at).total_seconds() == pytest.approx(300, abs=2)


@feature("sandbox.create")
async def test_template_metadata_envs_and_timeout_take_effect(sdk, fresh, tag):
    sandbox = await fresh(
        template="base", timeout=77, metadata={"tag": tag, "naïve key": "välue & more"}, envs={"GREETING": "hello 'world'"}
    )
    info = await sdk.call(sandbox.get_info)
    assert info.metadata == {"tag": tag, "naïve key": "välue & more"}
    assert (info.end_at - info.started_at).total_seconds() == pytest.approx(77, abs=2)
    result = await sdk.call(sandbox.commands.run, 'printf "%s" "$GREETING"')
    assert result.stdout == "hello 'world'"


@feature("sandbox.create")
async def test_sandboxes_do_not_see_each_other_s_files(sdk, fresh):
    first, second = await fresh(), await fresh()
    assert first.sandbox_id != second.sandbox_id
    await sdk.call(first.files.write, "mine.txt", "mine")
    assert not await sdk.call(second.files.exists, "mine.txt")


@feature("sandbox.create")
async def test_the_sandbox_knows_its_own_id(sdk, sandbox):
    result = await sdk.call(sandbox.commands.run, 'echo "$E2B_SANDBOX $E2B_SANDBOX_ID"')
    assert result.stdout == f"true {sandbox.sandbox_id}\n"


@feature("sandbox.create")
async def test_a_sandbox_asked_to_be_insecure_still_works(sdk, fresh):
    sandbox = await fresh(secure=False)
    assert (await sdk.call(sandbox.commands.run, "echo open")).stdout == "open\n"
    await sdk.call(sandbox.files.write, "note.txt", "open")
    assert await sdk.call(sandbox.files.read, "note.txt") == "open"


@feature("sandbox.retry")
@pytest.mark.new_only
async def test_the_same_idempotency_key_gives_the_same_sandbox(sdk, fresh, tag):
    first = await fresh(idempotency_key=tag)
    second = await fresh(idempotency_key=tag)
    assert first.sandbox_id == second.sandbox_id


@feature("sandbox.retry")
@pytest.mark.new_only
async def test_an_idempotency_key_used_for_another_request_is_refused(sdk, fresh, tag):
    await fresh(idempotency_key=tag)
    error = await sdk.error(sdk.Sandbox.create, idempotency_key=tag, metadata={"other": "request"})
    assert type(error).__name__ == "SandboxException"
    assert error.status_code == 409


@feature("sandbox.connect")
async def test_connecting_by_id_reaches_the_same_sandbox(sdk, sandbox, place):
    await sdk.call(sandbox.files.write, f"{place}/a.txt", "written before")
    again = await sdk.call(sdk.Sandbox.connect, sandbox.sandbox_id)
    assert again.sandbox_id == sandbox.sandbox_id
    assert await sdk.call(again.files.read, f"{place}/a.txt") == "written before"


@feature("sandbox.connect")
async def test_connecting_again_on_an_instance_keeps_it_usable(sdk, sandbox):
    same = await sdk.call(sandbox.connect, timeout=100)
    assert same.sandbox_id == sandbox.sandbox_id
    assert (await sdk.call(same.commands.run, "echo again")).stdout == "again\n"


@feature("sandbox.connect")
async def test_connecting_never_shortens_the_life_of_a_sandbox(sdk, fresh):
    sandbox = await fresh(timeout=200)
    before = (await sdk.call(sandbox.get_info)).end_at
    await sdk.call(sdk.Sandbox.connect, sandbox.sandbox_id, timeout=20)
    assert (await sdk.call(sandbox.get_info)).end_at == before


@feature("sandbox.connect")
async def test_connecting_extends_the_life_of_a_sandbox(sdk, fresh):
    sandbox = await fresh(timeout=30)
    before = (await sdk.call(sandbox.get_info)).end_at
    await sdk.call(sdk.Sandbox.connect, sandbox.sandbox_id, timeout=200)
    after = (await sdk.call(sandbox.get_info)).end_at
    assert (after - before).total_seconds() == pytest.approx(170, abs=5)


@feature("sandbox.kill")
async def test_killing_twice_says_true_then_false(sdk, fresh):
    sandbox = await fresh()
    assert await sdk.call(sandbox.kill) is True
    assert await sdk.call(sandbox.kill) is False


@feature("sandbox.kill")
async def test_killing_by_id_works_and_an_unknown_id_is_false(sdk, fresh):
    sandbox = await fresh()
    assert await sdk.call(sdk.Sandbox.kill, sandbox.sandbox_id) is True
    assert await sdk.call(sdk.Sandbox.kill, sandbox.sandbox_id) is False
    assert await sdk.call(sdk.Sandbox.kill, "nonexistingsandbox") is False


@feature("sandbox.kill")
async def test_a_killed_sandbox_is_gone_when_the_call_returns(sdk, fresh, tag):
    sandbox = await fresh(metadata={"tag": tag})
    await sdk.call(sandbox.kill)
    assert not await sdk.call(sandbox.is_running)
    assert await sdk.every(sdk.Sandbox.list(query=e2b.SandboxQuery(metadata={"tag": tag}))) == []


@feature("sandbox.info")
async def test_info_by_id_and_by_instance_agree(sdk, sandbox):
    mine = await sdk.call(sandbox.get_info)
    by_id = await sdk.call(sdk.Sandbox.get_info, sandbox.sandbox_id)
    assert mine == by_id
    assert mine.sandbox_id == sandbox.sandbox_id
    assert mine.template_id
    assert mine.cpu_count > 0
    assert mine.memory_mb > 0
    assert mine.envd_version
    now = datetime.datetime.now(datetime.timezone.utc)
    assert mine.started_at <= now < mine.end_at


@feature("sandbox.info")
@pytest.mark.new_only
async def test_info_tells_what_happens_at_the_deadline(sdk, sandbox):
    info = await sdk.call(sandbox.get_info)
    assert info.lifecycle == {"on_timeout": "kill", "auto_resume": False}
    assert info.volume_mounts == []


@feature("sandbox.timeout")
async def test_set_timeout_moves_the_deadline_both_ways(sdk, fresh):
    sandbox = await fresh(timeout=60)
    await sdk.call(sandbox.set_timeout, 200)
    longer = await sdk.call(sandbox.get_info)
    assert (longer.end_at - longer.started_at).total_seconds() == pytest.approx(200, abs=5)
    await sdk.call(sdk.Sandbox.set_timeout, sandbox.sandbox_id, 30)
    shorter = await sdk.call(sandbox.get_info)
    assert (shorter.end_at - shorter.started_at).total_seconds() == pytest.approx(30, abs=5)


@feature("sandbox.timeout")
async def test_a_sandbox_dies_at_its_deadline_and_not_before(sdk, fresh):
    sandbox = await fresh(timeout=60)
    await sdk.call(sandbox.set_timeout, 3)
    end = (await sdk.call(sandbox.get_info)).end_at

    async def gone():
        return not await sdk.call(sandbox.is_running)

    await eventually(gone, "the end of the sandbox", 8)
    late = (datetime.datetime.now(datetime.timezone.utc) - end).total_seconds()
    assert 0 <= late < 1.5


@feature("sandbox.running")
async def test_a_living_sandbox_is_running_and_a_killed_one_is_not(sdk, fresh):
    sandbox = await fresh()
    assert await sdk.call(sandbox.is_running) is True
    await sdk.call(sandbox.kill)
    assert await sdk.call(sandbox.is_running) is False


@feature("sandbox.scope")
async def test_leaving_the_context_kills_the_sandbox(sdk):
    sandbox, result = await sdk.scoped(lambda sandbox: sandbox.commands.run("echo inside"), timeout=60)
    assert result.stdout == "inside\n"
    assert not await sdk.call(sandbox.is_running)


@feature("sandbox.client")
@pytest.mark.new_only
async def test_a_client_object_carries_its_options_to_its_sandboxes(sdk):
    client = e2b.E2B(api_key=os.environ["E2B_API_KEY"])
    bound = client.Sandbox if sdk.name == "sync" else client.AsyncSandbox
    sandbox = await sdk.call(bound.create, timeout=60)
    try:
        assert (await sdk.call(sandbox.commands.run, "echo bound")).stdout == "bound\n"
    finally:
        assert await sdk.call(sandbox.kill) is True


@feature("sandbox.info")
async def test_an_instance_names_its_id_and_its_domain(sdk, sandbox):
    assert sandbox.sandbox_id.startswith("i")
    assert sandbox.sandbox_domain
    # What the SDKs say themselves when a server names none.
    assert "e2b." not in sandbox.sandbox_domain
    # It opens contexts; it does not say that ports are closed.
    assert re.fullmatch("[0-9a-f]{64}", sandbox.traffic_access_token)
    assert sandbox.get_host(3000) == f"3000-{sandbox.sandbox_id}.{sandbox.sandbox_domain}"
