"""Text output: when it arrives, in which order, and that none of it is lost."""

from __future__ import annotations

import time

import pytest
from kernel_client import KernelClient, wait_until

FLAT_MEMORY_KIB = 24 * 1024


def test_one_print_is_one_message(kernel: KernelClient) -> None:
    streams = kernel.run("print('a', 'b'); print('c')").of_type("stream")
    assert [message["text"] for message in streams] == ["a b\n", "c\n"]


def test_a_line_arrives_while_the_cell_still_runs_and_within_milliseconds(kernel: KernelClient) -> None:
    kernel.start("import time\nfor i in range(3):\n    print(time.time_ns())\n    time.sleep(0.1)")
    delays = []

    def note(message: dict) -> None:
        if message["type"] == "stream":
            delays.append((time.time_ns() - int(message["text"])) / 1e6)

    kernel.finish(note)
    assert len(delays) == 3
    assert min(delays) < 20, delays


def test_an_unfinished_line_arrives_without_flush(kernel: KernelClient) -> None:
    kernel.start("import time\nprint('waiting…', end='')\ntime.sleep(30)")
    kernel.wait_for_text("waiting…")
    kernel.interrupt()
    kernel.finish()


def test_an_unfinished_line_arrives_even_while_python_computes(kernel: KernelClient) -> None:
    kernel.start("print('computing', end='')\nwhile True: pass")
    kernel.wait_for_text("computing")
    kernel.interrupt()
    assert kernel.finish().error["ename"] == "KeyboardInterrupt"


def test_every_message_has_the_time_it_was_made(kernel: KernelClient) -> None:
    before = time.time_ns() // 1000
    outcome = kernel.run("print(1); 2")
    after = time.time_ns() // 1000
    times = [message["time"] for message in outcome if "time" in message]
    assert len(times) == 5 and times == sorted(times) and before <= times[0] and times[-1] <= after


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import os\nprint('1')\nos.system('echo 2')\nprint('3')\nos.write(1, b'4\\n')\nprint('5')", "1\n2\n3\n4\n5\n"),
        ("import subprocess\nprint('a')\nsubprocess.run(['echo', 'b'])\nprint('c');", "a\nb\nc\n"),
        ("import os\nprint('a', end='')\nos.system('sleep 0.1; echo b')\nprint('c');", "ab\nc\n"),
        (
            "import sys\nprint('a')\nsys.stdout.buffer.write(b'b\\n')\nsys.stdout.buffer.flush()\nprint('c')",
            "a\nb\nc\n",
        ),
        ("import sys\nsys.__stdout__.write('original\\n')\nprint('c')", "original\nc\n"),
        ("import sys, subprocess\nsubprocess.run(['echo', 'x'], stdout=sys.stdout);", "x\n"),
    ],
)
def test_descriptors_and_prints_keep_their_order(kernel: KernelClient, code: str, expected: str) -> None:
    assert kernel.run(code).ok().text() == expected


def test_order_holds_when_repeated(kernel: KernelClient) -> None:
    code = "import os\nfor i in range(200):\n    print(2 * i)\n    os.write(1, b'%d\\n' % (2 * i + 1))"
    assert kernel.run(code).ok().text() == "".join(f"{i}\n" for i in range(400))


def test_text_comes_before_what_is_displayed_after_it(kernel: KernelClient) -> None:
    outcome = kernel.run("import os\nprint('a', end='')\ndisplay(1)\nos.write(1, b'b')\ndisplay(2)\n1/0")
    kinds = [message.get("text") or message["type"] for message in outcome]
    assert kinds == ["status", "execute_input", "a", "display_data", "b", "display_data", "error", "reply", "status"]


def test_stderr_is_its_own_stream(kernel: KernelClient) -> None:
    outcome = kernel.run(
        "import sys, os\nprint('e', file=sys.stderr)\nos.write(2, b'raw\\n')\nimport warnings; warnings.warn('w')"
    )
    assert outcome.text() == ""
    assert outcome.text("stderr").startswith("e\nraw\n")
    assert "UserWarning: w" in outcome.text("stderr")


def test_output_of_c_code_that_buffers_is_not_left_behind(kernel: KernelClient) -> None:
    outcome = kernel.run("import ctypes\nctypes.CDLL(None).puts(b'from C');")
    assert outcome.text() == "from C\n"


def test_a_character_split_over_two_writes_is_whole(kernel: KernelClient) -> None:
    code = "import os, time\nfor byte in '😀é'.encode():\n    os.write(1, bytes([byte]))\n    time.sleep(0.01)"
    assert kernel.run(code).ok().text() == "😀é"


def test_bytes_that_are_no_text_are_replaced_and_not_kept_for_the_next_cell(kernel: KernelClient) -> None:
    assert kernel.run("import os; os.write(1, b'a\\xff\\xf0\\x9f');").ok().text() == "a\ufffd\ufffd"
    assert kernel.run("os.write(1, b'b');").ok().text() == "b"


@pytest.mark.parametrize("text", ["\u2028\u2029\x85\x0b\x0c\x1c", "\x1b[31mred\x1b[0m", "\0", "漢字", "a\rb", '"\\'])
def test_odd_characters_arrive_unchanged(kernel: KernelClient, text: str) -> None:
    assert kernel.run(f"print({text!r})").text() == text + "\n"


def test_half_a_surrogate_pair_is_replaced_instead_of_breaking_the_stream(kernel: KernelClient) -> None:
    assert kernel.run(r"print('a\ud83d', 'b\ude00', '\ud83d\ude00')").ok().text() == "a\ufffd b\ufffd 😀\n"
    assert kernel.run(r"{'k\ud800': ['\\ud800', '\udfff']}").ok().value["application/json"] == {
        "k\ufffd": ["\\ud800", "\ufffd"]
    }


def test_long_text_is_split_into_pieces(kernel: KernelClient) -> None:
    streams = kernel.run("print('é' * 200_000)").of_type("stream")
    assert "".join(message["text"] for message in streams) == "é" * 200_000 + "\n"
    assert max(len(message["text"]) for message in streams) <= 65536


@pytest.mark.parametrize(
    "code",
    [
        "for i in range(1600): print('x' * 65535)",
        "import os\nfor i in range(1600):\n    data = b'x' * 65535 + b'\\n'\n    while data: data = data[os.write(1, data):]",
    ],
    ids=["print", "descriptor"],
)
def test_a_hundred_mebibytes_pass_with_flat_memory(kernel: KernelClient, code: str) -> None:
    kernel.run("1")
    before = kernel.memory_kib()
    count = 0

    def add(message: dict) -> None:
        nonlocal count
        count += len(message.get("text", ""))

    kernel.start(code)
    kernel.finish(add)
    assert count == 1600 * 65536
    assert kernel.memory_kib() - before < FLAT_MEMORY_KIB


def test_a_slow_reader_blocks_the_writer_and_loses_nothing(kernel: KernelClient) -> None:
    kernel.start("for i in range(60_000): print(i)\nprint('end')")
    # Nothing is read: the writer must come to a halt instead of collecting output in memory.
    ticks = -1

    def halted() -> bool:
        nonlocal ticks
        before, ticks = ticks, processor_ticks(kernel.pid)
        time.sleep(0.1)
        return ticks == processor_ticks(kernel.pid) == before

    wait_until(halted, "the kernel waits for its reader")
    assert kernel.finish().text() == "".join(f"{i}\n" for i in range(60_000)) + "end\n"


def test_a_fifty_mebibyte_value_arrives(kernel: KernelClient) -> None:
    assert kernel.run("'x' * (50 << 20)").value["text/plain"] == "'" + "x" * (50 << 20) + "'"
    assert kernel.run("1").ok().value["text/plain"] == "1"


def test_nothing_printed_is_lost_when_the_process_dies(kernel: KernelClient) -> None:
    kernel.start("import os, signal\nfor i in range(100): print(i)\nos.kill(os.getpid(), signal.SIGKILL)")
    text = ""
    with pytest.raises(EOFError):
        while True:
            text += kernel.receive().get("text", "")
    assert text == "".join(f"{i}\n" for i in range(100))


def test_sudden_exit_delivers_what_was_written_before(kernel: KernelClient) -> None:
    kernel.start("import os\nos.write(1, b'a\\n')\nprint('b', end='')\nos._exit(3)")
    text = ""
    with pytest.raises(EOFError):
        while True:
            text += kernel.receive().get("text", "")
    assert text == "a\nb"


def test_redirections_of_user_code_work(kernel: KernelClient) -> None:
    code = (
        "import contextlib, io, sys\n"
        "buffer = io.StringIO()\n"
        "with contextlib.redirect_stdout(buffer): print('inside')\n"
        "sys.stdout.reconfigure(encoding='utf-8'); sys.stdout.writelines(['x', '\\n'])\n"
        "buffer.getvalue(), sys.stdout.isatty(), sys.stdout.encoding, sys.stdout.fileno()"
    )
    outcome = kernel.run(code).ok()
    assert outcome.text() == "x\n"
    assert outcome.value["text/plain"] == "('inside\\n', False, 'utf-8', 1)"


def test_writing_something_else_than_text_is_a_type_error(kernel: KernelClient) -> None:
    assert kernel.run("import sys; sys.stdout.write(b'x')").error["evalue"] == "write() argument must be str, not bytes"


def processor_ticks(pid: int) -> int:
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
