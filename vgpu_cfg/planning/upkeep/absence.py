"""What becomes of the VMs of a host that would be away: emptied in order, as `drain` does, or dead at once.

What runs dies with its host, so that a death asks nobody's leave and heeds no protection: where a VM may
start again is where there is room for it. vSphere HA does that, where the cluster has it.
"""

from __future__ import annotations

from dataclasses import dataclass

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.inventory import Host, Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.plan.change import PowerOffVm, RelocateVm
from vgpu_cfg.planning.upkeep.drain import DrainOptions, make_drain, owner_text
from vgpu_cfg.planning.vms.lookup.moving import holds_devices, running_vms


@dataclass(frozen=True, slots=True)
class Going:
    """Where a VM goes: moved while it runs (`vmotion`) or while it `is_off`, or nowhere (`to` is empty).

    `stun_ms` is how long vMotion would stop it, None where nobody tells. `why` says what it takes, or what
    is in the way.
    """

    to: str = ""
    vmotion: bool = False
    is_off: bool = False
    stun_ms: int | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Absent:
    """A VM of the host, what it holds there, and where it would go: emptied in order, and after a death."""

    vm: str
    owner: str
    holds: tuple[str, ...]
    drained: Going
    died: Going

    @property
    def stun(self) -> float | None:
        """The seconds for which vMotion would stop it, None where nobody tells."""
        return None if self.drained.stun_ms is None else self.drained.stun_ms / 1000


@dataclass(frozen=True, slots=True)
class Absence:
    """A host that is thought away. `restarts` tells whether vSphere HA is on in its cluster."""

    host: Host
    cluster: str
    restarts: bool
    with_devices: tuple[Absent, ...]
    others: tuple[Absent, ...]


def think_away(host: Host, observed: Inventory, catalog: Catalog, desired: DesiredPlan) -> Absence:
    """Say what would become of each running VM of a host; of `desired` only what contexts protect counts.

    Raises UnsafePlan where the host does not respond now.
    """
    in_order = _going(host, observed, catalog, desired)
    at_once = _going(host, observed, catalog, desired.model_copy(update={"contexts": ()}))
    cluster = observed.cluster_by_moid.get(host.cluster_moid or "")
    vms = running_vms(host, observed)
    rows = {
        vm.moid: Absent(vm.name, owner_text(vm), _holds(vm), in_order[vm.moid], _started(at_once[vm.moid]))
        for vm in vms
    }
    has_devices = {vm.moid: vm.detail is not None and holds_devices(vm.detail) for vm in vms}
    return Absence(
        host,
        "" if cluster is None or cluster.is_standalone else cluster.name,
        cluster is not None and cluster.ha_enabled,
        tuple(row for moid, row in rows.items() if has_devices[moid]),
        tuple(row for moid, row in rows.items() if not has_devices[moid]),
    )


def _going(host: Host, observed: Inventory, catalog: Catalog, desired: DesiredPlan) -> dict[str, Going]:
    """Read out of the plan that empties a host where each VM goes; what takes leave is said, not asked."""
    options = DrainOptions("thought away", others=True)
    plan, why = make_drain(host, observed, catalog, desired, options)
    moves = {one.vm.moid: one for one in plan.changes if isinstance(one, RelocateVm)}
    off = {one.vm.moid for one in plan.changes if isinstance(one, PowerOffVm)}
    going = {}
    for vm in running_vms(host, observed):
        move = moves.get(vm.moid)
        if move is None:
            going[vm.moid] = Going(is_off=vm.moid in off, why=why.get(vm.moid, ""))
            continue
        running = move.is_running
        going[vm.moid] = Going(
            to=move.destination.host_name,
            vmotion=running,
            is_off=not running,
            stun_ms=move.stun_ms,
            why="" if running else why.get(vm.moid, ""),
        )
    return going


def _started(going: Going) -> Going:
    return Going(going.to) if going.to else Going(why=going.why)


def _holds(vm: Vm) -> tuple[str, ...]:
    if vm.detail is None:
        return ()
    whole = ("whole GPU" for _ in vm.detail.passthrough_gpus)
    return (*(device.profile for device in vm.detail.vgpus), *whole)
