"""What a matplotlib figure shows, as plain data.

`chart_figure_to_dict` turns a figure into the chart object of the interpreter contract: line, scatter,
bar, pie, box-and-whisker, a superchart of several, or unknown. It reads live artists, not pixels, and
does not change the figure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .shapes import Chart

__all__ = ["chart_figure_to_dict", "extract_chart"]


def extract_chart(figure: Figure) -> Chart | None:
    """The chart of a figure; None if it is blank. May raise for a figure nobody foresaw."""
    from .figure import figure_chart

    return figure_chart(figure)


def chart_figure_to_dict(figure: Figure) -> dict[str, Any]:
    """The chart of a figure as JSON values; `{}` if it is blank or cannot be read. Never raises."""
    try:
        chart = extract_chart(figure)
    except Exception:
        # A figure is made of user objects; whatever is wrong with them must not fail the user's cell.
        return {}
    return {} if chart is None else dict(chart)
