"""Turning what user code hands us into JSON that every reader accepts.

The wire is pure ASCII, has no NaN or Infinity, and no half of a surrogate pair: strict parsers refuse
all three, and user code can produce all three.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import enum
import json
import math
import re
import uuid
from collections.abc import Callable, Mapping
from json.encoder import encode_basestring_ascii
from typing import Any

REPLACEMENT = "\\ufffd"

_ESCAPES = re.compile(r"\\\\|\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|(\\ud[89a-f][0-9a-f]{2})")
_LONG_NUMBER = re.compile(r"[0-9]{19}")
_DATES = (datetime.datetime, datetime.date, datetime.time)


class EncodedJson:
    """JSON text that needs no second pass, so that a large value is encoded once."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


class NotJson(Exception):
    """The value has no JSON form that a reader would recognise as the same value."""


def whole_text(text: str) -> str:
    """`text` with lone surrogates replaced, because they cannot be written in any UTF."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def quote(text: str) -> str:
    """`text` as an ASCII JSON string."""
    return encode_basestring_ascii(whole_text(text))


def to_json(value: Any) -> str:
    """JSON for any value; what has no JSON form is given by its `str`. Never raises for odd values."""
    if isinstance(value, EncodedJson):
        return value.text
    if isinstance(value, str):
        return quote(value)
    try:
        return _without_lone_surrogates(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return _without_lone_surrogates(json.dumps(_plain(value, str, ())))


def to_faithful_json(value: Any) -> str:
    """JSON for a list or dict as data.

    Raises NotJson where a reader would get something else than the value: sets, custom objects,
    integers beyond 64 bits, cycles. NaN is null, numpy arrays are lists, dates are ISO strings.
    """
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        try:
            text = json.dumps(_plain(value, _refuse, ()))
        except (TypeError, ValueError, RecursionError) as error:
            raise NotJson from error
    if _LONG_NUMBER.search(text) and not _fits_64_bits(json.loads(text)):
        raise NotJson
    return _without_lone_surrogates(text)


def bundle_to_json(bundle: Mapping[str, Any]) -> str:
    """A MIME bundle; bytes are base64, as every front end expects them."""
    return "{" + ",".join(f"{quote(str(mime))}:{to_json(_base64(value))}" for mime, value in bundle.items()) + "}"


def _base64(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode("ascii")
    return value


def _refuse(value: Any) -> Any:
    raise NotJson


def _plain(value: Any, unknown: Callable[[Any], Any], path: tuple[int, ...]) -> Any:
    """`value` built of JSON's own types; `unknown` decides about the rest and about cycles."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, enum.Enum):
        return _plain(value.value, unknown, path)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if id(value) in path:
        return unknown(value)
    inside = (*path, id(value))
    if isinstance(value, dict):
        return {_key(key, unknown): _plain(item, unknown, inside) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, unknown, inside) for item in value]
    if isinstance(value, _DATES):
        return value.isoformat()
    if isinstance(value, uuid.UUID):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name), unknown, inside) for field in dataclasses.fields(value)}
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        plain = value.tolist()
        # Some numpy scalars (long double, void) are their own `tolist`.
        return unknown(value) if type(plain) is type(value) else _plain(plain, unknown, path)
    if unknown is str and isinstance(value, (bytes, bytearray, memoryview)):
        return _base64(value)
    return unknown(value)


def _key(key: Any, unknown: Callable[[Any], Any]) -> str:
    if isinstance(key, str):
        return str(key)
    plain = _plain(key, unknown, ())
    if isinstance(plain, (dict, list)):
        plain = unknown(key)
    return plain if isinstance(plain, str) else json.dumps(plain)


def _fits_64_bits(value: Any) -> bool:
    if isinstance(value, int):
        return -(2**63) <= value < 2**64
    if isinstance(value, dict):
        return all(map(_fits_64_bits, value.values()))
    if isinstance(value, list):
        return all(map(_fits_64_bits, value))
    return True


def _without_lone_surrogates(text: str) -> str:
    if "\\ud" not in text:
        return text
    return _ESCAPES.sub(lambda match: REPLACEMENT if match[1] else match[0], text)
