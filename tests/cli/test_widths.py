"""What commands print for people keeps to the terminal: no line runs over it, and no word is broken.

Exceptions: a fault of a file stays on its line, which editors find; what is handed to another program
(runbooks, host files, JSON) is not laid out for a terminal.
"""

from __future__ import annotations

import re

import pytest

from tests.cli.command_line import CommandLine
from tests.extent import each
from tests.widths import ENDLESS, WIDTHS, faults_in, unbroken_in
from vgpu_cfg.render.layout import console

NARROW = 60
WHY = "every command at every width: tests/cli/test_widths.py"
LAB = ("--server", "lab:mixed-fleet")
STRANDED = ("--server", "lab:estates/stranded.yaml")
RECORDING = "examples/site-repository/vcenter.json.gz"
COMMANDS = {
    "inventory": ["inventory", *LAB],
    "inventory-all": ["inventory", "-v", *LAB],
    "links": ["inventory", "--server", "lab:nvlink-4xa100"],
    "doctor-full": ["doctor", "-v", *LAB],
    "upgrade": ["upgrade", "--driver", "595.71", "-v", *LAB],
    "trial": ["trial", "--dry-run", "--steps=objects,vm", "--in=training", "--datastore=vsan", *LAB],
    "trial-clean": ["trial", "--clean", *LAB],
    "pool": ["inventory", "--gpus", *LAB],
    "pool-stranded": ["inventory", "--gpus", "-v", *STRANDED],
    "fit": ["fit", "nvidia_l40s-12c", *LAB],
    "fit-nowhere": ["fit", "grid_a100-8c", "-v", *STRANDED],
    "profiles": ["profiles", "--board", "A100"],
    "labs": ["lab", "list"],
    "explain-code": ["explain", "VG107"],
    "explain-text": ["explain", "Module 'DevicePowerOn' power on failed."],
    "explain-check": ["explain", "VG650"],
    "size": ["size", "--parameters", "7e9", "--workers", "8"],
    "moves": ["plan", "plans/two-moves.yaml"],
    "not-placed": ["plan", "-v", "examples/hgx-eight-gpu.yaml", *LAB],
    "not-found": ["plan", "plans/unknown-everything.yaml"],
    "no-such-host": ["inventory", "--host", "nothing-like-this", "--server", "lab:bare"],
    "no-such-board": ["profiles", "--board", "A1000"],
    "no-such-server": ["inventory", "--server", "lab:nothing"],
    "valid": ["validate", "plans/pair.yaml"],
    "plan": ["plan", "-v", "examples/multi-node-horovod.yaml"],
    "hosts": ["plan", "examples/prepare-hosts.yaml"],
    "compare": ["inventory", "--server", "lab:one-a100", "--compare", RECORDING],
    "explain-full": ["explain", "VG103"],
    "mixed": ["plan", "examples/mixed-sizes.yaml"],
}
AFTER_A_RUN = {
    "status": ["status", "-v", "plans/pair.yaml"],
    "drift": ["status", "plans/after.yaml"],
    "refused": ["plan", "plans/before.yaml"],
    "in-sync": ["plan", "plans/pair.yaml"],
    "verify": ["verify", "plans/pair.yaml", "-v"],
    "destroy": ["destroy", "plans/pair.yaml", "--dry-run"],
    "history": ["history", "plans/pair.yaml"],
    "status-of-all": ["status", "-v", "--server", "lab:two-a100"],
}
VARYING = re.compile(
    r"(?<=trial[- ])[0-9a-f]{6}\b|\d+:\d\d(:\d\d)?|\d+(\.\d+)?\s+(s|min)\b(\s+\d+ s\b)?|\b(s|min)(?= ago)"
)


def printed(run: CommandLine, words: list[str], width: int) -> str:
    ran = run(*words, COLUMNS=str(width))
    return VARYING.sub("0", ran.out + ran.err)


def found_in(run: CommandLine, words: list[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what is wrong at any of the widths; only paths and the like are longer than a line."""
    with monkeypatch.context() as patched:
        patched.setattr(console, "MAX_WIDTH", ENDLESS)
        whole = printed(run, words, ENDLESS)
    assert whole
    texts = {width: printed(run, words, width) for width in WIDTHS}
    faults = [f"{width}: {fault}" for width, text in texts.items() for fault in faults_in(text, whole, width)]
    longer = {word for word in unbroken_in(texts[NARROW], NARROW) if not re.search(r"[/{=-]", word)}
    return [*faults, *(f"{NARROW}: {word} is longer" for word in sorted(longer))]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "case", each(((case,) for case in COMMANDS), WHY, lambda case: case in list(COMMANDS)[::2], one_of=6)
)
def test_it_keeps_to_the_width(case: str, vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found_in(vgpu_cfg, COMMANDS[case], monkeypatch) == []


@pytest.mark.long(WHY)
def test_what_is_printed_after_a_run_keeps_to_the_width(
    vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for width in WIDTHS:
        text = printed(vgpu_cfg, ["apply", "--yes", "plans/pair.yaml"], width)
        assert faults_in(text, None, width) == []
        if width != WIDTHS[-1]:
            vgpu_cfg.done("destroy", "--yes", "plans/pair.yaml")
    for case, words in AFTER_A_RUN.items():
        assert (case, found_in(vgpu_cfg, words, monkeypatch)) == (case, [])
