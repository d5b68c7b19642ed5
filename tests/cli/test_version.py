"""`--version` tells what a report of a bug needs, and so does the message of a bug."""

from __future__ import annotations

import platform
import re

import pytest

from tests.cli.command_line import CommandLine
from vgpu_cfg import __version__
from vgpu_cfg.cli.app import _report_bug


def test_the_first_line_is_the_version_alone(vgpu_cfg: CommandLine) -> None:
    assert vgpu_cfg.done("--version").out.splitlines()[0] == f"vgpu-cfg {__version__}"


def test_the_second_line_is_what_it_runs_on(vgpu_cfg: CommandLine) -> None:
    (second,) = vgpu_cfg.done("--version").out.splitlines()[1:]
    assert second.startswith(f"Python {platform.python_version()} on {platform.system()}")
    assert re.search(r"pyvmomi \d+\.\d+.*, pydantic \d.*, highspy \d.*, paramiko \d", second)


def test_the_version_is_told_whatever_else_is_typed(vgpu_cfg: CommandLine) -> None:
    assert vgpu_cfg.done("--version", "plan", "no-such-file.yaml").err == ""


@pytest.mark.parametrize("is_debugged", [True, False])
def test_a_bug_tells_the_versions_when_it_is_debugged(
    is_debugged: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if is_debugged:
        monkeypatch.setenv("VGPU_CFG_DEBUG", "1")
    _report_bug(ZeroDivisionError("nothing to share"))
    told = capsys.readouterr().err
    assert "ERROR  a bug in vgpu-cfg: ZeroDivisionError: nothing to share\n" in told
    assert (f"vgpu-cfg {__version__}\nPython " in told) == is_debugged
