"""The shell completes values from files of this machine, as bash asks for them; no vCenter is needed."""

from __future__ import annotations

import pytest

from tests.cli.command_line import CommandLine
from vgpu_cfg.cli import app

CONFIG = "contexts:\n  prod: {server: vc01.example.com}\n  test: {server: lab:two-a100}\n"

PLAN = "version: 1\nname: first\nvcenter: vc01.example.com\nhosts: [{names: esx-01.example.com, ats: true}]\n"


def completed(line: str, vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ask as the function does that `--install-completion bash` installs: the last word is completed."""
    monkeypatch.setenv("_VGPU_CFG_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(line.count(" ")))
    monkeypatch.setenv("VGPU_CFG_CONFIG", str(vgpu_cfg.folder / "config.yaml"))
    app._command.cache_clear()  # the shell starts a process for it
    ran = vgpu_cfg()
    assert ran.err == ""
    return ran.out.split()


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("vgpu-cfg plan fir", ["first.yaml"]),
        ("vgpu-cfg validate si", ["site/"]),
        ("vgpu-cfg inventory --context p", ["prod"]),
        ("vgpu-cfg inventory --server vc", ["vc01.example.com"]),
        ("vgpu-cfg lab reset hgx-2", ["hgx-2xh100"]),
        ("vgpu-cfg cordon --server lab:two-a100 host:esx", ["host:esx-a100-01.lab"]),
        ("vgpu-cfg verify first.yaml --host e", ["esx-01.example.com"]),
        ("vgpu-cfg fit grid_a100-40", ["grid_a100-40c"]),
        ("vgpu-cfg explain VG57", ["VG570"]),
        # What does not exist, or cannot be read, completes nothing.
        ("vgpu-cfg verify broken.yaml --host e", []),
        ("vgpu-cfg fit no-such", []),
    ],
)
def test_values_are_completed(
    line: str, found: list[str], vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    (vgpu_cfg.folder / "site").mkdir()
    vgpu_cfg.write("config.yaml", CONFIG)
    vgpu_cfg.write("broken.yaml", "version: [")
    vgpu_cfg.write("first.yaml", PLAN)
    assert completed(line, vgpu_cfg, monkeypatch)[: len(found) or None] == found
