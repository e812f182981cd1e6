"""The JSON shapes. Every key is always present; what is absent is None."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

Coordinate = float | str | None


class Chart(TypedDict):
    """What all charts have; an unknown chart has no more, and no elements."""

    type: Literal["line", "scatter", "bar", "pie", "box_and_whisker", "superchart", "unknown"]
    title: str | None
    elements: list[Any]


class PlaneChart(Chart):
    """A chart with two axes."""

    x_label: str | None
    y_label: str | None
    x_unit: str | None
    y_unit: str | None


class PointChart(PlaneChart):
    """A line or scatter chart."""

    x_ticks: list[Coordinate]
    x_tick_labels: list[str]
    x_scale: str
    y_ticks: list[Coordinate]
    y_tick_labels: list[str]
    y_scale: str


class Points(TypedDict):
    """A line, or one group of a scatter chart."""

    label: str
    points: list[tuple[Coordinate, Coordinate]]


class Bar(TypedDict):
    label: str
    group: str
    value: float | None


class Slice(TypedDict):
    """Of a pie."""

    label: str
    angle: float
    radius: float


class Box(TypedDict):
    """Of a box plot; the ends of the whiskers are called min and max."""

    label: str
    min: float
    first_quartile: float
    median: float
    third_quartile: float
    max: float
    outliers: list[float]
