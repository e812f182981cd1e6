"""Values as words that bash reads back as the same bytes, whatever they contain.

Between single quotes every byte but the single quote stands for itself, in every mode and locale.
Code is never quoted: it reaches bash in a file of its own.
"""

from __future__ import annotations

import re

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def is_name(text: str) -> bool:
    """Whether bash can have a variable of this name."""
    return _NAME.fullmatch(text) is not None


def word(text: str) -> bytes:
    """`text`, which has no NUL, as one word."""
    return b"'" + text.encode("utf-8").replace(b"'", b"'\\''") + b"'"


def has_bytes(text: str) -> bool:
    """Whether `text` can be written in UTF-8: JSON can name halves of characters, which cannot."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
