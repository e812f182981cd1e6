"""Terminals."""

import e2b
import pytest

from flavour import eventually
from generation import expect_error

feature = pytest.mark.feature
SIZE = e2b.PtySize(rows=24, cols=80)


@feature("pty.create")
async def test_a_terminal_is_a_login_shell_of_the_user(sdk, sandbox):
    screen = await sdk.terminal(sandbox, SIZE, envs={"SHOWN": "from-envs"}, cwd="/tmp")
    await screen.type('echo "<$SHOWN $PWD $(id -un) $TERM>"\n')
    await screen.expect("<from-envs /tmp user xterm-256color>")
    await screen.type("exit\n")
    assert (await screen.wait()).exit_code == 0


@feature("pty.create")
async def test_a_terminal_has_job_control_and_keys(sdk, sandbox):
    screen = await sdk.terminal(sandbox, SIZE)
    await screen.type("echo =$((6*7))=\n")
    await screen.expect("=42=")
    # It says that it runs, so that the key is not pressed while the shell is still starting it.
    await screen.type("sh -c 'echo =$((7*7))=; exec sleep 60'\n")
    await screen.expect("=49=")
    await screen.type("\x03")
    await screen.type("echo status=$?\n")
    await screen.expect("status=130")
    await screen.type("exit 5\n")
    try:
        await screen.wait()
    except e2b.CommandExitException as error:
        assert error.exit_code == 5
    else:
        raise AssertionError("exit 5 was not reported")


@feature("pty.create")
async def test_a_terminal_of_root_is_root_s(sdk, sandbox):
    screen = await sdk.terminal(sandbox, SIZE, user="root")
    await screen.type("echo =$(id -un)=\n")
    await screen.expect("=root=")
    await sdk.call(sandbox.pty.kill, screen.pid)


@feature("pty.resize")
async def test_the_size_is_the_one_asked_for_and_follows_a_resize(sdk, sandbox):
    screen = await sdk.terminal(sandbox, SIZE)
    await screen.type("echo =$(stty size)=\n")
    await screen.expect("=24 80=")
    await sdk.call(sandbox.pty.resize, screen.pid, e2b.PtySize(rows=40, cols=132))
    await screen.type("echo =$(stty size)= =$(tput cols)=\n")
    await screen.expect("=40 132= =132=")
    await sdk.call(sandbox.pty.kill, screen.pid)


@feature("pty.connect")
@pytest.mark.new_only
async def test_a_terminal_can_be_left_and_joined_again(sdk, sandbox):
    screen = await sdk.terminal(sandbox, SIZE)
    await screen.type("marker=kept; echo =$((6*7))=\n")
    await screen.expect("=42=")
    again = await sdk.reattach(sandbox, screen.pid)
    assert again.pid == screen.pid
    await again.type('echo "=$marker="\n')
    await again.expect("=kept=")
    await screen.expect("=kept=")
    await again.type("exit\n")
    assert (await again.wait()).exit_code == 0


@feature("pty.kill")
async def test_a_killed_terminal_is_gone_and_an_unknown_one_is_false(sdk, sandbox):
    screen = await sdk.terminal(sandbox, SIZE)
    assert await sdk.call(sandbox.pty.kill, screen.pid) is True
    try:
        await screen.wait()
    except e2b.CommandExitException as error:
        assert error.exit_code == -1
    else:
        raise AssertionError("the kill was not reported")

    async def gone():
        return await sdk.call(sandbox.pty.kill, screen.pid) is False

    await eventually(gone, "the end of the terminal")
    assert await sdk.call(sandbox.pty.kill, 999999) is False


@feature("pty.stream_input")
@pytest.mark.new_only
async def test_streamed_keys_reach_the_terminal(sdk, sandbox):
    screen = await sdk.terminal(sandbox, SIZE)
    await sdk.stream_input(sandbox.pty, screen.pid, ["echo =$((6", b"*7))=\n"])
    await screen.expect("=42=")
    await sdk.call(sandbox.pty.kill, screen.pid)


@feature("errors.user")
async def test_a_terminal_for_an_unknown_user_is_refused(sdk, sandbox):
    arguments = {} if sdk.name == "sync" else {"on_data": lambda data: None}
    error = await sdk.error(sandbox.pty.create, SIZE, user="nobody2", **arguments)
    expect_error(error, "AuthenticationException", "invalid username: 'nobody2'")
