"""Scatter charts."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection

from .artists import DrawnArtists
from .axis import AxisView
from .plane import point_chart
from .shapes import Chart, Points


def scatter_chart(axes: Axes, artists: DrawnArtists) -> Chart | None:
    """A chart of nothing but points, apart from lines that mark a level."""
    if artists.patches or artists.others or artists.lines_that_are_no_guides or not artists.collections:
        return None
    groups = [group for group in artists.collections if isinstance(group, PathCollection)]
    if len(groups) != len(artists.collections):
        return None
    return point_chart("scatter", axes, [_element(axes, group) for group in groups])


def _offsets(group: PathCollection) -> list[tuple[float, float]]:
    """Positions; a masked point is not drawn and has none."""
    offsets = np.ma.masked_array(group.get_offsets()).filled(np.nan)
    return [(float(left), float(up)) for left, up in offsets]


def _element(axes: Axes, group: PathCollection) -> Points:
    # A scatter keeps no record of what the user passed, only positions; the axes know what they mean.
    x, y = AxisView(axes, "x"), AxisView(axes, "y")
    return {
        "label": str(group.get_label()),
        "points": [(x.coordinate_at(left), y.coordinate_at(up)) for left, up in _offsets(group)],
    }
