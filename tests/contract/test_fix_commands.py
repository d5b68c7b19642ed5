"""govc, somebody else's client, knows every command that a fix tells people to type."""

from __future__ import annotations

import shlex
import subprocess

import pytest

from tests.contract.conftest import NEEDS_GO, built
from tests.plans.planned import plan_of
from tests.plans.tables import CASES
from tests.plans.test_fixes import source_of
from vgpu_cfg.suggestions.candidate import attempt
from vgpu_cfg.suggestions.proposals import propose
from vgpu_cfg.suggestions.situation import Situation


def commands() -> set[tuple[str, ...]]:
    """Return what is proposed to be typed in all cases, once for each command with its flags."""
    found: dict[tuple[str, ...], None] = {}
    for case in CASES:
        if not plan_of(case).errors:
            continue
        source = source_of(case)
        trial = attempt(source, source.text, ())
        assert trial is not None
        for idea in propose(Situation(trial, source.catalog)):
            for line in idea.command.splitlines():
                words = shlex.split(line)
                if words[:1] == ["govc"]:
                    flags = (word.partition("=")[0] for word in words[2:] if word.startswith("-"))
                    found[words[1], *flags] = None
    return set(found)


@pytest.mark.long(NEEDS_GO)
def test_govc_knows_the_commands_and_flags_of_fixes() -> None:
    binary = built("govc")
    known = commands()
    assert len(known) >= 8
    for command, *flags in known:
        done = subprocess.run(
            [str(binary), command, "-h"], capture_output=True, text=True, timeout=120, check=False
        )
        told = done.stdout + done.stderr
        assert f" {command} [OPTIONS]" in told, command
        for flag in flags:
            assert f"\n  {flag}=" in told, f"{command} {flag}"
