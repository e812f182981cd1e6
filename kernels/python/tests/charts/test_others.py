"""Superchart, unknown, blank, and figures that are simply odd."""

from __future__ import annotations

import warnings
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.patches import Arrow, Ellipse, FancyBboxPatch, Polygon, Rectangle, RegularPolygon

from skep_charts import chart_figure_to_dict, extract_chart

from .checking import Draw, chart_of, chart_of_figure

GRID = np.arange(16).reshape(4, 4) / 16.0
Y, X = np.mgrid[0:4, 0:4]

UNKNOWN: dict[str, Draw] = {
    "two circles": lambda ax: (ax.add_patch(plt.Circle((0, 0), 1)), ax.add_patch(plt.Circle((0, 0), 0.5)), ax.grid()),
    "line and scatter": lambda ax: (ax.plot([1, 2], [3, 4]), ax.scatter([1], [2])),
    "line and bar": lambda ax: (ax.plot([1, 2, 3], [3, 4, 6]), ax.bar([1, 2], [2, 3])),
    "fill_between": lambda ax: ax.fill_between([1, 2], [3, 4]),
    "line with band": lambda ax: (ax.plot([1, 2], [3, 4]), ax.fill_between([1, 2], [2, 3], [4, 5], alpha=0.2)),
    "stackplot": lambda ax: ax.stackplot([1, 2], [3, 4], [5, 6]),
    "imshow": lambda ax: ax.imshow(GRID),
    "matshow": lambda ax: ax.matshow(GRID),
    "hexbin": lambda ax: ax.hexbin([1, 2, 3], [1, 2, 3], gridsize=4),
    "hist2d": lambda ax: ax.hist2d([1, 2, 3], [1, 2, 3]),
    "pcolormesh": lambda ax: ax.pcolormesh(GRID),
    "pcolor": lambda ax: ax.pcolor(GRID),
    "contour": lambda ax: ax.contour(GRID),
    "contourf": lambda ax: ax.contourf(GRID),
    "tricontour": lambda ax: ax.tricontour([0, 1, 0, 1], [0, 0, 1, 1.1], [1, 2, 3, 4]),
    "errorbar": lambda ax: ax.errorbar([1, 2, 3], [3, 4, 5], yerr=0.1),
    "stem": lambda ax: ax.stem([1, 2, 3], [3, 4, 5]),
    "quiver": lambda ax: ax.quiver(X, Y, X, Y),
    "barbs": lambda ax: ax.barbs(X, Y, X, Y),
    "streamplot": lambda ax: ax.streamplot(X[0], Y[:, 0], X + 1.0, Y + 1.0),
    "violin": lambda ax: ax.violinplot([np.arange(10), np.arange(20)]),
    "eventplot": lambda ax: ax.eventplot([[1, 2], [3]]),
    "vlines": lambda ax: ax.vlines([1, 2], 0, 1),
    "broken_barh": lambda ax: ax.broken_barh([(0, 1), (2, 1)], (0, 1)),
    "stairs": lambda ax: ax.stairs([1, 2, 3]),
    "step histogram": lambda ax: ax.hist([1, 2, 2, 3], histtype="stepfilled"),
    "rectangle": lambda ax: (ax.add_patch(Rectangle((0, 0), 1, 1)), ax.autoscale_view()),
    "polygon": lambda ax: ax.fill([0, 1, 1], [0, 0, 1]),
    "shapes": lambda ax: [
        ax.add_patch(patch)
        for patch in (
            Ellipse((0, 0), 1, 2),
            RegularPolygon((1, 1), 5),
            Arrow(0, 0, 1, 1),
            FancyBboxPatch((0, 0), 1, 1),
            Polygon([[0, 0], [1, 1], [2, 0]]),
        )
    ],
    "spectrogram": lambda ax: ax.specgram(np.sin(np.arange(600)), NFFT=64, noverlap=32),
    "table and line": lambda ax: (ax.plot([1, 2], [1, 2]), ax.table([["a"]])),
    "boxes and points": lambda ax: (ax.boxplot([1, 2, 3, 4]), ax.scatter([1], [2])),
    "box and a line": lambda ax: (ax.boxplot([1, 2, 3, 4], patch_artist=True), ax.plot([0, 1, 2], [1, 2, 3])),
    "heatmap": lambda ax: sns.heatmap(GRID, cbar=False, ax=ax),
    "kde": lambda ax: sns.histplot([1, 2, 2, 3, 3, 3], kde=True, ax=ax),
    "triplot and scatter": lambda ax: (ax.triplot([0, 1, 0], [0, 0, 1]), ax.scatter([0], [0])),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_has_no_shape_of_its_own_is_unknown(name: str) -> None:
    def draw(ax: Any) -> None:
        UNKNOWN[name](ax)
        ax.set_title("still titled")

    chart = chart_of(draw)
    assert chart == {"type": "unknown", "title": "still titled", "elements": []}


def test_three_dimensions_are_unknown() -> None:
    for draw in (
        lambda ax: ax.plot([1, 2], [3, 4], [5, 6]),
        lambda ax: ax.scatter([1, 2], [3, 4], [5, 6]),
        lambda ax: ax.plot_surface(X, Y, GRID),
        lambda ax: ax.bar3d([0], [0], [0], 1, 1, 1),
    ):
        assert chart_of(draw, subplot_kw={"projection": "3d"})["type"] == "unknown"


BLANK: dict[str, Any] = {
    "no axes": plt.figure,
    "empty axes": lambda: plt.subplots()[0],
    "empty grid of axes": lambda: plt.subplots(2, 2)[0],
    "only text": lambda: figure_with(lambda ax: ax.text(0.5, 0.5, "words")),
    "only a title": lambda: figure_with(lambda ax: ax.set_title("t")),
}


def figure_with(draw: Draw) -> Figure:
    figure, axes = plt.subplots()
    draw(axes)
    return figure


@pytest.mark.parametrize("name", BLANK)
def test_a_blank_figure_has_no_chart(name: str) -> None:
    figure = BLANK[name]()
    assert extract_chart(figure) is None
    assert chart_figure_to_dict(figure) == {}


def test_several_axes_are_a_superchart_in_order() -> None:
    figure, ((a, b), (c, d)) = plt.subplots(2, 2)
    a.plot([1, 2, 3], [4, 5, 7])
    b.scatter([1], [2])
    c.bar(["x"], [3])
    d.pie([1, 1])
    figure.suptitle("Four at once")
    chart = chart_of_figure(figure)
    assert (chart["type"], chart["title"]) == ("superchart", "Four at once")
    assert [part["type"] for part in chart["elements"]] == ["line", "scatter", "bar", "pie"]
    assert chart["elements"][0]["elements"][0]["points"] == [[1.0, 4.0], [2.0, 5.0], [3.0, 7.0]]
    assert chart["elements"][2]["elements"] == [{"label": "x", "group": "Group 0", "value": 3.0}]


SUPERCHARTS: dict[str, tuple[Any, list[str]]] = {
    "twin axes": (lambda: twin(), ["line", "line"]),
    "colour bar": (lambda: colour_bar(), ["unknown", "unknown"]),
    "one axes left empty": (lambda: partly_empty(), ["line", "line"]),
    "mosaic": (lambda: mosaic(), ["bar", "line", "box_and_whisker"]),
    # seaborn draws the diagonal into twins of empty axes.
    "pair grid": (
        lambda: sns.pairplot(frame(), diag_kind="hist").figure,
        ["line", "scatter", "scatter", "line", "bar", "bar"],
    ),
    "shared axes": (lambda: shared(), ["line", "line", "line"]),
}


def twin() -> Figure:
    figure, axes = plt.subplots()
    axes.plot([1, 2], [3, 5])
    axes.twinx().plot([1, 2], [30, 70])
    return figure


def colour_bar() -> Figure:
    figure, axes = plt.subplots()
    figure.colorbar(axes.imshow(GRID))
    return figure


def partly_empty() -> Figure:
    figure, (first, _) = plt.subplots(1, 2)
    first.plot([1, 2], [3, 5])
    return figure


def mosaic() -> Figure:
    figure, axes = plt.subplot_mosaic("AB;CC")
    axes["A"].bar(["x"], [1])
    axes["B"].plot([1, 2], [3, 5])
    axes["C"].boxplot([1, 2, 3])
    return figure


def shared() -> Figure:
    figure, axes = plt.subplots(3, 1, sharex=True)
    for index, ax in enumerate(axes):
        ax.plot([1, 2], [index, index + 2])
    return figure


def frame() -> Any:
    import pandas as pd

    return pd.DataFrame({"u": [1.0, 2.5, 3.0, 4.0], "v": [4.0, 3.0, 1.5, 1.0]})


@pytest.mark.parametrize("name", SUPERCHARTS)
def test_all_axes_of_a_figure_count(name: str) -> None:
    make, expected = SUPERCHARTS[name]
    chart = chart_of_figure(make())
    assert (chart["type"], [part["type"] for part in chart["elements"]]) == ("superchart", expected)


def test_drawing_the_figure_before_or_after_changes_nothing() -> None:
    figure = mosaic()
    before = chart_figure_to_dict(figure)
    figure.canvas.draw()
    assert chart_figure_to_dict(figure) == before


def test_axes_that_share_their_labels_all_know_them() -> None:
    figure, axes = plt.subplots(2, 1, sharex=True)
    for ax in axes:
        ax.bar(["a", "b"], [1, 2])
    parts = chart_of_figure(figure)["elements"]
    assert [[bar["label"] for bar in part["elements"]] for part in parts] == [["a", "b"], ["a", "b"]]


def test_a_superchart_without_a_title_has_an_empty_one() -> None:
    assert chart_of_figure(twin())["title"] == ""


def test_a_blank_part_is_a_line_without_elements() -> None:
    assert chart_of_figure(partly_empty())["elements"][1]["elements"] == []


class Hostile:
    """A value that matplotlib accepts at first and nobody can read later."""

    def __float__(self) -> float:
        raise RuntimeError("no number")

    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_an_odd_figure_gives_an_empty_chart_and_no_exception() -> None:
    figure, axes = plt.subplots()
    (line,) = axes.plot([1, 2], [3, 4])
    line._yorig = [Hostile(), Hostile()]
    assert chart_figure_to_dict(figure) == {}


def test_an_odd_part_is_unknown_and_leaves_the_others_alone() -> None:
    figure, (first, second) = plt.subplots(1, 2)
    (line,) = first.plot([1, 2], [3, 4])
    line._yorig = [Hostile(), Hostile()]
    second.plot([1, 2], [3, 5])
    assert [part["type"] for part in chart_figure_to_dict(figure)["elements"]] == ["unknown", "line"]


def test_something_that_is_no_figure_gives_an_empty_chart() -> None:
    assert chart_figure_to_dict(object()) == {}  # type: ignore[arg-type]


def test_extraction_is_silent_about_missing_glyphs() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure, axes = plt.subplots()
        axes.plot([1, 2], [3, 4])
        axes.set_title("漢字 \N{GRINNING FACE}")
        assert chart_figure_to_dict(figure)["title"] == "漢字 \N{GRINNING FACE}"
