"""Tracebacks without frames of the kernel, which say nothing about the code of its user."""

from __future__ import annotations

import os
from types import TracebackType

_OWN = os.path.dirname(__file__) + os.sep


def hide_own_frames(error: BaseException) -> None:
    """Take the kernel's frames out of an exception, and out of those that led to it.

    An interrupt is raised by the kernel's signal handler, `input` is refused by its shell, and both would end in a
    place that the user has never seen.
    """
    waiting, seen = [error], set()
    while waiting:
        error = waiting.pop()
        if id(error) in seen:
            continue
        seen.add(id(error))
        # Through the base class: one of the user's may not let its attributes be set.
        BaseException.with_traceback(error, without_own_frames(error.__traceback__))
        linked = (error.__cause__, error.__context__)
        waiting.extend(other for other in linked if other is not None)
        if isinstance(error, BaseExceptionGroup):
            waiting.extend(error.exceptions)


def without_own_frames(traceback: TracebackType | None) -> TracebackType | None:
    """A copy that leaves out the kernel's frames; an error in nothing but the kernel keeps them all."""
    kept = []
    entry = traceback
    while entry is not None:
        if not entry.tb_frame.f_code.co_filename.startswith(_OWN):
            kept.append(entry)
        entry = entry.tb_next
    if not kept:
        return traceback
    # Copied, because the user's code may hold the entries themselves.
    shortened = None
    for entry in reversed(kept):
        # An instruction need not belong to a line, where an interrupt hits or in code that was made without any.
        line = entry.tb_lineno or entry.tb_frame.f_code.co_firstlineno
        shortened = TracebackType(shortened, entry.tb_frame, entry.tb_lasti, line)
    return shortened
