"""Box plots.

matplotlib leaves no record that some lines and patches are a box plot, so the geometry decides. It is
strict: every box has two whiskers and a median, and every line of the axes belongs to some box.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch

from .artists import DrawnArtists
from .axis import AxisView
from .plane import plane_chart
from .shapes import Box, Chart
from .values import rounded

_TOLERANCE = 1e-9

# Where the third quartile begins, by the number of points: four corners, or six more for the notch.
_FAR_CORNER = {5: 2, 11: 5}


@dataclass
class _Stroke:
    """A line as two arrays: along the axis of names, and along the axis of values."""

    across: np.ndarray
    along: np.ndarray
    is_marks: bool

    def stands_at(self, place: float) -> bool:
        return bool(len(self.across)) and np.allclose(self.across, place, rtol=_TOLERANCE, atol=_TOLERANCE)

    @property
    def is_level(self) -> bool:
        return (
            len(self.along) == 2
            and not self.is_marks
            and bool(np.isclose(self.along[0], self.along[1], rtol=_TOLERANCE, atol=0))
        )

    @property
    def is_pair(self) -> bool:
        return len(self.along) == 2 and not self.is_marks


@dataclass
class _Frame:
    """The box itself."""

    left: float
    right: float
    bottom: float
    top: float

    @property
    def centre(self) -> float:
        return (self.left + self.right) / 2

    def holds(self, value: float) -> bool:
        slack = _TOLERANCE * max(abs(self.bottom), abs(self.top))
        return self.bottom - slack <= value <= self.top + slack


def box_chart(axes: Axes, artists: DrawnArtists) -> Chart | None:
    """A chart of nothing but boxes with whiskers."""
    if artists.collections or artists.others or not all(isinstance(patch, PathPatch) for patch in artists.patches):
        return None
    for lying in (False, True):
        boxes = _read(artists, lying)
        if boxes is not None:
            names = AxisView(axes, "y" if lying else "x")
            elements = [_element(names, frame, values) for frame, values in boxes]
            return plane_chart("box_and_whisker", axes, elements, lying=lying)
    return None


_Values = tuple[float, float, float, list[float]]


def _read(artists: DrawnArtists, lying: bool) -> list[tuple[_Frame, _Values]] | None:
    """All boxes of this orientation; None if something else was drawn too."""
    frames = [_frame(np.asarray(patch.get_path().vertices, dtype=float)[:-1], lying) for patch in artists.patches]
    strokes = [_stroke(line, lying) for line in artists.lines]
    claimed: set[int] = set()
    for index, stroke in enumerate(strokes):
        outline = None if stroke.is_marks else _frame_of(stroke.across, stroke.along)
        if outline is not None:
            claimed.add(index)
            frames.append(outline)
    boxes: list[tuple[_Frame, _Values]] = []
    for frame in frames:
        values = None if frame is None else _measure(frame, strokes, claimed)
        if frame is None or values is None:
            return None
        # The same box drawn twice, as an outline and filled, is one box.
        if not any(_same_place(frame, other) for other, _ in boxes):
            boxes.append((frame, values))
    left_over = [stroke for index, stroke in enumerate(strokes) if index not in claimed and len(stroke.along)]
    return boxes if boxes and not left_over else None


def _stroke(line: Line2D, lying: bool) -> _Stroke:
    x = np.asarray(line.get_xdata(orig=False), dtype=float)
    y = np.asarray(line.get_ydata(orig=False), dtype=float)
    is_marks = line.get_linestyle() in ("None", " ", "") or len(x) == 1
    return _Stroke(y, x, is_marks) if lying else _Stroke(x, y, is_marks)


def _frame(corners: np.ndarray, lying: bool) -> _Frame | None:
    across, along = (corners[:, 1], corners[:, 0]) if lying else (corners[:, 0], corners[:, 1])
    return _frame_of(across, along)


def _frame_of(across: np.ndarray, along: np.ndarray) -> _Frame | None:
    """The box that a closed line describes, plain or with a notch, starting at its first quartile."""
    if len(along) not in _FAR_CORNER or along[0] != along[-1] or across[0] != across[-1]:
        return None
    far = _FAR_CORNER[len(along)]
    if along[0] != along[1] or along[far] != along[far + 1] or across[0] != across[far + 1] or across[1] != across[far]:
        return None
    return _Frame(float(across.min()), float(across.max()), float(along[0]), float(along[far]))


def _measure(frame: _Frame, strokes: list[_Stroke], claimed: set[int]) -> _Values | None:
    """Whisker ends, median and outliers of one box; its lines are claimed."""
    ends: list[float] = []
    levels: list[tuple[float, float]] = []
    marks: list[tuple[float, ...]] = []
    for index, stroke in enumerate(strokes):
        if index in claimed and not _is_free(stroke):
            continue
        if stroke.is_marks:
            if stroke.stands_at(frame.centre):
                claimed.add(index)
                # A twin of the box brings the same outliers again.
                marks += [points for points in [tuple(stroke.along.tolist())] if points not in marks]
        elif stroke.is_pair and stroke.stands_at(frame.centre):
            if any(np.isclose(end, (frame.bottom, frame.top), rtol=_TOLERANCE, atol=0).any() for end in stroke.along):
                claimed.add(index)
                ends += stroke.along.tolist()
        elif stroke.is_level and _lies_within(stroke, frame):
            claimed.add(index)
            levels.append((float(stroke.along[0]), float(abs(np.ptp(stroke.across)))))
    if len(ends) < 4:
        return None
    low, high = min(ends), max(ends)
    median = _median(frame, levels, low, high)
    if median is None:
        return None
    return low, median, high, [value for points in marks for value in points if value < low or value > high]


def _is_free(stroke: _Stroke) -> bool:
    """Whether a claimed line may serve a second box: one drawn twice shares its place with its twin."""
    return not stroke.is_marks and len(stroke.along) == 2


def _lies_within(stroke: _Stroke, frame: _Frame) -> bool:
    slack = _TOLERANCE * max(1.0, abs(frame.left), abs(frame.right))
    centred = abs(float(stroke.across.mean()) - frame.centre) <= max(slack, 1e-6 * (frame.right - frame.left))
    return centred and stroke.across.min() >= frame.left - slack and stroke.across.max() <= frame.right + slack


def _median(frame: _Frame, levels: list[tuple[float, float]], low: float, high: float) -> float | None:
    """Of the level lines in the box the widest that is no cap of a whisker, and the first of these."""
    inside = [(value, width) for value, width in levels if frame.holds(value)]
    if not inside:
        return None
    no_caps = [(value, width) for value, width in inside if value not in (low, high)] or inside
    widest = max(width for _, width in no_caps)
    return next(value for value, width in no_caps if width >= widest * (1 - 1e-9))


def _same_place(frame: _Frame, other: _Frame) -> bool:
    return bool(np.allclose((frame.centre, frame.bottom, frame.top), (other.centre, other.bottom, other.top)))


def _element(names: AxisView, frame: _Frame, values: _Values) -> Box:
    low, median, high, outliers = values
    return {
        "label": names.name_at(frame.centre),
        "min": rounded(low),
        "first_quartile": rounded(frame.bottom),
        "median": rounded(median),
        "third_quartile": rounded(frame.top),
        "max": rounded(high),
        "outliers": [rounded(value) for value in outliers],
    }
