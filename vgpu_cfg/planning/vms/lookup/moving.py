"""The VMs that run on a host, their bindings to it, and whether and how one can be moved to another.

By vMotion if every vGPU of it allows that (vim `VirtualPCIPassthrough.backing.migrateSupported`, API 7.0.2)
and it has no other device of its host; else while it is off. A VM that names one function of one host is
bound to it. CPU compatibility (EVC) and the hosts' vMotion networks are not read: vCenter judges them.

Belief: usb-survives-vmotion-only, pvrdma-blocks-vmotion, vcenter-checks-evc.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from vgpu_cfg.model.observed.inventory import Cluster, Connection, Datastore, Host, Inventory
from vgpu_cfg.model.observed.vm import PowerState, Vm, VmDetail
from vgpu_cfg.model.wording import as_counted

HOT_MIGRATE_OPTION = "vgpu.hotmigrate.enabled"
"""vCenter's setting without which no vGPU moves as it runs."""

_SYSTEM_VM = "vCLS"
"""vSphere Cluster Services: vCenter switches these VMs off by itself when a host enters maintenance mode."""

_KEEPS_FROM_MOVING = re.compile(r"\.cfg\.enable_(uvm|debugging|profiling)$", re.IGNORECASE)
_PARAMETERS = {"uvm": "unified memory is on", "debugging": "debugging is on", "profiling": "profiling is on"}
"""Plugin parameters that disable migration (NVIDIA AI Enterprise guide)."""


@dataclass(frozen=True, slots=True)
class Moving:
    """A move that the plan file asks for: `why_cold` is empty if vMotion makes it.

    `changes_host` is False if the VM stays on its host and only its disks go to `datastore`. `is_known` is
    False if it was not read whether vCenter lets vGPUs move as they run.
    """

    source: Host
    why_cold: str = ""
    changes_host: bool = True
    datastore: Datastore | None = None
    stun_ms: int | None = None
    is_known: bool = True


def running_vms(host: Host, observed: Inventory) -> list[Vm]:
    """Return what runs on a host, but for vCenter's own agents."""
    return sorted(
        (
            vm
            for vm in observed.vms_by_host.get(host.moid, ())
            if vm.is_on and not vm.is_template and not _is_agent(vm)
        ),
        key=lambda vm: (as_counted(vm.name), vm.moid),
    )


def _is_agent(vm: Vm) -> bool:
    return vm.name.startswith(_SYSTEM_VM) or (vm.manager is not None and vm.manager.is_agent)


def holds_devices(detail: VmDetail) -> bool:
    """Whether a VM holds a vGPU, a passed-through device or a virtual function."""
    return bool(detail.vgpus) or has_host_devices(detail)


def has_host_devices(detail: VmDetail) -> bool:
    """Whether a VM holds what vMotion is not known to take: a passed-through device, a virtual function."""
    return bool(detail.passthrough or detail.dvx) or any(nic.kind == "sriov" for nic in detail.nics)


def why_bound(vm: Vm, detail: VmDetail, host: Host) -> str:
    """Say what keeps a VM of the plan where it is whatever is done, empty where nothing does."""
    if vm.power_state is PowerState.SUSPENDED:
        return "it is suspended"
    if host.connection is not Connection.CONNECTED:
        return f"{host.name} does not respond"
    return why_tied(detail)


def why_tied(detail: VmDetail) -> str:
    """Say which of its devices bind a VM to its host, empty where none does."""
    if any(device.is_fixed for device in detail.passthrough):
        return "a passthrough device with a fixed address ties it to the host"
    if any(nic.kind == "sriov" and nic.function for nic in detail.nics):
        return "a NIC virtual function with a fixed address ties it to the host"
    if detail.mixed_groups:
        return "it is unknown whether another host can provide its device group"
    return ""


HA_RESTART = "ha_restart"
"""The key of the table of VM settings under which a cluster's word on restarts of a VM is read."""


def is_restarted_by_ha(vm: Vm, detail: VmDetail, cluster: Cluster | None) -> bool:
    """Whether vSphere HA is to restart a VM whose host died, as far as it finds room.

    None that a device ties to its host (VG311), none with a virtual function of a NIC (VG417).
    """
    if (
        cluster is None
        or not cluster.ha_enabled
        or cluster.overrides_of(vm.moid).get(HA_RESTART) == "disabled"
    ):
        return False
    return not why_tied(detail) and not any(nic.kind == "sriov" for nic in detail.nics)


def why_cold(detail: VmDetail, observed: Inventory) -> str:
    """Say what keeps vMotion from moving a VM, empty where nothing is known to."""
    if detail.passthrough:
        return "it has a passthrough device"
    if detail.dvx:
        return "whether its DVX device supports migration depends on the vendor"
    if any(nic.kind == "sriov" for nic in detail.nics):
        return "it has an SR-IOV virtual function"
    if any(nic.kind == "pvrdma" for nic in detail.nics):
        return "it has a PVRDMA NIC"
    if any(vgpu.migrates is None for vgpu in detail.vgpus):
        return "vCenter does not report whether its vGPUs can be migrated"
    if not all(vgpu.migrates for vgpu in detail.vgpus):
        return "vCenter reports that its vGPUs cannot be migrated"
    for key, value in detail.extra_config.items():
        if (reason := why_pinned(key)) and value.strip() == "1":
            return reason
    is_hot = observed.facts.vcenter_options.get(HOT_MIGRATE_OPTION, "").lower()
    return f"the vCenter setting {HOT_MIGRATE_OPTION} is off" if detail.vgpus and is_hot == "false" else ""


def why_pinned(key: str) -> str:
    """Return the effect of a plugin parameter that disables migration, "" for any other key."""
    found = _KEEPS_FROM_MOVING.search(key)
    return _PARAMETERS[found[1].lower()] if found is not None else ""


def may_hot_migrate(observed: Inventory) -> bool:
    """Whether vCenter is known to let vGPUs move as they run."""
    return observed.facts.vcenter_options.get(HOT_MIGRATE_OPTION, "").lower() == "true"


def is_known(detail: VmDetail, observed: Inventory) -> bool:
    """Whether vCenter was asked what decides whether a VM moves as it runs."""
    return not detail.vgpus or HOT_MIGRATE_OPTION in observed.facts.vcenter_options


def stun_ms(detail: VmDetail, host: Host) -> int | None:
    """Return how long vMotion would stop a VM, None if its host does not report all its vGPUs.

    It is the time at the slowest bandwidth that the host names an estimate for, all vGPUs together.
    """
    known = {profile.name: profile.stun_ms for profile in host.profiles or ()}
    reported = [known.get(vgpu.profile) for vgpu in detail.vgpus]
    return sum(max(one.values()) for one in reported if one) if reported and all(reported) else None
