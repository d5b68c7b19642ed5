"""CloneVM_Task: a copy of a VM with its devices, annotation and extraConfig, and a ConfigSpec on top.

A clone carries the source's extraConfig with it, owner marks of other programs included.

CustomizeVM_Task, or the clone of its VM, has a guest customized at its next start.
"""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.guest.system.creation import copy_of
from vgpu_cfg.lab.operations.vms.create import new_uuids, register
from vgpu_cfg.lab.operations.vms.device_groups import change_devices
from vgpu_cfg.lab.operations.vms.drafts import (
    apply_spec,
    check_in_pool,
    check_name,
    check_reaches,
    check_usable,
    choose_host,
    draft_of,
    profiles_in,
    stamp_change,
)
from vgpu_cfg.lab.operations.vms.power import power_on
from vgpu_cfg.lab.operations.vms.privileges import (
    NEEDED_ON_DATASTORE,
    NEEDED_ON_FOLDER,
    NEEDED_ON_POOL,
    check_spec,
    needed_for_clone,
)
from vgpu_cfg.lab.operations.vms.settings import apply_location
from vgpu_cfg.lab.rules import drs, refusals
from vgpu_cfg.lab.rules.customization import PENDING_KEY, check_customization
from vgpu_cfg.lab.rules.hardware import max_hardware_version
from vgpu_cfg.lab.rules.refusals import refuse
from vgpu_cfg.lab.simulation.operations import operation, resolve, resolve_or_none, task
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.devices import (
    Devices,
    copy_with,
    disk_uuid,
    disks_of,
    dynamic_of,
    has_tpm,
    mac_of,
    nics_of,
)
from vgpu_cfg.lab.state.inventory import (
    Cluster,
    Datastore,
    Folder,
    Host,
    ResourcePool,
    Snapshot,
    VirtualMachine,
)
from vgpu_cfg.lab.state.libraries import items_of
from vgpu_cfg.lab.state.tags import attached_to, objects_of

LINKED = "createNewChildDiskBacking"
CONSOLIDATED = "moveAllDiskBackingsAndConsolidate"
SECONDS_AT_LEAST = 4.0
MIB_PER_SECOND = 4096


def _seconds(lab: Simulation, source: VirtualMachine, *, folder: Any, name: str, spec: Any) -> float:
    if spec.location.diskMoveType == LINKED:
        return SECONDS_AT_LEAST
    size_mib: int = sum(disk.capacityInKB // 1024 for disk in disks_of(source.devices))
    return SECONDS_AT_LEAST + size_mib / MIB_PER_SECOND


def check_clone(lab: Simulation, source: VirtualMachine, *, folder: Any, name: str, spec: Any) -> None:
    """Refuse at once missing privileges, objects that have gone, and a template without a pool."""
    location = spec.location
    needed = (
        (
            vim.VirtualMachine(source.moid),
            VirtualMachine,
            needed_for_clone(is_template=source.is_template, is_customized=spec.customization is not None),
        ),
        (location.folder or folder, Folder, NEEDED_ON_FOLDER),
        (location.pool, ResourcePool, NEEDED_ON_POOL),
        (location.datastore, Datastore, NEEDED_ON_DATASTORE),
        (location.host, Host, ()),
    )
    for reference, kind, privileges in needed:
        if resolve_or_none(lab.state, reference, kind) is not None:
            lab.check_privileges(reference, privileges)
    if spec.config is not None:
        check_spec(lab, location.folder or folder, spec.config)
    if source.is_template and not spec.template and location.pool is None:
        raise refusals.bad_argument("spec.location.pool")
    held = {item["vm_template"] for item in items_of(lab.state).values()}
    if source.moid in held and lab.state.denies("library-template-clones-alike"):
        raise refusals.not_supported()
    _check_tpm(lab, source, spec.tpmProvisionPolicy)


def _check_tpm(lab: Simulation, source: VirtualMachine, policy: str | None) -> None:
    """Judge what becomes of the source's virtual TPM: `copy` takes its secrets along, `replace` a new one.

    After VirtualMachineCloneSpecTpmProvisionPolicy of the vSphere API reference, since 8.0.0.1. That a new
    one wants a key is derived; that it is copied where nothing is said is what vCenter is set to at first.
    """
    if policy not in (None, "", "copy", "replace"):
        raise refusals.bad_argument("spec.tpmProvisionPolicy")
    if policy == "replace" and has_tpm(source.devices) and lab.state.default_key_provider is None:
        raise refusals.no_key_provider()


@task(
    "VirtualMachine",
    "CloneVM_Task",
    description_id="VirtualMachine.clone",
    seconds=_seconds,
    check=check_clone,
    cancelable=True,
)
def clone_vm(lab: Simulation, source: VirtualMachine, *, folder: Any, name: str, spec: Any) -> VirtualMachine:
    """Copy a VM. `config` is applied whole but for `version`, which UpgradeVM_Task alone changes."""
    state, location = lab.state, spec.location
    into = resolve(state, location.folder or folder, Folder)
    check_name(state, into, name)
    registered = state.get(source.host, Host)
    pool = resolve_or_none(state, location.pool, ResourcePool)
    if pool is None and not spec.template:
        pool = state.find(source.resource_pool, ResourcePool)
    asked = resolve_or_none(state, location.host, Host)
    store = resolve_or_none(state, location.datastore, Datastore) or state.get(source.datastore, Datastore)
    host = asked or _host_for(lab, source, registered, pool, store, spec)
    check_usable(host)
    if source.is_on and drs.holds_functions(source):
        raise refuse("snapshot-with-passthrough")
    if state.datacenter_of(into) is not state.datacenter_of(host):
        mismatch = vim.fault.DatacenterMismatch(msg="The entities belong to several datacenters.")
        raise refuse("two-datacenters", invalidProperty="spec.location.host", faultCause=mismatch)
    if pool is not None:
        check_in_pool(host, pool)
    check_reaches(store, host, location.datastore)
    vm = _copy(lab, source, name, store)
    vm.is_template = bool(spec.template)
    vm.host_is_chosen = asked is None
    _copy_disks(lab, source, vm, store, spec)
    apply_location(state, vm, location)
    change_devices(state, vm, host, location.deviceChange or [])
    if spec.config is not None:
        apply_spec(lab, vm, host, spec.config)
    if spec.customization is not None:
        check_customization(vm, spec.customization)
        keep(vm, spec.customization)
    register(lab, vm, folder=into, pool=None if spec.template else pool, host=host, store=store)
    if spec.powerOn:
        power_on(lab, vm)
    return vm


def _host_for(
    lab: Simulation,
    source: VirtualMachine,
    registered: Host,
    pool: ResourcePool | None,
    store: Datastore,
    spec: Any,
) -> Host:
    if pool is None:
        return registered
    cluster = lab.state.get(pool.owner, Cluster)
    if not cluster.drs_enabled and not cluster.is_standalone:
        if registered.parent == cluster.moid:
            return registered
        raise refusals.bad_argument("spec.location.host")
    return choose_host(
        lab, pool, store, profiles_in(source, spec.location, spec.config), source.hardware_version
    )


def _copy(lab: Simulation, source: VirtualMachine, name: str, store: Datastore) -> VirtualMachine:
    moid = lab.state.new_moid("vm")
    uuid, instance_uuid = new_uuids(lab, moid)
    if lab.state.denies("instance-uuid-is-unique"):
        instance_uuid = source.instance_uuid
    vm = draft_of(
        source,
        moid=moid,
        name=name,
        uuid=uuid,
        instance_uuid=instance_uuid,
        power_state="poweredOff",
        boot_time=None,
        created=lab.clock.now(),
        snapshots=[],
        current_snapshot=None,
        resource_pool=None,
        datastore=store.moid,
        home=name,
        log=[],
        customization=None,
        made_guest=copy_of(source.made_guest),
    )
    number = int(moid.rsplit("-", 1)[1])
    for device in dynamic_of(vm.devices):
        vm.devices[device.key] = copy_with(device, backing=copy_with(device.backing, assignedId=None))
    for index, nic in enumerate(nics_of(vm.devices)):
        mac = mac_of(number, index, lab.state)
        vm.devices[nic.key] = copy_with(nic, macAddress=mac, addressType="assigned")
    if lab.state.denies("extra-config-is-copied"):
        vm.extra_config = {}
    if lab.state.denies("clone-keeps-hardware-version"):
        vm.hardware_version = max_hardware_version(lab.state.get(source.host, Host))
    if lab.state.denies("clone-has-no-tags"):
        for tag in attached_to(lab.state, source.wsdl_type, source.moid):
            objects_of(lab.state, tag).append([vm.wsdl_type, vm.moid])
    if lab.state.denies("clone-and-attributes"):
        values = lab.state.custom_values.get("values", {})
        values[vm.moid] = dict([*values.get(source.moid, {}).items()][:1])
    return vm


def _copy_disks(
    lab: Simulation, source: VirtualMachine, vm: VirtualMachine, store: Datastore, spec: Any
) -> None:
    """Give each disk a file of its own, or a child of the source's for a linked clone.

    The disks of a source with a snapshot keep their chain, unless the request consolidates it. That they do
    without a `diskMoveType` is assumed; kubernetes-sigs/cluster-api-provider-vsphere, pull request 213,
    met it with one that does not consolidate.
    """
    linked = spec.location.diskMoveType == LINKED
    keeps_chain = source.current_snapshot is not None and spec.location.diskMoveType != CONSOLIDATED
    if linked and source.current_snapshot is None:
        raise refusals.bad_argument("spec.snapshot")
    if spec.snapshot is not None:
        resolve(lab.state, spec.snapshot, Snapshot)
    sizes = sum(disk.capacityInKB // 1024 for disk in disks_of(source.devices))
    if not linked and sizes > store.free_mib:
        raise vim.fault.NoDiskSpace(
            datastore=store.name, msg=f"Insufficient disk space on datastore '{store.name}'."
        )
    devices: Devices = vm.devices
    disks = disks_of(source.devices)
    for index, disk in enumerate(disks):
        name = f"{vm.name}_{index}" if index else vm.name
        if lab.state.denies("clone-disk-names"):
            name = f"disk-{len(disks) - 1 - index}"
        changes: dict[str, Any] = {
            "fileName": f"[{store.name}] {vm.name}/{name}.vmdk",
            "datastore": vim.Datastore(store.moid),
            "uuid": disk_uuid(vm.moid, str(index)),
        }
        if linked or keeps_chain:
            changes["parent"] = disk.backing
        elif disk.backing.parent is not None:
            changes["parent"] = None
        devices[disk.key] = copy_with(disk, backing=copy_with(disk.backing, **changes), vDiskId=None)


@task("VirtualMachine", "CustomizeVM_Task", description_id="VirtualMachine.customize", seconds=2.0)
def customize(lab: Simulation, vm: VirtualMachine, *, spec: Any) -> None:
    """Keep a specification for the next start of a VM that is off."""
    refusals.check_off(vm)
    check_customization(vm, spec)
    keep(vm, spec)
    lab.state.touch(vm)
    stamp_change(lab, vm)


@operation("VirtualMachine", "CheckCustomizationSpec")
def check(lab: Simulation, vm: VirtualMachine, *, spec: Any) -> None:
    """Refuse what CustomizeVM_Task would refuse of a specification."""
    check_customization(vm, spec)


def keep(vm: VirtualMachine, spec: Any) -> None:
    """Let the guest of a VM be customised at its next start."""
    vm.customization = spec
    vm.extra_config[PENDING_KEY] = f"imcf-{vm.moid}"
