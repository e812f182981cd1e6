"""MIME bundles: what a value or a display is made of."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from kernel_client import KernelClient

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("[1, 'a', None, True, 1.5]", [1, "a", None, True, 1.5]),
        ("{}", {}),
        ("[]", []),
        ("{1: 2, None: 3, 1.5: 4, True: 5}", {"1": 5, "null": 3, "1.5": 4}),
        ("[float('nan'), float('inf')]", [None, None]),
        ("{'deep': [{'er': (1, 2)}]}", {"deep": [{"er": [1, 2]}]}),
        (
            "import datetime; [datetime.date(2024, 1, 2), datetime.datetime(2024, 1, 2, 3)]",
            ["2024-01-02", "2024-01-02T03:00:00"],
        ),
        ("import collections; collections.OrderedDict(a=1)", {"a": 1}),
        ("import collections; collections.Counter('aab')", {"a": 2, "b": 1}),
        ("import enum; E = enum.Enum('E', 'A'); [E.A]", [1]),
        ("import uuid; [uuid.UUID(int=1)]", ["00000000-0000-0000-0000-000000000001"]),
        ("import dataclasses\n@dataclasses.dataclass\nclass P:\n    x: int\n[P(1)]", [{"x": 1}]),
        ("[2**63, -2**63]", [2**63, -(2**63)]),
        ("['12345678901234567890123']", ["12345678901234567890123"]),
    ],
)
def test_lists_and_dicts_have_json(kernel: KernelClient, code: str, expected: Any) -> None:
    value = kernel.run(code).ok().value
    assert value["application/json"] == expected
    assert "text/plain" in value


@pytest.mark.parametrize(
    "code",
    [
        "(1, 2)",
        "{1, 2}",
        "'text'",
        "1",
        "[{1, 2}]",
        "[object()]",
        "[2**70]",
        "{(1, 2): 3}",
        "[b'x']",
        "l = []; l.append(l); l",
        "[1j]",
    ],
)
def test_what_json_cannot_say_has_none(kernel: KernelClient, code: str) -> None:
    value = kernel.run(code).ok().value
    assert set(value) == {"text/plain"}


def test_numpy_inside_lists_becomes_numbers(library_kernel: KernelClient) -> None:
    code = "import numpy as np; [np.int64(1), np.float32(0.5), np.array([[1.0, np.nan]]), np.bool_(True)]"
    assert library_kernel.run(code).ok().value["application/json"] == [1, 0.5, [[1.0, None]], True]


def test_sequences_are_not_shortened(kernel: KernelClient) -> None:
    assert kernel.run("list(range(5000))").value["text/plain"].count("\n") == 4999


@pytest.mark.parametrize(
    ("code", "mime", "expected"),
    [
        ("HTML('<b>x</b>')", "text/html", "<b>x</b>"),
        ("Markdown('*x*')", "text/markdown", "*x*"),
        ("Latex('$x$')", "text/latex", "$x$"),
        ("JSON({'a': [1]})", "application/json", {"a": [1]}),
        ("Javascript('1')", "application/javascript", "1"),
        (
            "SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>')",
            "image/svg+xml",
            '<svg xmlns="http://www.w3.org/2000/svg"/>',
        ),
    ],
)
def test_display_objects_have_text_and_their_own_type(
    kernel: KernelClient, code: str, mime: str, expected: Any
) -> None:
    outcome = kernel.run(f"from IPython.display import *\ndisplay({code})").ok()
    (bundle,) = outcome.displays
    assert bundle[mime] == expected
    assert bundle["text/plain"].startswith("<IPython.core.display.")
    assert set(bundle) == {mime, "text/plain"}


def test_raw_bundles_pass_with_bytes_as_base64_and_anything_json(kernel: KernelClient) -> None:
    code = (
        "display({'image/gif': b'GIF', 'application/pdf': b'%PDF', 'application/x-foo': {'a': [1, float('nan'), {2}]},"
        " 'text/plain': 'p'}, raw=True)"
    )
    assert kernel.run(code).ok().displays == [
        {
            "image/gif": base64.b64encode(b"GIF").decode(),
            "application/pdf": base64.b64encode(b"%PDF").decode(),
            "application/x-foo": {"a": [1, None, "{2}"]},
            "text/plain": "p",
        }
    ]


def test_displays_can_be_updated_and_cleared(kernel: KernelClient) -> None:
    outcome = kernel.run(
        "from IPython.display import clear_output\nh = display('a', display_id='same')\nh.update('b')\nclear_output(wait=True)"
    ).ok()
    (first,) = outcome.of_type("display_data")
    (update,) = outcome.of_type("update_display_data")
    (clear,) = outcome.of_type("clear_output")
    assert first["transient"] == update["transient"] == {"display_id": "same"}
    assert update["data"] == {"text/plain": "'b'"}
    assert clear["wait"] is True


def test_objects_may_bring_their_own_representations(kernel: KernelClient) -> None:
    code = (
        "class Own:\n"
        "    def _repr_html_(self): return '<i>own</i>'\n"
        "    def _repr_png_(self): return b'png'\n"
        "    def _repr_e2b_data_(self): return {'col': [1, float('nan')]}\n"
        "    def _repr_e2b_chart_(self): return {'type': 'unknown'}\n"
        "    def __repr__(self): return 'own'\n"
        "Own()"
    )
    assert kernel.run(code).ok().value == {
        "text/plain": "own",
        "text/html": "<i>own</i>",
        "image/png": base64.b64encode(b"png").decode(),
        "e2b/data": {"col": [1, None]},
        "e2b/chart": {"type": "unknown"},
    }


def test_a_data_frame_has_text_html_and_data(library_kernel: KernelClient) -> None:
    code = (
        "import pandas as pd, numpy as np, datetime, decimal\n"
        "pd.DataFrame({\n"
        "  'int': [1, 2], 'float': [1.5, np.nan], 'inf': [np.inf, 1], 'text': ['a', None],\n"
        "  'time': [pd.Timestamp('2024-01-02 03:04'), pd.NaT], 'zone': pd.to_datetime(['2024-01-02', '2024-01-03']).tz_localize('Europe/Paris'),\n"
        "  'delta': [pd.Timedelta('1D'), pd.NaT], 'period': pd.period_range('2024-01', periods=2, freq='M'),\n"
        "  'category': pd.Categorical(['x', 'y']), 'nullable': pd.array([1, None], dtype='Int64'), 'flag': [True, False],\n"
        "  'interval': pd.interval_range(0, 2), 'decimal': [decimal.Decimal('1.10'), None], 'object': [{'k': np.int64(1)}, [1, 2]],\n"
        "  'date': [datetime.date(2024, 1, 2)] * 2, 'complex': [1j, 2], 'bytes': [b'x', b'y'],\n"
        "})"
    )
    value = library_kernel.run(code).ok().value
    assert {"text/plain", "text/html", "e2b/data"} == set(value)
    assert value["e2b/data"] == {
        "int": [1, 2],
        "float": [1.5, None],
        "inf": [None, 1.0],
        "text": ["a", None],
        "time": ["2024-01-02T03:04:00", "NaT"],
        "zone": ["2024-01-02T00:00:00+01:00", "2024-01-03T00:00:00+01:00"],
        "delta": ["1 days 00:00:00", "NaT"],
        "period": ["2024-01", "2024-02"],
        "category": ["x", "y"],
        "nullable": [1, None],
        "flag": [True, False],
        "interval": ["(0, 1]", "(1, 2]"],
        "decimal": ["1.10", None],
        "object": [{"k": 1}, [1, 2]],
        "date": ["2024-01-02", "2024-01-02"],
        "complex": ["1j", "(2+0j)"],
        "bytes": ["b'x'", "b'y'"],
    }


def test_odd_columns_of_a_data_frame_are_named_and_silent(library_kernel: KernelClient) -> None:
    outcome = library_kernel.run("import pandas as pd; pd.DataFrame([[1, 2]], columns=['same', 'same'])").ok()
    assert outcome.value["e2b/data"] == {"same": [2]}
    assert outcome.text("stderr") == ""
    assert library_kernel.run("pd.DataFrame({(1, 'x'): [1], 2: [3]}, dtype=object)").value["e2b/data"] == {
        "(1, 'x')": [1],
        "2": [3],
    }
    assert library_kernel.run("pd.DataFrame()").value["e2b/data"] == {}
    assert "e2b/data" not in library_kernel.run("pd.Series([1])").value


def test_figures_are_shown_after_the_value_and_closed(library_kernel: KernelClient) -> None:
    outcome = library_kernel.run("import matplotlib.pyplot as plt\nplt.title('t')\nplt.plot([1, 2], [3, 4])").ok()
    kinds = [message["type"] for message in outcome]
    assert kinds.index("execute_result") < kinds.index("display_data")
    assert outcome.value["text/plain"].startswith("[<matplotlib.lines.Line2D")
    (figure,) = outcome.displays
    assert set(figure) == {"text/plain", "image/png", "e2b/chart"}
    assert base64.b64decode(figure["image/png"]).startswith(PNG)
    assert figure["e2b/chart"]["elements"] == [{"label": "Line 0", "points": [[1.0, 3.0], [2.0, 4.0]]}]
    assert library_kernel.run("plt.get_fignums()").value["text/plain"] == "[]"


def test_show_displays_in_place(library_kernel: KernelClient) -> None:
    outcome = library_kernel.run(
        "import matplotlib.pyplot as plt\nfor i in range(2):\n    plt.plot([i]); plt.show(); print('shown')"
    )
    assert [message["type"] for message in outcome][2:-2] == ["display_data", "stream", "display_data", "stream"]


def test_a_figure_as_value_is_also_displayed(library_kernel: KernelClient) -> None:
    outcome = library_kernel.run("import matplotlib.pyplot as plt\nfig, ax = plt.subplots(); ax.plot([1, 2]); fig").ok()
    assert "image/png" in outcome.value and len(outcome.displays) == 1


def test_a_figure_is_shown_even_if_the_cell_fails(library_kernel: KernelClient) -> None:
    outcome = library_kernel.run("import matplotlib.pyplot as plt\nplt.plot([1, 2]); 1/0")
    assert outcome.error["ename"] == "ZeroDivisionError"
    assert len(outcome.displays) == 1


def test_a_blank_figure_has_an_empty_chart(library_kernel: KernelClient) -> None:
    assert library_kernel.run("import matplotlib.pyplot as plt\nplt.figure();").ok().displays[0]["e2b/chart"] == {}


def test_a_figure_that_charts_cannot_read_is_still_shown(library_kernel: KernelClient) -> None:
    code = (
        "import matplotlib.pyplot as plt\nline, = plt.plot([1, 2])\n"
        "class Odd:\n    def __float__(self): raise RuntimeError('odd')\n"
        "line._yorig = [Odd(), Odd()]"
    )
    outcome = library_kernel.run(code).ok()
    assert outcome.displays[0]["e2b/chart"] == {} and "image/png" in outcome.displays[0]
    assert outcome.text("stderr") == ""


def test_images_are_displayed_when_shown_or_saved_by_name(library_kernel: KernelClient, tmp_path: Any) -> None:
    library_kernel.run("from PIL import Image\nfrom pathlib import Path\nim = Image.new('RGB', (4, 4))").ok()
    value = library_kernel.run("im").ok().value
    assert set(value) == {"text/plain", "image/png", "image/jpeg"}
    assert value["text/plain"] == "<PIL.Image.Image image mode=RGB size=4x4>"
    assert len(library_kernel.run("im.show()").ok().displays) == 1
    path = str(tmp_path / "image.png")
    (display,) = library_kernel.run(f"im.save({path!r})").ok().displays
    assert display == value
    assert library_kernel.run(f"im.save(Path({path!r}), optimize=True)").ok().displays == []
    assert library_kernel.run("import io; im.save(io.BytesIO(), 'png')").ok().displays == []
    assert library_kernel.run(f"Image.open({path!r}).size").value["text/plain"] == "(4, 4)"


def test_saving_a_figure_by_name_displays_it(library_kernel: KernelClient, tmp_path: Any) -> None:
    code = f"import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.savefig({str(tmp_path / 'f.png')!r}); plt.close()"
    (display,) = library_kernel.run(code).ok().displays
    assert display["text/plain"] == "<PIL.Image.Image image mode=RGBA size=640x480>"


def test_image_rules_hold_for_a_first_import_too(kernel: KernelClient) -> None:
    assert len(kernel.run("from PIL import Image\nImage.new('L', (2, 2)).show()").ok().displays) == 1
    assert (
        kernel.run("import PIL.Image; type(PIL.Image.__spec__.loader).__name__").value["text/plain"]
        == "'SourceFileLoader'"
    )


def test_nothing_is_imported_before_the_user_does(kernel: KernelClient) -> None:
    code = "import sys; sorted({'pandas', 'numpy', 'matplotlib', 'PIL', 'skep_charts', 'multiprocessing'} & set(sys.modules))"
    assert kernel.run(code).value["text/plain"] == "[]"
    assert kernel.run("[1]").ok()
