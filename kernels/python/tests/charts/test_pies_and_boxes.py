"""Pies and box plots."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import seaborn as sns
from matplotlib.cbook import boxplot_stats
from matplotlib.patches import Circle

from skep_charts.values import rounded

from .checking import Draw, chart_of

PIES: dict[str, tuple[Draw, list[tuple[str, float]]]] = {
    "two": (
        lambda ax: ax.pie([90, 10], labels=["No", "No, in blue"], startangle=140),
        [("No", 324.0), ("No, in blue", 36.0)],
    ),
    "percent": (
        lambda ax: ax.pie([1, 1, 2], labels=list("abc"), autopct="%1.1f%%"),
        [("a", 90.0), ("b", 90.0), ("c", 180.0)],
    ),
    "no labels": (lambda ax: ax.pie([1, 3]), [("", 90.0), ("", 270.0)]),
    "explode and shadow": (
        lambda ax: ax.pie([1, 3], labels=["a", "b"], explode=[0.1, 0], shadow=True),
        [("a", 90.0), ("b", 270.0)],
    ),
    "thirds": (lambda ax: ax.pie([1, 1, 1], labels=list("abc")), [("a", 120.0), ("b", 120.0), ("c", 120.0)]),
    "clockwise": (lambda ax: ax.pie([1, 3], labels=["a", "b"], counterclock=False), [("a", 90.0), ("b", 270.0)]),
    "not full": (lambda ax: ax.pie([0.25, 0.25], labels=["a", "b"], normalize=False), [("a", 90.0), ("b", 90.0)]),
    "ring": (lambda ax: ax.pie([1, 3], labels=["a", "b"], wedgeprops={"width": 0.3}), [("a", 90.0), ("b", 270.0)]),
    "ring by a disc": (
        lambda ax: (ax.pie([1, 3], labels=["a", "b"]), ax.add_artist(Circle((0, 0), 0.7, fc="white"))),
        [("a", 90.0), ("b", 270.0)],
    ),
    "with legend": (lambda ax: (ax.pie([1, 3], labels=["a", "b"]), ax.legend()), [("a", 90.0), ("b", 270.0)]),
}


@pytest.mark.parametrize("name", PIES)
def test_slices_have_their_share_of_the_circle(name: str) -> None:
    draw, expected = PIES[name]
    chart = chart_of(draw)
    assert chart["type"] == "pie"
    assert [(slice_["label"], slice_["angle"]) for slice_ in chart["elements"]] == expected
    assert {slice_["radius"] for slice_ in chart["elements"]} == {1.0}


def test_the_radius_of_a_pie_is_told() -> None:
    assert chart_of(lambda ax: ax.pie([1], radius=0.75))["elements"][0]["radius"] == 0.75


RANDOM = np.random.default_rng(11)
CLASSES = {"Class A": [85, 90, 78, 92, 88], "Class B": [95, 89, 76, 91, 84, 87], "Class C": [75, 82, 88, 79, 86]}
SAMPLES: dict[str, list[Any]] = {
    "classes": list(CLASSES.values()),
    "normal": [RANDOM.normal(i, 1 + i, 200) for i in range(3)],
    "many outliers": [np.concatenate([RANDOM.normal(0, 1, 50), [10, 11, -12, 10]])],
    "large numbers": [RANDOM.normal(1e6, 12345.678, 50), RANDOM.normal(2e6, 12345.678, 50)],
    "small numbers": [RANDOM.normal(0, 1e-6, 50)],
    "equal heights": [[1, 2, 3, 4, 5], [11, 12, 13, 14, 15]],
    "constant": [[5, 5, 5, 5], [1, 2, 3, 4]],
    "no whiskers": [[1, 1, 1, 2, 2, 2], [1, 1, 2, 3, 3]],
    "negative": [[-5, -3, -1, -20], [-1, 0, 1, 9]],
}
STYLES: dict[str, dict[str, Any]] = {
    "lines": {},
    "filled": {"patch_artist": True},
    "lying": {"lying": True},
    "lying filled": {"lying": True, "patch_artist": True},
    "notched": {"notch": True},
    "with means": {"showmeans": True},
    "with mean lines": {"showmeans": True, "meanline": True},
    "without caps": {"showcaps": False},
    "full range": {"whis": (0, 100)},
}


def draw_boxes(ax: Any, data: list[Any], lying: bool = False, **style: Any) -> None:
    # The name of the option changed between the versions of matplotlib that we support.
    orientation = {"orientation": "horizontal"} if lying else {}
    ax.boxplot(data, tick_labels=[f"box {i}" for i in range(len(data))], **orientation, **style)
    (ax.set_ylabel if lying else ax.set_xlabel)("names")
    (ax.set_xlabel if lying else ax.set_ylabel)("values (m)")


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("sample", SAMPLES)
def test_boxes_have_the_statistics_of_their_data(sample: str, style: str) -> None:
    data = SAMPLES[sample]
    chart = chart_of(lambda ax: draw_boxes(ax, data, **STYLES[style]))
    assert chart["type"] == "box_and_whisker"
    assert (chart["x_label"], chart["y_label"], chart["y_unit"]) == ("names", "values (m)", "m")
    expected = boxplot_stats(data, whis=STYLES[style].get("whis", 1.5))
    assert len(chart["elements"]) == len(data)
    for index, (box, numbers) in enumerate(zip(chart["elements"], expected, strict=True)):
        assert box["label"] == f"box {index}"
        for name, statistic in (
            ("min", "whislo"),
            ("first_quartile", "q1"),
            ("median", "med"),
            ("third_quartile", "q3"),
            ("max", "whishi"),
        ):
            assert box[name] == rounded(numbers[statistic]), name
        assert box["outliers"] == [rounded(value) for value in numbers["fliers"]]


def test_a_box_plot_drawn_twice_is_one() -> None:
    def draw(ax: Any) -> None:
        ax.boxplot(list(CLASSES.values()), tick_labels=list(CLASSES))
        ax.boxplot(list(CLASSES.values()), tick_labels=list(CLASSES), patch_artist=True)

    elements = chart_of(draw)["elements"]
    assert [box["label"] for box in elements] == list(CLASSES)
    assert [box["outliers"] for box in elements] == [[], [76.0], []]


def test_boxes_at_chosen_places_are_named_by_their_ticks() -> None:
    def draw(ax: Any) -> None:
        ax.boxplot([[1, 2, 3], [4, 5, 6]], positions=[0.8, 1.8], patch_artist=True)
        ax.boxplot([[2, 3, 4], [5, 6, 7]], positions=[1.2, 2.2], patch_artist=True)
        ax.set_xticks([1, 2], ["first", "second"])

    elements = chart_of(draw)["elements"]
    assert [(box["label"], box["median"]) for box in elements] == [
        ("first", 2.0),
        ("second", 5.0),
        ("first", 3.0),
        ("second", 6.0),
    ]


def test_seaborn_boxes_are_boxes() -> None:
    names = ["a"] * 5 + ["b"] * 5
    chart = chart_of(lambda ax: sns.boxplot(x=names, y=[1, 2, 3, 4, 5, 2, 3, 4, 5, 60], ax=ax))
    assert chart["type"] == "box_and_whisker"
    assert [(box["label"], box["median"], box["outliers"]) for box in chart["elements"]] == [
        ("a", 3.0, []),
        ("b", 4.0, [60.0]),
    ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (84.75, 84.75),
        (0.30000000000000004, 0.3),
        (1234.5678, 1234.5678),
        (12345678.9, 12345678.9),
        (-2 / 3, -0.666666667),
        (0, 0),
        (1e-300, 1e-300),
        (1.5e308, 1.5e308),
    ],
)
def test_rounding_keeps_nine_digits(value: float, expected: float) -> None:
    assert rounded(value) == expected
