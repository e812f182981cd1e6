"""Libraries that look for a notebook find one, and those that need a front end fall back to text."""

from __future__ import annotations

import pytest
from kernel_client import KernelClient


def test_tqdm_prints_text(kernel: KernelClient) -> None:
    outcome = kernel.run("from tqdm.auto import tqdm\nfor i in tqdm(range(3)): pass").ok()
    assert "100%|██████████| 3/3" in outcome.text("stderr")
    assert outcome.displays == []


def test_widgets_have_text(kernel: KernelClient) -> None:
    assert (
        kernel.run("import ipywidgets; ipywidgets.IntSlider()").ok().value["text/plain"].startswith("IntSlider(value=0")
    )
    code = "out = ipywidgets.Output()\nwith out: print('inside')\n@ipywidgets.interact(x=3)\ndef f(x): print('x is', x)"
    kernel.run(code).ok()


def test_rich_displays_html(kernel: KernelClient) -> None:
    (display,) = kernel.run("from rich import print as rich_print\nrich_print('[bold]hi[/bold]')").ok().displays
    assert "hi" in display["text/plain"] and "<pre" in display["text/html"]


def test_sympy_has_latex(kernel: KernelClient) -> None:
    value = kernel.run("import sympy; sympy.Symbol('x') ** 2").ok().value
    assert value == {"text/plain": "x**2", "text/latex": "$\\displaystyle x^{2}$"}


def test_plotly_displays_its_figure(kernel: KernelClient) -> None:
    pytest.importorskip("nbformat")
    outcome = kernel.run("import plotly.graph_objects as go\ngo.Figure(go.Bar(x=['a'], y=[1]))").ok()
    bundle = (outcome.displays + [message["data"] for message in outcome.of_type("execute_result")])[-1]
    assert bundle["application/vnd.plotly.v1+json"]["data"][0]["type"] == "bar"
    assert "text/html" in bundle


def test_bokeh_displays_scripts(kernel: KernelClient) -> None:
    code = (
        "from bokeh.plotting import figure, show\nfrom bokeh.io import output_notebook\noutput_notebook(hide_banner=True)\n"
        "p = figure(); p.line([1, 2], [1, 2]); show(p)"
    )
    types = {mime for bundle in kernel.run(code).ok().displays for mime in bundle}
    assert {"text/html", "application/javascript", "application/vnd.bokehjs_exec.v0+json"} <= types


def test_altair_has_html(library_kernel: KernelClient) -> None:
    code = "import altair, pandas; altair.Chart(pandas.DataFrame({'a': [1]})).mark_point().encode(x='a')"
    assert "vega" in library_kernel.run(code).ok().value["text/html"]


def test_seaborn_draws_into_the_inline_backend(library_kernel: KernelClient) -> None:
    outcome = library_kernel.run("import seaborn as sns; sns.lineplot(x=[1, 2], y=[3, 4], errorbar=None);").ok()
    assert outcome.displays[0]["e2b/chart"]["type"] == "line"


def test_inline_backend_can_be_configured(library_kernel: KernelClient) -> None:
    code = "%matplotlib inline\n%config InlineBackend.figure_formats = ['svg']\nimport matplotlib.pyplot as plt\nplt.plot([1]);"
    assert "image/svg+xml" in library_kernel.run(code).ok().displays[0]


def test_a_window_system_is_refused_by_name(library_kernel: KernelClient) -> None:
    assert library_kernel.run("%matplotlib qt").reply["status"] == "error"
    assert library_kernel.run("1").ok()
