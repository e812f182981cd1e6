"""The kernel: requests in, scripts to the shell, and all that comes back out again. One thread, one loop."""

from __future__ import annotations

import os
import select
import signal
import sys
import time

from . import PROTOCOL_VERSION, __version__, syntax
from .environment import Environment, InvalidEnvironment, assignments, check_names, check_values, restoration
from .interrupt import Interrupt
from .questions import QUESTIONS as CODE_QUESTIONS
from .quoting import has_bytes, word
from .reading import Question
from .shell import Report, Shell, ShellEnded
from .streams import READ_SIZE, Stream
from .wire import PeerGone, Wire, now

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PEER_GONE = 76
"""Exit status when nobody reads any more while there is output."""

BROKEN = 70
"""Exit status when user code made the shell unable to report."""

WATCH_SECONDS = 0.5
"""How often a shell that runs a script is looked at."""

ATTEMPTS = 5
"""How often a script is given to a shell that throws it away."""

QUESTIONS = 2
"""How often a shell that waits without having reported is asked before it counts as broken."""

SIGNAL_SECONDS = 0.05
"""How much later than to the shell a signal to the whole group may come to us."""

FAREWELL_SECONDS = 2.0
"""How long exit traps may take."""


class ShellBroken(Exception):
    """The shell waits for commands, but cannot report any more."""


class Server:
    """One shell, one peer."""

    def __init__(self, connection: int) -> None:
        self.wire = Wire(connection)
        self.environment = Environment()
        self.streams = [Stream("stdout"), Stream("stderr")]
        self.parent: str | None = None
        self.count = 0
        self.is_running = True
        self.has_greeted = False
        self.interrupt: Interrupt | None = None
        """Set until the cell that is interrupted has ended."""
        self.was_interrupted = False
        self.is_asked = False
        """A question is answered, which an interrupt ends too."""
        self.question: Question | None = None
        """What the cell has asked the peer, until it is answered."""
        self.questions = 0
        self._signals, wake_up = os.pipe()
        os.set_blocking(self._signals, False)
        os.set_blocking(wake_up, False)
        signal.set_wakeup_fd(wake_up, warn_on_full_buffer=False)
        # SIGTERM and SIGHUP too: an interactive bash outlives `kill 0`, and so must we.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)

    def run(self) -> int:
        """Serve until the end; returns the exit status."""
        self.shell = Shell(*(stream.writer for stream in self.streams))
        try:
            self.shell.begin()
            self._await_report()
            os.chdir("/")
            self._relay_all()
            self._say_hello()
            while self.is_running:
                self._serve_next()
            self._flush()
        except PeerGone:
            if self.parent is not None:
                self.shell.kill()
                return PEER_GONE
            self._end_shell()
        except ShellEnded as ended:
            return self._follow_shell(ended)
        except ShellBroken:
            self.shell.kill()
            return BROKEN
        return 0

    def _say_hello(self) -> None:
        self.has_greeted = True
        version, *_ = sys.version.split()
        self.wire.send(
            "hello", protocol=PROTOCOL_VERSION, kernel=f"skep_bash {__version__}", pid=os.getpid(), python=version
        )

    def _follow_shell(self, ended: ShellEnded) -> int:
        """The shell ended outside of any execution, or was killed in one: we end as it did."""
        self._relay_all()
        if not self.has_greeted:
            sys.stderr.write(f"bash ended with status {ended.status}\n")
            sys.stderr.flush()
        self._flush()
        if ended.status < 0:
            if -ended.status != signal.SIGKILL:
                signal.signal(-ended.status, signal.SIG_DFL)
            os.kill(os.getpid(), -ended.status)
        return ended.status

    # Requests.

    def _serve_next(self) -> None:
        request = self.wire.next_request()
        if request is None:
            self._turn(listen=True)
            return
        kind = request.get("type")
        if kind == "execute":
            self._execute(request)
        elif kind == "input_reply":
            # The cell that asked waits no more.
            return
        else:
            self._answer(request, kind)

    def _answer(self, request: dict[str, Any], kind: Any) -> None:
        reply: dict[str, Any] = {"status": "ok"}
        try:
            if kind == "environment":
                self._set_layer(request["layer"], request["variables"])
            elif kind == "chdir":
                self._change_directory(request["path"])
            elif kind in CODE_QUESTIONS:
                reply.update(self._answer_question(kind, request))
            elif kind == "shutdown":
                self._end_shell()
            else:
                raise ValueError(f"there is no request {kind!r}")
        except (OSError, InvalidEnvironment, KeyError, TypeError, ValueError, KeyboardInterrupt) as error:
            reply = {"status": "error", "ename": type(error).__name__, "evalue": str(error)}
        self.wire.send("reply", parent=request.get("id"), **reply)

    def _answer_question(self, kind: str, request: dict[str, Any]) -> dict[str, Any]:
        self.is_asked = True
        self.was_interrupted = False
        try:
            return CODE_QUESTIONS[kind](self._ask_shell, request, self._options)
        finally:
            self.is_asked = False
            self.interrupt = None

    def _ask_shell(self, command: bytes) -> list[bytes]:
        """What a command of ours writes in the shell."""
        self._run(self.shell.tell(command))
        if self.was_interrupted:
            raise KeyboardInterrupt
        return self.shell.saved

    def _set_layer(self, layer: str, variables: dict[str, str]) -> None:
        changes = self.environment.plan(layer, variables)
        if changes:
            self._change_variables(changes)
        self.environment.accept(layer, variables)

    def _change_directory(self, path: str) -> None:
        if "\0" in path or not has_bytes(path):
            raise ValueError("the path contains a character that no path can have")
        path = os.path.join(os.readlink(f"/proc/{self.shell.pid}/cwd"), path)
        # Tried here, because the error of the system says more than the status of `cd`.
        os.chdir(path)
        os.chdir("/")
        if self._run(b"\\builtin cd -- %s >/dev/null\n" % word(path)).status:
            raise OSError(f"bash cannot go to {path!r}")

    def _end_shell(self) -> None:
        self.is_running = False
        self.shell.end_of_commands()
        if not self.shell.wait(FAREWELL_SECONDS):
            self.shell.kill()

    # Executions.

    def _execute(self, request: dict[str, Any]) -> None:
        identifier, code = request.get("id"), request.get("code")
        if not isinstance(identifier, str) or not isinstance(code, str):
            reply = {"status": "error", "ename": "ValueError", "evalue": "an execution needs an id and code, both strings"}
            self.wire.send("reply", parent=identifier, **reply)
            return
        self.count += 1
        self.parent = identifier
        self.was_interrupted = False
        self.wire.send("status", parent=identifier, state="busy", time=now())
        self.wire.send("execute_input", parent=identifier, execution_count=self.count, time=now())
        exiting = False
        try:
            failure = self._run_cell(code, request.get("env") or {}, bool(request.get("allow_stdin")))
        except InvalidEnvironment as error:
            failure = self._judge(1) if self.was_interrupted else None
            failure = failure or self._failure("request", "InvalidEnvironment", str(error))
        except ShellBroken:
            self._tell_end(self._failure("runtime", "ShellBroken", BROKEN_SHELL), exiting=True)
            raise
        except ShellEnded as ended:
            if ended.status < 0 and not self.was_interrupted:
                # Killed: the peer learns of it from our own end.
                raise
            self.is_running = False
            exiting = True
            failure = self._judge(ended.status)
        self._tell_end(failure, exiting)

    def _tell_end(self, failure: dict[str, Any] | None, exiting: bool) -> None:
        self._relay_all(finish=True)
        if failure is not None:
            self.wire.send("error", parent=self.parent, time=now(), **failure)
        status = "ok" if failure is None else "error"
        self.wire.send(
            "reply", parent=self.parent, status=status, execution_count=self.count, payload=[], exiting=exiting
        )
        self.wire.send("status", parent=self.parent, state="idle", time=now())
        self.parent = None
        self.interrupt = None
        if exiting:
            self._flush()

    def _run_cell(self, code: str, variables: dict[str, str], may_ask: bool) -> dict[str, Any] | None:
        if "\0" in code:
            return self._failure("syntax", "InvalidCode", "the code contains a NUL character, which bash cannot read")
        if not has_bytes(code):
            return self._failure("syntax", "InvalidCode", "the code is not valid Unicode")
        check_values(variables)
        check_names(variables)
        names = sorted(variables)
        saved = self._enter(names, variables) if names else []
        if may_ask:
            self._run(self.shell.let_read())
        report = self._run(self._tracing + code.encode("utf-8"))
        if report.given_up and not self.was_interrupted:
            self._expect_signal()
        # Whoever asked for the interrupt has got it; what follows is ours.
        self.interrupt = None
        if may_ask:
            self.question = None
            self._run(self.shell.end_reading())
        if names:
            self._restore(names, saved)
        self._options = report.options
        self._tracing = b"".join(b"\\builtin set -%s;" % flag.encode() for flag in "xv" if flag in report.flags)
        return self._judge(report.status, code, report)

    _tracing = b""
    """Turned off between cells, so that our own commands are not shown; turned on again before the next."""

    _options = ""
    """The shell's `$BASHOPTS` after the last cell."""

    def _judge(self, status: int, code: str = "", report: Report | None = None) -> dict[str, Any] | None:
        if status == 0:
            return None
        if self.was_interrupted:
            return self._failure("interrupted", "KeyboardInterrupt", "")
        misunderstood = status == 2 and report is not None and syntax.read(code, report.options).is_misspelt
        return self._failure("syntax" if misunderstood else "runtime", "", str(status))

    def _failure(self, kind: str, name: str, value: str) -> dict[str, Any]:
        return {"kind": kind, "ename": name, "evalue": value, "traceback": []}

    # Variables.

    def _enter(self, names: list[str], variables: dict[str, str]) -> list[bytes]:
        """Set the variables of an execution; returns what they were."""
        self._run(self.shell.save(names))
        saved = self.shell.saved
        if len(saved) != len(names):
            raise InvalidEnvironment("bash did not say what the variables were before")
        try:
            self._change_variables(dict(variables))
        except InvalidEnvironment:
            self._restore(names, saved)
            raise
        return saved

    def _restore(self, names: list[str], saved: list[bytes]) -> None:
        script = restoration(names, saved)
        for _attempt in range(3):
            # A variable that the cell made read-only stays; an interrupt is no reason to give up.
            if not self._run(script).given_up:
                return

    def _change_variables(self, changes: dict[str, str | None]) -> None:
        report = self._run(assignments(changes))
        if report.status:
            names = ", ".join(sorted(changes))
            raise InvalidEnvironment(f"bash refused to set one of {names}; perhaps it is read-only")

    # The loop.

    def _run(self, script: bytes) -> Report:
        for _attempt in range(ATTEMPTS):
            self.shell.submit(script)
            report = self._await_report()
            if report.has_begun or self.was_interrupted:
                return report
            # An interrupt meant for the time before made bash throw this one away.
        raise ShellBroken

    def _await_report(self) -> Report:
        in_vain = 0
        while (report := self.shell.report()) is None:
            if not (self._turn() and self.shell.waits_in_vain()):
                continue
            in_vain += 1
            if in_vain > QUESTIONS:
                raise ShellBroken
            self.shell.ask_again()
        return report

    def _turn(self, listen: bool = False) -> bool:
        """Wait for something and deal with it; returns whether nothing came for a good while."""
        waiting = select.poll()
        peer_events = select.POLLRDHUP | (select.POLLIN if listen or self.question else 0)
        waiting.register(self.wire, peer_events | (0 if self.wire.is_flushed else select.POLLOUT))
        waiting.register(self._signals, select.POLLIN)
        waiting.register(self.shell.reports, select.POLLIN)
        readable = self.streams if self.wire.has_room else []
        for stream in readable:
            waiting.register(stream.reader, select.POLLIN)
        seconds = self._patience(listen)
        events = dict(waiting.poll(None if seconds is None else seconds * 1000))
        self._take_signals()
        for stream in readable:
            if stream.reader in events:
                self._take_output(stream, READ_SIZE)
            elif stream.seconds_left(time.monotonic()) == 0:
                self._relay(stream.unfinished(), stream)
        # After the output, which was written before it was reported.
        self.shell.take_reports()
        self._ask_peer()
        # Its answer is looked at in the same turn: no other event may follow.
        self._speak_with_peer(events.get(self.wire.fileno(), 0))
        if self.interrupt is not None and self.shell.report() is None:
            self.interrupt.go_on(self.shell, time.monotonic())
        return not events and seconds == WATCH_SECONDS

    def _patience(self, listen: bool) -> float | None:
        """How long to wait for something to happen."""
        now = time.monotonic()
        limits = [stream.seconds_left(now) for stream in self.streams if self.wire.has_room]
        if self.interrupt is not None:
            limits.append(self.interrupt.seconds_left(now))
        if not listen:
            limits.append(WATCH_SECONDS)
        return min((limit for limit in limits if limit is not None), default=None)

    def _take_output(self, stream: Stream, limit: int) -> None:
        text = stream.read(limit)
        for other in self.streams:
            if text and other is not stream:
                self._relay(other.unfinished(), other)
        self._relay(stream.lines(text, time.monotonic()), stream)

    def _speak_with_peer(self, events: int) -> None:
        self.wire.flush()
        if events & select.POLLIN:
            self.wire.receive()
            self._take_answer()
        elif events & (select.POLLRDHUP | select.POLLHUP | select.POLLERR):
            raise PeerGone

    def _ask_peer(self) -> None:
        """Ask what the cell asks."""
        while self.shell.reads:
            arguments = self.shell.reads.pop(0)
            if arguments is None:
                # It has read a line, or given up.
                self.question = None
                continue
            self.questions += 1
            question = Question(f"i{self.questions}", arguments)
            if question.is_for_peer and self.parent is not None:
                self._ask(question)

    def _take_answer(self) -> None:
        if self.question is None:
            return
        answer = self.wire.next_answer(self.question.identifier)
        if answer is not None:
            value = answer.get("value")
            self.shell.answer(value if isinstance(value, str) else None, self.question.delimiter)
            self.question = None

    def _ask(self, question: Question) -> None:
        self.question = question
        # What was printed before comes before the question, also if its line is not finished.
        for stream in self.streams:
            self._relay(stream.unfinished(), stream)
        self.wire.send(
            "input_request",
            parent=self.parent,
            time=now(),
            id=question.identifier,
            prompt=question.prompt,
            password=question.is_password,
        )

    def _expect_signal(self) -> None:
        """The shell may hear of an interrupt, and even report, before it comes to us."""
        waiting = select.poll()
        waiting.register(self._signals, select.POLLIN)
        waiting.poll(SIGNAL_SECONDS * 1000)
        self._take_signals()

    def _take_signals(self) -> None:
        try:
            numbers = os.read(self._signals, 4096)
        except BlockingIOError:
            return
        is_busy = self.parent is not None or self.is_asked
        if signal.SIGINT in numbers and is_busy and self.interrupt is None:
            self.interrupt = Interrupt(time.monotonic())
            self.was_interrupted = True
        if signal.SIGCHLD in numbers:
            self.shell.check()

    def _relay(self, text: str, stream: Stream) -> None:
        if text and not self.has_greeted:
            # A start file that prints, or fails: our standard error is read if there is no hello.
            sys.stderr.write(text)
            sys.stderr.flush()
        elif text:
            self.wire.send("stream", parent=self.parent, name=stream.name, time=now(), text=text)

    def _relay_all(self, finish: bool = False) -> None:
        """Everything that is in the pipes now."""
        for stream in self.streams:
            left = stream.waiting()
            while left > 0:
                self._make_room()
                self._take_output(stream, left)
                left -= READ_SIZE
            if finish:
                self._relay(stream.finish(), stream)
            elif not self.has_greeted:
                self._relay(stream.unfinished(), stream)

    def _make_room(self) -> None:
        while not self.wire.has_room:
            self._wait_to_write()

    def _flush(self) -> None:
        while not self.wire.is_flushed:
            self._wait_to_write()

    def _wait_to_write(self) -> None:
        waiting = select.poll()
        waiting.register(self.wire, select.POLLOUT)
        waiting.poll()
        self.wire.flush()


BROKEN_SHELL = "bash cannot report to its kernel any more (is `builtin` redefined?) and is started anew"

