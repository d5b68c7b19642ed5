"""The other objects a change reaches: those that share a switch, a host or a cluster with its subject.

Each is recorded with the way it is disturbed, and the approval it needs. Unreadable objects count as
disturbed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from enum import StrEnum

from vgpu_cfg.changes.values import Subject
from vgpu_cfg.model.choices import Approval
from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.observed.host_facts import DistributedSwitch
from vgpu_cfg.model.observed.inventory import Inventory, Network
from vgpu_cfg.model.observed.vm import Vm


class Reach:
    """Names what one change reaches in an inventory; `own` are the moids of the plan's VMs."""

    def __init__(self, change: str, observed: Inventory, own: Collection[str]) -> None:
        self._change, self.observed, self.own = change, observed, own

    def vm(
        self,
        vm: Vm,
        experience: Experience,
        *,
        through: str = "",
        note: str = "",
        needs: Approval | None = None,
    ) -> Disturbed:
        """Make the row of a VM."""
        found = self.thing("vm", vm.name, vm.moid, experience, through=through, note=note)
        return found if needs is None else found.model_copy(update={"needs": needs})

    def thing(
        self,
        kind: str,
        name: str,
        moid: str | None,
        experience: Experience,
        *,
        through: str = "",
        note: str = "",
        is_harmless: bool = False,
    ) -> Disturbed:
        """Make one row; a link that goes down needs approval unless it is the plan's own, or harmless."""
        is_own = moid is not None and moid in self.own
        is_cut = experience is Experience.LINK_DOWN and not (is_own or is_harmless)
        return Disturbed(
            change=self._change,
            subject=Subject(kind=kind, name=name, moid=moid),
            experience=experience,
            through=through,
            is_own=is_own,
            needs=Approval.NETWORK if is_cut else None,
            note=note,
        )

    def option(self, kind: str, name: str, moid: str | None, vms: Iterable[Vm]) -> Iterator[Disturbed]:
        """Say to how many other VMs an option applies; nothing if there is none."""
        others = sum(not vm.is_template and vm.moid not in self.own for vm in vms)
        if others:
            note = f"applies to {others} other {'VM' if others == 1 else 'VMs'}"
            yield self.thing(kind, name, moid, Experience.OPTION, note=note)


def users_of_switch(switch: DistributedSwitch, observed: Inventory) -> list[Vm]:
    """Return the running VMs on a distributed switch, and those of its members of which it is not known."""
    networks = [one for one in observed.networks if switch.uuid and one.switch_uuid == switch.uuid]
    return users_of(networks, observed, hosts=switch.members)


def users_of(
    networks: Collection[Network],
    observed: Inventory,
    *,
    hosts: Collection[str] | None = None,
    among: Iterable[Vm] | None = None,
) -> list[Vm]:
    """Return the running VMs on networks, of `among` or all; of `hosts` those, too, that were not read."""
    moids = {network.moid for network in networks}
    listed = observed.facts.network_vms
    found = {vm for moid in moids for vm in (listed or {}).get(moid, ())}
    return [
        vm
        for vm in (observed.vms if among is None else among)
        if vm.is_on
        and not vm.is_template
        and (
            vm.moid in found
            or (
                not moids.isdisjoint(observed.networks_of(vm.detail))
                if vm.detail is not None
                else listed is None and (hosts is None or vm.host_moid in hosts)
            )
        )
    ]


class Experience(StrEnum):
    """The effect on a disturbed object, in the words of DISRUPTION."""

    LINK_DOWN = "link down and up"
    VMOTION = "vMotion"
    MOVED_OFF = "moved while powered off"
    POWERED_OFF = "powered off"
    GPU_MODE = "GPU mode changed"
    DISK_DETACHED = "disk detached"
    DISK_DELETED = "disk deleted"
    GOES_WITH_VM = "removed with its VM"
    USB_LOST = "USB disconnected"
    TRAINING_ENDED = "running work ended"
    TRAINING_PAUSED = "training paused on a checkpoint"
    NOT_REVERSIBLE = "cannot be undone"
    OPTION = "option changed"


class Disturbed(Frozen):
    """A thing that experiences something because of one change.

    `change` is the id of the change. `subject` is a VM, a host, a cluster, a disk, or the vCenter. `through`
    is the switch or host it shares with the change, "" if the change is about it. `is_own` is whether it is
    the plan's own. `needs` is the approval that the change requires because of it, None for none.
    """

    change: str
    subject: Subject
    experience: Experience
    through: str = ""
    is_own: bool = False
    needs: Approval | None = None
    note: str = ""
