"""A plan made, shown, saved and run by the commands that a person types, with all heard that is sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cli.command_line import CommandLine
from tests.properties.shown_and_run.comparison import Run
from tests.properties.shown_and_run.wire import listening
from vgpu_cfg.lab.state.vm import VirtualMachine

if TYPE_CHECKING:
    import pytest

DONE = frozenset({"done"})


def run_reviewed(
    vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch, plan: str | Path, estate: str, *flags: str
) -> Run | None:
    """Plan, show as text and as a runbook, then apply what was saved; None where there is nothing to apply.

    `flags` are given to all of them. The shells of hosts are open throughout: `apply` opens them too.
    """
    shown = vgpu_cfg("plan", "-v", "--open-shell", "-o", "plan.json", *flags, plan)
    if shown.code != 0:
        return None
    saved = json.loads(Path("plan.json").read_text(encoding="utf-8"))
    if not saved["changes"]:
        return None
    runbook = vgpu_cfg.done("runbook", "--open-shell", *flags, plan)
    names = _vm_names(vgpu_cfg, estate)
    with listening(monkeypatch) as wire:
        ran = vgpu_cfg("apply", "--yes", "--output", "json", *flags, "plan.json")
    assert ran.code in (0, 7), ran.told
    outcomes = json.loads(ran.out)["outcomes"]
    return Run(
        plan=saved,
        verbose=shown.out,
        runbook=runbook.out,
        sent=tuple(wire.sent),
        vm_names=names | _vm_names(vgpu_cfg, estate),
        carried_out=frozenset(one["change_id"] for one in outcomes if one["status"] in DONE),
    )


def _vm_names(vgpu_cfg: CommandLine, estate: str) -> dict[str, str]:
    return {vm.moid: vm.name for vm in vgpu_cfg.lab(estate).state.all(VirtualMachine)}
