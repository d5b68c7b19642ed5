"""The effects of a whole plan: gathered from its changes, compared with its approvals, and counted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from vgpu_cfg.changes.change import Change
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.reach import Disturbed, Reach
from vgpu_cfg.model.approvals import Approval
from vgpu_cfg.model.observed.inventory import Inventory


def disturbed_by(change: Change, observed: Inventory, own: Collection[str]) -> tuple[Disturbed, ...]:
    """List the effects of a change; `own` are the moids of the plan's VMs."""
    return tuple(change.disturbs(Reach(change.id, observed, own)))


def all_disturbed(
    changes: Iterable[Change], observed: Inventory, own: Collection[str]
) -> tuple[Disturbed, ...]:
    """List what changes disturb, in their order; `own` are the moids of the plan's VMs."""
    return tuple(one for change in changes for one in disturbed_by(change, observed, own))


def lacking(disturbed: Iterable[Disturbed], given: Collection[Approval]) -> Iterator[Disturbed]:
    """Yield what needs an approval that was not given; of running work the guest is asked."""
    known = {None, Approval.TRAINING, *given}
    return (one for one in disturbed if one.needs not in known)


def how_to_approve(approval: Approval) -> str:
    """Say how an approval is given, in the plan file or with the command."""
    return f"add `allow: [{approval}]` to the plan file, or use --allow {approval}"


def reckoned(
    plan: Plan,
    observed: Inventory,
    disturbed: tuple[Disturbed, ...],
    *,
    vms: Collection[str | None],
    hosts: Collection[str | None],
) -> Plan:
    """Return a plan with its effects, and how many hosts and VMs are untouched.

    `vms` and `hosts` are the moids that it is about.
    """
    reached = {one.subject.moid for one in disturbed}
    others = [vm for vm in observed.vms if not vm.is_template and vm.moid not in vms]
    return plan.model_copy(
        update={
            "disturbed": disturbed,
            "untouched_vms": sum(vm.moid not in reached for vm in others),
            "untouched_hosts": sum(host.moid not in {*hosts, *reached} for host in observed.hosts),
        }
    )
