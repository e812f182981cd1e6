"""One way to look at a chart: valid JSON, exactly the keys of its type, and the figure left as it was."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from skep_charts import chart_figure_to_dict, extract_chart

COMMON = {"type", "title", "elements"}
PLANE = COMMON | {"x_label", "y_label", "x_unit", "y_unit"}
POINT = PLANE | {"x_ticks", "x_tick_labels", "x_scale", "y_ticks", "y_tick_labels", "y_scale"}
KEYS = {
    "line": POINT,
    "scatter": POINT,
    "bar": PLANE,
    "box_and_whisker": PLANE,
    "pie": COMMON,
    "superchart": COMMON,
    "unknown": COMMON,
}
ELEMENT_KEYS = {
    "line": {"label", "points"},
    "scatter": {"label", "points"},
    "bar": {"label", "group", "value"},
    "pie": {"label", "angle", "radius"},
    "box_and_whisker": {"label", "min", "first_quartile", "median", "third_quartile", "max", "outliers"},
}

Draw = Callable[[Axes], Any]


def chart_of(draw: Draw, **subplot_options: Any) -> dict[str, Any]:
    """The chart of a figure with one axes."""
    figure, axes = plt.subplots(**subplot_options)
    draw(axes)
    return chart_of_figure(figure)


def chart_of_figure(figure: Figure) -> dict[str, Any]:
    """The chart of a figure, checked for everything that holds for all charts."""
    before = [len(axes.get_children()) for axes in figure.axes]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        extract_chart(figure)
        chart = chart_figure_to_dict(figure)
    assert [len(axes.get_children()) for axes in figure.axes] == before
    # What the wire does to it: tuples become lists, and NaN would be refused.
    chart = json.loads(json.dumps(chart, allow_nan=False))
    if chart:
        check_shape(chart)
    return chart


def check_shape(chart: dict[str, Any]) -> None:
    kind = chart["type"]
    assert set(chart) == KEYS[kind], kind
    if kind == "superchart":
        for part in chart["elements"]:
            check_shape(part)
        return
    if kind == "unknown":
        assert chart["elements"] == []
        return
    for element in chart["elements"]:
        assert set(element) == ELEMENT_KEYS[kind]
        assert isinstance(element["label"], str)
        for name, value in element.items():
            if name in ("points", "outliers"):
                assert all(isinstance(point, (list, float)) for point in value)
            elif name not in ("label", "group"):
                assert isinstance(value, float) or value is None, (name, value)
    if KEYS[kind] == POINT:
        for axis in "xy":
            ticks, labels = chart[f"{axis}_ticks"], chart[f"{axis}_tick_labels"]
            assert len(ticks) == len(labels)
            assert all(isinstance(tick, (float, str)) or tick is None for tick in ticks)
            assert all(isinstance(label, str) for label in labels)
