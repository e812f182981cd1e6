"""Start and ready commands: when they run, and what they run in."""

import traceback

import e2b
import pytest

import interpreters
import web
from flavour import in_thread
from templates import blank, build, builder, name, output, refusal

feature = pytest.mark.feature


@feature("builds.start")
async def test_create_answers_when_the_start_command_is_ready(sdk, builder, name):
    template = (
        blank(builder)
        .from_template("base")
        .set_envs({"COLOUR": "green"})
        .set_workdir("/srv")
        .set_start_cmd("echo started $COLOUR in $PWD; python3 -m http.server 8000", e2b.wait_for_port(8000))
    )
    lines = await build(sdk, builder, template, name)
    expected = ["Running start command: echo", "[start] [stdout]: started green in /srv", "Template is ready"]
    found = [next(number for number, line in enumerate(lines) if line.startswith(words)) for words in expected]
    assert found == sorted(found), lines
    assert any(line.startswith("Waiting for template to be ready: ") for line in lines)
    sandbox = await sdk.call(sdk.Sandbox.create, name, timeout=60)
    try:
        ask = "curl -s -o /dev/null -w %{http_code} localhost:8000"
        assert (await sdk.call(sandbox.commands.run, ask)).stdout == "200"
        if hasattr(sandbox, "pause"):
            await sleep_and_wake(sdk, sandbox)
            assert (await sdk.call(sandbox.commands.run, ask)).stdout == "200"
    finally:
        await sdk.call(sandbox.kill)


async def sleep_and_wake(sdk, sandbox):
    """Lets a sandbox sleep without its memory, and wakes it: the start command runs again."""
    answer = await in_thread(web.api, "POST", f"/sandboxes/{sandbox.sandbox_id}/pause", {"memory": False})
    assert answer.status == 204, answer
    await sdk.call(sandbox.connect)


@feature("builds.start")
@pytest.mark.once
@pytest.mark.parametrize(
    "command, ready",
    [
        ("sudo python3 -m http.server 80", e2b.wait_for_url("http://localhost:80/")),
        ("sleep 0.5; touch /tmp/ready; sleep 1000", e2b.wait_for_file("/tmp/ready")),
        ("sleep 1000", e2b.wait_for_process("sleep")),
        ("sleep 1000", e2b.wait_for_timeout(1000)),
    ],
    ids=["url", "file", "process", "timeout"],
)
async def test_every_helper_waits(sdk, builder, name, command, ready):
    await build(sdk, builder, blank(builder).from_template("base").set_start_cmd(command, ready), name)
    # It would raise if it did not hold.
    await output(sdk, name, ready.get_cmd())


@feature("builds.start")
async def test_a_template_on_a_template_has_its_commands_or_its_own(sdk, builder, name):
    parent = blank(builder).from_template("base").set_workdir("/srv").set_start_cmd("pwd > /tmp/at; sleep 1000", e2b.wait_for_file("/tmp/at"))
    await build(sdk, builder, parent, name)
    try:
        await build(sdk, builder, blank(builder).from_template(name).set_workdir("/opt"), f"{name}-child")
        assert await output(sdk, f"{name}-child", "cat /tmp/at; pgrep -c sleep; pwd") == "/srv\n1\n/opt\n"
        alone = blank(builder).from_template(name).set_ready_cmd("true")
        await build(sdk, builder, alone, f"{name}-child")
        assert await output(sdk, f"{name}-child", "pgrep -c sleep || true") == "0\n"
    finally:
        await in_thread(web.api, "DELETE", f"/templates/{name}-child", None)


@feature("builds.start")
@pytest.mark.once
@pytest.mark.deadline(300)
async def test_a_template_with_an_interpreter_of_its_own_has_ours(sdk, builder, name):
    """As the vendor's template of the interpreter ends: its server is a unit of systemd's, and sandboxes have none."""
    template = (
        blank(builder)
        .from_template("base")
        .pip_install("ipykernel")
        .set_start_cmd("sudo systemctl start jupyter", e2b.wait_for_url("http://localhost:49999/health"))
    )
    lines = await build(sdk, builder, template, name)
    says = "The template has no start command: start command failed: error running start command: exit status 1"
    assert any(line.startswith(says) for line in lines), lines
    assert "Template is ready" in lines
    sandbox = await sdk.call(interpreters.INTERPRETERS[sdk.name].create, name, timeout=60)
    try:
        assert (await sdk.call(sandbox.run_code, "6 * 7")).text == "42"
    finally:
        await sdk.call(sandbox.kill)


@feature("builds.start")
async def test_a_start_command_that_fails_is_the_callers_own_line(sdk, builder, name):
    template = blank(builder).from_template("base").run_cmd("true")
    template = template.set_start_cmd("exit 3", e2b.wait_for_timeout(5000))  # the line
    error = await refusal(sdk, builder, template, name)
    assert str(error) == "start command failed: error running start command: exit status 3"
    frames = traceback.extract_tb(error.__traceback__)
    assert any("# the line" in (frame.line or "") for frame in frames), frames
