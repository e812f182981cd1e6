"""Everything that takes time and can be done before there is a peer, a socket or a second thread."""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import tempfile
from collections.abc import Sequence
from typing import Any

from .blas import one_thread
from .cell import make_cell
from .formatters import install_formatters
from .images import install_image_rules
from .shell import ZMQInteractiveShell, shell_config

# Imported on first use by features that every session meets: tracebacks, `!cmd`, help, the loop.
_USUAL_MODULES = ("IPython.utils._process_posix", "skep_kernel.server")

_WARMING_CELLS = ("1", "[1]", "print", "1/0", "(", "%time 1", "?int")

_shell: ZMQInteractiveShell | None = None


class _Nowhere:
    """An outlet for warming: whatever is said to it is not heard."""

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **options: None


def prepare(preload: Sequence[str] = ()) -> ZMQInteractiveShell:
    """The shell of this process, built once."""
    global _shell
    if _shell is not None and not preload:
        return _shell
    if _shell is None:
        _shell = _build()
    with one_thread():
        for name in preload:
            importlib.import_module(name)
    gc.collect()
    # A forked kernel that collects garbage would otherwise write to, and so copy, every page of ours.
    gc.freeze()
    return _shell


def _build() -> ZMQInteractiveShell:
    with tempfile.TemporaryDirectory(prefix="skep_kernel_") as directory:
        # IPython insists on a profile directory. The sandbox's own is set when serving starts.
        shell = ZMQInteractiveShell.instance(config=shell_config(), ipython_dir=directory)
    if shell.display_formatter is None or shell.extension_manager is None:
        raise RuntimeError("IPython's shell came without a display formatter or extension manager")
    install_formatters(shell.display_formatter)
    install_image_rules()
    shell.extension_manager.load_extension("storemagic")
    for name in _USUAL_MODULES:
        importlib.import_module(name)
    _warm(shell)
    return shell


def _warm(shell: ZMQInteractiveShell) -> None:
    """Run cells of the usual kinds, so that lazy imports and caches are paid for here."""
    shell.connect(_Nowhere())  # type: ignore[arg-type]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        for code in _WARMING_CELLS:
            make_cell(shell, code).run()
    shell.payload_manager.clear_payload()
    shell.connect(None)
    shell.errors_shown = 0
    shell.reset(new_session=True)
    # A reset forgets these three, which a new shell has.
    shell.user_ns.update({"_": "", "__": "", "___": ""})
