"""Limits of one execution."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Dict, Optional, Union

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:iB|B)?", re.IGNORECASE)
_UNITS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


@dataclass(frozen=True)
class Limits:
    """What one execution may use. What is left out has no limit.

    A limit holds for its execution alone. Time interrupts the code, as Ctrl-C would, and variables are kept;
    memory is a wall, and when the kernel itself runs into it its variables are lost.
    """

    time: Optional[float] = None
    """Wall-clock time, in seconds."""
    cpu: Optional[float] = None
    """Processor time of all processes that the code starts, in seconds."""
    memory: Union[int, str, None] = None
    """Memory of all processes of the context together: bytes, or text such as `"512M"` and `"2G"`, in steps of 1024."""

    def __post_init__(self) -> None:
        for name in ("time", "cpu"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"the limit `{name}` is {value!r}, and has to be a number of seconds above 0")
        if self.memory is not None:
            size(self.memory)

    def to_wire(self) -> Dict[str, Any]:
        """The limits as a request says them."""
        said = {
            "time_seconds": self.time,
            "cpu_seconds": self.cpu,
            "memory_bytes": None if self.memory is None else size(self.memory),
        }
        return {name: value for name, value in said.items() if value is not None}


def size(text: Union[int, str]) -> int:
    """A number of bytes, from itself or from text such as `512M`."""
    if isinstance(text, str):
        found = _SIZE.fullmatch(text.strip())
        if found is None:
            raise ValueError(f"{text!r} is not a size; write bytes, or something like '512M' or '2G'")
        number, unit = found.groups()
        value = int(float(number) * 1024 ** _UNITS[unit.upper()])
    else:
        value = text
    if value <= 0:
        raise ValueError(f"{text!r} is not a size; it has to be above 0")
    return value
