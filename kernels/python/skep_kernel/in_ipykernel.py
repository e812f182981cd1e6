"""The contract's representations under `ipykernel`, as an extension of IPython.

`ipykernel` turns values into JSON itself, so what our own kernel hands on as finished text is read again here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from .encoding import EncodedJson
from .formatters import FRAME_MODULES, encode_container, encode_data_frame, install_formatters
from .images import install_image_rules


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Called by IPython."""
    display_formatter: Any = shell.display_formatter
    install_formatters(display_formatter)
    containers = display_formatter.formatters["application/json"]
    containers.for_type(list, decoded(encode_container))
    containers.for_type(dict, decoded(encode_container))
    frames = display_formatter.formatters["e2b/data"]
    for module in FRAME_MODULES:
        frames.for_type_by_name(module, "DataFrame", decoded(encode_data_frame))
    install_image_rules()


def decoded(encode: Callable[[Any], EncodedJson | None]) -> Callable[[Any], Any]:
    """The same representation as a value instead of as text."""

    def decode(value: Any) -> Any:
        encoded = encode(value)
        return None if encoded is None else json.loads(encoded.text)

    return decode
