"""Bar charts, upright and lying, grouped and stacked, and histograms."""

from __future__ import annotations

import re

from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.patches import Rectangle

from .artists import DrawnArtists
from .axis import AxisView
from .plane import plane_chart
from .shapes import Bar, Chart
from .values import number, rounded, short_number

_AUTOMATIC_LABEL = re.compile(r"_container\d+")


def bar_chart(axes: Axes, artists: DrawnArtists) -> Chart | None:
    """A chart of nothing but bars, apart from lines that mark a level."""
    if artists.lines_that_are_no_guides or artists.collections or artists.others or not artists.patches:
        return None
    containers = [container for container in axes.containers if isinstance(container, BarContainer)]
    bars = {id(bar) for container in containers for bar in container}
    if not all(id(patch) in bars for patch in artists.patches):
        return None
    lying = any(container.orientation == "horizontal" for container in containers)
    elements = [bar for index, container in enumerate(containers) for bar in _elements(axes, container, index)]
    return plane_chart("bar", axes, elements, lying=lying)


def _elements(axes: Axes, container: BarContainer, index: int) -> list[Bar]:
    lying = container.orientation == "horizontal"
    bars: list[Rectangle] = list(container)
    starts = [bar.get_y() if lying else bar.get_x() for bar in bars]
    widths = [bar.get_height() if lying else bar.get_width() for bar in bars]
    lengths = [bar.get_width() if lying else bar.get_height() for bar in bars]
    names = _names(AxisView(axes, "y" if lying else "x"), starts, widths)
    group = _group(container, index)
    return [
        {"label": name, "group": group, "value": number(length)} for name, length in zip(names, lengths, strict=True)
    ]


def _group(container: BarContainer, index: int) -> str:
    """matplotlib's automatic labels count error bars too; a group is counted among the bars."""
    label = str(container.get_label())
    return f"Group {index}" if _AUTOMATIC_LABEL.fullmatch(label) else label


def _names(axis: AxisView, starts: list[float], widths: list[float]) -> list[str]:
    """What each bar stands for: the tick it stands at, or else its place; a bin is its range."""
    centres = [start + width / 2 for start, width in zip(starts, widths, strict=True)]
    if not axis.has_named_ticks and not axis.has_dates and _are_bins(starts, widths, centres):
        return [
            f"{short_number(start)} - {short_number(start + width)}"
            for start, width in zip(starts, widths, strict=True)
        ]
    return [axis.name_at(float(centre)) for centre in centres]


def _are_bins(starts: list[float], widths: list[float], centres: list[float]) -> bool:
    """Bars that touch each other and are not simply counted one by one."""
    ends = [start + width for start, width in zip(starts, widths, strict=True)]
    touching = all(rounded(end) == rounded(start) for end, start in zip(ends, starts[1:], strict=False))
    return len(starts) > 1 and touching and any(rounded(centre) != round(centre) for centre in centres)
