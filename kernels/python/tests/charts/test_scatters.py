"""Scatter charts."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest
import seaborn as sns

from .checking import Draw, chart_of

RANDOM = np.random.default_rng(3)
CLOUD = RANDOM.normal(size=(30, 2))
DAYS = [datetime.date(2024, 1, day) for day in (1, 2, 3)]

SCATTERS: dict[str, tuple[Draw, list[list[list[Any]]]]] = {
    "cloud": (lambda ax: ax.scatter(CLOUD[:, 0], CLOUD[:, 1]), [CLOUD.tolist()]),
    "two groups": (
        lambda ax: (ax.scatter([1, 2], [3, 4], label="A"), ax.scatter([5], [6], label="B"), ax.legend()),
        [[[1.0, 3.0], [2.0, 4.0]], [[5.0, 6.0]]],
    ),
    "sizes and colours": (
        lambda ax: ax.scatter([1, 2], [3, 4], s=[10, 100], c=[0.1, 0.9], alpha=0.5),
        [[[1.0, 3.0], [2.0, 4.0]]],
    ),
    "with grid": (lambda ax: (ax.scatter([1], [2]), ax.grid()), [[[1.0, 2.0]]]),
    "with level lines": (lambda ax: (ax.scatter([1], [2]), ax.axhline(1), ax.plot([0, 0], [0, 5])), [[[1.0, 2.0]]]),
    "nan": (lambda ax: ax.scatter([1, np.nan], [2, 3]), [[[1.0, 2.0], [None, None]]]),
    "dates": (
        lambda ax: ax.scatter(DAYS, [1, 2, 3]),
        [[[f"{day}T00:00:00", float(i)] for i, day in enumerate(DAYS, 1)]],
    ),
    "words": (lambda ax: ax.scatter(["a", "b"], [1, 2]), [[["a", 1.0], ["b", 2.0]]]),
    "words on both": (lambda ax: ax.scatter(["a", "b"], ["u", "v"]), [[["a", "u"], ["b", "v"]]]),
    "log": (lambda ax: (ax.scatter([1, 100], [2, 3]), ax.set_xscale("log")), [[[1.0, 2.0], [100.0, 3.0]]]),
    "annotated": (lambda ax: (ax.scatter([1], [2]), ax.annotate("p", (1, 2))), [[[1.0, 2.0]]]),
    "pandas": (
        lambda ax: pd.DataFrame({"x": [1, 2], "y": [3, 4]}).plot.scatter("x", "y", ax=ax),
        [[[1.0, 3.0], [2.0, 4.0]]],
    ),
    "seaborn": (lambda ax: sns.scatterplot(x=[1, 2], y=[3, 4], ax=ax), [[[1.0, 3.0], [2.0, 4.0]]]),
}


@pytest.mark.parametrize("name", SCATTERS)
def test_points_are_those_that_were_plotted(name: str) -> None:
    draw, expected = SCATTERS[name]
    chart = chart_of(draw)
    assert chart["type"] == "scatter"
    assert [element["points"] for element in chart["elements"]] == expected


def test_labels_are_kept_as_they_are() -> None:
    chart = chart_of(lambda ax: (ax.scatter([1], [2]), ax.scatter([1], [2], label="named")))
    assert [element["label"] for element in chart["elements"]] == ["_child0", "named"]


def test_scales_and_ticks_are_told() -> None:
    chart = chart_of(lambda ax: (ax.scatter(["a", "b"], [1, 10]), ax.set_yscale("log")))
    assert (chart["x_scale"], chart["y_scale"]) == ("categorical", "log")
    assert chart["x_tick_labels"] == ["a", "b"]
