"""Every malformed plan of tests/malformed at the command line: its faults on stderr, exit 3, no traceback."""

from __future__ import annotations

import re

import pytest

from tests.cli.command_line import ROOT, CommandLine

FOLDER = ROOT / "tests" / "malformed"
CASES = sorted(path.name for path in FOLDER.glob("*.yaml"))
FAULT = re.compile(r"^[^:]+\.yaml:[1-9]\d*:[1-9]\d*: \S")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("command", ["validate", "plan"])
def test_every_fault_is_told_with_its_place(
    command: str, vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(FOLDER)
    for case in CASES:
        ran = vgpu_cfg(command, case)
        *faults, remedy = ran.err.splitlines()
        if len(faults) > 1 and faults[-1].startswith("ERROR  "):
            faults.pop()
        expected = [
            line.removeprefix("# ")
            for line in (FOLDER / case).read_text(encoding="latin-1").splitlines()
            if line.startswith("# ")
        ]
        assert ran.code == 3, case
        assert ran.out == "", case
        assert remedy.startswith("DO     "), case
        assert len(faults) == len(expected), f"{case}: {ran.err}"
        assert all(FAULT.match(fault) for fault in faults), f"{case}: {ran.err}"
        assert "Traceback" not in ran.err
        assert "hunter" not in ran.err, "a secret must not be repeated"
