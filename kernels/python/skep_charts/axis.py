"""One axis of a chart: label, unit, ticks, scale, and what a position on it is called."""

from __future__ import annotations

import datetime
import itertools
import re
from typing import Any, Literal

import matplotlib.dates as mdates
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.category import StrCategoryConverter
from matplotlib.ticker import FixedFormatter

from .shapes import Coordinate
from .values import coordinate, number, short_number

Direction = Literal["x", "y"]

_UNIT = re.compile(r"\s\((.*?)\)|\[(.*?)\]")
_SAME_PLACE = 1e-6


class AxisView:
    """What a chart needs to know of one axis."""

    def __init__(self, axes: Axes, direction: Direction) -> None:
        self._axis: Axis = axes.xaxis if direction == "x" else axes.yaxis
        self._converter = _converter(self._axis)

    @property
    def label(self) -> str | None:
        return self._axis.get_label_text() or None

    @property
    def unit(self) -> str | None:
        """The first text in brackets of the label: `Time (s)` or `Time [s]`."""
        match = _UNIT.search(self._axis.get_label_text())
        return next((group for group in match.groups() if group is not None), None) if match else None

    @property
    def has_dates(self) -> bool:
        return self._has_periods or type(self._converter).__name__ in _DATE_CONVERTERS

    @property
    def _has_periods(self) -> bool:
        """pandas draws time series against the ordinals of periods."""
        return hasattr(self._axis, "freq") and self._axis.freq is not None

    @property
    def scale(self) -> str:
        if self.has_dates:
            return "datetime"
        name = str(self._axis.get_scale())
        if name != "linear":
            return name
        if isinstance(self._converter, StrCategoryConverter):
            return "categorical"
        return "categorical" if self._is_categorical_by_labels() else "linear"

    def _is_categorical_by_labels(self) -> bool:
        """Ticks at 0, 1, 2, … that are called something else."""
        positions = list(self._axis.get_majorticklocs())
        labels = self.tick_labels
        if not positions or len(labels) != len(positions):
            return False
        return all(float(position) == index and labels[index] != str(index) for index, position in enumerate(positions))

    @property
    def ticks(self) -> list[Coordinate]:
        positions = self._axis.get_majorticklocs()
        if self.has_dates:
            return [self._tick_date(float(position)) for position in positions]
        return [number(position) for position in positions]

    @property
    def tick_labels(self) -> list[str]:
        # Asked of the formatter: axes that share their labels with a neighbour show none of their own.
        positions = [float(position) for position in self._axis.get_majorticklocs()]
        return [str(text) for text in self._axis.get_major_formatter().format_ticks(positions)]

    def _tick_date(self, position: float) -> Coordinate:
        moment = self._moment(position)
        return None if moment is None else moment.replace(tzinfo=datetime.UTC).isoformat()

    def _moment(self, position: float) -> datetime.datetime | None:
        """The date at a position; None outside the calendar."""
        try:
            if self._has_periods:
                return _period_start(self._axis, position)
            return mdates.num2date(position, tz=datetime.UTC).replace(tzinfo=None)
        except (ValueError, OverflowError):
            return None

    def coordinate_at(self, position: Any) -> Coordinate:
        """A drawn position in the terms of the axis: a date, a category, or the number itself."""
        value = number(position)
        if value is None:
            return None
        if self.has_dates:
            moment = self._moment(value)
            return None if moment is None else coordinate(moment)
        if isinstance(self._converter, StrCategoryConverter):
            return self._category(value) or value
        return value

    def _category(self, position: float) -> str | None:
        # matplotlib keeps the categories in the units of the axis.
        mapping = getattr(self._axis.units, "_mapping", {})
        return next((name for name, index in mapping.items() if abs(index - position) < _SAME_PLACE), None)

    def name_at(self, position: float) -> str:
        """What stands under a bar or box at this position: a tick's words, a date, or a number."""
        if self._has_periods:
            named = None
        elif self.has_dates:
            moment = self._moment(position)
            return short_number(position) if moment is None else _short_date(moment)
        else:
            named = self._nearest_named_tick(position)
        return short_number(position) if named is None else named

    @property
    def has_named_ticks(self) -> bool:
        """Whether somebody gave the ticks names, which are not just their numbers."""
        if isinstance(self._converter, StrCategoryConverter):
            return True
        if isinstance(self._axis.get_major_formatter(), FixedFormatter):
            return any(self.tick_labels)
        return any(text and not _is_number(text) for text in self.tick_labels)

    def _nearest_named_tick(self, position: float) -> str | None:
        """Grouped bars stand beside their tick, but nearer to it than to any other."""
        if not self.has_named_ticks:
            return None
        ticks = [
            (float(place), text) for place, text in zip(self._axis.get_majorticklocs(), self.tick_labels, strict=False)
        ]
        if not ticks:
            return None
        places = sorted(place for place, _ in ticks)
        gaps = [after - before for before, after in itertools.pairwise(places) if after > before]
        reach = min(gaps) / 2 if gaps else 0.5
        place, text = min(ticks, key=lambda tick: abs(tick[0] - position))
        return text if text and abs(place - position) <= reach * (1 + _SAME_PLACE) else None


_DATE_CONVERTERS = {
    "_SwitchableDateConverter",
    "DateConverter",
    "ConciseDateConverter",
    # of pandas
    "DatetimeConverter",
    "PandasAutoDateConverter",
    "PeriodConverter",
}


def _converter(axis: Axis) -> Any:
    get_converter = getattr(axis, "get_converter", None)
    return get_converter() if get_converter is not None else axis.converter


def _period_start(axis: Any, position: float) -> datetime.datetime:
    import pandas

    return pandas.Period(ordinal=round(position), freq=axis.freq).start_time.to_pydatetime()


def _short_date(moment: datetime.datetime) -> str:
    """Without the time of day if that is midnight."""
    if moment.time() == datetime.time():
        return moment.date().isoformat()
    return moment.isoformat()


def _is_number(text: str) -> bool:
    plain = text.replace("\N{MINUS SIGN}", "-").replace("$\\mathdefault{", "").rstrip("}$")
    try:
        float(plain)
    except ValueError:
        return "mathdefault" in text
    return True
