"""IPython's two doors for rich output, leading to the outlet."""

from __future__ import annotations

import sys
from typing import Any

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from traitlets import Any as AnyTrait


class KernelDisplayHook(DisplayHook):
    """Sends the value of a cell."""

    outlet = AnyTrait(allow_none=True)

    def write_output_prompt(self) -> None:
        """There is no prompt."""

    def write_format_data(self, format_dict: dict[str, Any], md_dict: dict[str, Any] | None = None) -> None:
        if self.outlet is not None:
            self.outlet.result(self.prompt_count, format_dict, md_dict or {})

    def log_output(self, format_dict: dict[str, Any]) -> None:
        """IPython would keep a copy of every bundle for ever."""

    def finish_displayhook(self) -> None:
        self._is_active = False


class KernelDisplayPublisher(DisplayPublisher):
    """Sends what is displayed."""

    outlet = AnyTrait(allow_none=True)

    def publish(  # type: ignore[override]
        self,
        data: dict[str, Any],
        metadata: dict[str, Any] | None = None,
        *_unused: Any,
        transient: dict[str, Any] | None = None,
        update: bool = False,
        **_options: Any,
    ) -> None:
        metadata = metadata or {}
        self._validate_data(data, metadata)
        for mime, renderer in getattr(self.shell, "mime_renderers", {}).items():
            if mime in data:
                renderer(data[mime], metadata.get(mime))
                return
        if self.outlet is not None:
            self.outlet.display(data, metadata, transient or {}, update)
        elif "text/plain" in data:
            # A forked child shares only the text streams with the kernel.
            print(data["text/plain"], file=sys.stdout)

    def clear_output(self, wait: bool = False) -> None:
        if self.outlet is not None:
            self.outlet.clear_output(wait)
