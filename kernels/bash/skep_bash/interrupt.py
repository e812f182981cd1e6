"""An interrupt from outside, until the cell has ended.

SIGINT comes to our whole process group, so bash and what it runs have got it, too, and mostly that is the
end of it. But it may have come to us alone, bash may have thrown away the line that reports, and programs
may ignore it: then we insist, and leave the shell itself alive.
"""

from __future__ import annotations

import signal

from .shell import Shell

# Seconds after the interrupt, and what is sent to the programs that bash waits for. Bash gives up a cell only
# for a program that SIGINT has ended: after every other signal it would go on with the next one.
_STEPS = [
    (0.2, signal.SIGINT),
    (0.8, signal.SIGINT),
    (1.5, signal.SIGTERM),
    (1.55, signal.SIGINT),
    (2.2, signal.SIGKILL),
    (2.25, signal.SIGINT),
]

_REPEAT_SECONDS = 0.25


class Interrupt:
    """When to do what."""

    def __init__(self, now: float) -> None:
        self._steps = [(now + seconds, number) for seconds, number in _STEPS]

    def seconds_left(self, now: float) -> float:
        return max(0.0, self._steps[0][0] - now)

    def go_on(self, shell: Shell, now: float) -> None:
        """Do what is due."""
        due, number = self._steps[0]
        if now < due:
            return
        shell.interrupt(number)
        shell.ask_again()
        self._steps.pop(0)
        if not self._steps:
            self._steps = [(now + _REPEAT_SECONDS, signal.SIGKILL), (now + 2 * _REPEAT_SECONDS, signal.SIGINT)]
