"""The part that charts with two axes have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from matplotlib.axes import Axes

from .axis import AxisView
from .shapes import Bar, Box, PlaneChart, PointChart, Points


def plane_chart(
    kind: Literal["bar", "box_and_whisker"], axes: Axes, elements: Sequence[Bar] | Sequence[Box], *, lying: bool
) -> PlaneChart:
    """A chart of named elements. In one that lies on its side, too, x is where the names are."""
    names, values = AxisView(axes, "y" if lying else "x"), AxisView(axes, "x" if lying else "y")
    return {
        "type": kind,
        "title": axes.get_title() or None,
        "elements": list(elements),
        "x_label": names.label,
        "y_label": values.label,
        "x_unit": names.unit,
        "y_unit": values.unit,
    }


def point_chart(kind: Literal["line", "scatter"], axes: Axes, elements: Sequence[Points]) -> PointChart:
    """A chart of points, with the ticks and scales of both axes."""
    x, y = AxisView(axes, "x"), AxisView(axes, "y")
    return {
        "type": kind,
        "title": axes.get_title() or None,
        "elements": list(elements),
        "x_label": x.label,
        "y_label": y.label,
        "x_unit": x.unit,
        "y_unit": y.unit,
        "x_ticks": x.ticks,
        "x_tick_labels": x.tick_labels,
        "x_scale": x.scale,
        "y_ticks": y.ticks,
        "y_tick_labels": y.tick_labels,
        "y_scale": y.scale,
    }
