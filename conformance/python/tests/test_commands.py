"""Running commands to their end."""

import pytest

from flavour import eventually
from generation import by_generation, expect_error

feature = pytest.mark.feature


@feature("commands.run")
async def test_a_command_gives_its_output_and_exit_code(sdk, sandbox):
    result = await sdk.call(sandbox.commands.run, "echo out; echo err >&2")
    assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "err\n", 0)
    assert result.error == by_generation(new=None, year="")


@feature("commands.run")
async def test_quotes_newlines_and_unicode_pass_unchanged(sdk, sandbox):
    text = "it's \"quoted\" $HOME `date`\n\ttab — naïve 日本語 🐝"
    script = "cat <<'END'\n" + text + "\nEND"
    assert (await sdk.call(sandbox.commands.run, script)).stdout == text + "\n"


@feature("commands.run")
async def test_a_command_without_output_gives_empty_strings(sdk, sandbox):
    result = await sdk.call(sandbox.commands.run, "true")
    assert (result.stdout, result.stderr, result.exit_code) == ("", "", 0)


@feature("commands.run")
@pytest.mark.parametrize("code", [1, 2, 127, 255])
async def test_a_non_zero_exit_raises_with_everything_the_command_said(sdk, sandbox, code):
    error = await sdk.error(sandbox.commands.run, f"echo out; echo err >&2; exit {code}")
    expect_error(error, "CommandExitException", [f"Command exited with code {code}", "err"])
    assert (error.exit_code, error.stdout, error.stderr) == (code, "out\n", "err\n")
    assert error.error == f"exit status {code}"


@feature("commands.run")
async def test_an_unknown_program_is_the_shell_s_127(sdk, sandbox):
    error = await sdk.error(sandbox.commands.run, "no-such-program")
    expect_error(error, "CommandExitException", ["127", "no-such-program: command not found"])


@feature("commands.run")
async def test_a_command_that_kills_itself_reports_the_signal(sdk, sandbox):
    error = await sdk.error(sandbox.commands.run, "kill -9 $$")
    expect_error(error, "CommandExitException", "Command exited with code -1")
    assert error.error == "signal: killed"


@feature("commands.run")
async def test_a_command_is_no_leader_so_setsid_hands_its_exit_code_on(sdk, sandbox):
    error = await sdk.error(sandbox.commands.run, "setsid sh -c 'exit 3'")
    expect_error(error, "CommandExitException", "Command exited with code 3")


@feature("commands.run")
async def test_a_signal_to_its_own_group_ends_a_command_and_nothing_else(sdk, sandbox):
    other = await sdk.call(sandbox.commands.run, "sleep 60", background=True)
    error = await sdk.error(sandbox.commands.run, "sleep 60 & kill -TERM 0; sleep 60")
    assert error.error == "signal: terminated"
    assert await sdk.call(other.kill)


@feature("commands.run")
async def test_a_child_left_behind_with_its_own_output_does_not_delay_the_end(sdk, sandbox):
    result = await sdk.call(sandbox.commands.run, "sleep 30 >/dev/null 2>&1 & echo done", timeout=10)
    assert result.stdout == "done\n"


@feature("commands.output")
async def test_callbacks_see_the_output_in_order_and_as_it_comes(sdk, sandbox):
    out, err = [], []
    result = await sdk.call(
        sandbox.commands.run,
        "for i in 1 2 3; do echo out$i; echo err$i >&2; sleep 0.1; done",
        on_stdout=out.append,
        on_stderr=err.append,
    )
    assert "".join(out) == result.stdout == "out1\nout2\nout3\n"
    assert "".join(err) == result.stderr == "err1\nerr2\nerr3\n"
    assert len(out) > 1


@feature("commands.output")
async def test_bytes_that_are_not_utf_8_become_replacement_characters(sdk, sandbox):
    result = await sdk.call(sandbox.commands.run, r"printf 'a\xff\xfeb'")
    assert result.stdout == "a��b"


@feature("commands.output")
@pytest.mark.new_only
async def test_characters_split_between_writes_arrive_whole(sdk, sandbox):
    script = r"""python3 -c "
import sys, time
for byte in '日本🐝'.encode():
    sys.stdout.buffer.write(bytes([byte])); sys.stdout.buffer.flush(); time.sleep(0.02)
" """
    assert (await sdk.call(sandbox.commands.run, script)).stdout == "日本🐝"


@feature("commands.output")
@pytest.mark.deadline(90)
async def test_sixteen_megabytes_arrive_complete(sdk, sandbox):
    size = 16 << 20
    result = await sdk.call(sandbox.commands.run, f"head -c {size} /dev/zero | tr '\\0' x")
    assert len(result.stdout) == size
    assert set(result.stdout) == {"x"}


@feature("commands.output")
async def test_many_short_lines_arrive_complete_and_in_order(sdk, sandbox):
    result = await sdk.call(sandbox.commands.run, "seq 1 50000")
    assert result.stdout == "".join(f"{number}\n" for number in range(1, 50001))


@feature("commands.output")
@pytest.mark.new_only
async def test_output_need_not_be_kept(sdk, sandbox):
    seen = []
    result = await sdk.call(sandbox.commands.run, "echo heard", on_stdout=seen.append, retain_output=False)
    assert (result.stdout, result.stderr, seen) == (None, None, ["heard\n"])


@feature("commands.environment")
async def test_envs_of_a_command_are_seen_by_it_and_by_no_later_one(sdk, sandbox):
    value = "a 'b' \"c\" $D\nsecond line"
    result = await sdk.call(sandbox.commands.run, 'printf "%s" "$VALUE"', envs={"VALUE": value})
    assert result.stdout == value
    assert (await sdk.call(sandbox.commands.run, 'echo "[$VALUE]"')).stdout == "[]\n"


@feature("commands.environment")
async def test_envs_of_a_command_win_over_those_of_the_sandbox(sdk, fresh):
    sandbox = await fresh(envs={"COLOUR": "blue", "SHAPE": "round"})
    result = await sdk.call(sandbox.commands.run, 'echo "$COLOUR $SHAPE"', envs={"COLOUR": "red"})
    assert result.stdout == "red round\n"
    assert (await sdk.call(sandbox.commands.run, 'echo "$COLOUR $SHAPE"', user="root")).stdout == "blue round\n"


@feature("commands.environment")
async def test_the_default_user_is_user_in_its_home(sdk, sandbox):
    result = await sdk.call(sandbox.commands.run, 'id -un; id -u; pwd; echo "$HOME $USER"')
    assert result.stdout == "user\n1000\n/home/user\n/home/user user\n"


@feature("commands.environment")
async def test_root_is_root_in_its_home(sdk, sandbox):
    result = await sdk.call(sandbox.commands.run, 'id -un; id -u; pwd; echo "$HOME $USER"', user="root")
    assert result.stdout == "root\n0\n/root\n/root root\n"


@feature("commands.environment")
@pytest.mark.parametrize("asked, seen", [("/tmp", "/tmp"), ("~", "/home/user"), ("nested", "/home/user/nested")])
async def test_the_working_directory_is_absolute_or_below_home(sdk, sandbox, asked, seen):
    await sdk.call(sandbox.files.make_dir, "/home/user/nested")
    assert (await sdk.call(sandbox.commands.run, "pwd", cwd=asked)).stdout == f"{seen}\n"


@feature("errors.cwd")
async def test_a_missing_working_directory_is_named(sdk, sandbox):
    error = await sdk.error(sandbox.commands.run, "pwd", cwd="/no/such/place")
    expect_error(error, "InvalidArgumentException", "cwd '/no/such/place' does not exist")


@feature("errors.user")
async def test_an_unknown_user_is_named(sdk, sandbox):
    error = await sdk.error(sandbox.commands.run, "whoami", user="nobody2")
    expect_error(error, "AuthenticationException", "invalid username: 'nobody2'")


@feature("commands.timeout")
async def test_a_command_over_its_time_is_killed_and_reported(sdk, sandbox, place):
    error = await sdk.error(
        sandbox.commands.run, f"mkdir -p {place}; echo $$ > {place}/pid; exec sleep 60", timeout=1
    )
    expect_error(error, "TimeoutException", "This error is likely due to exceeding 'timeout'")
    pid = (await sdk.call(sandbox.files.read, f"{place}/pid")).strip()

    async def gone():
        found = await sdk.call(sandbox.commands.run, f"test -d /proc/{pid} && echo there || echo gone")
        return found.stdout == "gone\n"

    await eventually(gone, "the end of the process")


@feature("commands.timeout")
async def test_a_command_within_its_time_is_left_alone(sdk, sandbox):
    assert (await sdk.call(sandbox.commands.run, "sleep 0.5; echo ok", timeout=10)).stdout == "ok\n"


@feature("commands.timeout")
async def test_zero_means_no_limit(sdk, sandbox):
    assert (await sdk.call(sandbox.commands.run, "sleep 0.5; echo ok", timeout=0)).stdout == "ok\n"
