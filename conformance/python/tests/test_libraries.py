"""The libraries of the whole interpreter, as people use them in notebooks."""

import pytest

from conftest import run_until_complete
from interpreters import WHOLE, Interpreter

pytestmark = [pytest.mark.feature("interpreter.libraries"), pytest.mark.once, pytest.mark.whole, pytest.mark.deadline(120)]


@pytest.fixture(scope="module")
def interpreter(sdk):
    """One sandbox of the template with every package."""
    made = run_until_complete(Interpreter.create(sdk, template=WHOLE))
    yield made
    run_until_complete(made.kill())


@pytest.fixture
def shown(run):
    """Runs code that must not fail, and returns its results."""

    async def shown(code):
        execution = await run(code, timeout=100)
        assert execution.error is None, execution.error.traceback
        return execution.results

    return shown


async def test_the_sdk_gets_this_template_when_nobody_names_one(sdk, interpreter):
    sandbox = await sdk.call(type(interpreter.sandbox).create)
    try:
        info = await sdk.call(sandbox.get_info)
        assert info.name == WHOLE or info.template_id == (await sdk.call(interpreter.sandbox.get_info)).template_id
    finally:
        await sdk.call(sandbox.kill)


@pytest.mark.parametrize(
    "module",
    [
        *("aiohttp", "altair", "bokeh", "bs4", "cv2", "docx", "e2b_charts", "gensim", "imageio", "ipywidgets", "joblib"),
        *("kaleido", "librosa", "matplotlib", "nbformat", "nltk", "numba", "numpy", "openpyxl", "orjson", "pandas", "PIL"),
        *("plotly", "pytest", "pytz", "requests", "rich", "scipy", "seaborn", "skimage", "sklearn", "soundfile", "spacy"),
        *("sympy", "textblob", "tornado", "tqdm", "urllib3", "xarray", "xlrd", "jupyter_server", "ipykernel", "bash_kernel"),
    ],
)
async def test_it_can_be_imported(run, module):
    execution = await run(f"import {module}", timeout=100)
    assert execution.error is None, execution.error.traceback


async def test_tqdm_draws_its_bar_as_text(run):
    execution = await run("from tqdm.auto import tqdm\nfor _ in tqdm(range(3)): pass")
    assert "3/3" in "".join(execution.logs.stderr) + "".join(result.text or "" for result in execution.results)


async def test_widgets_have_a_text(shown):
    (slider,) = await shown("import ipywidgets\nipywidgets.IntSlider(value=7)")
    assert "IntSlider(value=7" in slider.text


async def test_plotly_figures_are_pages_and_data(shown):
    results = await shown("import plotly.express as px\npx.bar(x=['a', 'b'], y=[1, 2])")
    figures = [result.extra["application/vnd.plotly.v1+json"] for result in results if result.extra]
    assert [figure["data"][0]["type"] for figure in figures] == ["bar"]
    assert any("plotly" in (result.html or "") for result in results)


async def test_bokeh_figures_are_scripts(shown):
    code = "from bokeh.plotting import figure, show\nfrom bokeh.io import output_notebook\noutput_notebook()\np = figure()\np.line([1, 2], [3, 4])\nshow(p)"
    results = await shown(code)
    assert any(result.javascript for result in results) and any(result.html for result in results)


async def test_altair_charts_are_pages(shown):
    (chart,) = await shown("import altair, pandas\naltair.Chart(pandas.DataFrame({'a': [1]})).mark_point().encode(x='a')")
    assert "vega" in chart.html


async def test_seaborn_draws_charts(shown):
    (plot,) = await shown("import seaborn as sns\nsns.barplot(x=['a', 'b'], y=[1, 2], errorbar=None);")
    assert plot.png and plot.chart.type.value == "bar"
    (heat,) = await shown("sns.heatmap([[1, 2], [3, 4]]);")
    assert heat.png


async def test_sympy_speaks_latex(shown):
    (result,) = await shown("import sympy\nsympy.Symbol('x') ** 2")
    assert (result.text, result.latex) == ("x**2", "$\\displaystyle x^{2}$")


async def test_rich_prints_in_colour(shown):
    (result,) = await shown("from rich import print as rich_print\nrich_print('[bold]hi[/bold]')")
    assert "hi" in result.html


async def test_an_array_of_xarray_is_a_table(shown):
    (result,) = await shown("import xarray\nxarray.DataArray([1, 2], dims='x')")
    assert "xr-wrap" in result.html and "DataArray" in result.text


@pytest.mark.parametrize(
    "code, text",
    [
        ("import numba\n@numba.njit\ndef f(n):\n    total = 0\n    for i in range(n): total += i\n    return total\nf(10)", "45"),
        ("import sklearn.linear_model as m\nround(float(m.LinearRegression().fit([[0], [1]], [0, 2]).coef_[0]))", "2"),
        ("import cv2, numpy as np\ncv2.resize(np.zeros((4, 4), 'uint8'), (2, 2)).shape", "(2, 2)"),
        ("import soundfile, numpy as np\nsoundfile.write('/tmp/a.wav', np.zeros(100), 8000)\nlen(soundfile.read('/tmp/a.wav')[0])", "100"),
        ("import librosa, numpy as np\nround(float(librosa.hz_to_midi(440.0)))", "69"),
        ("import spacy\n[token.text for token in spacy.blank('en')('two words')]", "['two', 'words']"),
        ("import openpyxl, pandas as pd\npd.DataFrame({'a': [1]}).to_excel('/tmp/a.xlsx')\nint(pd.read_excel('/tmp/a.xlsx').a[0])", "1"),
        ("import docx\nd = docx.Document()\nd.add_paragraph('x')\nd.save('/tmp/a.docx')\nlen(docx.Document('/tmp/a.docx').paragraphs)", "1"),
        ("import skimage\nskimage.transform.rescale(skimage.util.img_as_float([[1.0, 0.0]]), 2).shape", "(2, 4)"),
    ],
    ids=["numba", "sklearn", "cv2", "soundfile", "librosa", "spacy", "excel", "docx", "skimage"],
)
async def test_it_works(shown, code, text):
    assert (await shown(code))[-1].text == text
