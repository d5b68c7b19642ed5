"""Which changes of a plan a rollback could not undo: told before the run, where one is asked for."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_cfg.changes.change import (
    AwaitCustomization,
    Change,
    ChangeHost,
    ChangeNetwork,
    DestroyVm,
    ManualStep,
    ReconfigureVm,
    ShutDownHost,
    StageGuest,
    UpgradeVm,
)
from vgpu_cfg.changes.change_network import EditSwitch
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.vm_spec import GrowDisk, NewDisk
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.host_settings.table import setting


def with_no_way_back(plan: Plan) -> Plan:
    """Return a plan that tells what of it a rollback could not undo (VG557)."""
    findings = Findings.for_plan(plan.desired)
    for change in plan.changes:
        for why in _why_not(change):
            findings.add(Code.NO_WAY_BACK, change.subject, f"{change.id}: {why}")
    found = tuple(one for one in findings.diagnostics() if one.code == Code.NO_WAY_BACK)
    return plan.model_copy(update={"diagnostics": (*plan.diagnostics, *found)})


def _why_not(change: Change) -> Iterator[str]:
    match change:
        case DestroyVm():
            yield "a deleted VM does not come back"
        case UpgradeVm() if change.vm.moid is not None:
            yield "a hardware version is never lowered"
        case AwaitCustomization() if change.vm.moid is not None:
            yield "what a customisation sets in the guest stays there"
        case StageGuest() if change.vm.moid is not None:
            yield "what is brought into the guest stays there"
        case ReconfigureVm() if change.vm.moid is not None:
            if any(isinstance(one, NewDisk | GrowDisk) for one in change.spec.devices):
                yield "disks are neither taken away nor made smaller"
        case ChangeHost():
            yield from _settings(change)
        case ChangeNetwork():
            if not isinstance(change.network, EditSwitch) or change.network.members:
                yield from _networks(change)
        case ManualStep() | ShutDownHost():
            yield "what takes a hand is undone by hand"
        case _:
            return


def _settings(change: ChangeHost) -> Iterator[str]:
    for target in change.settings:
        row = setting(target.setting)
        words = f"{row.title} {target.device}".rstrip()
        if target.before is None:
            yield f"what {words} is now is not known"
        elif why := row.stays(target.before):
            yield f"{words}: {why}"


def _networks(change: ChangeNetwork) -> Iterator[str]:
    network = change.network
    if isinstance(network, EditSwitch):
        yield "hosts and uplinks that join the switch stay in it"
    elif network.kind == "make_switch" or network.portgroup_moid is None:
        yield "a new switch or portgroup stays"
