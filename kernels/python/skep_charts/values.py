"""Values of artists as JSON values."""

from __future__ import annotations

import datetime
import math
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

import numpy as np

from .shapes import Coordinate

SIGNIFICANT_DIGITS = 9


def coordinate(value: Any) -> Coordinate:
    """One coordinate of a point as the user gave it: a number, an ISO date, a word; None if missing."""
    if value is None or value is np.ma.masked:
        return None
    if isinstance(value, str):
        return str(value)
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else str(np.datetime_as_string(value, unit="s"))
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        text = value.isoformat()
        return None if text == "NaT" else text
    if hasattr(value, "start_time"):
        # A pandas Period stands for its beginning.
        return str(value.start_time.isoformat())
    if isinstance(value, (np.timedelta64, datetime.timedelta)):
        return str(value)
    return number(value)


def coordinates(values: Any) -> list[Coordinate]:
    """The coordinates of a line, from whatever sequence the user plotted."""
    if isinstance(values, np.ma.MaskedArray):
        masked = np.ma.getmaskarray(values).ravel()
        pairs = zip(values.data.ravel(), masked, strict=True)
        return [coordinate(None if hidden else value) for value, hidden in pairs]
    array = values if isinstance(values, (list, tuple)) else np.asanyarray(values)
    if isinstance(array, np.ndarray):
        array = array.ravel()
        if array.dtype.kind in "fiub" and np.isfinite(array).all():
            # By far the most common case, and lines can be long.
            return array.astype(float).tolist()
    return [coordinate(value) for value in array]


def number(value: Any) -> float | None:
    """A float, None for what is not finite. A complex number is drawn by its real part."""
    if isinstance(value, (complex, np.complexfloating)):
        value = value.real
    result = float(value)
    return result if math.isfinite(result) else None


def rounded(value: Any) -> float:
    """Without the noise of floating point arithmetic: nine significant digits."""
    exact = Decimal(repr(float(value)))
    if not exact.is_finite() or exact.is_zero():
        return float(value)
    quantum = Decimal(1).scaleb(exact.adjusted() - SIGNIFICANT_DIGITS + 1)
    return float(exact.quantize(quantum, rounding=ROUND_HALF_EVEN)) if exact.adjusted() < 300 else float(value)


def short_number(value: float) -> str:
    """A position as a label: no trailing zeros, no noise."""
    return f"{rounded(value):.9g}"
