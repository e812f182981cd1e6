"""The same cells on ipykernel: what a user sees must be the same.

Skipped where ipykernel is not installed. Deliberate differences are listed in PROTOCOL.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from kernel_client import KernelClient

from .prepared import Zygote

pytest.importorskip("ipykernel")
pytest.importorskip("jupyter_client")

from .ipykernel_peer import IpykernelPeer

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_VARYING = [
    (re.compile(r"0x[0-9a-f]+"), "0x…"),
    (re.compile(r"ipykernel_\d+/\d+\.py"), "cell.py"),
    (re.compile(r"\(\d+\.py, line"), "(cell.py, line"),
    (re.compile(r"\d[\d.e+]* [nµμm]?s\b"), "some time"),
    (re.compile(r"[0-9a-f]{32}"), "some id"),
]

CELLS = [
    "1 + 1",
    "print('a'); print('b')",
    "x = 5\nx",
    "x;",
    "   y = 1\n   y",
    "'quoted'",
    "import sys; print('e', file=sys.stderr); print('o')",
    "1/0",
    "def f():\n    raise ValueError('inner')\nf()",
    "try:\n    1/0\nexcept ZeroDivisionError as e:\n    raise RuntimeError('outer') from e",
    "x = = 1",
    "for i in range(2)\n    pass",
    "  a = 1\n b = 2",
    "undefined",
    "raise SystemExit(2)",
    "raise KeyboardInterrupt",
    "input()",
    "import asyncio\nawait asyncio.sleep(0, 'done')",
    "async def g():\n    return [i async for i in h()]\nasync def h():\n    yield 1\nawait g()",
    "asyncio.create_task(asyncio.sleep(0)).done()",
    "asyncio.get_running_loop().is_running()",
    "never = asyncio.sleep(0)\ntry:\n    asyncio.run(never)\nfinally:\n    never.close()",
    "%pwd",
    "%timeit -n1 -r1 pass",
    "%%time\nz = 1",
    "!echo bang; echo err >&2",
    "%%bash\necho bash; echo err >&2",
    "%%sh\nexit 4",
    "%%writefile /dev/null\nx",
    "%%html\n<b>x</b>",
    "%%javascript\n1",
    "%%latex\n$x$",
    "%%markdown\n*x*",
    "%no_such_magic",
    "%%no_such_magic\nx",
    "lines = !printf 'a\\nb'\nlines",
    "%%capture c\nprint('hidden')",
    "c.stdout",
    "display(1, 'two')",
    "from IPython.display import *\ndisplay(HTML('<b>x</b>'), Markdown('*x*'), Latex('$x$'), SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>'))",
    "display({'image/gif': b'GIF', 'text/plain': 'gif'}, raw=True)",
    "h = display('first', display_id='fixed')\nh.update('second')",
    "clear_output(wait=True)",
    "class C:\n    def _repr_html_(self): return '<i>c</i>'\n    def __repr__(self): return 'c'\nC()",
    "class D:\n    def _ipython_display_(self): print('displayed')\nD()",
    "Image(data=b'\\x89PNG\\r\\n\\x1a\\n', format='png')",
    "import warnings; warnings.warn('careful')",
    "import logging; logging.getLogger('n').warning('logged')",
    "import os; os.system('echo system')",
    "import subprocess; subprocess.run(['echo', 'child']).returncode",
    "import threading; t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()",
    "int?",
    "%quickref",
    "_",
    "Out[1]",
    "sum(range(10))\n# trailing comment",
    "def documented():\n    '''doc'''\ndocumented.__doc__",
    "from math import *\npi",
    "if True:\n    5",
    "5 if True else 6; 7",
    "(1,\n 2)",
    "b'\\xff'",
    "'\\u2028 \U0001f600'",
    "list(range(30))",
    "set()",
    "{'a': {'b': [1, 2]}}",
    "None",
    "...",
    "print('no newline', end='')",
    "print('\\x1b[31mred\\x1b[0m')",
    "sys.stdout.write('w\\n')",
    "import sympy; sympy.sqrt(8)",
    "import matplotlib.pyplot as plt; plt.plot([1, 2]); print('drawn')",
    "plt.plot([1, 2]); plt.show(); 'after'",
    "fig, ax = plt.subplots(); fig",
    "import matplotlib; matplotlib.get_backend()",
    "import pandas as pd; pd.DataFrame({'a': [1, 2]})",
    "pd.Series([1.5], index=['x'])",
    "import numpy as np; np.eye(2)",
    "from PIL import Image as PIL_Image; PIL_Image.new('RGB', (2, 2))",
    "from rich import print as rich_print; rich_print('[red]r[/red]')",
    "import altair; altair.Chart(pd.DataFrame({'a': [1]})).mark_bar().encode(x='a').to_dict()['mark']",
    "__name__",
    "get_ipython().__class__.__name__",
    "os.environ['PAGER'], os.environ['TERM'], os.environ['MPLBACKEND']",
]

# Ours adds these representations.
_OUR_OWN = {"e2b/data", "e2b/chart"}


@pytest.fixture(scope="module")
def reference() -> Iterator[IpykernelPeer]:
    with IpykernelPeer() as peer:
        yield peer


@pytest.fixture(scope="module")
def ours(zygote: Zygote) -> Iterator[KernelClient]:
    client = zygote.fork()
    yield client
    client.close()


@pytest.mark.parametrize("code", CELLS)
def test_a_cell_does_what_it_does_under_ipykernel(ours: KernelClient, reference: IpykernelPeer, code: str) -> None:
    mine, theirs = seen(ours.run(code)), seen(reference.run(code))
    if any(kind == "stream" for kind, *_ in theirs):
        # Standard output and error have no order between them there.
        mine, theirs = sorted(mine, key=repr), sorted(theirs, key=repr)
    assert mine == theirs


def seen(messages: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """What a user would see of an execution, without what differs from run to run."""
    result: list[tuple[Any, ...]] = []
    texts: dict[str, str] = {}
    for message in messages:
        kind = message["type"]
        if kind == "stream":
            texts[message["name"]] = texts.get(message["name"], "") + message["text"]
        elif kind in ("execute_result", "display_data", "update_display_data"):
            is_container = message["data"].get("text/plain", " ")[0] in "[{"
            data = {mime: value for mime, value in message["data"].items() if mime not in _OUR_OWN}
            if is_container:
                data.pop("application/json", None)
            result.append((kind, steady(data)))
        elif kind == "error":
            result.append((kind, message["ename"], steady(message["evalue"]), last_line(message["traceback"])))
        elif kind == "clear_output":
            result.append((kind, message["wait"]))
        elif kind == "reply":
            result.append(
                (kind, message["status"], message["execution_count"], [entry["source"] for entry in message["payload"]])
            )
    if any(kind == "reply" and status == "error" for kind, status, *_ in result):
        # ipykernel tells of usage errors and exception groups in its reply only.
        result = [entry for entry in result if entry[0] != "error" or entry[1] not in ("UsageError", "ExceptionGroup")]
    return [("stream", name, steady(text)) for name, text in sorted(texts.items())] + result


def steady(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: steady(item) for key, item in value.items()}
    if not isinstance(value, str):
        return value
    value = _ANSI.sub("", value)
    if len(value) > 2000:
        return "something long"
    for pattern, replacement in _VARYING:
        value = pattern.sub(replacement, value)
    return value


def last_line(traceback: list[str]) -> str:
    return steady("".join(traceback)).rstrip("\n").rpartition("\n")[2]
