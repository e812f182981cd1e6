"""IPython's shell, fitted to a kernel without a terminal."""

from __future__ import annotations

import asyncio
import codeop
import contextlib
import os
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from IPython.core import page
from IPython.core.autocall import ZMQExitAutocall
from IPython.core.compilerop import CachingCompiler
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.payload import PayloadManager
from IPython.external.pickleshare import PickleShareDB
from traitlets import Any as AnyTrait
from traitlets import Bool, Instance, Type, default
from traitlets.config import Config

from .display import KernelDisplayHook, KernelDisplayPublisher
from .input import Input
from .outlet import Outlet
from .tracebacks import hide_own_frames, without_own_frames

INLINE_BACKEND = "module://matplotlib_inline.backend_inline"


def shell_config() -> Config:
    """The settings of the contract, and those that keep the process to one thread."""
    config = Config()
    config.InteractiveShell.colors = "nocolor"
    config.PlainTextFormatter.max_seq_length = 0
    # The SQLite history has a thread of its own. `In`, `Out` and `%history` do not need it.
    config.HistoryManager.enabled = False
    return config


class CellCompiler(CachingCompiler):
    """Gives cells file names of ipykernel's form, by which libraries such as numba recognise them."""

    def __init__(self) -> None:
        super().__init__()
        # For a prompt that would ask for another line. A cell is whole, and what it lacks is a SyntaxError that says so:
        # "'(' was never closed" instead of "incomplete input", of a class that nobody knows.
        self.flags &= ~codeop.PyCF_ALLOW_INCOMPLETE_INPUT

    def get_code_name(self, raw_code: str, code: str, number: int) -> str:
        directory = os.path.join(tempfile.gettempdir(), f"ipykernel_{os.getpid()}")
        return os.path.join(directory, f"{zlib.crc32(raw_code.encode('utf-8', 'surrogatepass'))}.py")


class ZMQInteractiveShell(InteractiveShell):
    """The shell of this kernel.

    It bears the name of ipykernel's shell because libraries ask for that name (rich, plotly, pandas)
    before they use rich output; there is no ZeroMQ here.
    """

    displayhook_class = Type(KernelDisplayHook)
    display_pub_class = Type(KernelDisplayPublisher)
    compiler_class = Type(CellCompiler)
    exiter = Instance(ZMQExitAutocall)
    payload_manager: PayloadManager
    keepkernel_on_exit = AnyTrait(None, allow_none=True)
    exit_now = Bool(False)
    autoindent = Bool(False)

    # Set by the server while it serves; None in a forked child.
    outlet: Outlet | None = None
    # Asks the peer for lines.
    input: Input | None = None
    # Whether the running cell was interrupted from outside.
    interrupted: Callable[[], bool] = staticmethod(lambda: False)
    errors_shown = 0
    _store: PickleShareDB | None = None
    _compiling = False

    @default("exiter")
    def _default_exiter(self) -> ZMQExitAutocall:
        return ZMQExitAutocall(self)

    def connect(self, outlet: Outlet | None) -> None:
        """Let everything the shell shows go to `outlet`."""
        self.outlet = outlet
        self.displayhook.outlet = outlet
        self.display_pub.outlet = outlet

    @property
    def db(self) -> PickleShareDB:
        """What `%store` and `%bookmark` keep, in the home directory of whoever runs the cells."""
        if self._store is None:
            self._store = PickleShareDB(Path("~/.ipython/profile_default/db").expanduser())
        return self._store

    @db.setter
    def db(self, value: Any) -> None:
        """Some versions of IPython assign it while the shell is built, in a directory that will not last."""

    # What a terminal would do, and a kernel does not.

    def init_environment(self) -> None:
        """As ipykernel: colours for tools that ask, and no pager that waits for a key."""
        os.environ.update(
            TERM="xterm-color", CLICOLOR="1", FORCE_COLOR="1", CLICOLOR_FORCE="1", PAGER="cat", GIT_PAGER="cat"
        )
        os.environ.setdefault("MPLBACKEND", INLINE_BACKEND)

    def init_hooks(self) -> None:
        super().init_hooks()
        self.set_hook("show_in_pager", page.as_hook(self._page), 99)

    def _page(self, text: Any, start: int = 0, screen_lines: int = 0, pager_cmd: Any = None) -> None:
        data = text if isinstance(text, dict) else {"text/plain": text}
        self.payload_manager.write_payload({"source": "page", "data": data, "start": max(0, start)})

    def set_next_input(self, s: str, replace: bool = False) -> None:
        self.payload_manager.write_payload({"source": "set_next_input", "text": s, "replace": replace})

    def enable_gui(self, gui: Any = None) -> None:
        if gui not in (None, "", "inline", "agg"):
            raise UsageError(f"this kernel has no display, so the GUI event loop {gui!r} cannot run")

    def ask_exit(self) -> None:
        self.exit_now = not self.keepkernel_on_exit

    def raw_input(self, prompt: object = "", /) -> str:
        """`input`."""
        return self._input().ask("raw_input", str(prompt))

    def getpass(self, prompt: str = "Password: ", stream: Any = None, **_options: Any) -> str:
        """As in ipykernel, the stream is not used: the peer shows the prompt."""
        return self._input().ask("getpass", str(prompt), password=True)

    def _input(self) -> Input:
        if self.input is None:
            raise RuntimeError("there is no input before the kernel serves")
        return self.input

    @contextlib.contextmanager
    def _tee(self, channel: str) -> Iterator[None]:
        """IPython would keep everything a cell prints in its history, for ever."""
        yield

    def transform_cell(self, raw_cell: str) -> str:
        """IPython drops empty lines at the start, and then counts the lines of every traceback wrongly."""
        transformed = super().transform_cell(raw_cell)
        stripped = raw_cell.lstrip()
        return "\n" * raw_cell[: len(raw_cell) - len(stripped)].count("\n") + transformed

    # Errors.

    def _get_exc_info(self, exc_tuple: Any = None) -> tuple[Any, Any, Any]:
        """Every traceback passes here before it is formatted."""
        etype, value, traceback = super()._get_exc_info(exc_tuple)
        hide_own_frames(value)
        return etype, value, without_own_frames(traceback)

    def showsyntaxerror(self, filename: str | None = None, running_compiled_code: bool = False) -> None:
        self._compiling = not running_compiled_code
        try:
            super().showsyntaxerror(filename, running_compiled_code)
        finally:
            self._compiling = False

    def _showtraceback(self, etype: type[BaseException], evalue: BaseException, stb: list[str]) -> None:
        self.report_error(etype, evalue, stb)

    def report_error(self, etype: type[BaseException], evalue: BaseException, lines: list[str]) -> None:
        """Send one exception, with what the kernel knows about its nature."""
        self._last_traceback = lines
        name, value, kind = etype.__name__, safe_text(evalue), "runtime"
        if self._compiling:
            kind = "syntax"
        elif issubclass(etype, SystemExit):
            kind = "exit"
        elif self.interrupted() and issubclass(etype, (KeyboardInterrupt, asyncio.CancelledError)):
            # An interrupt reaches a cell that awaits as a cancellation; for the caller it is the same.
            name, value, kind = "KeyboardInterrupt", "", "interrupted"
        if self.outlet is not None:
            self.errors_shown += 1
            self.outlet.error(name, value, lines, kind)
        else:
            os.write(2, "\n".join(lines).encode("utf-8", "replace") + b"\n")

    def _format_exception_for_storage(self, exception: BaseException, *_unused: Any, **_options: Any) -> dict[str, Any]:
        """IPython would format every traceback a second time."""
        lines = getattr(self, "_last_traceback", None) or []
        return {"ename": type(exception).__name__, "evalue": safe_text(exception), "traceback": lines}


def safe_text(value: BaseException) -> str:
    """`str` of an exception, even if the user wrote a broken `__str__`."""
    try:
        return str(value)
    except Exception as error:
        return f"<unprintable {type(value).__name__}: its __str__ raised {type(error).__name__}>"
