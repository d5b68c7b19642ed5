"""CreateVM_Task, ReconfigVM_Task, UpgradeVM_Task: a ConfigSpec makes or changes a VM, whole or not at all."""

from __future__ import annotations

from typing import Any
from uuid import NAMESPACE_URL, uuid5

from pyVmomi import vim

from vgpu_cfg.lab.api.references import reference
from vgpu_cfg.lab.operations.vms.drafts import (
    apply_spec,
    check_in_pool,
    check_name,
    check_normal,
    check_reachable,
    check_usable,
    choose_host,
    commit,
    datastore_of,
    device_name,
    draft_of,
    profiles_in,
    relink_networks,
    stamp_change,
)
from vgpu_cfg.lab.operations.vms.privileges import NEEDED_ON_DATASTORE, check_creation, check_spec
from vgpu_cfg.lab.operations.vms.settings import hardware_version
from vgpu_cfg.lab.rules import admission, hardware, refusals
from vgpu_cfg.lab.rules.refusals import refuse
from vgpu_cfg.lab.simulation.operations import required, resolve_or_none, task
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.devices import (
    SCSI_CONTROLLER,
    copy_with,
    disk_uuid,
    disks_of,
    is_set,
    standard_devices,
)
from vgpu_cfg.lab.state.inventory import Datastore, Folder, Host, ResourcePool, VirtualMachine

SMALLEST_MEMORY_MIB = 32


def _check_arguments(lab: Simulation, folder: Folder, *, config: Any, pool: Any, host: Any = None) -> None:
    required(lab.state, pool, ResourcePool, "pool")
    resolve_or_none(lab.state, host, Host)
    if "VirtualMachine" not in folder.child_types:
        raise refusals.bad_argument("folder")
    if config.files is None or not config.files.vmPathName:
        raise refusals.bad_argument("configSpec.files.vmPathName")
    check_creation(lab, folder, config)
    name = config.files.vmPathName.partition("[")[2].partition("]")[0]
    for store in lab.state.all(Datastore):
        if store.name == name:
            lab.check_privileges(reference(store), NEEDED_ON_DATASTORE)


@task("Folder", "CreateVM_Task", description_id="VirtualMachine.create", seconds=3.0, check=_check_arguments)
def create_vm(lab: Simulation, folder: Folder, *, config: Any, pool: Any, host: Any = None) -> VirtualMachine:
    """Make a VM with the devices that every VM has, and those of its ConfigSpec."""
    state = lab.state
    into = required(state, pool, ResourcePool, "pool")
    asked = resolve_or_none(state, host, Host)
    check_name(state, folder, config.name or "")
    store = datastore_of(lab, config.files.vmPathName, asked)
    check_normal(store)
    vm = _new_vm(lab, config.name)
    version = hardware_version(config.version, asked) if config.version else 0
    chosen = asked or choose_host(lab, into, store, profiles_in(vm, config), version)
    check_usable(chosen)
    check_in_pool(chosen, into)
    vm.hardware_version = version or hardware.max_hardware_version(chosen)
    vm.host_is_chosen = asked is None
    vm.datastore, vm.home = store.moid, config.name
    apply_spec(lab, vm, chosen, config)
    return register(lab, vm, folder=folder, pool=into, host=chosen, store=store)


def register(
    lab: Simulation,
    vm: VirtualMachine,
    *,
    folder: Folder,
    pool: ResourcePool | None,
    host: Host,
    store: Datastore,
) -> VirtualMachine:
    """Put a new VM into the inventory."""
    vm.parent, vm.host, vm.datastore = folder.moid, host.moid, store.moid
    folder.children[vm.moid] = None
    host.vms[vm.moid] = None
    store.vms[vm.moid] = None
    if pool is not None:
        vm.resource_pool = pool.moid
        pool.vms[vm.moid] = None
        lab.state.touch(pool)
    lab.state.add(vm)
    lab.state.touch(folder, host, store)
    relink_networks(lab.state, vm, set())
    stamp_change(lab, vm)
    return vm


def new_uuids(lab: Simulation, moid: str) -> tuple[str, str]:
    """Return a BIOS uuid and an instance uuid, the same for the same history."""
    seed = f"{lab.state.instance_uuid}.{moid}"
    return str(uuid5(NAMESPACE_URL, f"bios.{seed}")), str(uuid5(NAMESPACE_URL, f"instance.{seed}"))


def _new_vm(lab: Simulation, name: str) -> VirtualMachine:
    moid = lab.state.new_moid("vm")
    uuid, instance_uuid = new_uuids(lab, moid)
    devices = {key: device for key, device in standard_devices().items() if key != SCSI_CONTROLLER}
    return VirtualMachine(
        moid=moid,
        name=name,
        uuid=uuid,
        instance_uuid=instance_uuid,
        created=lab.clock.now(),
        memory_mib=SMALLEST_MEMORY_MIB,
        firmware="bios",
        guest_id="otherGuest",
        tools_installed=False,
        made_devices=devices,
    )


OF_A_TEMPLATE = frozenset({"name", "annotation", "changeVersion", "extraConfig"})
"""Fields of a template that can be changed; that extraConfig is one of them is assumed."""


def _check_privileges(lab: Simulation, vm: VirtualMachine, *, spec: Any) -> None:
    check_spec(lab, vim.VirtualMachine(vm.moid), spec)


@task(
    "VirtualMachine",
    "ReconfigVM_Task",
    description_id="VirtualMachine.reconfigure",
    seconds=2.0,
    check=_check_privileges,
)
def reconfigure(lab: Simulation, vm: VirtualMachine, *, spec: Any) -> None:
    """Apply a ConfigSpec. A spec's `version` is not taken here: UpgradeVM_Task is the way."""
    denies = lab.state.denies
    is_old = spec.changeVersion and spec.changeVersion != vm.current_change_version()
    if is_old and not denies("old-change-version-is-rejected"):
        raise refusals.changed_meanwhile()
    changed = {info.name for info in spec._GetPropertyList() if is_set(getattr(spec, info.name))}
    if vm.is_template and not changed <= OF_A_TEMPLATE:
        raise refuse("template-is-not-changed")
    check_reachable(lab.state, vm)
    host = lab.state.get(vm.host, Host)
    draft = draft_of(vm)
    if spec.name:
        check_name(lab.state, lab.state.get(vm.parent, Folder), spec.name, vm.moid)
        draft.name = spec.name
    apply_spec(lab, draft, host, spec)
    if draft.is_on and draft.cpu_reservation_mhz > vm.cpu_reservation_mhz:
        admission.check_cpu(lab.state, draft, host)
    deleted = [
        device_name(vm.devices[change.device.key])
        for change in spec.deviceChange or ()
        if change.operation == "remove" and change.fileOperation == "destroy"
    ]
    if denies("disk-uuid-keeps-its-value"):
        for disk in disks_of(draft.devices):
            uuid = disk_uuid(vm.moid, str(disk.key), str(lab.state.revision))
            draft.devices[disk.key] = copy_with(disk, backing=copy_with(disk.backing, uuid=uuid))
    commit(lab, vm, draft)
    for name in deleted:
        lab.note(vm, "disk delete", name)


@task("VirtualMachine", "UpgradeVM_Task", description_id="VirtualMachine.upgradeVirtualHardware", seconds=1.0)
def upgrade(lab: Simulation, vm: VirtualMachine, *, version: str | None = None) -> None:
    """Raise the hardware version, to the host's newest where none is named."""
    refusals.check_off(vm)
    if vm.is_template:
        raise refusals.wrong_state()
    check_reachable(lab.state, vm)
    host = lab.state.get(vm.host, Host)
    wanted = hardware_version(version, host) if version else hardware.max_hardware_version(host)
    if wanted <= vm.hardware_version:
        raise vim.fault.AlreadyUpgraded(msg="The virtual machine is already up-to-date.")
    commit(lab, vm, draft_of(vm, hardware_version=wanted))
