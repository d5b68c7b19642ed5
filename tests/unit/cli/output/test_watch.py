"""A table that is kept on a terminal: written anew, in the window's width, and kept where a reading fails."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.text import Text

from vgpu_cfg.cli.output.answers import EVERY_SECONDS, Frame, watch
from vgpu_cfg.errors import Unreachable


def terminal(out: io.StringIO, *, height: int) -> Console:
    seen = {"TERM": "xterm"}
    return Console(file=out, force_terminal=True, width=60, height=height, color_system=None, _environ=seen)


def test_it_goes_on_until_ctrl_c_and_keeps_what_it_had() -> None:
    out = io.StringIO()
    console = Console(
        file=out, force_terminal=True, width=60, height=9, color_system=None, _environ={"TERM": "xterm"}
    )
    frames: list[str | Exception] = ["first", Unreachable("nobody answers", subject="vc", remedy=""), "third"]
    paused: list[float] = []

    def read() -> Frame:
        frame = frames.pop(0)
        if isinstance(frame, Exception):
            raise frame
        return lambda width, height: [Text(f"{frame} at {width}x{height}")]

    def pause(seconds: float) -> None:
        paused.append(seconds)
        if not frames:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        watch(read, pause, console)
    assert paused == [EVERY_SECONDS] * 3
    first, second, third = out.getvalue().split("Press Ctrl-C to stop.")[:3]
    assert "first at 60x8" in first
    assert "first at 60x7" in second
    assert "could not be read: nobody answers (vc)" in second
    assert "third at 60x8" in third
    assert "could not be read" not in third


def test_what_is_taller_than_the_window_is_cut() -> None:
    out = io.StringIO()

    def tall(_width: int, _height: int) -> list[Text]:
        return [Text(f"line {number}") for number in range(9)]

    def pause(_seconds: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        watch(lambda: tall, pause, terminal(out, height=4))
    assert "line 2" in out.getvalue()
    assert "line 3" not in out.getvalue()
