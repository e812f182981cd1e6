"""Pie charts."""

from __future__ import annotations

import math

from matplotlib.axes import Axes
from matplotlib.patches import Circle, Patch, Wedge

from .artists import DrawnArtists
from .shapes import Chart, Slice
from .values import rounded

ANGLE_DECIMALS = 4
"""matplotlib computes the shares of a pie in single precision; the rest is noise."""


def pie_chart(axes: Axes, artists: DrawnArtists) -> Chart | None:
    """A chart of nothing but slices; a disc on top makes a ring of it and changes nothing else."""
    if artists.lines_that_are_no_guides or artists.collections or artists.others:
        return None
    slices = [patch for patch in artists.patches if isinstance(patch, Wedge)]
    rest = [patch for patch in artists.patches if not isinstance(patch, Wedge)]
    if not slices or not all(_is_hole(patch, slices) for patch in rest):
        return None
    return {"type": "pie", "title": axes.get_title() or None, "elements": [_element(slice_) for slice_ in slices]}


def _element(slice_: Wedge) -> Slice:
    return {
        "label": str(slice_.get_label()),
        "angle": round(abs(float(slice_.theta2) - float(slice_.theta1)), ANGLE_DECIMALS),
        "radius": rounded(slice_.r),
    }


def _is_hole(patch: Patch, slices: list[Wedge]) -> bool:
    return isinstance(patch, Circle) and any(
        math.dist(patch.center, slice_.center) < slice_.r and patch.radius <= slice_.r for slice_ in slices
    )
