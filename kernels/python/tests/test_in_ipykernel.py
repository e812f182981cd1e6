"""The extension that gives ipykernel the representations of the contract."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from .ipykernel_peer import IpykernelPeer


@pytest.fixture(scope="module")
def peer() -> Iterator[IpykernelPeer]:
    with IpykernelPeer("--ext=skep_kernel.in_ipykernel") as running:
        yield running


def shown(peer: IpykernelPeer, code: str) -> list[dict[str, Any]]:
    """What a cell showed; it must not fail."""
    messages = peer.run(code)
    assert messages[-1]["status"] == "ok", messages[-1]
    return [message["data"] for message in messages if message["type"] in ("display_data", "execute_result")]


def test_lists_and_dictionaries_have_json(peer: IpykernelPeer) -> None:
    (bundle,) = shown(peer, "[1, float('nan'), {'a': None}]")
    assert bundle["application/json"] == [1, None, {"a": None}]
    assert "application/json" not in shown(peer, "[object()]")[0]


def test_a_data_frame_has_data(peer: IpykernelPeer) -> None:
    (bundle,) = shown(peer, "import pandas as pd\npd.DataFrame({'d': pd.to_timedelta([1], 'D'), 'n': [1.5]})")
    assert bundle["e2b/data"]["n"] == [1.5] and bundle["e2b/data"]["d"][0].startswith("1 day")


def test_a_figure_has_a_chart(peer: IpykernelPeer) -> None:
    (bundle,) = shown(peer, "import matplotlib.pyplot as plt\nplt.bar(['a'], [1])\nplt.show()")
    assert bundle["e2b/chart"]["type"] == "bar" and "image/png" in bundle


def test_an_image_that_is_shown_is_displayed(peer: IpykernelPeer) -> None:
    (bundle,) = shown(peer, "from PIL import Image\nImage.new('L', (2, 2)).show()")
    assert "image/png" in bundle
