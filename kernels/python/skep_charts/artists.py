"""What was drawn into an axes, sorted by kind and without what only decorates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import Collection
from matplotlib.container import BarContainer
from matplotlib.lines import AxLine, Line2D
from matplotlib.patches import Patch, Polygon, Rectangle, Shadow


@dataclass
class DrawnArtists:
    """The data artists of an axes. Text is never among them."""

    lines: list[Line2D]
    patches: list[Patch]
    collections: list[Collection]
    others: list[Artist]

    @property
    def lines_that_are_no_guides(self) -> list[Line2D]:
        """Without level or upright lines of two points, which mark something beside the data."""
        return [line for line in self.lines if not looks_like_guide(line)]


def drawn_artists(axes: Axes) -> DrawnArtists | None:
    """The artists of an axes; None if their coordinates are not those of a plane."""
    if axes.name == "3d":
        return None
    errors = _error_bars_of_bars(axes)
    return DrawnArtists(
        lines=[line for line in axes.lines if id(line) not in errors and not _is_guide(line, axes)],
        patches=[patch for patch in axes.patches if not isinstance(patch, Shadow) and not _is_guide(patch, axes)],
        collections=[collection for collection in axes.collections if id(collection) not in errors],
        others=[*axes.images, *axes.tables, *axes.artists],
    )


def _is_guide(artist: Line2D | Patch, axes: Axes) -> bool:
    """Whether it is drawn across the axes, like `axhline` and `axvspan`, instead of from point to point."""
    if isinstance(artist, AxLine):
        return True
    if isinstance(artist, Line2D):
        return not artist.get_transform().contains_branch(axes.transData) or _spans_axes(artist, axes)
    if isinstance(artist, (Rectangle, Polygon)):
        return _spans_axes(artist, axes)
    return False


def _spans_axes(artist: Line2D | Patch, axes: Axes) -> bool:
    transform = artist.get_transform() if isinstance(artist, Line2D) else artist.get_data_transform()
    return transform.contains_branch_seperately(axes.transData) in ((True, False), (False, True))


def _error_bars_of_bars(axes: Axes) -> set[int]:
    """The parts of error bars that belong to bars; they say nothing about the kind of chart."""
    parts: list[Artist] = []
    for container in axes.containers:
        errors = container.errorbar if isinstance(container, BarContainer) else None
        if errors is not None:
            data_line, caps, bars = errors.lines
            parts += [part for part in (data_line, *caps, *bars) if part is not None]
    return {id(part) for part in parts}


def looks_like_guide(line: Line2D) -> bool:
    """Two points, level or upright."""
    x, y = np.asarray(line.get_xdata(orig=False)), np.asarray(line.get_ydata(orig=False))
    return len(x) == len(y) == 2 and bool(x[0] == x[1] or y[0] == y[1])
