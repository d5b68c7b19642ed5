"""A test meets neither the network nor the user's own files, and draws the same examples every time."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest_socket import SocketBlockedError


def test_sockets_are_closed() -> None:
    # The guard warns before it raises, and here a warning is an error.
    with pytest.raises((SocketBlockedError, UserWarning)):
        socket.socket()


@pytest.mark.parametrize("time", ["first", "again"])
def test_home_is_the_tests_own_and_empty(time: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert Path.home().is_relative_to(tmp_path_factory.getbasetemp())
    assert list(Path.home().iterdir()) == []
    (Path.home() / "left").mkdir()
    (Path.home() / "left" / "by").write_text(time, encoding="ascii")


def test_no_setting_of_the_user_comes_through() -> None:
    assert [name for name in os.environ if name.startswith(("VGPU_CFG_", "GOVC_", "XDG_"))] == []


def test_the_clock_shows_utc() -> None:
    assert time.tzname[0] == "UTC"


@given(st.integers())
def test_examples_are_the_same_every_time(number: int) -> None:
    assert settings().derandomize
    assert settings().database is None
    assert isinstance(number, int)
