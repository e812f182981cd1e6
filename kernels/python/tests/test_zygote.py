"""What of a zygote needs no sandbox: when its fork declines to be a kernel."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from skep_kernel import zygote


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that modules are imported from."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), "", str(tmp_path / "missing")])
    return tmp_path


def test_a_fork_goes_on_where_nothing_was_installed(place: Path) -> None:
    places = zygote._places()
    (place / "package").mkdir()
    os.utime(place, ns=(places[str(place)], places[str(place)]))
    zygote._check_places(places)


def test_a_fork_declines_where_something_was_installed(place: Path) -> None:
    os.utime(place, ns=(1, 1))
    places = zygote._places()
    (place / "package").mkdir()
    with pytest.raises(zygote.Refusal):
        zygote._check_places(places)


def test_a_fork_declines_where_a_new_place_has_come(place: Path) -> None:
    places = zygote._places()
    (place / "missing").mkdir()
    os.utime(place, ns=(places[str(place)], places[str(place)]))
    with pytest.raises(zygote.Refusal, match="missing"):
        zygote._check_places(places)


def test_a_packet_has_every_descriptor_that_the_server_sends() -> None:
    names = "plan reply pid network users mounts ipc uts cgroups stdin stdout stderr"
    assert zygote.Descriptors._fields == tuple(names.split())
