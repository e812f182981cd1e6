"""What code shows: every representation, data frames, images and charts."""

import base64

import pytest

from interpreters import LARGE_RESULT

feature = pytest.mark.feature

PLOT = "import matplotlib.pyplot as plt\n"
PNG = b"\x89PNG\r\n"
JPEG = b"\xff\xd8\xff"


def decoded(text):
    return base64.b64decode(text, validate=True)


@feature("interpreter.results")
@pytest.mark.parametrize(
    "shown, field, value",
    [
        ("HTML('<b>h</b>')", "html", "<b>h</b>"),
        ("Markdown('*m*')", "markdown", "*m*"),
        ("Latex('$l$')", "latex", "$l$"),
        ("Math('x^2')", "latex", "$\\displaystyle x^2$"),
        ("JSON({'a': [1, None]})", "json", {"a": [1, None]}),
        ("JSON([1, 2])", "json", [1, 2]),
        ("Javascript('j()')", "javascript", "j()"),
        ("SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>')", "svg", '<svg xmlns="http://www.w3.org/2000/svg"/>'),
        ("{'application/pdf': 'cGRm'}", "pdf", "cGRm"),
        ("{'image/png': 'cG5n'}", "png", "cG5n"),
        ("{'image/jpeg': 'anBlZw=='}", "jpeg", "anBlZw=="),
        ("{'e2b/data': {'column': [1, 2]}}", "data", {"column": [1, 2]}),
    ],
)
async def test_every_representation_has_its_field(run, shown, field, value):
    raw = shown.startswith("{")
    (result,) = (await run(f"from IPython.display import *\ndisplay({shown}, raw={raw})")).results
    assert getattr(result, field) == value
    assert result[field] == value
    assert set(result.formats()) - {"text"} == {field}
    assert (result.is_main_result, result.extra) == (False, {})


@feature("interpreter.results")
async def test_what_has_no_field_is_in_extra_by_its_type(run):
    bundle = "{'image/gif': 'R0lG', 'application/vnd.own.v1+json': {'k': [1.5, None]}, 'text/plain': 'words'}"
    (result,) = (await run(f"display({bundle}, raw=True)")).results
    assert result.extra == {"image/gif": "R0lG", "application/vnd.own.v1+json": {"k": [1.5, None]}}
    assert (result.text, list(result.formats())) == ("words", ["text", "image/gif", "application/vnd.own.v1+json"])


@feature("interpreter.results")
async def test_displays_come_in_order_and_only_the_value_is_the_main_result(run):
    results = (await run("display(1, 2)\nprint('between')\ndisplay('three')\n'four'")).results
    assert [(result.text, result.is_main_result) for result in results] == [
        ("1", False),
        ("2", False),
        ("three", False),
        ("four", True),
    ]


@feature("interpreter.results")
@pytest.mark.parametrize(
    "value, text",
    [
        ("'it is'", "it is"),
        ("''", ""),
        ("'a\\nb'", "a\\nb"),
        ('"\'"', "'"),
        ("b'bytes\\x00'", "b'bytes\\x00'"),
        ("1.5", "1.5"),
        ("(1, 'a')", "(1, 'a')"),
        ("{3}", "{3}"),
        ("range(3)", "range(0, 3)"),
        ("list(range(2000))[-1]", "1999"),
        ("True", "True"),
        ("...", "Ellipsis"),
    ],
)
async def test_the_text_is_the_repr_and_strings_lose_one_pair_of_quotes(run, value, text):
    (result,) = (await run(value)).results
    assert (result.text, result.json, result.is_main_result) == (text, None, True)


@feature("interpreter.results")
@pytest.mark.parametrize(
    "value, json",
    [
        ("[1, 'a', None, float('nan'), float('inf')]", [1, "a", None, None, None]),
        ("{'a': {'b': [True]}, 1: 2}", {"a": {"b": [True]}, "1": 2}),
        ("[]", []),
        ("{}", {}),
    ],
)
async def test_lists_and_dictionaries_are_json_too(run, value, json):
    (result,) = (await run(value)).results
    assert result.json == json and result.text


@feature("interpreter.results")
async def test_long_lists_are_not_shortened(run):
    (result,) = (await run("list(range(3000))")).results
    assert result.json == list(range(3000)) and result.text.count(",") == 2999 and "..." not in result.text


@feature("interpreter.results")
async def test_a_class_may_say_how_it_is_shown(run):
    code = """
class Own:
    def __repr__(self): return 'own text'
    def _repr_html_(self): return '<i>own</i>'
    def _repr_markdown_(self): return '*own*'
    def _repr_mimebundle_(self, include=None, exclude=None): return {'application/x-own': {'k': 1}}
    def _repr_e2b_data_(self): return {'c': [1]}
Own()
"""
    (result,) = (await run(code)).results
    assert (result.text, result.html, result.markdown, result.data) == ("own text", "<i>own</i>", "*own*", {"c": [1]})
    assert result.extra == {"application/x-own": {"k": 1}}


@feature("interpreter.results")
@pytest.mark.deadline(240)
async def test_a_result_of_fifty_mebibytes_arrives_or_five_with_tls(run):
    execution = await run(f"'z' * ({LARGE_RESULT} << 20)", timeout=200)
    assert len(execution.text) == LARGE_RESULT << 20


@feature("interpreter.data")
async def test_a_data_frame_comes_as_text_table_and_data(run):
    code = "import pandas as pd\npd.DataFrame({'n': [1.5, float('nan')], 't': pd.to_datetime(['2024-01-02', None])})"
    execution = await run(code)
    (result,) = execution.results
    assert "<table" in result.html and "1.5" in result.text
    assert result.data["n"] == [1.5, None]
    assert result.data["t"][0].startswith("2024-01-02T00:00:00")
    assert list(result.formats()) == ["text", "html", "data"]
    assert execution.logs.stderr == []


@feature("interpreter.data")
@pytest.mark.parametrize(
    "column, values",
    [
        ("pd.to_timedelta(['1 day', None])", ["1 days", "NaT"]),
        ("pd.period_range('2024-01', periods=2, freq='M')", ["2024-01", "2024-02"]),
        ("pd.Categorical(['a', 'b'])", ["a", "b"]),
        ("[{'k': 1}, [2]]", [{"k": 1}, [2]]),
        ("pd.array([1, None], dtype='Int64')", [1, None]),
        ("[1 << 40, -1]", [1 << 40, -1]),
        ("[True, None]", [True, None]),
    ],
)
async def test_every_kind_of_column_has_values(run, column, values):
    execution = await run(f"import pandas as pd\npd.DataFrame({{'c': {column}}})")
    (result,) = execution.results
    assert [str(value)[: len(str(wanted))] for value, wanted in zip(result.data["c"], values, strict=True)] == [
        str(wanted) for wanted in values
    ]
    assert execution.logs.stderr == []


@feature("interpreter.data")
async def test_columns_of_the_same_name_and_names_that_are_no_text_fail_nothing(run):
    execution = await run("import pandas as pd\npd.DataFrame([[1, 2, 3]], columns=['a', 'a', 7])")
    (result,) = execution.results
    assert execution.error is None and result.data["7"] == [3]
    assert (await run("pd.Series([1, 2])")).results[0].data is None


@feature("interpreter.images")
async def test_a_picture_as_value_has_the_forms_it_can_have(run):
    (result,) = (await run("from PIL import Image\nImage.new('RGB', (8, 8), 'red')")).results
    assert decoded(result.png).startswith(PNG) and decoded(result.jpeg).startswith(JPEG)
    (result,) = (await run("Image.new('RGBA', (8, 8))")).results
    assert decoded(result.png).startswith(PNG) and result.jpeg is None
    assert result.text.startswith("<PIL.Image.Image image mode=RGBA size=8x8")


@feature("interpreter.images")
async def test_a_picture_that_is_shown_or_saved_by_name_is_seen(run):
    (shown,) = (await run("from PIL import Image\nImage.new('L', (4, 4)).show()")).results
    assert decoded(shown.png).startswith(PNG) and not shown.is_main_result
    (saved,) = (await run("Image.new('L', (4, 4)).save('/tmp/a.png')")).results
    assert decoded(saved.png).startswith(PNG)
    execution = await run("import pathlib\nImage.new('L', (4, 4)).save(pathlib.Path('/tmp/b.png'))\nopen('/tmp/a.png', 'rb').read(4)")
    assert execution.text == "b'\\x89PNG'" and len(execution.results) == 1


@feature("interpreter.images")
async def test_a_figure_is_shown_where_it_is_asked_for_and_at_the_end(run):
    results = (await run(PLOT + "plt.plot([1])\nplt.show()\ndisplay('after')")).results
    assert [bool(result.png) for result in results] == [True, False]
    value, figure = (await run("plt.plot([1, 2])")).results
    assert "Line2D" in value.text and value.is_main_result
    assert decoded(figure.png).startswith(PNG) and not figure.is_main_result
    (saved,) = (await run("plt.plot([3, 1])\nplt.savefig('/tmp/c.png')\nplt.close()")).results
    assert decoded(saved.png).startswith(PNG)


@feature("interpreter.images")
async def test_chinese_japanese_and_korean_are_drawn_without_a_warning(run):
    execution = await run(PLOT + "plt.title('日本語 中文 한국어')\nplt.plot([1])\nplt.show()")
    assert execution.logs.stderr == [] and len(execution.results) == 1


@pytest.fixture
def chart(run):
    """Draws, and returns the one chart that is seen."""

    async def chart(code):
        execution = await run(PLOT + code + "\nplt.show()")
        assert execution.error is None, execution.error.traceback
        assert execution.logs.stderr == []
        (result,) = execution.results
        assert decoded(result.png).startswith(PNG) and "chart" in result.formats()
        return result.chart

    return chart


@feature("interpreter.charts")
async def test_lines_are_points_with_labels_units_and_ticks(chart):
    drawn = await chart("plt.plot([1, 2, 3], [4, 5, 6], label='l')\nplt.plot([7, 8])\nplt.xlabel('Time (s)')\nplt.ylabel('N [Hz]')\nplt.title('T')")
    assert (drawn.type.value, drawn.title) == ("line", "T")
    assert (drawn.x_label, drawn.x_unit, drawn.y_label, drawn.y_unit) == ("Time (s)", "s", "N [Hz]", "Hz")
    assert [(line.label, line.points) for line in drawn.elements] == [
        ("l", [(1.0, 4.0), (2.0, 5.0), (3.0, 6.0)]),
        ("Line 1", [(0.0, 7.0), (1.0, 8.0)]),
    ]
    assert (drawn.x_scale.value, drawn.y_scale.value) == ("linear", "linear")
    assert len(drawn.x_ticks) == len(drawn.x_tick_labels) > 0


@feature("interpreter.charts")
@pytest.mark.parametrize(
    "code, scales",
    [
        ("plt.semilogy([1, 10, 1000])", ("linear", "log")),
        ("plt.plot([1, 2], ['low', 'high'])", ("linear", "categorical")),
        ("import datetime as d\nplt.plot([d.date(2024, 1, 1), d.date(2024, 6, 1)], [1, 2])", ("datetime", "linear")),
        ("plt.plot([1, 2])\nplt.xscale('symlog')", ("symlog", "linear")),
    ],
)
async def test_scales_are_told_apart(chart, code, scales):
    drawn = await chart(code)
    assert (drawn.type.value, drawn.x_scale.value, drawn.y_scale.value) == ("line", *scales)


@feature("interpreter.charts")
async def test_scattered_points_keep_their_groups(chart):
    drawn = await chart("plt.scatter([1, 2], [3, 4], label='A')\nplt.scatter([5], [6], label='B')")
    assert drawn.type.value == "scatter"
    assert [(group.label, group.points) for group in drawn.elements] == [("A", [(1.0, 3.0), (2.0, 4.0)]), ("B", [(5.0, 6.0)])]


@feature("interpreter.charts")
@pytest.mark.parametrize(
    "code, bars",
    [
        ("plt.bar(['a', 'b'], [1, 2], label='g')", [("a", "g", 1.0), ("b", "g", 2.0)]),
        ("plt.barh(['a', 'b'], [1, 2], label='g')", [("a", "g", 1.0), ("b", "g", 2.0)]),
        ("plt.bar(['a', 'b'], [2, 2], label='equal')", [("a", "equal", 2.0), ("b", "equal", 2.0)]),
        ("plt.bar(['only'], [5], label='g')", [("only", "g", 5.0)]),
    ],
)
async def test_bars_have_label_group_and_value_whichever_way_they_lie(chart, code, bars):
    drawn = await chart(code)
    assert drawn.type.value == "bar"
    assert [(bar.label, bar.group, bar.value) for bar in drawn.elements] == bars


@feature("interpreter.charts")
async def test_a_pie_has_angles(chart):
    drawn = await chart("plt.pie([90, 10], labels=['most', 'some'])")
    assert drawn.type.value == "pie"
    assert [(part.label, part.angle, part.radius) for part in drawn.elements] == [("most", 324.0, 1.0), ("some", 36.0, 1.0)]


@feature("interpreter.charts")
async def test_a_box_has_quartiles_whiskers_and_every_outlier(chart):
    drawn = await chart("plt.boxplot([[1, 2, 3, 4, 5, 6, 7, 50, 60]], patch_artist=True, tick_labels=['b'])")
    assert drawn.type.value == "box_and_whisker"
    (box,) = drawn.elements
    assert (box.label, box.first_quartile, box.median, box.third_quartile) == ("b", 3.0, 5.0, 7.0)
    assert (box.min, box.max, box.outliers) == (1.0, 7.0, [50.0, 60.0])


@feature("interpreter.charts")
async def test_several_axes_are_one_chart_of_charts(chart):
    drawn = await chart("f, (a, b) = plt.subplots(1, 2)\na.plot([1, 2])\nb.scatter([1], [2])\nf.suptitle('both')")
    assert (drawn.type.value, drawn.title) == ("superchart", "both")
    assert [part.type.value for part in drawn.elements] == ["line", "scatter"]


@feature("interpreter.charts")
async def test_what_no_kind_fits_is_unknown_and_still_a_picture(chart):
    drawn = await chart("plt.imshow([[1, 2], [3, 4]])\nplt.title('odd')")
    assert (drawn.type.value, drawn.title, drawn.elements) == ("unknown", "odd", [])
