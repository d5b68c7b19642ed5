"""Mistyped commands and options, and words of other tools: each hint exists, and no hint is a silly one."""

from __future__ import annotations

import pytest

from vgpu_cfg.cli.app import LISTED
from vgpu_cfg.cli.options import meant_words
from vgpu_cfg.cli.options.meant_words import meant_command, meant_option

COMMANDS = tuple(row.name for row in LISTED)


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("stauts", "status"),
        ("aply", "apply"),
        ("Delete", "destroy"),
        ("evacuate", "drain"),
        ("maintenance", "drain"),
        ("version", "--version"),
        ("check", "validate or verify"),
        ("start", "apply"),
        ("undo", ""),
        ("owner", ""),
        ("login", ""),
        ("xyz", ""),
    ],
)
def test_a_command(word: str, meant: str) -> None:
    assert meant_command(word, COMMANDS) == meant


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("--allow-powercycle", "--allow-power-cycle"),
        ("--allow-mov", "--allow-move"),
        ("--force", "--yes"),
        ("--auto-approve", "--yes"),
        ("--check", "--dry-run"),
        ("--json", ""),
        ("--free", ""),
        ("--frobnicate", ""),
        ("--sync", ""),
    ],
)
def test_an_option(word: str, meant: str) -> None:
    known = [
        "--yes",
        "-y",
        "--dry-run",
        "--done",
        "--change",
        "--allow-power-cycle",
        "--allow-move",
        "--help",
    ]
    assert meant_option(word, known) == meant


def test_every_command_that_is_hinted_at_exists() -> None:
    for meant in set(meant_words._COMMANDS.values()) - {""}:
        for one in meant.split(" or "):
            assert one.split()[0] in (*COMMANDS, "--help", "--version"), meant
    assert not set(meant_words._COMMANDS) & set(COMMANDS)
