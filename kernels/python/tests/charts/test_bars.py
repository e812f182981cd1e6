"""Bar charts, in all the ways the reference gets wrong too."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest
import seaborn as sns

from .checking import Draw, chart_of

NAMES = ["a", "b", "c"]
PLACES = np.arange(3)
SAMPLE = [1, 2, 2, 3, 3, 3, 4, 4, 5, 5.5]

Bars = list[tuple[str, str, float]]


def bars(values: Any, group: str = "Group 0", names: list[str] = NAMES) -> Bars:
    return [(name, group, float(value)) for name, value in zip(names, values, strict=True)]


def grouped(ax: Any) -> None:
    ax.bar(PLACES - 0.2, [1, 2, 3], 0.4, label="men")
    ax.bar(PLACES + 0.2, [4, 5, 6], 0.4, label="women")
    ax.set_xticks(PLACES, NAMES)
    ax.legend()


def grouped_lying(ax: Any) -> None:
    ax.barh(PLACES - 0.2, [1, 2, 3], 0.4, label="men")
    ax.barh(PLACES + 0.2, [4, 5, 6], 0.4, label="women")
    ax.set_yticks(PLACES, NAMES)


def stacked(ax: Any) -> None:
    ax.bar(NAMES, [1, 2, 3], label="low")
    ax.bar(NAMES, [4, 5, 6], bottom=[1, 2, 3], label="high")


BARS: dict[str, tuple[Draw, Bars]] = {
    "words": (lambda ax: ax.bar(NAMES, [1, 2, 3]), bars([1, 2, 3])),
    "labelled": (lambda ax: ax.bar(NAMES, [1, 2, 3], label="sold"), bars([1, 2, 3], "sold")),
    "lying": (lambda ax: ax.barh(NAMES, [1, 2, 3]), bars([1, 2, 3])),
    "equal values": (lambda ax: ax.bar(NAMES, [2, 2, 2]), bars([2, 2, 2])),
    "equal values lying": (lambda ax: ax.barh(NAMES, [2, 2, 2]), bars([2, 2, 2])),
    "one bar": (lambda ax: ax.bar(["only"], [7]), bars([7], names=["only"])),
    "one bar lying": (lambda ax: ax.barh(["only"], [7]), bars([7], names=["only"])),
    "grouped": (grouped, bars([1, 2, 3], "men") + bars([4, 5, 6], "women")),
    "grouped lying": (grouped_lying, bars([1, 2, 3], "men") + bars([4, 5, 6], "women")),
    "stacked": (stacked, bars([1, 2, 3], "low") + bars([4, 5, 6], "high")),
    "negative": (lambda ax: ax.bar(NAMES, [-1, 2, -3]), bars([-1, 2, -3])),
    "lying negative": (lambda ax: ax.barh(NAMES, [-1, 2, -3]), bars([-1, 2, -3])),
    "zero": (lambda ax: ax.bar(NAMES, [0, 0, 1]), bars([0, 0, 1])),
    "with errors": (lambda ax: ax.bar(NAMES, [1, 2, 3], yerr=[0.1, 0.2, 0.3], capsize=4), bars([1, 2, 3])),
    "lying with errors": (lambda ax: ax.barh(NAMES, [1, 2, 3], xerr=0.5), bars([1, 2, 3])),
    "two groups with errors": (
        lambda ax: (
            ax.bar(PLACES - 0.2, [1, 2, 3], 0.4, yerr=0.1),
            ax.bar(PLACES + 0.2, [4, 5, 6], 0.4, yerr=0.1),
            ax.set_xticks(PLACES, NAMES),
        ),
        bars([1, 2, 3]) + bars([4, 5, 6], "Group 1"),
    ),
    "with level line": (lambda ax: (ax.bar(NAMES, [1, 2, 3]), ax.axhline(2), ax.axvspan(0, 1)), bars([1, 2, 3])),
    "with values on top": (lambda ax: ax.bar_label(ax.bar(NAMES, [1, 2, 3])), bars([1, 2, 3])),
    "hatched and coloured": (
        lambda ax: ax.bar(NAMES, [1, 2, 3], color=["r", "g", "b"], hatch="/", edgecolor="k"),
        bars([1, 2, 3]),
    ),
    "logarithmic": (lambda ax: ax.bar(NAMES, [1, 10, 100], log=True), bars([1, 10, 100])),
    "edge aligned": (
        lambda ax: (ax.bar([0, 1, 2], [1, 2, 3], align="edge", width=0.8), ax.set_xticks(PLACES + 0.4, NAMES)),
        bars([1, 2, 3]),
    ),
    "numbers": (lambda ax: ax.bar([10, 20, 30], [1, 2, 3]), bars([1, 2, 3], names=["10", "20", "30"])),
    "years": (lambda ax: ax.bar([2019, 2020, 2021], [1, 2, 3]), bars([1, 2, 3], names=["2019", "2020", "2021"])),
    "names at years": (
        lambda ax: (ax.bar([2019, 2020], [1, 2]), ax.set_xticks([2019, 2020], ["old", "new"])),
        bars([1, 2], names=["old", "new"]),
    ),
    "fewer names than bars": (
        lambda ax: (ax.bar([0, 1, 2], [1, 2, 3]), ax.set_xticks([0, 2], ["first", "last"])),
        bars([1, 2, 3], names=["first", "first", "last"]),
    ),
    "dates": (
        lambda ax: ax.bar([datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)], [1, 2]),
        bars([1, 2], names=["2024-01-01", "2024-01-02"]),
    ),
    "names in reverse order": (lambda ax: (ax.barh(NAMES, [1, 2, 3]), ax.invert_yaxis()), bars([1, 2, 3])),
    "rotated names": (lambda ax: (ax.bar(NAMES, [1, 2, 3]), ax.tick_params(axis="x", rotation=45)), bars([1, 2, 3])),
    "missing value": (lambda ax: ax.bar(NAMES, [1, 0, 3]), bars([1, 0, 3])),
    "pandas": (lambda ax: pd.DataFrame({"u": [1, 2, 3]}, index=NAMES).plot.bar(ax=ax), bars([1, 2, 3], "u")),
    "pandas lying": (lambda ax: pd.DataFrame({"u": [1, 2, 3]}, index=NAMES).plot.barh(ax=ax), bars([1, 2, 3], "u")),
    "pandas two columns": (
        lambda ax: pd.DataFrame({"u": [1, 2, 3], "v": [4, 5, 6]}, index=NAMES).plot.bar(ax=ax),
        bars([1, 2, 3], "u") + bars([4, 5, 6], "v"),
    ),
    "pandas stacked": (
        lambda ax: pd.DataFrame({"u": [1, 2, 3], "v": [4, 5, 6]}, index=NAMES).plot.bar(stacked=True, ax=ax),
        bars([1, 2, 3], "u") + bars([4, 5, 6], "v"),
    ),
    "seaborn": (lambda ax: sns.barplot(x=NAMES, y=[1, 2, 3], ax=ax, errorbar=None), bars([1, 2, 3])),
}


@pytest.mark.parametrize("name", BARS)
def test_bars_have_their_names_groups_and_values(name: str) -> None:
    draw, expected = BARS[name]
    chart = chart_of(draw)
    assert chart["type"] == "bar"
    assert [(bar["label"], bar["group"], bar["value"]) for bar in chart["elements"]] == expected


HISTOGRAMS: dict[str, Draw] = {
    "ten bins": lambda ax: ax.hist(SAMPLE),
    "given edges": lambda ax: ax.hist(SAMPLE, bins=[0, 1.5, 2.5, 6]),
    "density": lambda ax: ax.hist(SAMPLE, bins=4, density=True),
    "cumulative": lambda ax: ax.hist(SAMPLE, bins=4, cumulative=True),
    "weighted": lambda ax: ax.hist(SAMPLE, bins=4, weights=np.arange(10)),
}


@pytest.mark.parametrize("name", HISTOGRAMS)
def test_the_bars_of_a_histogram_are_its_bins(name: str) -> None:
    result: list[Any] = []
    chart = chart_of(lambda ax: result.append(HISTOGRAMS[name](ax)))
    heights, edges, _ = result[0]
    assert chart["type"] == "bar"
    assert [bar["value"] for bar in chart["elements"]] == pytest.approx(heights.tolist())
    ranges = [[float(end) for end in bar["label"].split(" - ")] for bar in chart["elements"]]
    assert np.array(ranges) == pytest.approx(np.column_stack([edges[:-1], edges[1:]]))


def test_a_lying_histogram_has_its_counts_too() -> None:
    chart = chart_of(lambda ax: ax.hist([1, 2, 2], bins=[0.5, 1.5, 2.75], orientation="horizontal"))
    assert [(bar["label"], bar["value"]) for bar in chart["elements"]] == [("0.5 - 1.5", 1.0), ("1.5 - 2.75", 2.0)]


def test_bins_around_whole_numbers_are_those_numbers() -> None:
    chart = chart_of(lambda ax: ax.hist([1, 2, 2], bins=[0.5, 1.5, 2.5]))
    assert [(bar["label"], bar["value"]) for bar in chart["elements"]] == [("1", 1.0), ("2", 2.0)]


@pytest.mark.parametrize("containers", [1, 2, 3])
def test_the_labels_of_a_lying_chart_are_exchanged_once(containers: int) -> None:
    def draw(ax: Any) -> None:
        for _ in range(containers):
            ax.barh(NAMES, [2, 2, 2])
        ax.set_xlabel("Weight (kg)")
        ax.set_ylabel("Animal")

    chart = chart_of(draw)
    assert (chart["x_label"], chart["y_label"]) == ("Animal", "Weight (kg)")
    assert (chart["x_unit"], chart["y_unit"]) == (None, "kg")
