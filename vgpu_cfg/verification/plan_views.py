"""Which hosts and guests a plan has to be verified, and what it wants of them, from what vCenter told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from vgpu_cfg.model.desired import DesiredNic, DesiredPlan, DesiredPower, DesiredVm
from vgpu_cfg.model.guests.guest import GuestSpec
from vgpu_cfg.model.observed.host_facts import HostFacts
from vgpu_cfg.model.observed.inventory import Connection, Host, Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.plan_file import GpuEntry
from vgpu_cfg.model.vgpu import Sharing, VgpuProfile
from vgpu_cfg.planning.estate.devices import as_detail, recorded_others
from vgpu_cfg.planning.estate.ownership import own_vms
from vgpu_cfg.planning.vms.lookup.gpu_match import own_gpus
from vgpu_cfg.verification.views import GuestView, HostView, WantedVm


def make_guest_views(
    desired: DesiredPlan,
    observed: Inventory,
    specs: Mapping[str, GuestSpec],
    *,
    now: datetime,
    rates_gbps: Mapping[int, int] | None = None,
    framebuffers_mib: Mapping[str, int] | None = None,
) -> tuple[GuestView, ...]:
    """Return the plan's VMs that have a spec, and of the others those that do not run, in its order."""
    found = own_vms(desired, observed)
    views = (
        replace(
            _guest_view(vm, specs.get(vm.name), found.get(vm.name), observed),
            shall_run=vm.power is DesiredPower.ON and not vm.is_expired(now.date()),
            now=now,
            rates_gbps=rates_gbps or {},
            framebuffers_mib=framebuffers_mib or {},
        )
        for vm in desired.vms
    )
    return tuple(view for view in views if view.name in specs or (view.shall_run and not view.runs))


def make_host_views(
    desired: DesiredPlan,
    observed: Inventory,
    *,
    open_shells: frozenset[str] = frozenset(),
    licence_of_all: bool = False,
) -> tuple[HostView, ...]:
    """Return the hosts on which VMs of the plan run, in the order of their names.

    `open_shells` names (by moid) the hosts whose shell may be asked.
    """
    by_name = {vm.name: vm for vm in desired.vms}
    wanted: dict[str, list[WantedVm]] = {}
    own = own_vms(desired, observed)
    for vm in own.values():
        if vm.is_on and vm.host_moid is not None:
            wanted.setdefault(vm.host_moid, []).append(_wanted_vm(by_name[vm.name], vm, observed))
    training = desired.training
    hosts = (host for host in observed.hosts if host.moid in wanted)
    return tuple(
        HostView(
            host=host,
            facts=observed.facts.hosts.get(host.moid, HostFacts()),
            vms=tuple(wanted[host.moid]),
            has_shell=host.moid in open_shells,
            roce=(training.roce.dscp, training.roce.priority) if training is not None else None,
            tenants=_tenants(host, observed, {vm.moid for vm in own.values()}) if training else {},
            licence_of_all=licence_of_all,
        )
        for host in sorted(hosts, key=lambda host: host.name)
    )


def _tenants(host: Host, observed: Inventory, own: set[str]) -> dict[str, tuple[str, ...]]:
    """Return running VMs beside the plan's, by GPU; where MIG divides one they do not share its time."""
    names = {vm.moid: vm.name for vm in observed.vms if vm.is_on and vm.moid not in own}
    return {
        gpu.pci_id: tuple(names[moid] for moid in gpu.vm_moids if moid in names)
        for gpu in host.gpus
        if gpu.sharing is not Sharing.MIG and own & set(gpu.vm_moids) and set(names) & set(gpu.vm_moids)
    }


def _guest_view(vm: DesiredVm, spec: GuestSpec | None, seen: Vm | None, observed: Inventory) -> GuestView:
    host = observed.host_by_moid.get(seen.host_moid or "") if seen is not None else None
    vgpus = [gpu for gpu in vm.gpus if gpu.kind == "vgpu"]
    held = seen.detail.vgpus if seen is not None and seen.detail is not None else ()
    others = own_gpus(as_detail(recorded_others(seen))) if seen is not None else ()
    return GuestView(
        name=vm.name,
        spec=spec if spec is not None else GuestSpec(plan="", vm=vm.name),
        host=host.name if host is not None else "",
        host_state="" if host is None or host.connection is Connection.CONNECTED else host.connection.words,
        is_there=seen is not None,
        powered_on=seen is not None and seen.is_on,
        gpus=len(vm.gpus),
        vgpus=len(vgpus),
        wanted=tuple(_names_of(gpu, host) for gpu in (*vm.gpus, *others)),
        peers=sum(gpu.nvlink is not None for gpu in vgpus),
        gpudirect=any(nic.rdma == "gpudirect" for nic in vm.nics),
        profiles=tuple(device.profile for device in held),
    )


def _names_of(gpu: GpuEntry, host: Host | None) -> tuple[str, ...]:
    """Return what a GPU may be called: its profiles in the file, or the board's name of a whole one."""
    if gpu.profile:
        return tuple(str(profile) for profile in gpu.profile)
    if gpu.pin:
        seen = next((one for one in (host.gpus if host is not None else ()) if one.pci_id == gpu.pin), None)
        return (seen.name,) if seen is not None else ()
    return (gpu.device.model,) if gpu.device.model else ()


def _wanted_vm(vm: DesiredVm, seen: Vm, observed: Inventory) -> WantedVm:
    host = observed.host_by_moid.get(seen.host_moid or "")
    held = seen.detail.vgpus if seen.detail is not None else ()
    profiles = tuple(VgpuProfile.parse(device.profile) for device in held)
    holding = [gpu.pci_id for gpu in (host.gpus if host is not None else ()) if seen.moid in gpu.vm_moids]
    # Which of several GPUs has which of several vGPUs is not told; one board has one mode for all its types.
    gpus = dict.fromkeys(holding, profiles) if profiles else {}
    ways = tuple(_way(nic) for nic in vm.nics if nic.rdma is not None)
    functions = () if seen.detail is None else tuple(_functions(seen))
    return WantedVm(vm.name, gpus, ways, any(nic.rdma == "gpudirect" for nic in vm.nics), functions)


def _way(nic: DesiredNic) -> str:
    return nic.function.kind if nic.function is not None else "pvrdma"


def _functions(seen: Vm) -> list[str]:
    detail = seen.detail
    if detail is None:
        return []
    whole = [device.pci_id or device.assigned_id for device in detail.passthrough_nics]
    return [address for address in [*whole, *(nic.function for nic in detail.nics)] if address]
