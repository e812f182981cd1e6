"""Line charts."""

from __future__ import annotations

import re

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from .artists import DrawnArtists
from .axis import AxisView
from .plane import point_chart
from .shapes import Chart, Coordinate, Points
from .values import coordinates

_AUTOMATIC_LABEL = re.compile(r"_child(\d+)")


def line_chart(axes: Axes, artists: DrawnArtists) -> Chart | None:
    """A chart of nothing but lines, or of nothing at all."""
    if artists.patches or artists.collections or artists.others:
        return None
    views = AxisView(axes, "x"), AxisView(axes, "y")
    return point_chart("line", axes, [_element(line, *views) for line in artists.lines])


def _element(line: Line2D, x: AxisView, y: AxisView) -> Points:
    return {"label": _label(line), "points": _points(line, x, y)}


def _label(line: Line2D) -> str:
    label = str(line.get_label())
    automatic = _AUTOMATIC_LABEL.fullmatch(label)
    return f"Line {automatic[1]}" if automatic else label


def _points(line: Line2D, x_axis: AxisView, y_axis: AxisView) -> list[tuple[Coordinate, Coordinate]]:
    """As the user gave them, unless matplotlib had to stretch one side."""
    x, y = coordinates(line.get_xdata(orig=True)), coordinates(line.get_ydata(orig=True))
    if len(x) != len(y):
        x, y = coordinates(line.get_xdata(orig=False)), coordinates(line.get_ydata(orig=False))
    return list(zip(_with_dates(x, x_axis), _with_dates(y, y_axis), strict=True))


def _with_dates(values: list[Coordinate], axis: AxisView) -> list[Coordinate]:
    """pandas hands matplotlib the numbers of days or periods; on an axis of dates they are dates."""
    if not axis.has_dates:
        return values
    return [axis.coordinate_at(value) if isinstance(value, float) else value for value in values]
