"""The way of a GPU from the plan file to the wire is the one that docs/explanation/design.md draws."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from pydantic import BaseModel
from pyVmomi.VmomiSupport import DataObject

from tests.cli.command_line import ROOT, CommandLine

DESIGN = ROOT / "docs" / "explanation" / "design.md"
MOST = 5
PLAN = """\
version: 1
name: way
vcenter: lab:estates/old.yaml
vms:
- {name: a, template: ubuntu-22.04-efi, cluster: gpu, cpus: 4, memory: 16GiB, gpus: GPUS}
"""
GPUS = {
    "grid_a100-40c": "grid_a100-40c",
    "a100-pt": "[{device: {label: a100-pt}}]",
    "0000:e2:00.0": "[{pin: '0000:e2:00.0'}]",
}
"""What a plan file says of a GPU, by the text in it that goes all the way."""
_THERE = "what is there: as vCenter told it, and read from that"
_SHOWN = "what is shown of it"
BESIDE = {
    "GpuState": _THERE,
    "Host": _THERE,
    "NumaNode": _THERE,
    "PassthroughDevice": _THERE,
    "PciDevice": _THERE,
    "PciPassthroughInfo": _THERE,
    "PciPassthruInfo": _THERE,
    "VgpuDevice": _THERE,
    "_Device": "what is there and what was asked for, compared when a VM is read back",
    "Fit": "the answer to the need: indices and addresses",
    "Edit": _SHOWN,
    "Placement": _SHOWN,
    "OwnerMark": "whose a GPU is, once it is there",
    "VmRow": _SHOWN,
    "_Row": _SHOWN,
}
"""What holds the text as well, and why it is no step; the types of the catalogue and of the lab aside."""
_PLURAL = (Mapping, list, tuple, set, frozenset)


class Way:
    """The types that hold a text themselves, in the order in which a run first has one.

    Looks at all that functions of the package return or yield, with all that is in it, but for the lab's:
    it is another program.
    """

    def __init__(self, text: str) -> None:
        self.found: dict[str, None] = {}
        self._text = text
        self._seen: dict[int, object] = {}

    def look(self, frame: FrameType, event: str, returned: object) -> None:
        """Take a profiler's event."""
        module = frame.f_globals.get("__name__", "")
        if event == "return" and module.startswith("vgpu_cfg.") and not module.startswith("vgpu_cfg.lab."):
            self._walk(returned)

    def _walk(self, root: object) -> None:
        waiting = [root]
        while waiting:
            one = waiting.pop()
            inside = list(_inside(one))
            if not inside or id(one) in self._seen:
                continue
            self._seen[id(one)] = one  # kept, so that its id is nobody else's
            if not isinstance(one, _PLURAL) and any(map(self._tells, inside)):
                self.found.setdefault(type(one).__name__.rpartition(".")[2])
            waiting += inside

    def _tells(self, value: object) -> bool:
        if isinstance(value, tuple | list):
            return any(map(self._tells, value))
        # What has no text of its own is no text; pyvmomi cannot even print a part that is kept of an answer.
        if isinstance(value, DataObject) or type(value).__str__ is object.__str__:
            return False
        return str(value) == self._text


def _inside(one: Any) -> Iterator[object]:
    if isinstance(one, type) or type(one).__module__.startswith(("vgpu_cfg.catalog.", "vgpu_cfg.lab.")):
        return
    if isinstance(one, Mapping):
        yield from one.values()
    elif isinstance(one, _PLURAL):
        yield from one
    elif isinstance(one, BaseModel | DataObject):
        yield from vars(one).values()
    elif is_dataclass(one):
        yield from (getattr(one, field.name, None) for field in fields(one))


def way_of(text: str, plan: str, vgpu_cfg: CommandLine) -> list[str]:
    """Apply a plan, and return the types that hold a text."""
    Path("plan.yaml").write_text(plan, encoding="utf-8")
    vgpu_cfg.done("lab", "reset", "estates/old.yaml")
    way = Way(text)
    before = sys.getprofile()
    sys.setprofile(way.look)
    try:
        vgpu_cfg.done("apply", "--yes", "plan.yaml")
    finally:
        sys.setprofile(before)
    return list(way.found)


def drawn() -> dict[str, int]:
    """Return the types that the design draws, with the number of their step."""
    rows = re.findall(r"^\| (\d) \|[^|]*\|([^|]*)\|", DESIGN.read_text(encoding="utf-8"), re.MULTILINE)
    return {name: int(step) for step, names in rows for name in re.findall(r"`(\w+)`", names)}


def test_a_gpu_goes_the_way_that_is_drawn(vgpu_cfg: CommandLine) -> None:
    steps = drawn()
    assert sorted(set(steps.values())) == list(range(1, MOST + 1))
    on_the_way: set[str] = set()
    beside: set[str] = set()
    for text, gpus in GPUS.items():
        found = way_of(text, PLAN.replace("GPUS", gpus), vgpu_cfg)
        assert not set(found) - steps.keys() - BESIDE.keys(), "a type that the design does not draw"
        taken = [name for name in found if name in steps]
        numbers = [steps[name] for name in taken]
        assert numbers == sorted(set(numbers)), f"{text} goes another way: {taken}"
        assert {numbers[0], numbers[-1]} == {1, MOST}
        on_the_way |= set(taken)
        beside |= set(found) & BESIDE.keys()
    assert (on_the_way, beside) == (set(steps), set(BESIDE)), "more is drawn than there is"
