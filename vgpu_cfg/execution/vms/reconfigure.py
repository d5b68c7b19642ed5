"""Reconfigure a VM although its change version moves by itself, and compare it with an accepted request.

Not only edits move `changeVersion`: a power-on does too (vmware/vic, pull request 2510), and vCenter may show
it late. If vCenter refuses a request for the version alone, the VM is read again; if only the version has
changed, the request is made once more.

A clone may come back without CPU, memory, firmware or extraConfig (vcsim up to 0.52 drops all of these), so
the request is compared with the VM, and the difference is a new request.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import assert_never

from vgpu_cfg.changes.kinds.vm_spec import (
    DeviceEdit,
    EditNic,
    GrowDisk,
    NewDisk,
    NewDynamicPassthrough,
    NewNic,
    NewPassthrough,
    NewPvrdmaNic,
    NewSriovNic,
    NewTpm,
    NewVgpu,
    NicBacking,
    PolicyRef,
    RemoveDevice,
    SetDiskPolicy,
    VmSpec,
)
from vgpu_cfg.execution.run.session import RunSession, succeeded
from vgpu_cfg.execution.run.step import Waiting, wait, wait_for
from vgpu_cfg.model.observed.vm import AFFINITY_KEY, MARK_PLAN_KEY, MARK_VM_KEY, VirtualNic, Vm, VmDetail
from vgpu_cfg.planning.vms.devices import uvm_key
from vgpu_cfg.planning.vms.settings.table import rows_of
from vgpu_cfg.ports import TaskUpdate

MOST_REQUESTS = 3
# Belief: power-on-moves-change-version, power-off-moves-change-version.
_REFUSED_FOR_VERSION = "ConcurrentAccess"
_PASSING = {"guest": None, "cpu_mhz": None, "uptime_seconds": None}
"""The properties that change by themselves while a VM runs."""
_ELSEWHERE = {"tags": None}
"""The properties that only a reading of the estate shows; no change version guards them."""
_COMPARED_KEYS = frozenset({AFFINITY_KEY, MARK_PLAN_KEY, MARK_VM_KEY})


def reconfigure(vm: Vm, spec: VmSpec, what: str, session: RunSession) -> Waiting[None]:
    """Reconfigure a VM; `vm` is how it was last read. Raises TaskFailed where vCenter does not do it."""
    before = session.seen.get(vm.moid, vm)
    update = yield from _request(vm.moid, spec, session)
    for _ in range(MOST_REQUESTS - 1):
        if update.fault != _REFUSED_FOR_VERSION or spec.change_version is None:
            break
        yield from wait(session.options.poll_seconds)
        after = yield from session.read_vm(vm.moid)
        version = after.detail.change_version if after is not None and after.detail is not None else ""
        if after is None or version in ("", spec.change_version) or not is_unmoved(before, after):
            break
        spec = spec.model_copy(update={"change_version": version})
        update = yield from _request(vm.moid, spec, session)
    succeeded(update, what, vm.name)


def is_unmoved(before: Vm, after: Vm) -> bool:
    """Whether two readings of a VM differ in nothing that a plan is about; the change version aside."""
    return _essence(before) == _essence(after)


def _essence(vm: Vm) -> Vm:
    if vm.detail is None:
        return vm
    kept = {key: value for key, value in vm.detail.extra_config.items() if key in _COMPARED_KEYS}
    detail = vm.detail.model_copy(
        update={"change_version": "", "extra_config": kept, **_PASSING, **_ELSEWHERE}
    )
    return vm.model_copy(update={"detail": detail, "name": vm.called or vm.name, "called": ""})


def _request(moid: str, spec: VmSpec, session: RunSession) -> Waiting[TaskUpdate]:
    task = session.begin(lambda: session.writer.reconfigure_vm(moid, spec))
    return (yield from wait_for(task))


Identity = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class _Device:
    """A device of a VM, reduced to its distinguishing fields: kind, backing, size."""

    key: int
    identity: Identity


def missing_from(vm: Vm, spec: VmSpec, before: VmDetail | None = None) -> VmSpec:
    """Return the part of `spec` that `vm` does not show; empty where it shows all.

    `before` is the state of the VM, or of the template it was cloned from, before the request:
    a device with an earlier key that was not to be removed does not answer an addition. The result carries
    the change version of `vm`, and the extraConfig keys that depend on the keys of new devices (unified
    memory of a vGPU).
    """
    detail = vm.detail or VmDetail()
    devices, learned = _missing_devices(spec, detail, before)
    groups = {edit.group for edit in devices if isinstance(edit, NewVgpu)}
    return VmSpec(
        settings={
            setting.key: value
            for setting, value in rows_of(spec.settings)
            if not setting.holds(value, detail)
        },
        extra_config={
            key: value
            for key, value in spec.extra_config.items()
            if detail.extra_config.get(key, "") != value
        }
        | learned,
        devices=devices,
        device_groups={key: name for key, name in spec.device_groups.items() if key in groups},
        change_version=detail.change_version or None,
        home_policy=spec.home_policy if spec.home_policy and _is_other(spec.home_policy, detail) else None,
    )


def describe_spec(spec: VmSpec) -> str:
    """List the settings of a request in vSphere's words: "firmware, memory, vGPU grid_a100-40c"."""
    groups = (f"device group {name}" for name in spec.device_groups.values())
    devices = (_device_text(edit) for edit in spec.devices)
    settings = (setting.name.rstrip(":") for setting, _ in rows_of(spec.settings))
    policy = () if spec.home_policy is None else (f"storage policy {spec.home_policy.name}",)
    return ", ".join([*settings, *spec.extra_config, *groups, *policy, *devices])


def _is_other(policy: PolicyRef, detail: VmDetail) -> bool:
    """Whether the request changes the storage policy of the VM's home; an unread one is accepted."""
    return detail.home_policy not in (None, policy.id)


def _missing_devices(
    spec: VmSpec, detail: VmDetail, before: VmDetail | None
) -> tuple[tuple[DeviceEdit, ...], dict[str, str]]:
    edits = spec.devices
    removals = {edit.key for edit in edits if isinstance(edit, RemoveDevice)}
    stood = {device.key for device in _devices(before)} if before is not None else set()
    unclaimed = [device for device in _devices(detail) if device.key not in stood - removals]
    missing: list[DeviceEdit] = []
    claimed: list[tuple[NewVgpu, _Device]] = []
    for edit in edits:
        if isinstance(edit, RemoveDevice):
            continue
        if isinstance(edit, EditNic | GrowDisk | SetDiskPolicy):
            if not _is_edited(edit, detail):
                missing.append(edit)
            continue
        matches = [device for device in unclaimed if _answers(device, edit, spec.device_groups)]
        if not matches:
            other = _other_mac(edit, unclaimed, stood) if before is not None else None
            unclaimed = [one for one in unclaimed if other is None or one.key != other.key]
            missing.append(other or edit)
            continue
        if isinstance(edit, NewVgpu):
            matches = [one for one in matches if _has_uvm(one.key, detail) is edit.uvm] or matches
            claimed.append((edit, matches[0]))
        if isinstance(edit, NewDisk) and edit.policy is not None:
            matches = [one for one in matches if one.identity[2] in (None, edit.policy.id)] or matches
            if matches[0].identity[2] not in (None, edit.policy.id):
                missing.append(SetDiskPolicy(key=matches[0].key, policy=edit.policy))
        unclaimed.remove(matches[0])
    left = {device.key for device in unclaimed}
    new = [device for device in unclaimed if device.key not in stood]
    stubborn = [edit for edit in edits if isinstance(edit, RemoveDevice) and edit.key in left]
    whole, again, remains = _split_groups(claimed, missing, new)
    learned = {
        uvm_key(device.key): "1" for edit, device in whole if edit.uvm and not _has_uvm(device.key, detail)
    }
    return (*stubborn, *remains, *missing, *again), learned


def _other_mac(edit: DeviceEdit, unclaimed: Iterable[_Device], stood: Collection[int]) -> EditNic | None:
    """Return the edit for a new NIC that the server made without the requested MAC address, if it did."""
    if not isinstance(edit, NewNic | NewPvrdmaNic) or edit.mac is None:
        return None
    anywhere = edit.model_copy(update={"mac": None})
    made = (one.key for one in unclaimed if one.key not in stood and _answers(one, anywhere, {}))
    return next((EditNic(key=key, backing=edit.backing, mac=edit.mac) for key in made), None)


def _split_groups(
    claimed: list[tuple[NewVgpu, _Device]], missing: list[DeviceEdit], spare: list[_Device]
) -> tuple[list[tuple[NewVgpu, _Device]], list[NewVgpu], list[RemoveDevice]]:
    """Take apart the device groups of which a member is missing: they can only be added as a whole.

    Returns the remaining claims, the members to add again with those that are missing, and the devices to
    remove for that: members, and vGPUs that came without their group.
    """
    lacking = [edit for edit in missing if isinstance(edit, NewVgpu) and edit.group is not None]
    broken = {edit.group for edit in lacking}
    whole = [(edit, device) for edit, device in claimed if edit.group not in broken or edit.group is None]
    torn = [(edit, device) for edit, device in claimed if edit.group in broken and edit.group is not None]
    profiles = {edit.profile for edit in lacking}
    loose = [one for one in spare if one.identity[0] == "vgpu" and one.identity[1] in profiles]
    remains = [
        RemoveDevice(key=device.key, was=str(device.identity[1]))
        for device in [*(device for _, device in torn), *loose]
    ]
    return whole, [edit for edit, _ in torn], remains


def _has_uvm(device_key: int, detail: VmDetail) -> bool:
    return detail.extra_config.get(uvm_key(device_key)) == "1"


def _devices(detail: VmDetail) -> Iterator[_Device]:
    for vgpu in detail.vgpus:
        group = None if vgpu.group_key is None else detail.device_groups.get(vgpu.group_key, "")
        yield _Device(vgpu.key, ("vgpu", vgpu.profile, group))
    for device in detail.passthrough:
        if device.is_fixed:
            yield _Device(device.key, ("fixed", device.pci_id))
        else:
            yield _Device(device.key, ("dynamic", frozenset(device.allowed), device.label or ""))
    for nic in detail.nics:
        kind = nic.kind if nic.kind in ("sriov", "pvrdma") else "nic"
        yield _Device(nic.key, (kind, nic.network, nic.mac.lower(), nic.function))
    for disk in detail.disks:
        yield _Device(disk.key, ("disk", disk.capacity_mib, disk.policy))
    if detail.tpm_key is not None:
        yield _Device(detail.tpm_key, ("tpm",))


def _answers(
    device: _Device,
    edit: NewVgpu
    | NewPassthrough
    | NewDynamicPassthrough
    | NewNic
    | NewSriovNic
    | NewPvrdmaNic
    | NewDisk
    | NewTpm,
    groups: Mapping[int, str],
) -> bool:
    match edit:
        case NewVgpu():
            group = None if edit.group is None else groups.get(edit.group, "")
            return device.identity == ("vgpu", edit.profile, group)
        case NewPassthrough():
            return device.identity == ("fixed", edit.pci_id)
        case NewDynamicPassthrough():
            return device.identity == ("dynamic", frozenset(edit.allowed), edit.label or "")
        case NewNic() | NewPvrdmaNic():
            kind, *rest = device.identity
            return (
                kind == ("nic" if isinstance(edit, NewNic) else "pvrdma")
                and rest[0] == _network_of(edit.backing)
                and (edit.mac is None or rest[1] == edit.mac.lower())
            )
        case NewSriovNic():
            kind, *rest = device.identity
            return (
                kind == "sriov"
                and rest[0] == _network_of(edit.backing)
                and (edit.mac is None or rest[1] == edit.mac.lower())
                and rest[2] in (None, edit.function)
            )
        case NewTpm():
            return device.identity == ("tpm",)
        case NewDisk():
            kind, *rest = device.identity
            return kind == "disk" and rest[0] == edit.size_mib
        case _:
            assert_never(edit)


def _is_edited(edit: EditNic | GrowDisk | SetDiskPolicy, detail: VmDetail) -> bool:
    if isinstance(edit, SetDiskPolicy):
        found = (disk.policy for disk in detail.disks if disk.key == edit.key)
        return any(policy in (None, edit.policy.id) for policy in found)
    if isinstance(edit, GrowDisk):
        return any(disk.key == edit.key and disk.capacity_mib >= edit.size_mib for disk in detail.disks)
    return any(nic.key == edit.key and _shows(nic, edit) for nic in detail.nics)


def _shows(nic: VirtualNic, edit: EditNic) -> bool:
    return nic.network == _network_of(edit.backing) and (
        edit.mac is None or nic.mac.lower() == edit.mac.lower()
    )


def _network_of(backing: NicBacking) -> str:
    return backing.portgroup_key or backing.network_moid


def _device_text(edit: DeviceEdit) -> str:
    match edit:
        case NewVgpu():
            return f"vGPU {edit.profile}"
        case NewPassthrough():
            return f"passthrough {edit.pci_id}"
        case NewDynamicPassthrough():
            return f"dynamic passthrough {edit.label or ''}".rstrip()
        case NewSriovNic():
            return f"virtual function on {edit.function}"
        case NewPvrdmaNic():
            return f"PVRDMA NIC on {edit.backing.network_name}"
        case NewNic() | EditNic():
            return f"NIC on {edit.backing.network_name}"
        case NewDisk() | GrowDisk():
            return f"{edit.size_mib} MiB disk"
        case SetDiskPolicy():
            return f"storage policy {edit.policy.name} for disk {edit.key}"
        case NewTpm():
            return "virtual TPM"
        case RemoveDevice():
            return f"removal of {edit.was}"
        case _:
            assert_never(edit)
