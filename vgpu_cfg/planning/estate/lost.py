"""Which VMs are on a host that does not respond: vCenter shows them as they were, and nothing reaches them.

A host that the plan took down itself is none of these: the plan waits for it.

Belief: lost-host-vm-states, lost-host-rejects-calls.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from vgpu_cfg.changes.change import ManualStep
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.model.identity import PlanIdentity
from vgpu_cfg.model.observed.inventory import Connection, Host, Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings


@dataclass(frozen=True, slots=True)
class Intent:
    """The intended action on VMs, and its words for one whose host does not respond."""

    done: str
    again: str
    meanwhile: str


DELETED = Intent("deleted", "delete the VM again", "the VM is not deleted")
GIVEN_UP = Intent("released", "run `forget` again", "the VM remains under management")
TAKEN_IN = Intent("imported", "import the VM again", "its owner mark is unchanged")


def lost_host(vm: Vm, observed: Inventory, plan: PlanIdentity) -> Host | None:
    """Return the host of a VM where that does not respond, None where it does."""
    host = observed.host_by_moid.get(vm.host_moid or "")
    if host is None or host.connection is Connection.CONNECTED:
        return None
    facts = observed.facts.hosts.get(host.moid)
    mark = facts.mark if facts is not None else None
    is_taken_down = mark is not None and mark.maintenance and mark.is_of(plan)
    return None if is_taken_down else host


def can_go(
    leaving: Iterable[Vm],
    observed: Inventory,
    plan: PlanIdentity,
    findings: Findings,
    intent: Intent = DELETED,
) -> tuple[list[Vm], list[ManualStep]]:
    """Return, of VMs, the reachable ones for an intent, and the steps for the others."""
    going: list[Vm] = []
    kept: dict[str, list[str]] = {}
    for vm in leaving:
        host = lost_host(vm, observed, plan)
        if host is None:
            going.append(vm)
            continue
        kept.setdefault(host.moid, []).append(vm.name)
        subject = Subject(kind="vm", name=vm.name, moid=vm.moid)
        message = f"host {host.name} {host.connection.words}: {intent.meanwhile}"
        remedy = f"reconnect {host.name}, then {intent.again}"
        findings.add(Code.KEPT_WITH_ITS_HOST, subject, message, remedy)
    return going, [_step_before(intent, observed.host_by_moid[moid], names) for moid, names in kept.items()]


def _step_before(intent: Intent, host: Host, names: list[str]) -> ManualStep:
    text = (
        f"Power on {host.name}, restore its network, or reconnect it in vCenter: {listed(names, shown=8)} "
        f"cannot be {intent.done} while the host {host.connection.words}."
    )
    return step_of_return(host, text, f"{host.name} is connected in vCenter")


def step_of_return(host: Host, text: str, proof: str) -> ManualStep:
    """Make the manual step for a host that does not respond; the next planning detects it."""
    return ManualStep(
        id=f"bring back {host.name}",
        subject=Subject(kind="host", name=host.name, moid=host.moid),
        text=text,
        proof=proof,
        is_shown=True,
        host_moid=host.moid,
    )
