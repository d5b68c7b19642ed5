"""A VM's settings in vSphere's words: its ConfigSpec, its cluster's overrides, its guest's customization.

All that the API takes at once goes at once: a clone that carries its devices, reservation
and firmware is one task where one setting after the other would be ten.

Belief: spec-is-sent-back-as-read, customization-spec-format, ha-override-is-sent-whole,
overrides-for-new-vms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import ip_interface
from typing import Any

from pyVmomi import vim

from vgpu_cfg.changes.change import CreateVm
from vgpu_cfg.changes.kinds.create_vm import CloneFrom
from vgpu_cfg.changes.kinds.guest import Customization, NicCustomization
from vgpu_cfg.changes.kinds.vm_spec import DeviceEdit, SetDiskPolicy, VmSpec
from vgpu_cfg.errors import NotFound, StalePlan
from vgpu_cfg.model.observed.managed_object import escaped
from vgpu_cfg.model.observed.vm import SettingValue
from vgpu_cfg.model.wording import version_tuple
from vgpu_cfg.planning.vms.new_vms import CONSOLIDATED_CLONE, LINKED_CLONE
from vgpu_cfg.planning.vms.settings.cluster_rows import DRS_LIST, HA_LIST
from vgpu_cfg.planning.vms.settings.table import rows_of
from vgpu_cfg.vsphere.reading.host_kinds import system_id_of
from vgpu_cfg.vsphere.reading.own_items import find_spec
from vgpu_cfg.vsphere.reading.places import override_entries
from vgpu_cfg.vsphere.wire.collector import Paths, Start, collect_from
from vgpu_cfg.vsphere.wire.faults import translated
from vgpu_cfg.vsphere.wire.leaves import set_path
from vgpu_cfg.vsphere.wire.session import Session
from vgpu_cfg.vsphere.writing.devices import device_groups, device_specs, profile_specs

NUMA_AND_GROUPS_SINCE = "8.0.0.1"
"""The API version that brought device groups, virtual NUMA nodes and a node for each device."""

_BROWSER = (Paths("vim.ComputeResource", ("environmentBrowser",)),)
_HOST = (Paths("vim.VirtualMachine", ("runtime.host",)),)


def config_spec(spec: VmSpec, devices: Sequence[Any], vm: str) -> Any:
    """Return the ConfigSpec of a request; `devices` are those that the VM, or its template, has now."""
    config = vim.vm.ConfigSpec(
        changeVersion=spec.change_version,
        extraConfig=extra_config(spec.extra_config),
        deviceChange=device_specs(spec.devices, devices, vm),
    )
    if spec.home_policy is not None:
        config.vmProfile = profile_specs(spec.home_policy)
    if spec.device_groups:
        # Belief: group-in-one-config-spec.
        config.deviceGroups = device_groups(spec.device_groups)
    for setting, value in rows_of(spec.settings):
        for path, leaf in setting.on_wire(value).items():
            set_path(config, path, leaf)
    return config


def needed_api(spec: VmSpec) -> tuple[str, str]:
    """Return the API version that can say a spec, and what in it needs that; empty where any version can.

    An older session would leave those fields out without a word.
    """
    if spec.device_groups:
        return NUMA_AND_GROUPS_SINCE, "a device group"
    if any(getattr(edit, "numa_node", None) is not None for edit in spec.devices):
        return NUMA_AND_GROUPS_SINCE, "virtual NUMA nodes"
    rows = [setting for setting, _ in rows_of(spec.settings) if setting.api]
    newest = max(rows, key=lambda setting: version_tuple(setting.api), default=None)
    return ("", "") if newest is None else (newest.api, newest.name)


def clone_spec(
    change: CreateVm, source: CloneFrom, devices: Sequence[Any], instance_uuid: str | None = None
) -> Any:
    """Return the CloneSpec of a VM that stays powered off.

    The policies of its home and of its template's disks go with its place, so that the copies are written
    by them (vSphere API reference, VirtualMachineRelocateSpec.profile and .disk).
    """
    location = vim.vm.RelocateSpec(
        host=vim.HostSystem(change.location.host_moid),
        pool=vim.ResourcePool(change.location.resource_pool_moid),
        datastore=vim.Datastore(change.location.datastore_moid),
    )
    asked = change.spec
    if asked.home_policy is not None:
        location.profile = profile_specs(asked.home_policy)
    location.disk = [_located(edit, change) for edit in asked.disk_policies]
    rest = tuple(edit for edit in asked.devices if edit not in asked.disk_policies)
    asked = asked.model_copy(update={"home_policy": None, "devices": rest})
    config = config_spec(asked, devices, change.vm.name)
    config.instanceUuid = instance_uuid
    spec = vim.vm.CloneSpec(location=location, template=False, powerOn=False, config=config)
    if source.snapshot_moid is not None:
        location.diskMoveType = LINKED_CLONE
        spec.snapshot = vim.vm.Snapshot(source.snapshot_moid)
    elif source.consolidates:
        location.diskMoveType = CONSOLIDATED_CLONE
    return spec


def _located(edit: SetDiskPolicy, change: CreateVm) -> Any:
    """Return where the copy of a template's disk goes, with its policy."""
    return vim.vm.RelocateSpec.DiskLocator(
        diskId=edit.key,
        datastore=vim.Datastore(change.location.datastore_moid),
        profile=profile_specs(edit.policy),
    )


def scratch_spec(change: CreateVm, guest_id: str, instance_uuid: str | None = None) -> Any:
    """Return the ConfigSpec of a VM made from nothing, on its datastore."""
    config = config_spec(change.spec, (), change.vm.name)
    config.name = escaped(change.vm.name)
    config.guestId = guest_id
    config.instanceUuid = instance_uuid
    config.files = vim.vm.FileInfo(vmPathName=f"[{change.location.datastore_name}]")
    return config


def extra_config(values: Mapping[str, str]) -> list[Any]:
    """Return extraConfig options; one with an empty value deletes its key."""
    return [vim.option.OptionValue(key=key, value=value) for key, value in values.items()]


def with_system_ids(
    session: Session, spec: VmSpec, *, host_moid: str | None = None, vm_moid: str = ""
) -> VmSpec:
    """Return a spec whose fixed passthrough devices name their host's system id; without a host, the VM's.

    A host reports it with the functions that are passed through and with its SR-IOV NICs: of a host without
    such a NIC it is unknown before the plan has handed out the first function.

    Raises NotFound where the host does not report it: then nothing of it is passed through.
    """
    lacking = [edit for edit in spec.devices if edit.lacks_system]
    if not lacking:
        return spec
    host_moid = host_moid or _host_of(session, vm_moid)
    system_id = _system_id(session, host_moid)
    if not system_id:
        raise NotFound(
            f"the host reports no system ID for {lacking[0].lacks_system}, which fixed passthrough requires",
            subject=host_moid,
            remedy="check that the device is passed through, and plan again",
        )
    devices: tuple[DeviceEdit, ...] = tuple(
        edit.model_copy(update={"system_id": system_id}) if edit in lacking else edit for edit in spec.devices
    )
    return spec.model_copy(update={"devices": devices})


def _host_of(session: Session, vm_moid: str) -> str:
    found = collect_from(session, _HOST, [Start("vim.VirtualMachine", vm_moid)])
    return next((moid for item in found if (moid := item.moid_of("runtime.host"))), "")


def _system_id(session: Session, host_moid: str) -> str:
    found = collect_from(session, _BROWSER, [Start("vim.HostSystem", host_moid, follow="parent")])
    browser: Any = next((item.get("environmentBrowser") for item in found), None)
    if browser is None:
        return ""
    with translated("reading a host's system ID", host_moid):
        target = browser.QueryConfigTarget(vim.HostSystem(host_moid, session.stub))
    return system_id_of(target)


_Customization: Any = vim.vm.customization


def filled_spec(session: Session, asked: Customization, vm: str) -> Any:
    """Return the vim `CustomizationSpec` of a VM: the one of that name, read again, with the plan's values.

    All other fields are sent back as vCenter returned them, encrypted passwords too. Of a Linux the name
    servers are those of the whole guest, of a Windows those of each adapter: so govc has it. Adapters are in
    the order of their PCI slots (vSphere API reference, CustomizationAdapterMapping), which no request names.
    Raises StalePlan if the specification is another one.
    """
    with translated(f"reading the customization specification {asked.spec}", vm):
        item = find_spec(session, asked.spec)
    if item is None or (item.info.changeVersion or "") != asked.change_version:
        became = "was deleted" if item is None else "was changed"
        raise StalePlan(
            f"the customization specification {asked.spec} {became} after planning",
            subject=vm,
            remedy="plan again, and review the changes",
        )
    spec = item.spec
    named = _Customization.FixedName(name=asked.host_name)
    if asked.kind == "windows":
        spec.identity.userData.computerName = named
    else:
        spec.identity.hostName = named
        if asked.sets_domain:
            spec.identity.domain = asked.domain
        if asked.dns:
            spec.globalIPSettings.dnsServerList = list(asked.dns)
    mappings = list(spec.nicSettingMap or ())
    for index, nic in enumerate(asked.nics):
        if index == len(mappings):
            mappings.append(_Customization.AdapterMapping(adapter=_Customization.IPSettings()))
        if nic.ip:
            _fill(mappings[index].adapter, nic, asked)
    spec.nicSettingMap = mappings
    return spec


def _fill(adapter: Any, nic: NicCustomization, asked: Customization) -> None:
    """Give an adapter its address, and no other gateway than that of its network."""
    if nic.ip == "dhcp":
        adapter.ip = _Customization.DhcpIpGenerator()
        adapter.subnetMask, adapter.gateway = None, []
    else:
        address = ip_interface(nic.ip)
        adapter.ip = _Customization.FixedIp(ipAddress=str(address.ip))
        adapter.subnetMask = str(address.netmask)
        adapter.gateway = [nic.gateway] if nic.gateway else []
    if asked.kind == "windows" and asked.dns:
        adapter.dnsServerList = list(asked.dns)


_CONFIGURATION = (Paths("vim.ClusterComputeResource", ("configurationEx",)),)
_LISTS: Mapping[str, tuple[Any, Any]] = {
    DRS_LIST: (vim.cluster.DrsVmConfigSpec, vim.cluster.DrsVmConfigInfo),
    HA_LIST: (vim.cluster.DasVmConfigSpec, vim.cluster.DasVmConfigInfo),
}
"""The lists of a cluster's configuration, with the types of their edits and of their entries."""


def override_specs(
    session: Session, cluster_moid: str, wanted: Mapping[str, Mapping[str, SettingValue]]
) -> Any:
    """Return the ConfigSpecEx that sets DRS and HA overrides of VMs; the current ones are read first.

    An existing override is edited: its other fields (isolation response, restart delays) stay.
    Source: vSphere API reference, ClusterConfigSpecEx.drsVmConfigSpec and dasVmConfigSpec.
    """
    found = collect_from(session, _CONFIGURATION, [Start("vim.ClusterComputeResource", cluster_moid)])
    configuration = found[0].get("configurationEx") if found else None
    spec = vim.cluster.ConfigSpecEx()
    for name, (edit_type, info_type) in _LISTS.items():
        there = dict(override_entries(configuration, name))
        edits = []
        for moid, settings in wanted.items():
            leaves = [
                (path.removeprefix(f"{name}."), value)
                for setting, chosen in rows_of(settings)
                for path, value in setting.on_wire(chosen).items()
                if path.startswith(f"{name}.")
            ]
            if leaves:
                info = there.get(moid) or info_type(key=vim.VirtualMachine(moid))
                for path, value in leaves:
                    set_path(info, path, value)
                edits.append(edit_type(operation="edit" if moid in there else "add", info=info))
        if edits:
            setattr(spec, f"{name}Spec", edits)
    return spec
