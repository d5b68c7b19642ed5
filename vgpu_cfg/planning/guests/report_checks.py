"""What a staged guest reports: what failed in it, what must be done manually, what is not asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vgpu_cfg.changes.change import Change, ManualStep
from vgpu_cfg.changes.values import Impact, Subject
from vgpu_cfg.model.guests.modules import MODULE_ORDER
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.guests.stage import GuestUpdate, present_report
from vgpu_cfg.planning.rdma.checks import restart_commands, restart_for_ats
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm
from vgpu_cfg.planning.vms.new_vms import with_needs

FIRMWARE = "nic-firmware"
_WARNED = (
    "put it right in the guest or its template, and let `vgpu-cfg-stage` look again; `verify` measures it"
)


def check_report(resolved: ResolvedVm, update: GuestUpdate, findings: Findings) -> None:
    """Show what a guest reports of the spec that the plan asks for now."""
    report = present_report(update.spec, update.known)
    if report is None:
        return
    failed = report.first_in("failed")
    if report.state == "failed" and failed is not None:
        why = failed.why or "the guest does not say why"
        message = f"{failed.name} failed in its guest: {why}"
        remedy = (
            "see /var/log/vgpu-cfg.log in the guest, fix it, and apply again: what is done is not repeated"
        )
        findings.add_vm(Code.GUEST_FAILED, resolved.desired, message, remedy)
    for module in report.modules:
        if module.state == "hand":
            message = (
                f"{module.name} waits for a manual step: {module.why or 'the guest does not say for what'}"
            )
            remedy = (
                "restart the host, then apply continues"
                if module.name == FIRMWARE
                else "do what it says, and apply again"
            )
            findings.add_vm(Code.GUEST_MANUAL_STEP, resolved.desired, message, remedy)
        if module.state == "warned":
            message = f"{module.name} is there but for this: {module.why or 'its guest does not say what'}"
            findings.add_vm(Code.GUEST_WARNED, resolved.desired, message, _WARNED)


def check_mark(resolved: ResolvedVm, update: GuestUpdate, findings: Findings) -> None:
    """Tell of what was staged and is not asked for any more: it stays, since others may use it by now."""
    requested = {module.kind for module in update.spec.modules}
    left = [name for name in MODULE_ORDER if name in update.known.mark and name not in requested]
    foreign = sorted(update.known.mark.keys() - set(MODULE_ORDER))
    if left:
        message = (
            f"{listed(left, shown=6)} was staged, and the plan file does not ask for it any more: it stays"
        )
        findings.add_vm(
            Code.GUEST_LEFTOVERS, resolved.desired, message, "remove it in the guest, if it is in the way"
        )
    if foreign:
        message = (
            f"another release of vgpu-cfg staged {listed(foreign, shown=6)}, which this one does not know"
        )
        findings.add_vm(Code.GUEST_LEFTOVERS, resolved.desired, message, "use that release, or leave it")


@dataclass(frozen=True, slots=True)
class PendingRestart:
    """A guest whose NIC firmware takes effect only when its host restarts."""

    vm: str
    host_name: str
    host_moid: str
    why: str


def pending_restarts(updates: Iterable[tuple[ResolvedVm, GuestUpdate]]) -> list[PendingRestart]:
    """List the guests that wait for their host's restart."""
    found = []
    for resolved, update in updates:
        report = present_report(update.spec, update.known)
        waiting = (
            [one for one in report.modules if (one.name, one.state) == (FIRMWARE, "hand")] if report else []
        )
        if waiting and resolved.host is not None:
            found.append(
                PendingRestart(resolved.name, resolved.host.name, resolved.host.moid, waiting[0].why)
            )
    return found


def restart_steps(restarts: Sequence[PendingRestart], changes: Sequence[Change]) -> list[Change]:
    """Put the restart of a host, by hand, before the staging that sees its effect.

    A host that the plan itself restarts needs no manual step.
    """
    restarted = {change.host_moid for change in changes if change.restarts_host}
    steps: dict[str, ManualStep] = {}
    for hand in restarts:
        if hand.host_moid in restarted or hand.host_moid in steps:
            continue
        names = [one.vm for one in restarts if one.host_moid == hand.host_moid]
        steps[hand.host_moid] = ManualStep(
            id=f"restart {hand.host_name} for NIC firmware",
            subject=Subject(kind="host", name=hand.host_name, moid=hand.host_moid),
            text=(
                f"shut {listed(names)} down, restart {hand.host_name}, start them again: the firmware that "
                "was set in them is in force only then, and a restart of a VM does not bring it; only where "
                "Current still shows the old value switch the host off and on"
            ),
            proof=f"in the guest: mlxconfig -e query shows the same under Current and Next Boot ({hand.why})",
            commands=restart_commands(hand.host_name),
            impact=Impact.HOST_REBOOT,
            host_moid=hand.host_moid,
        )
    waiting = {hand.vm: steps[hand.host_moid].id for hand in restarts if hand.host_moid in steps}
    joined: list[Change] = list(steps.values())
    for change in changes:
        if change.host_moid in steps and change.id == restart_for_ats(steps[change.host_moid].subject.name):
            continue  # the same restart, for which no guest waits
        if FIRMWARE in change.staged and change.subject.name in waiting:
            joined.append(with_needs(change, (waiting[change.subject.name],)))
        else:
            joined.append(change)
    return joined
