"""Whatever stands in names, notes, events and errors: no answer obeys it, and no line is forged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.command_line import CommandLine, Ran
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.lab.state.inventory import (
    Cluster,
    Datacenter,
    Datastore,
    DistributedSwitch,
    Folder,
    Host,
    LabState,
    Managed,
    Network,
    PastEvent,
    ResourcePool,
    Task,
    VirtualMachine,
)
from vgpu_cfg.model.wording import is_obeyed
from vgpu_cfg.render.text.run import progress

if TYPE_CHECKING:
    from rich.console import Console

EVIL = "\n12:00:00 [9/9] DONE    forged\r\x7f\x85\x9b31m\u061c\u200e\u200f\u202e\u2028\u2029\u2066\u2069end"
"""Of the control characters, XML carries these and no other."""
FORGED = "12:00:00 [9/9] DONE    forged"
PLAN = Path("plans/pair.yaml")
ESTATE = "two-a100"
SERVER = ("--server", f"lab:{ESTATE}")
KINDS = (
    Datacenter,
    Datastore,
    DistributedSwitch,
    Folder,
    Host,
    Network,
    ResourcePool,
    VirtualMachine,
    Cluster,
)
NEEDED = ("dc1", "gpu", "training", "ubuntu-22.04-efi", "vm-network", "vsan", "hvd-01", "hvd-02")


def spoil(state: LabState, kept: tuple[str, ...]) -> Iterator[Managed]:
    """Let every name and note of a vCenter hold what is obeyed, and yield what was touched."""
    for thing in state.objects.values():
        if isinstance(thing, KINDS) and thing.name not in kept:
            thing.name += EVIL
        if isinstance(thing, VirtualMachine):
            thing.annotation = thing.annotation + EVIL
            thing.extra_config = {**thing.extra_config, f"note{EVIL}": EVIL}
            if "vgpu_cfg.vm" in thing.extra_config:
                thing.extra_config["vgpu_cfg.plan"] += EVIL
        if isinstance(thing, PastEvent):
            thing.user += EVIL
            thing.values = {
                key: one + EVIL if isinstance(one, str) else one for key, one in thing.values.items()
            }
        if isinstance(thing, Task):
            thing.user += EVIL
            thing.entity_name += EVIL
        yield thing


def spoil_lab(vgpu_cfg: CommandLine, kept: tuple[str, ...]) -> None:
    lab = vgpu_cfg.lab(ESTATE)
    with lab.transaction():
        for thing in list(spoil(lab.state, kept)):
            lab.state.touch(thing)


def refuse_forgery(ran: Ran, words: tuple[Any, ...]) -> None:
    for text in (ran.out, ran.err):
        raw = {sign for sign in text if is_obeyed(sign) and sign != "\n"}
        assert not raw, f"{words}: {sorted(map(ascii, raw))}"
        forged = [line for line in text.splitlines() if line.lstrip("#* ").startswith(FORGED)]
        assert not forged, f"{words}: {text}"
    assert "Traceback" not in ran.err
    assert ran.code != 1, f"{words}: {ran.err}"


def commands() -> list[tuple[str | Path, ...]]:
    faces = {
        "plan": ("text", "json", "junit", "markdown"),
        "status": ("text", "json", "junit"),
        "verify": ("text", "json", "junit"),
        "runbook": ("text", "json"),
        "privileges": ("text", "govc", "powercli"),
    }
    found: list[tuple[str | Path, ...]] = [
        (name, PLAN, "--output", face) for name, listed in faces.items() for face in listed
    ]
    for face in ("text", "json"):
        output = ("--output", face)
        found += [
            ("validate", PLAN, *output),
            ("inventory", *SERVER, *output),
            ("inventory", "--gpus", *SERVER, *output),
            ("history", *SERVER, *output),
            ("unlock", *SERVER, *output),
            ("fit", "grid_a100-40c", *SERVER, *output),
            ("export", *SERVER, *output) if face == "text" else ("status", PLAN, "--verbose", *output),
        ]
    found += [
        ("plan", PLAN, "--verbose"),
        ("runbook", PLAN, "--as-run"),
        ("hand-over", PLAN, "--format", "horovod"),
        ("import", PLAN, "--dry-run"),
        ("forget", PLAN, "--dry-run"),
        ("drain", "esx-a100-01.lab", "--dry-run", *SERVER),
        ("verify", PLAN, "--report", "page.html"),
        ("destroy", PLAN, "--dry-run"),
        ("inventory", "--host", f"x{EVIL}", *SERVER),
        ("status", f"plans/no{EVIL}.yaml"),
    ]
    return found


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kept", [NEEDED, ()], ids=["what the plan names is found", "nothing is found"])
def test_nothing_that_others_typed_forges_a_line(kept: tuple[str, ...], vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", "--yes", PLAN)
    spoil_lab(vgpu_cfg, kept)
    for words in commands():
        refuse_forgery(vgpu_cfg(*words), words)
    page = vgpu_cfg.folder / "page.html"
    if page.exists():
        assert not {sign for sign in page.read_text(encoding="utf-8") if is_obeyed(sign) and sign != "\n"}


@pytest.mark.parametrize("terminal", [False, True])
def test_a_run_tells_of_hosts_and_failures_line_by_line(
    terminal: bool,
    vgpu_cfg: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if terminal:
        monkeypatch.setattr("vgpu_cfg.render.text.run.progress.make_display", live_display)
    spoil_lab(vgpu_cfg, NEEDED)
    told = re.sub(r"[\r\x7f-\x9f]", "", EVIL)  # a YAML file holds none of these
    vgpu_cfg.script(ESTATE, {"method": "PowerOnVM_Task", "nth": 1, "message": f"no{told}"})
    ran = vgpu_cfg("apply", "--yes", PLAN, "--reason", "new VMs")
    assert ran.code == 6
    assert "\\u202e" in ran.out
    refuse_forgery(ran, ("apply",))
    (run,) = json.loads(vgpu_cfg.done("history", *SERVER, "--output", "json").out)["runs"]
    for words in (("history", "--run", run["run"], *SERVER), ("runbook", PLAN, "--as-run")):
        refuse_forgery(vgpu_cfg.done(*words), words)


def live_display(console: Console, plan: Plan) -> progress.LiveDisplay:
    return progress.LiveDisplay(console, plan, auto_refresh=False)
