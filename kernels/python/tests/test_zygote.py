"""What of a zygote needs no sandbox: when its fork declines to be a kernel."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from skep_kernel import zygote


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that modules are imported from."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), "", str(tmp_path / "missing")])
    return tmp_path


def test_a_fork_goes_on_where_nothing_was_installed(place: Path) -> None:
    places = zygote._places()
    (place / "package").mkdir()
    os.utime(place, ns=(places[str(place)], places[str(place)]))
    zygote._check_places(places)


def test_a_fork_declines_where_something_was_installed(place: Path) -> None:
    os.utime(place, ns=(1, 1))
    places = zygote._places()
    (place / "package").mkdir()
    with pytest.raises(zygote.Refusal):
        zygote._check_places(places)


def test_a_fork_declines_where_a_new_place_has_come(place: Path) -> None:
    places = zygote._places()
    (place / "missing").mkdir()
    os.utime(place, ns=(places[str(place)], places[str(place)]))
    with pytest.raises(zygote.Refusal, match="missing"):
        zygote._check_places(places)


def test_a_packet_has_every_descriptor_that_the_server_sends() -> None:
    names = "plan reply pid network users mounts ipc uts cgroups stdin stdout stderr"
    assert zygote.Descriptors._fields == tuple(names.split())


def test_whoever_has_rights_does_not_read_what_the_sandbox_says(tmp_path: Path) -> None:
    path = tmp_path / "plan"
    path.write_bytes(b'{"uid": 1000}\n{"environment": not even JSON')
    with path.open("rb") as file:
        assert zygote._read_plan(file.fileno()) == ({"uid": 1000}, b'{"environment": not even JSON')


def test_nothing_stays_open_but_what_is_kept() -> None:
    reader, writer = os.pipe()
    # Higher than the limit, as a descriptor can be when that was lowered.
    program = """
import fcntl, os, resource, sys
from skep_kernel import zygote
kept = int(sys.argv[1])
high = fcntl.fcntl(kept, fcntl.F_DUPFD, 900)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
zygote._close_all_but([kept])
still_open = []
for number in range(1024):
    try:
        os.fstat(number)
        still_open.append(number)
    except OSError:
        pass
os.write(kept, repr(still_open).encode())
"""
    subprocess.run([sys.executable, "-c", program, str(writer)], pass_fds=[writer], check=True)
    os.close(writer)
    assert os.read(reader, 100).decode() == repr([writer])
    os.close(reader)


def test_a_failed_step_ends_the_process_without_a_word() -> None:
    program = "from skep_kernel import zygote; zygote._must(0); zygote._must(-1)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (zygote.REFUSED, b"", b"")


def _forked(life: Callable[[], None]) -> int:
    """A child that does this, and nothing of what pytest would do at its end."""
    child = os.fork()
    if child == 0:
        try:
            life()
        finally:
            os._exit(0)
    return child


def _ended_by(monkeypatch: pytest.MonkeyPatch, child: int) -> int:
    """How a child has ended that was seen out, as the system says it."""
    statuses = []
    wait = os.waitpid

    def waitpid(process: int, options: int) -> tuple[int, int]:
        found, status = wait(process, options)
        statuses.append(status)
        return found, status

    monkeypatch.setattr(os, "waitpid", waitpid)
    zygote._see_out(child)
    [status] = statuses
    return os.waitstatus_to_exitcode(status)


def test_a_process_between_that_is_stopped_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zygote, "_BETWEEN_PATIENCE", 0.05)
    child = _forked(lambda: signal.raise_signal(signal.SIGSTOP))
    assert _ended_by(monkeypatch, child) == -signal.SIGKILL


def test_a_process_between_that_ends_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    child = _forked(lambda: os.write(writer, b"done"))
    assert _ended_by(monkeypatch, child) == 0
    assert os.read(reader, 4) == b"done"
    os.close(reader)
    os.close(writer)


def test_what_is_forked_ahead_ends_with_its_zygote() -> None:
    program = """
import os, sys
from skep_kernel import zygote
ahead = zygote._forked_ahead(None, {})
status, started = os.waitpid(-1, os.WNOHANG)
assert (status, started) == (0, 0), "it waits"
ahead.close()
_, status = os.waitpid(-1, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0
