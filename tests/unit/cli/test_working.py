"""The line that shows what a command reads: on a terminal only, and gone at the end."""

from __future__ import annotations

import io
import sys

import pytest

from vgpu_cfg.cli.output import show


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "is_shown"), [(Terminal(), True), (io.StringIO(), False)])
def test_a_terminal_shows_what_is_read(
    stream: io.StringIO, monkeypatch: pytest.MonkeyPatch, *, is_shown: bool
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stream)
    with show.working("vc01") as tell:
        tell("reading [red]12 hosts\x1b]0;x\x07")
    printed = stream.getvalue()
    assert ("vc01: reading [red]12 hosts" in printed) is is_shown
    assert bool(printed) is is_shown
    assert "\x1b]0" not in printed
