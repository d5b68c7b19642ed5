"""An estate as a plan would leave it: who is where, on which GPUs, and how these are shared then.

What a plan leaves to others stays as it is: where DRS moves a VM nobody knows beforehand. What no `apply`
does (cordons, marks of VMs that are taken in) is none of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.changes.change import (
    Change,
    ChangeHost,
    ColdBootHost,
    CreateVm,
    DestroyVm,
    ExitMaintenance,
    ManualStep,
    PowerOffVm,
    PowerOnVm,
    RebootHost,
    ReconfigureVm,
    RelocateVm,
    RenameVm,
    RestartService,
)
from vgpu_cfg.changes.kinds.create_vm import CloneFrom
from vgpu_cfg.changes.kinds.vm_spec import (
    DeviceEdit,
    NewDynamicPassthrough,
    NewPassthrough,
    NewVgpu,
    RemoveDevice,
    VmSpec,
)
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.values import Placement, SettingTarget, VmRef
from vgpu_cfg.model.observed.inventory import Gpu, Host, Inventory
from vgpu_cfg.model.observed.vm import OwnerMark, PassthroughDevice, PowerState, VgpuDevice, Vm, VmDetail
from vgpu_cfg.planning.host_settings.entry import DesiredSetting
from vgpu_cfg.planning.host_settings.select import make_view
from vgpu_cfg.planning.host_settings.table import setting
from vgpu_cfg.planning.hosts.assess import with_profiles

_NEW = "new "
"""What the made-up moid of a VM that is still to be made begins with; vCenter's have no blank."""


def after_plan(plan: Plan, observed: Inventory, catalog: Catalog) -> Inventory:
    """Return the inventory that a plan was made for as it would be afterwards, without what is blocked.

    A VM stands on the GPUs that the plan expects; ESXi may choose others.
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

    def take(self, change: Change) -> None:
        """Let a change come true."""
        match change:
            case CreateVm():
                base = VmDetail()
                if isinstance(change.source, CloneFrom):
                    template = self._observed.vm_by_moid.get(change.source.template.moid or "")
                    size = template.detail if template is not None and template.detail else base
                    base = VmDetail(cpus=size.cpus, memory_mib=size.memory_mib)
                detail = self._with_devices(_sized(base, change.spec), change.spec.devices)
                moid = _key(change.vm)
                self._vms[moid] = Vm(
                    moid=moid,
                    name=change.vm.name,
                    host_moid=change.location.host_moid,
                    mark=OwnerMark(plan=self._plan.name, vm=change.vm.name),
                    detail=detail,
                )
                self._touched.add(moid)
            case DestroyVm():
                self._vms.pop(_key(change.vm), None)
            case RelocateVm():
                self._change(_key(change.vm), host_moid=change.destination.host_moid)
            case ReconfigureVm():
                vm = self._vms.get(_key(change.vm))
                if vm is not None and vm.detail is not None:
                    detail = _sized(vm.detail, change.spec)
                    self._replace(vm.moid, detail=detail)
                    if any(edit.is_of_gpu for edit in change.spec.devices):
                        self._change(vm.moid, detail=self._with_devices(detail, change.spec.devices))
            case RenameVm():
                self._replace(_key(change.vm), name=change.vm.name)
            case PowerOnVm():
                self._change(_key(change.vm), power_state=PowerState.ON)
            case PowerOffVm():
                self._change(_key(change.vm), power_state=PowerState.OFF)
            case ChangeHost(settings=targets) | ManualStep(proves=targets):
                self._set(change.host_moid or change.subject.moid or "", targets)
            case (
                RestartService(settles=targets) | RebootHost(settles=targets) | ColdBootHost(settles=targets)
            ):
                self._set(change.host.moid, targets)
            case ExitMaintenance(is_held=False):
                self._update(change.host.moid, is_in_maintenance_mode=False)
            case _:
                pass

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

    def _change(self, moid: str, **update: object) -> None:
        """Change a VM in what may give it other GPUs."""
        if self._replace(moid, **update):
            self._touched.add(moid)

    def _replace(self, moid: str, **update: object) -> bool:
        if moid not in self._vms:
            return False
        self._vms[moid] = self._vms[moid].model_copy(update=update)
        return True

    def _with_devices(self, detail: VmDetail, edits: Iterable[DeviceEdit]) -> VmDetail:
        """Take GPUs away and add them; new ones get keys below zero, as in a request."""
        vgpus, passthrough = list(detail.vgpus), list(detail.passthrough)
        for key, edit in enumerate(edits, 1):
            match edit:
                case RemoveDevice():
                    vgpus = [one for one in vgpus if one.key != edit.key]
                    passthrough = [one for one in passthrough if one.key != edit.key]
                case NewVgpu():
                    vgpus.append(VgpuDevice(key=-key, profile=edit.profile))
                case NewPassthrough():
                    is_nic = (edit.vendor_id, edit.device_id) in self._nics
                    made = PassthroughDevice(
                        key=-key, pci_id=edit.pci_id, system_id=edit.system_id, is_nic=is_nic
                    )
                    passthrough.append(made)
                case NewDynamicPassthrough():
                    is_nic = not self._nics.isdisjoint(edit.allowed)
                    made = PassthroughDevice(key=-key, allowed=edit.allowed, label=edit.label, is_nic=is_nic)
                    passthrough.append(made)
                case _:
                    pass
        return detail.model_copy(update={"vgpus": tuple(vgpus), "passthrough": tuple(passthrough)})

    def _update(self, moid: str, **update: object) -> None:
        self._hosts[moid] = self._hosts[moid].model_copy(update=update)

    def _set(self, moid: str, targets: Iterable[SettingTarget]) -> None:
        host = self._hosts.get(moid)
        if host is None:
            return
        shown = host
        for one in targets:
            desired = DesiredSetting(one.setting, one.value, one.device)
            shown = setting(one.setting).show(shown, desired)
        if shown is not host:
            shown = with_profiles(make_view(host, self._observed, self._catalog).boards, shown)
            self._hosts[moid] = shown


_SIZES = {"cpus": "cpus", "memory": "memory_mib", "memory_reservation": "memory_reservation_mib"}
"""What a request calls the sizes of a VM, and a reading."""


def _sized(detail: VmDetail, spec: VmSpec) -> VmDetail:
    """Return a VM with the CPUs and the memory that a request gives it."""
    sizes = {_SIZES[key]: value for key, value in spec.settings.items() if key in _SIZES}
    return detail.model_copy(update=sizes) if sizes else detail


def _key(vm: VmRef) -> str:
    return vm.moid or _NEW + vm.name
