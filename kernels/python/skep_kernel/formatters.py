"""The three formatters of the contract beside IPython's own.

`application/json` for lists and dicts, `e2b/data` for data frames, `e2b/chart` for figures. A failure
here means that one representation is missing, never that the user's cell fails. Nothing is imported
for the sake of formatting: types are recognised by name.
"""

from __future__ import annotations

import sys
from typing import Any

from IPython.core.formatters import BaseFormatter, DisplayFormatter, JSONFormatter
from traitlets import ObjectName, Unicode

from .encoding import EncodedJson, NotJson, to_faithful_json

# Newer pandas says that DataFrame lives in `pandas`, older in its true module.
FRAME_MODULES = ("pandas", "pandas.core.frame")


class ContainerFormatter(JSONFormatter):
    """`application/json`, also for plain lists and dicts."""

    _return_type = (list, dict, EncodedJson)  # type: ignore[assignment]


class DataFormatter(BaseFormatter):
    """`e2b/data`: the columns of a data frame."""

    format_type = Unicode("e2b/data")
    print_method = ObjectName("_repr_e2b_data_")
    _return_type = (dict, EncodedJson)


class ChartFormatter(BaseFormatter):
    """`e2b/chart`: what a figure shows, as numbers and words."""

    format_type = Unicode("e2b/chart")
    print_method = ObjectName("_repr_e2b_chart_")
    _return_type = dict

    def __call__(self, obj: Any) -> Any:
        # Not registered for the type: the inline backend removes what others registered for figures.
        figures = sys.modules.get("matplotlib.figure")
        if figures is not None and isinstance(obj, figures.Figure):
            return extract_chart(obj) if self.enabled else None
        return super().__call__(obj)


def install_formatters(display_formatter: DisplayFormatter) -> None:
    """Add the formatters to a shell's display formatter."""
    json_formatter = ContainerFormatter(parent=display_formatter)
    json_formatter.for_type(list, encode_container)
    json_formatter.for_type(dict, encode_container)

    data_formatter = DataFormatter(parent=display_formatter)
    for module in FRAME_MODULES:
        data_formatter.for_type_by_name(module, "DataFrame", encode_data_frame)

    for formatter in (json_formatter, data_formatter, ChartFormatter(parent=display_formatter)):
        display_formatter.formatters[formatter.format_type] = formatter
        if formatter.format_type not in display_formatter.active_types:
            display_formatter.active_types = [*display_formatter.active_types, formatter.format_type]


def encode_container(value: Any) -> EncodedJson | None:
    """JSON of a list or dict; None when JSON cannot say it."""
    try:
        return EncodedJson(to_faithful_json(value))
    except NotJson:
        return None
    except Exception:
        # The elements are user objects whose methods may raise anything.
        return None


def encode_data_frame(frame: Any) -> EncodedJson | None:
    """The columns of a pandas data frame."""
    from .data_frames import columns_to_json

    try:
        return EncodedJson(columns_to_json(frame))
    except Exception:
        return None


def extract_chart(figure: Any) -> dict[str, Any] | None:
    """The chart of a figure, `{}` for one that cannot be read; None if charts are not installed."""
    try:
        from skep_charts import chart_figure_to_dict
    except ImportError:
        return None
    try:
        return chart_figure_to_dict(figure)
    except Exception:
        return {}
