"""A table that is kept on a terminal: written anew, in the window's width, and kept where a reading fails."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.text import Text

from vgpu_cfg.cli.output.watch import EVERY_SECONDS, Frame, watch
from vgpu_cfg.errors import Unreachable


def test_it_goes_on_until_ctrl_c_and_keeps_what_it_had() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=60, color_system=None, _environ={"TERM": "xterm"})
    frames: list[str | Exception] = ["first", Unreachable("nobody answers", subject="vc", remedy=""), "third"]
    paused: list[float] = []

    def read() -> Frame:
        frame = frames.pop(0)
        if isinstance(frame, Exception):
            raise frame
        return lambda width: [Text(f"{frame} at {width}")]

    def pause(seconds: float) -> None:
        paused.append(seconds)
        if not frames:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        watch(read, pause, console)
    assert paused == [EVERY_SECONDS] * 3
    first, second, third = out.getvalue().split("Ctrl-C ends it.")[:3]
    assert "first at 60" in first
    assert "first at 60" in second
    assert "not read: nobody answers (vc)" in second
    assert "third at 60" in third
    assert "not read" not in third
