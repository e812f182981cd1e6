"""Line charts: every number that went in comes out."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from .checking import Draw, chart_of, chart_of_figure

X = np.linspace(0, 10, 50)
DAYS = [datetime.date(2023, 9, 1) + datetime.timedelta(days=i) for i in range(5)]
HOURS = [datetime.datetime(2024, 2, 28, 22) + datetime.timedelta(hours=i) for i in range(5)]
FIVE = [3.0, 1.0, 4.0, 1.5, 5.0]


def pairs(x: Any, y: Any) -> list[list[Any]]:
    return [[a if isinstance(a, str) else float(a), None if b is None else float(b)] for a, b in zip(x, y, strict=True)]


LINES: dict[str, tuple[Draw, list[tuple[str, list[list[Any]]]]]] = {
    "sine": (lambda ax: ax.plot(X, np.sin(X)), [("Line 0", pairs(X, np.sin(X)))]),
    "two labelled": (
        lambda ax: (ax.plot(X, np.sin(X), label="sin"), ax.plot(X, np.cos(X), "--", label="cos"), ax.legend()),
        [("sin", pairs(X, np.sin(X))), ("cos", pairs(X, np.cos(X)))],
    ),
    "only y": (lambda ax: ax.plot(FIVE), [("Line 0", pairs(range(5), FIVE))]),
    "integers": (lambda ax: ax.plot([1, 2, 3], [4, 5, 6]), [("Line 0", pairs([1, 2, 3], [4, 5, 6]))]),
    "markers only": (lambda ax: ax.plot([1, 2, 3], [4, 5, 6], "o"), [("Line 0", pairs([1, 2, 3], [4, 5, 6]))]),
    "matrix": (
        lambda ax: ax.plot([0, 1], [[1, 2, 3], [4, 5, 6]]),
        [(f"Line {i}", pairs([0, 1], [1 + i, 4 + i])) for i in range(3)],
    ),
    "nan": (lambda ax: ax.plot([1, 2, 3], [1, np.nan, 3]), [("Line 0", pairs([1, 2, 3], [1, None, 3]))]),
    "infinity": (lambda ax: ax.plot([1, 2, 3], [1, np.inf, 3]), [("Line 0", pairs([1, 2, 3], [1, None, 3]))]),
    "none": (lambda ax: ax.plot([1, 2, 3], [1, None, 3]), [("Line 0", pairs([1, 2, 3], [1, None, 3]))]),
    "masked": (
        lambda ax: ax.plot([1, 2, 3], np.ma.masked_array([1, 2, 3], [0, 1, 0])),
        [("Line 0", pairs([1, 2, 3], [1, None, 3]))],
    ),
    "decimals": (lambda ax: ax.plot([1, 2], [Decimal("1.5"), Decimal("2.5")]), [("Line 0", pairs([1, 2], [1.5, 2.5]))]),
    "booleans": (lambda ax: ax.plot([1, 2], [True, False]), [("Line 0", pairs([1, 2], [1, 0]))]),
    "float32": (
        lambda ax: ax.plot(np.float32([1, 2]), np.float32([0.5, 0.25])),
        [("Line 0", pairs([1, 2], [0.5, 0.25]))],
    ),
    "large numbers": (
        lambda ax: ax.plot([1, 2], [1e12, 123456789.123]),
        [("Line 0", pairs([1, 2], [1e12, 123456789.123]))],
    ),
    "one point": (lambda ax: ax.plot([1], [2], "x"), [("Line 0", [[1.0, 2.0]])]),
    "empty": (
        lambda ax: (ax.plot([1, 2], [1, 3], label="a"), ax.plot([], [], label="b")),
        [("a", [[1.0, 1.0], [2.0, 3.0]]), ("b", [])],
    ),
    "flat line of two points": (lambda ax: ax.plot([0, 10], [5, 5]), [("Line 0", [[0.0, 5.0], [10.0, 5.0]])]),
    "step": (lambda ax: ax.step([1, 2, 3], FIVE[:3]), [("Line 0", pairs([1, 2, 3], FIVE[:3]))]),
    "nolegend": (lambda ax: ax.plot([1, 2], [3, 4], label="_nolegend_"), [("_nolegend_", [[1.0, 3.0], [2.0, 4.0]])]),
    "with level lines": (
        lambda ax: (ax.plot([1, 2], [3, 4], label="d"), ax.axhline(3.5), ax.axvline(1.5), ax.axline((0, 0), slope=1)),
        [("d", [[1.0, 3.0], [2.0, 4.0]])],
    ),
    "with shaded span": (
        lambda ax: (ax.plot([1, 2], [3, 4], label="d"), ax.axvspan(1.2, 1.4), ax.axhspan(3, 3.2)),
        [("d", [[1.0, 3.0], [2.0, 4.0]])],
    ),
    "with annotation": (
        lambda ax: (
            ax.plot([1, 2], [3, 4], label="d"),
            ax.annotate("here", (1, 3), (1.5, 3), arrowprops={}),
            ax.text(1, 3, "t"),
        ),
        [("d", [[1.0, 3.0], [2.0, 4.0]])],
    ),
    "with grid": (
        lambda ax: (ax.plot([1, 2], [3, 4]), ax.grid(True, which="both"), ax.minorticks_on()),
        [("Line 0", [[1.0, 3.0], [2.0, 4.0]])],
    ),
    "dates": (lambda ax: ax.plot(DAYS, FIVE), [("Line 0", pairs([d.isoformat() for d in DAYS], FIVE))]),
    "datetimes": (lambda ax: ax.plot(HOURS, FIVE), [("Line 0", pairs([h.isoformat() for h in HOURS], FIVE))]),
    "datetime64": (
        lambda ax: ax.plot(np.array(DAYS, dtype="datetime64[D]"), FIVE),
        [("Line 0", pairs([f"{d.isoformat()}T00:00:00" for d in DAYS], FIVE))],
    ),
    "pandas timestamps": (
        lambda ax: ax.plot(pd.to_datetime(DAYS), FIVE),
        [("Line 0", pairs([f"{d.isoformat()}T00:00:00" for d in DAYS], FIVE))],
    ),
    "pandas series": (
        lambda ax: ax.plot(pd.Series(FIVE, index=[10, 20, 30, 40, 50])),
        [("Line 0", pairs([10, 20, 30, 40, 50], FIVE))],
    ),
    "pandas plot": (
        lambda ax: pd.DataFrame({"a": [1, 2], "b": [3, 4]}).plot(ax=ax),
        [("a", pairs([0, 1], [1, 2])), ("b", pairs([0, 1], [3, 4]))],
    ),
    "pandas daily plot": (
        lambda ax: pd.Series(FIVE, index=pd.date_range("2023-09-01", periods=5, freq="D"), name="s").plot(
            ax=ax, label="s"
        ),
        [("s", pairs([f"{d.isoformat()}T00:00:00" for d in DAYS], FIVE))],
    ),
    "numbers of days": (
        lambda ax: (ax.xaxis_date(), ax.plot([19601, 19602], [1, 2])),
        [("Line 0", pairs(["2023-09-01T00:00:00", "2023-09-02T00:00:00"], [1, 2]))],
    ),
    "categories": (lambda ax: ax.plot(["a", "b", "c"], [1, 2, 3]), [("Line 0", pairs(["a", "b", "c"], [1, 2, 3]))]),
    "polar": (lambda ax: ax.plot([0, 1, 2], [1, 2, 3]), [("Line 0", pairs([0, 1, 2], [1, 2, 3]))]),
    "closed shape of five points": (
        lambda ax: ax.plot([0, 1, 1, 0, 0], [0, 0, 1, 1, 0]),
        [("Line 0", pairs([0, 1, 1, 0, 0], [0, 0, 1, 1, 0]))],
    ),
}


@pytest.mark.parametrize("name", LINES)
def test_points_are_those_that_were_plotted(name: str) -> None:
    draw, expected = LINES[name]
    chart = chart_of(draw, subplot_kw={"projection": "polar"} if name == "polar" else None)
    assert chart["type"] == "line"
    assert [(element["label"], element["points"]) for element in chart["elements"]] == expected


def test_a_hundred_thousand_points_survive() -> None:
    values = np.random.default_rng(1).normal(size=100_000)
    (element,) = chart_of(lambda ax: ax.plot(values))["elements"]
    assert [point[1] for point in element["points"]] == values.tolist()


SCALES: dict[str, tuple[Draw, str, str]] = {
    "linear": (lambda ax: ax.plot([1, 2], [3, 4]), "linear", "linear"),
    "log y": (lambda ax: (ax.plot([1, 2], [10, 1000]), ax.set_yscale("log")), "linear", "log"),
    "semilogx": (lambda ax: ax.semilogx([1, 100], [3, 4]), "log", "linear"),
    "loglog": (lambda ax: ax.loglog([1, 100], [3, 400]), "log", "log"),
    "symlog": (lambda ax: (ax.plot([-100, 100], [3, 4]), ax.set_xscale("symlog")), "symlog", "linear"),
    "logit": (lambda ax: (ax.plot([1, 2], [0.1, 0.9]), ax.set_yscale("logit")), "linear", "logit"),
    "asinh": (lambda ax: (ax.plot([1, 2], [0.1, 0.9]), ax.set_yscale("asinh")), "linear", "asinh"),
    "function": (
        lambda ax: (ax.plot([1, 2], [1, 2]), ax.set_yscale("function", functions=(np.sqrt, np.square))),
        "linear",
        "function",
    ),
    "dates": (lambda ax: ax.plot(DAYS, FIVE), "datetime", "linear"),
    "dates on y": (lambda ax: ax.plot(FIVE, HOURS), "linear", "datetime"),
    "datetime64": (lambda ax: ax.plot(np.array(DAYS, dtype="datetime64[D]"), FIVE), "datetime", "linear"),
    "pandas periods": (
        lambda ax: pd.Series(FIVE, index=pd.period_range("2023-01", periods=5, freq="M")).plot(ax=ax),
        "datetime",
        "linear",
    ),
    "words": (lambda ax: ax.plot(["x", "y"], ["p", "q"]), "categorical", "categorical"),
    "words that are numbers": (lambda ax: ax.plot(["0", "1"], [1, 2]), "categorical", "linear"),
    "named ticks": (
        lambda ax: (ax.plot([0, 1, 2], [1, 2, 3]), ax.set_xticks([0, 1, 2], ["a", "b", "c"])),
        "categorical",
        "linear",
    ),
    "named ticks elsewhere": (
        lambda ax: (ax.plot([0, 1, 2], [1, 2, 3]), ax.set_xticks([1, 2], ["a", "b"])),
        "linear",
        "linear",
    ),
    "ticks 0 1 2": (lambda ax: (ax.plot([0, 1, 2], [1, 2, 3]), ax.set_xticks([0, 1, 2])), "linear", "linear"),
    "no ticks": (lambda ax: (ax.plot([1, 2], [1, 2]), ax.set_xticks([]), ax.set_yticks([])), "linear", "linear"),
}


@pytest.mark.parametrize("name", SCALES)
def test_scales_are_recognised(name: str) -> None:
    draw, x_scale, y_scale = SCALES[name]
    chart = chart_of(draw)
    assert (chart["type"], chart["x_scale"], chart["y_scale"]) == ("line", x_scale, y_scale)


def test_ticks_of_numbers_are_floats_with_their_rendered_labels() -> None:
    chart = chart_of(lambda ax: (ax.plot([-2, 2], [0, 1]), ax.set_xticks(np.array([-2, 0, 2]))))
    assert chart["x_ticks"] == [-2.0, 0.0, 2.0]
    assert chart["x_tick_labels"] == ["\N{MINUS SIGN}2", "0", "2"]


def test_ticks_of_dates_are_iso_with_zone() -> None:
    chart = chart_of(lambda ax: (ax.plot(DAYS, FIVE), ax.set_xticks(DAYS[:2])))
    assert chart["x_ticks"] == ["2023-09-01T00:00:00+00:00", "2023-09-02T00:00:00+00:00"]


def test_ticks_of_pandas_periods_are_dates() -> None:
    series = pd.Series(range(36), index=pd.period_range("2020-01", periods=36, freq="M"))
    ticks = chart_of(lambda ax: series.plot(ax=ax))["x_ticks"]
    assert "2021-01-01T00:00:00+00:00" in ticks


def test_labels_of_a_logarithmic_axis_are_mathtext() -> None:
    chart = chart_of(lambda ax: ax.semilogy([1, 2], [1, 10000]))
    assert "$\\mathdefault{10^{3}}$" in chart["y_tick_labels"]


LABELS = [
    ("Time (s)", "Time (s)", "s"),
    ("N [u]", "N [u]", "u"),
    ("N[u]", "N[u]", "u"),
    ("f(x)", "f(x)", None),
    ("Y-axis (log scale)", "Y-axis (log scale)", "log scale"),
    ("plain", "plain", None),
    ("", None, None),
    ("a (b) [c]", "a (b) [c]", "b"),
]


@pytest.mark.parametrize(("given", "label", "unit"), LABELS)
def test_units_come_from_the_label_which_stays(given: str, label: str | None, unit: str | None) -> None:
    chart = chart_of(
        lambda ax: (ax.plot([1, 2], [1, 2]), ax.set_xlabel(given), ax.set_ylabel(given), ax.set_title(given))
    )
    assert (chart["x_label"], chart["x_unit"]) == (label, unit)
    assert (chart["y_label"], chart["y_unit"]) == (label, unit)
    assert chart["title"] == label


def test_pyplot_figures_are_charts_too() -> None:
    plt.plot([1, 2], [3, 4])
    plt.title("by pyplot")
    chart = chart_of_figure(plt.gcf())
    assert (chart["type"], chart["title"]) == ("line", "by pyplot")
