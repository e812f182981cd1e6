"""The `sandbox` commands."""

import json
import os
import re
import time

import e2b
import pytest

from terminal import Terminal

feature = pytest.mark.feature


@feature("cli.list")
def test_the_list_as_json_has_the_sandbox(cli, sandbox, tag):
    done = cli("sandbox", "list", "--format", "json")
    assert done.code == 0, done.err
    (listed,) = [item for item in done.json if item["sandboxId"] == sandbox.sandbox_id]
    assert listed["metadata"] == {"tag": tag}
    assert listed["state"] == "running"


@feature("cli.list")
def test_the_list_is_a_table_for_people(cli, sandbox, tag):
    done = cli("sandbox", "list", "--metadata", f"tag={tag}")
    assert done.code == 0, done.err
    assert sandbox.sandbox_id in done.text and "base" in done.text


@feature("cli.list")
def test_a_filter_that_matches_nothing_lists_nothing(cli, sandbox):
    done = cli("sandbox", "list", "--metadata", "tag=no-such-tag", "--format", "json")
    assert done.code == 0, done.err
    assert sandbox.sandbox_id not in done.text


@feature("cli.info")
@pytest.mark.new_only
def test_info_shows_the_sandbox(cli, sandbox, tag):
    done = cli("sandbox", "info", sandbox.sandbox_id, "--format", "json")
    assert done.code == 0, done.err
    assert done.json["sandboxId"] == sandbox.sandbox_id
    assert done.json["metadata"] == {"tag": tag}


@feature("cli.create")
@pytest.mark.new_only
def test_a_detached_sandbox_prints_its_id_and_runs(cli):
    done = cli("sandbox", "create", "base", "--detach", "--timeout", "60")
    assert done.code == 0, done.err
    sandbox_id = done.text.split()[-1]
    assert e2b.Sandbox.connect(sandbox_id).is_running()
    assert e2b.Sandbox.kill(sandbox_id)


@feature("cli.exec")
@pytest.mark.new_only
def test_exec_prints_both_streams_and_returns_the_exit_code(cli, sandbox):
    done = cli("sandbox", "exec", sandbox.sandbox_id, "echo out; echo err >&2; exit 7")
    assert (done.code, done.out) == (7, b"out\n")
    # The CLI adds a line of its own about the exit status.
    assert done.err.startswith(b"err\n")


@feature("cli.exec")
@pytest.mark.new_only
def test_exec_takes_user_directory_and_environment(cli, sandbox):
    done = cli("sandbox", "exec", "-u", "root", "-c", "/tmp", "-e", "WHAT=a b", sandbox.sandbox_id, 'id -un; pwd; echo "$WHAT"')
    assert (done.code, done.text) == (0, "root\n/tmp\na b\n")


@feature("cli.exec")
@pytest.mark.new_only
@pytest.mark.parametrize("size", [0, 1, 65536, 65537, 300_000])
def test_exec_pipes_its_input_to_the_last_byte(cli, sandbox, size):
    done = cli("sandbox", "exec", sandbox.sandbox_id, "wc -c", stdin=os.urandom(size))
    assert (done.code, done.text.strip()) == (0, str(size)), done.err


@feature("cli.exec")
@pytest.mark.new_only
def test_exec_in_the_background_returns_at_once(cli, sandbox):
    done = cli("sandbox", "exec", "--background", sandbox.sandbox_id, "sleep 62", timeout=20)
    assert done.code == 0, done.err
    assert any("sleep 62" in process.args for process in sandbox.commands.list())


@feature("cli.pause")
@pytest.mark.new_only
def test_a_sandbox_is_paused_and_resumed(cli):
    made = e2b.Sandbox.create(timeout=120)
    try:
        made.files.write("note.txt", "kept")
        done = cli("sandbox", "pause", made.sandbox_id)
        assert done.code == 0, done.err
        assert made.get_info().state.value == "paused"
        assert cli("sandbox", "pause", made.sandbox_id).code == 0, "it is paused already"
        done = cli("sandbox", "list", "--state", "paused", "--format", "json")
        assert made.sandbox_id in [item["sandboxId"] for item in done.json]
        done = cli("sandbox", "resume", made.sandbox_id)
        assert done.code == 0, done.err
        assert made.files.read("note.txt") == "kept"
    finally:
        made.kill()
    assert cli("sandbox", "pause", made.sandbox_id).code == 1


@feature("cli.snapshots")
@pytest.mark.new_only
def test_snapshots_are_taken_listed_and_deleted(cli, sandbox, tag):
    done = cli("sandbox", "snapshot", "create", "--name", f"cli-{tag}", sandbox.sandbox_id)
    assert done.code == 0, done.err
    assert f"cli-{tag}" in done.text
    done = cli("sandbox", "snapshot", "list", sandbox.sandbox_id, "--format", "json")
    assert done.code == 0, done.err
    assert f"cli-{tag}" in done.text
    for _ in range(2):
        made = e2b.Sandbox.create(f"cli-{tag}", timeout=60)
        assert made.kill()
    done = cli("sandbox", "snapshot", "delete", f"cli-{tag}")
    assert done.code == 0, done.err
    assert f"cli-{tag}" not in cli("sandbox", "snapshot", "list", "--format", "json").text


@feature("cli.metrics")
def test_metrics_are_printed(cli, sandbox):
    wait_until(lambda: sandbox.get_metrics(), "the first measurement", 20)
    done = cli("sandbox", "metrics", sandbox.sandbox_id, "--format", "json")
    assert done.code == 0, done.err
    assert "cpuUsedPct" in done.text and "memUsed" in done.text


@feature("cli.logs")
def test_logs_show_what_a_command_said(cli, sandbox, tag):
    sandbox.commands.run(f"echo said {tag}")
    done = cli("sandbox", "logs", sandbox.sandbox_id, "--level", "DEBUG", "--format", "json")
    assert done.code == 0, done.err
    entries = [json.loads(line) for line in done.text.splitlines() if line]
    assert any(entry["level"] == "info" and entry["message"] == f"said {tag}" for entry in entries)
    pretty = cli("sandbox", "logs", sandbox.sandbox_id)
    assert pretty.code == 0, pretty.err
    assert f"said {tag}" in pretty.text


@feature("cli.kill")
def test_kill_ends_the_sandbox(cli):
    made = e2b.Sandbox.create(timeout=60)
    done = cli("sandbox", "kill", made.sandbox_id)
    assert done.code == 0, done.err
    assert not made.is_running()


@feature("cli.kill")
def test_killing_an_unknown_sandbox_says_so(cli):
    done = cli("sandbox", "kill", "nonexistingsandbox")
    assert "Sandbox nonexistingsandbox wasn't found" in done.text + done.err.decode()


@feature("cli.connect")
def test_connect_is_a_terminal_in_the_sandbox(command, sandbox):
    terminal = Terminal(command, "sandbox", "connect", sandbox.sandbox_id)
    try:
        terminal.expect("user@")
        terminal.type("echo =$((6*7))= $(id -un)\r")
        terminal.expect("=42= user")
        terminal.type("exit\r")
        terminal.end()
    finally:
        terminal.close()
    assert sandbox.is_running()


@feature("cli.create")
def test_create_opens_a_terminal_and_the_sandbox_ends_with_it(command):
    terminal = Terminal(command, "sandbox", "create", "base")
    try:
        terminal.expect("user@")
        # Other cases make sandboxes at the same time, so this one is asked for its name.
        terminal.type("echo =$((6*7))= $E2B_SANDBOX_ID =$((7*7))=\r")
        terminal.expect("=49=")
        made = re.search(r"=42= (\w+) =49=", terminal.shown.decode()).group(1)
        assert made in running()
        terminal.type("exit\r")
        terminal.end()
    finally:
        terminal.close()
    wait_until(lambda: made not in running(), "the end of the sandbox", 20)


@feature("cli.errors")
def test_a_wrong_key_is_told(cli):
    done = cli("sandbox", "list", E2B_API_KEY="e2b_" + "0" * 40)
    assert done.code != 0
    assert "Unauthorized" in (done.text + done.err.decode())


@feature("cli.errors")
def test_an_unknown_sandbox_is_told(cli):
    done = cli("sandbox", "connect", "nonexistingsandbox")
    assert done.code != 0
    assert "nonexistingsandbox" in (done.text + done.err.decode())


@feature("cli.templates")
def test_the_base_template_is_listed(cli):
    # The year-old CLI insists on a login and sends both; the key alone must decide.
    done = cli("template", "list", "--format", "json", E2B_ACCESS_TOKEN="sk_e2b_" + "0" * 40)
    assert done.code == 0, done.err
    assert any("base" in template["aliases"] for template in done.json)


def running():
    pages = e2b.Sandbox.list()
    found = set()
    while pages.has_next:
        found |= {item.sandbox_id for item in pages.next_items()}
    return found


def wait_until(look, what, seconds):
    deadline = time.monotonic() + seconds
    while True:
        seen = look()
        if seen:
            return seen
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds} s"
        time.sleep(0.1)
