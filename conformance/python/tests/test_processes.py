"""Commands in the background, their input, and finding them again."""

import threading

import e2b
import pytest

from flavour import eventually, failure
from generation import by_generation, expect_error

feature = pytest.mark.feature


@feature("commands.background")
async def test_a_background_command_returns_at_once_and_can_be_waited_for(sdk, sandbox):
    seen = []
    running = await sdk.start(sandbox, "sleep 0.3; echo later", on_stdout=seen.append)
    assert running.pid > 0
    result = await running.wait()
    assert (result.stdout, result.exit_code, seen) == ("later\n", 0, ["later\n"])


@feature("commands.background")
async def test_the_pid_is_the_one_inside_the_sandbox(sdk, sandbox):
    running = await sdk.start(sandbox, "sleep 30")
    assert (await sdk.call(sandbox.commands.run, f"kill -0 {running.pid} && echo alive")).stdout == "alive\n"
    await sdk.call(running.handle.kill)


@feature("commands.background")
async def test_waiting_for_a_failing_command_raises(sdk, sandbox):
    running = await sdk.start(sandbox, "echo oops >&2; exit 3")
    error = await sdk.error(running.handle.wait)
    expect_error(error, "CommandExitException", ["code 3", "oops"])


@feature("commands.background")
@pytest.mark.sync_only
async def test_a_handle_can_be_iterated(sdk, sandbox):
    running = await sdk.start(sandbox, "echo one; echo two >&2")
    pieces = await sdk.call(lambda: list(running.handle))
    assert "".join(out for out, _, _ in pieces if out) == "one\n"
    assert "".join(err for _, err, _ in pieces if err) == "two\n"


@feature("commands.background")
@pytest.mark.async_only
async def test_a_handle_shows_what_has_arrived(sdk, sandbox):
    running = await sdk.start(sandbox, "echo early; sleep 0.5; exit 4")
    await eventually(lambda: running.handle.stdout == "early\n", "the early output")
    assert running.handle.exit_code is None
    await sdk.error(running.wait)
    assert running.handle.exit_code == 4


@feature("commands.background")
async def test_a_disconnected_command_goes_on(sdk, sandbox, place):
    running = await sdk.start(sandbox, f"mkdir -p {place}; sleep 0.5; echo finished > {place}/end")
    await sdk.call(running.handle.disconnect)

    async def finished():
        return await sdk.call(sandbox.files.exists, f"{place}/end")

    await eventually(finished, "the file written after the client left")


@feature("commands.kill")
async def test_killing_by_handle_and_by_pid(sdk, sandbox):
    for kill in (lambda running: running.handle.kill, lambda running: lambda: sandbox.commands.kill(running.pid)):
        running = await sdk.start(sandbox, "sleep 60")
        assert await sdk.call(kill(running)) is True
        error = await sdk.error(running.handle.wait)
        expect_error(error, "CommandExitException", "Command exited with code -1")
        assert error.error == "signal: killed"


@feature("commands.kill")
async def test_a_killed_command_ends_although_its_children_live(sdk, sandbox):
    running = await sdk.start(sandbox, "sleep 60 && echo never")
    assert await sdk.call(running.handle.kill) is True
    assert isinstance(await sdk.error(running.handle.wait), e2b.CommandExitException)


@feature("commands.kill")
async def test_killing_an_unknown_pid_is_false(sdk, sandbox):
    assert await sdk.call(sandbox.commands.kill, 999999) is False


@feature("commands.list")
async def test_running_commands_are_listed_with_their_configuration(sdk, sandbox):
    running = await sdk.start(sandbox, "sleep 61", envs={"LISTED": "yes"}, cwd="/tmp")
    (listed,) = [process for process in await sdk.call(sandbox.commands.list) if process.pid == running.pid]
    assert listed.cmd == "/bin/bash"
    assert listed.args == ["-l", "-c", "sleep 61"]
    assert listed.envs == {"LISTED": "yes"}
    assert listed.cwd == "/tmp"
    await sdk.call(running.handle.kill)
    await sdk.error(running.handle.wait)
    assert running.pid not in [process.pid for process in await sdk.call(sandbox.commands.list)]


@feature("commands.connect")
async def test_a_second_client_hears_what_follows_and_the_end(sdk, sandbox):
    running = await sdk.start(sandbox, "read line; echo heard $line; exit 0", stdin=True)
    seen = []
    second = await sdk.attach(sandbox, running.pid, on_stdout=seen.append)
    assert second.pid == running.pid
    await sdk.call(sandbox.commands.send_stdin, running.pid, "hello\n")
    first_result, second_result = await running.wait(), await second.wait()
    assert first_result.stdout == second_result.stdout == "heard hello\n"
    assert "".join(seen) == "heard hello\n"


@feature("commands.connect")
async def test_a_client_that_left_can_come_back(sdk, sandbox):
    running = await sdk.start(sandbox, "read line; echo again $line", stdin=True)
    await sdk.call(running.handle.disconnect)
    back = await sdk.attach(sandbox, running.pid)
    await sdk.call(sandbox.commands.send_stdin, running.pid, "there\n")
    assert (await back.wait()).stdout == "again there\n"


@feature("commands.connect")
async def test_a_command_that_just_ended_still_tells_its_end(sdk, sandbox):
    running = await sdk.start(sandbox, "exit 7")
    await sdk.error(running.handle.wait)
    late = await sdk.attach(sandbox, running.pid)
    error = await sdk.error(late.handle.wait)
    expect_error(error, "CommandExitException", "code 7")


@feature("commands.connect")
async def test_an_unknown_pid_is_named(sdk, sandbox):
    error = await sdk.error(sandbox.commands.connect, 999999)
    expect_error(error, "NotFoundException", "process with pid 999999 not found")


@feature("commands.stdin")
async def test_text_sent_is_read_by_the_command(sdk, sandbox):
    running = await sdk.start(sandbox, "read first; read second; echo \"$second $first\"", stdin=True)
    await sdk.call(sandbox.commands.send_stdin, running.pid, "naïve 'quoted'\n")
    await sdk.call(sandbox.commands.send_stdin, running.pid, "日本\n")
    assert (await running.wait()).stdout == "日本 naïve 'quoted'\n"


@feature("commands.stdin")
@pytest.mark.new_only
async def test_bytes_and_the_handle_s_own_method_work_too(sdk, sandbox):
    running = await sdk.start(sandbox, "head -c 4 | od -An -tx1", stdin=True)
    await sdk.call(running.handle.send_stdin, b"\x00\xff")
    await sdk.call(sandbox.commands.send_stdin, running.pid, b"\x01\n")
    assert (await running.wait()).stdout.split() == ["00", "ff", "01", "0a"]


@feature("commands.stdin")
async def test_empty_input_is_fine(sdk, sandbox):
    running = await sdk.start(sandbox, "read line; echo got $line", stdin=True)
    await sdk.call(sandbox.commands.send_stdin, running.pid, "")
    await sdk.call(sandbox.commands.send_stdin, running.pid, "it\n")
    assert (await running.wait()).stdout == "got it\n"


@feature("commands.stdin")
async def test_without_stdin_a_command_reads_its_end_at_once(sdk, sandbox):
    result = await sdk.call(sandbox.commands.run, "cat; echo end", timeout=10)
    assert result.stdout == "end\n"


@feature("commands.stdin")
async def test_input_for_a_command_started_without_stdin_is_refused(sdk, sandbox):
    running = await sdk.start(sandbox, "sleep 30")
    error = await sdk.error(sandbox.commands.send_stdin, running.pid, "hello")
    assert type(error).__name__ == "SandboxException", error
    await sdk.call(running.handle.kill)


@feature("commands.stdin")
async def test_input_for_an_unknown_pid_is_refused(sdk, sandbox):
    error = await sdk.error(sandbox.commands.send_stdin, 999999, "hello")
    expect_error(error, "NotFoundException", "process with pid 999999 not found")


@feature("commands.stdin")
async def test_a_megabyte_of_input_arrives_complete(sdk, sandbox):
    running = await sdk.start(sandbox, "head -c 1048577 | wc -c", stdin=True)
    for _ in range(16):
        await sdk.call(sandbox.commands.send_stdin, running.pid, "x" * 65536)
    await sdk.call(sandbox.commands.send_stdin, running.pid, "\n")
    assert (await running.wait()).stdout == "1048577\n"


@feature("commands.close_stdin")
@pytest.mark.new_only
async def test_closing_stdin_ends_a_reader(sdk, sandbox):
    running = await sdk.start(sandbox, "cat", stdin=True)
    await sdk.call(sandbox.commands.send_stdin, running.pid, "all of it")
    await sdk.call(sandbox.commands.close_stdin, running.pid)
    assert (await running.wait()).stdout == "all of it"
    second = await sdk.start(sandbox, "wc -c", stdin=True)
    await sdk.call(second.handle.close_stdin)
    assert (await second.wait()).stdout == "0\n"


@feature("commands.stream_input")
@pytest.mark.new_only
async def test_a_stream_of_input_arrives_in_order_and_leaves_stdin_open(sdk, sandbox):
    running = await sdk.start(sandbox, "cat", stdin=True)
    chunks = [f"{number}\n" for number in range(200)] + [b"\xc3\xa9\n"]
    await sdk.stream_input(sandbox.commands, running.pid, chunks)
    await sdk.call(sandbox.commands.send_stdin, running.pid, "after\n")
    await sdk.call(sandbox.commands.close_stdin, running.pid)
    expected = "".join(f"{number}\n" for number in range(200)) + "é\nafter\n"
    assert (await running.wait()).stdout == expected


@feature("commands.stream_input")
@pytest.mark.new_only
async def test_each_message_is_delivered_before_the_stream_ends(sdk, sandbox, place):
    running = await sdk.start(sandbox, f"mkdir {place}; read line; echo $line > {place}/line", stdin=True)

    async def delivered():
        return await sdk.call(sandbox.files.exists, f"{place}/line")

    if sdk.name == "async":
        stream = sandbox.commands.stream_input(running.pid)
        await stream.send("first\n")
        await eventually(delivered, "the first message, while the stream was open,")
        await stream.close()
    else:
        may_end = threading.Event()

        def chunks():
            yield "first\n"
            may_end.wait(20)

        sending = sdk.begin(sandbox.commands.stream_input, running.pid, chunks())
        await eventually(delivered, "the first message, while the stream was open,")
        may_end.set()
        await sending
    await running.wait()


@feature("commands.stream_input")
@pytest.mark.new_only
async def test_streaming_to_an_unknown_pid_is_refused(sdk, sandbox):
    error = await failure(sdk.stream_input(sandbox.commands, 999999, ["hello\n"]))
    expect_error(error, "NotFoundException", "999999")


@feature("errors.killed")
async def test_killing_the_sandbox_ends_a_running_command_with_a_clear_error(sdk, fresh):
    sandbox = await fresh()
    running = await sdk.start(sandbox, "sleep 60", timeout=0)
    waiting = sdk.begin(running.handle.wait)
    await sdk.call(sandbox.kill)
    error = await failure(waiting)
    expect_error(
        error,
        new="SandboxNotRunningException",
        year="TimeoutException",
        says=by_generation("The sandbox was killed or reached its end of life", "likely due to sandbox timeout"),
    )


@feature("errors.killed")
async def test_a_command_on_a_killed_sandbox_says_that_it_is_gone(sdk, fresh):
    sandbox = await fresh()
    await sdk.call(sandbox.kill)
    error = await sdk.error(sandbox.commands.run, "echo hello")
    expect_error(
        error,
        new="SandboxNotRunningException",
        year="TimeoutException",
        says=["The sandbox was not found: it ended", "UTC: killed", "sandbox timeout"],
    )


@feature("errors.killed")
async def test_a_file_of_a_killed_sandbox_says_that_it_is_gone(sdk, fresh):
    sandbox = await fresh()
    await sdk.call(sandbox.kill)
    error = await sdk.error(sandbox.files.read, "/etc/hostname")
    expect_error(
        error,
        new="SandboxNotRunningException",
        year="TimeoutException",
        says=["The sandbox was not found: it ended", "UTC: killed"],
    )
