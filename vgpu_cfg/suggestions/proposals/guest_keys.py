"""What stands in the way of a plan's keys in guests: others than the plan's, not new ones, ones not kept."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_cfg.changes.suggestion import FixKind
from vgpu_cfg.model.guests.guest import GUEST_MARK_KEY
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.guests.plan_keys import KEYS, keys_in, word_of_keys
from vgpu_cfg.suggestions.candidate import Candidate, Cost
from vgpu_cfg.suggestions.situation import Situation

_KEPT = "kept"
"""Stands for the seed that guests have, of which only a digest is known."""


def propose_guest_keys(situation: Situation) -> Iterator[Candidate]:
    """Yield the keys that guests have, brought back or kept behind new ones, and leave to replace them."""
    if any(situation.errors(Code.KEYS_FOREIGN)):
        says = "bring the keys here that the guests were set up with"
        yield Candidate(FixKind.OUTSIDE, says, Cost.WORK, flag=f"keys={_KEPT}", effect=_with_kept_keys)
        says = "replace the keys in the guests"
        command = f"--rotate {KEYS}"
        yield Candidate(FixKind.FLAG, says, Cost.WORK, flag=f"rotate={KEYS}", command=command)
    if any(situation.errors(Code.KEYS_NOT_ROTATED)):
        yield Candidate(FixKind.FLAG, "leave --rotate keys away", flag=f"rotate_no={KEYS}")
        says = "put the seed that the guests have behind the new one"
        yield Candidate(FixKind.OUTSIDE, says, Cost.WORK, flag=f"former={_KEPT}", effect=_with_kept_keys)


def _with_kept_keys(observed: Inventory) -> Inventory:
    """Let the keys of all guests follow from the seed that is had then."""
    vms = tuple(_keyed(vm, word_of_keys(_KEPT)) for vm in observed.vms)
    return observed.model_copy(update={"vms": vms})


def _keyed(vm: Vm, word: str) -> Vm:
    mark = vm.detail.extra_config.get(GUEST_MARK_KEY, "") if vm.detail is not None else ""
    held = keys_in(mark)
    if vm.detail is None or not held:
        return vm
    for other in held:
        mark = mark.replace(other, word)
    settings = {**vm.detail.extra_config, GUEST_MARK_KEY: mark}
    return vm.model_copy(update={"detail": vm.detail.model_copy(update={"extra_config": settings})})
