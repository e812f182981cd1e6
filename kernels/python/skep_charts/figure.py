"""From a figure to a chart: one axes is a chart, several are a superchart."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .artists import drawn_artists
from .bars import bar_chart
from .boxes import box_chart
from .lines import line_chart
from .pies import pie_chart
from .scatters import scatter_chart
from .shapes import Chart

# Each looks at the artists and answers, or leaves them to the next.
_KINDS = (box_chart, line_chart, scatter_chart, pie_chart, bar_chart)


def figure_chart(figure: Figure) -> Chart | None:
    """The chart of a figure; None if nothing was drawn into it."""
    charts = figure.axes
    if not any(axes.has_data() for axes in charts):
        return None
    if len(charts) == 1:
        return axes_chart(charts[0])
    return {"type": "superchart", "title": figure.get_suptitle(), "elements": [_part(axes) for axes in charts]}


def axes_chart(axes: Axes) -> Chart:
    """The chart of one axes."""
    artists = drawn_artists(axes)
    if artists is not None:
        for kind in _KINDS:
            chart = kind(axes, artists)
            if chart is not None:
                return chart
    return unknown_chart(axes)


def unknown_chart(axes: Axes) -> Chart:
    """A chart of which only the title can be told."""
    return {"type": "unknown", "title": axes.get_title() or None, "elements": []}


def _part(axes: Axes) -> Chart:
    """One part of a superchart; a part that cannot be read does not spoil the others."""
    try:
        return axes_chart(axes)
    except Exception:
        return unknown_chart(axes)
