"""An estate after a plan: the place of each VM, its GPUs, and their sharing mode then.

Parts that a plan leaves to others stay unchanged: DRS's choice of a host is unknown beforehand. Actions other
than `apply` (cordons, marks of imported VMs) are not included.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.changes.base import ChangeBase
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.values import Placement
from vgpu_cfg.model.observed.inventory import Gpu, Host, Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.planning.host_settings.entry import DesiredSetting
from vgpu_cfg.planning.host_settings.resolved_host import make_view
from vgpu_cfg.planning.host_settings.table import setting
from vgpu_cfg.planning.hosts.assess import with_profiles

_NEW = "new "
"""The start of the made-up moid of a VM that is still to be made; vCenter's have no blank."""


def after_plan(plan: Plan, observed: Inventory, catalog: Catalog) -> Inventory:
    """Return the inventory of a plan as it would be afterwards, without blocked changes.

    A VM is on the GPUs that the plan expects; ESXi may choose others.
    """
    changes = [change for change in plan.changes if change.id not in plan.blocked]
    outlook = _Outlook(plan, observed, catalog)
    for change in changes:
        outlook.take(change)
    return outlook.inventory()


class _Outlook:
    def __init__(self, plan: Plan, observed: Inventory, catalog: Catalog) -> None:
        self._plan, self._observed, self._catalog = plan, observed, catalog
        self._placements = {one.vm: one for one in plan.placements}
        self._hosts = {host.moid: host for host in observed.hosts}
        self._vms = {vm.moid: vm for vm in observed.vms}
        self._touched: set[str] = set()
        devices = (device for host in observed.hosts for device in host.pci_devices)
        self._nics = {(one.vendor_id, one.device_id) for one in devices if one.is_nic}

    def take(self, change: ChangeBase) -> None:
        """Let a change come true."""
        if change.subject.kind == "vm":
            self._take_of_vm(change, change.subject.moid or _NEW + change.subject.name)
        host = self._hosts.get(change.works_on_host or "")
        if host is not None:
            self._hosts[host.moid] = self._host_then(host, change)

    def _take_of_vm(self, change: ChangeBase, moid: str) -> None:
        before = change.new_vm(moid, self._plan.name, self._observed) or self._vms.get(moid)
        if before is None:
            return
        then = change.vm_then(before, self._nics)
        if then is None:
            del self._vms[moid]
            return
        self._vms[moid] = then
        if change.makes or change.starts or change.stops or change.moves or _gpus(then) != _gpus(before):
            self._touched.add(moid)

    def inventory(self) -> Inventory:
        """Return all of it, with every VM that something was done to on the GPUs that it is expected on."""
        vms = {moid: self._placed(vm) if moid in self._touched else vm for moid, vm in self._vms.items()}
        self._vms = vms
        coming: dict[str | None, list[Vm]] = {}
        for moid in sorted(self._touched & vms.keys()):
            if vms[moid].is_on:
                coming.setdefault(vms[moid].host_moid, []).append(vms[moid])
        hosts = tuple(
            host.model_copy(update={"gpus": tuple(self._gpus(host, coming.get(host.moid, ())))})
            if host.gpus
            else host
            for host in self._hosts.values()
        )
        return self._observed.model_copy(update={"hosts": hosts, "vms": tuple(vms.values())})

    def _gpus(self, host: Host, coming: Iterable[Vm]) -> Iterator[Gpu]:
        for gpu in host.gpus:
            stay = [moid for moid in gpu.vm_moids if moid in self._vms and self._stays(moid)]
            come = [vm.moid for vm in coming if gpu.pci_id in self._expected(vm) and not gpu.is_passthrough]
            yield gpu.model_copy(update={"vm_moids": (*stay, *come)})

    def _stays(self, moid: str) -> bool:
        """Whether a VM keeps its GPUs: it was left alone, or the plan does not say which others it gets."""
        vm, before = self._vms[moid], self._observed.vm_by_moid.get(moid)
        holds = vm.is_on and (vm.detail is None or bool(vm.detail.vgpus))
        is_here = before is not None and holds and vm.host_moid == before.host_moid
        return moid not in self._touched or (is_here and not self._expected(vm))

    def _expected(self, vm: Vm) -> tuple[str, ...]:
        placement = self._placement(vm)
        return placement.gpu_pci_ids if placement is not None else ()

    def _placement(self, vm: Vm) -> Placement | None:
        placement = self._placements.get(vm.name)
        return placement if placement is not None and placement.host_moid == vm.host_moid else None

    def _placed(self, vm: Vm) -> Vm:
        """Give each dynamic device of a VM the function that it is expected to get."""
        placement = self._placement(vm)
        if vm.detail is None or placement is None:
            return vm
        taken = {device.pci_id for device in vm.detail.passthrough}
        host = self._hosts.get(placement.host_moid)
        free = [
            pci_id
            for pci_id in placement.gpu_pci_ids
            if pci_id not in taken
            and host is not None
            and ((gpu := host.gpu(pci_id)) is None or gpu.is_passthrough)
        ]
        devices = tuple(
            device.model_copy(update={"assigned_id": free.pop(0)})
            if not device.is_fixed and not device.is_nic and free
            else device
            for device in vm.detail.passthrough
        )
        return vm.model_copy(update={"detail": vm.detail.model_copy(update={"passthrough": devices})})

    def _host_then(self, host: Host, change: ChangeBase) -> Host:
        shown = host
        for one in (*change.brings, *change.in_force):
            desired = DesiredSetting(one.setting, one.value, one.device)
            shown = setting(one.setting).show(shown, desired)
        if shown is not host:
            shown = with_profiles(make_view(host, self._observed, self._catalog).boards, shown)
        return shown.model_copy(update={"is_in_maintenance_mode": False}) if change.frees_host else shown


def _gpus(vm: Vm) -> object:
    return vm.detail and (vm.detail.vgpus, vm.detail.passthrough)
