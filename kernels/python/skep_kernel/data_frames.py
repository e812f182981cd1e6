"""The `e2b/data` representation of a pandas data frame: an object, column → list of values.

Compatible with what the reference emits where it emits something: NaN and missing values are null,
NaT is "NaT", timestamps are ISO strings, and of two columns with one name the last wins. What makes
the reference fail (time deltas, periods, intervals, decimals, any object) is a string here.
"""

from __future__ import annotations

import datetime
import math
from typing import Any

from .encoding import quote, to_json


def columns_to_json(frame: Any) -> str:
    """The data of `frame` as JSON text. The frame is only read."""
    columns: dict[str, str] = {}
    for position, name in enumerate(frame.columns):
        columns[_column_name(name)] = _values_to_json(frame.iloc[:, position])
    return "{" + ",".join(f"{quote(name)}:{values}" for name, values in columns.items()) + "}"


def _column_name(name: Any) -> str:
    if isinstance(name, (datetime.datetime, datetime.date)):
        return name.isoformat()
    return str(name)


def _values_to_json(column: Any) -> str:
    kind = getattr(column.dtype, "kind", "O")
    values = column.tolist()
    if kind in "iub" and not hasattr(column.dtype, "na_value"):
        return to_json(values)
    return to_json([_value(value) for value in values])


def _value(value: Any) -> Any:
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    # NaT is a datetime by type; its `isoformat` says "NaT", as the reference does.
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if type(value).__name__ == "NAType":
        return None
    if isinstance(value, dict):
        return {_column_name(key): _value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_value(item) for item in value]
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        plain = value.tolist()
        return str(value) if type(plain) is type(value) else _value(plain)
    return str(value)
