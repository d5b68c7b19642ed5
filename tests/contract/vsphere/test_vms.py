"""VMs made, changed, switched and deleted, as both vCenters do it; and how their tasks are watched."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from pyVmomi import vim

from tests.contract.vcenters import Desk, FixedClock, VCenter, fresh, lab_vcenter, location_on
from vgpu_cfg.changes.change import CreateVm, RemoveRule, SetRule
from vgpu_cfg.changes.kinds.create_vm import CloneFrom, Location, MakeFromScratch
from vgpu_cfg.changes.kinds.move_vm import Destination
from vgpu_cfg.changes.kinds.vm_spec import (
    EditNic,
    GrowDisk,
    NewDisk,
    NewDynamicPassthrough,
    NewNic,
    NewPassthrough,
    NewPvrdmaNic,
    NewSriovNic,
    NewVgpu,
    NicBacking,
    RemoveDevice,
    VmSpec,
)
from vgpu_cfg.changes.values import Subject, VmRef
from vgpu_cfg.errors import NotFound, VCenterError
from vgpu_cfg.execution.vms.moves import is_at
from vgpu_cfg.model.observed.drs import ClusterRule
from vgpu_cfg.model.observed.inventory import Host, Inventory, Network, NetworkKind, PciDevice
from vgpu_cfg.model.observed.vm import PowerState, Vm, VmDetail
from vgpu_cfg.ports import ReadScope, TaskState, TaskUpdate
from vgpu_cfg.vsphere.reading.reader import VCenterReader
from vgpu_cfg.vsphere.writing.tasks import MOST_FILTERS

MAC = "00:50:56:12:34:56"


@dataclass(frozen=True, slots=True)
class Place:
    """Where the tests put VMs: a host in a cluster of the vCenter under test."""

    found: Inventory
    location: Location
    cluster_moid: str
    template: Vm

    def network(self, kind: NetworkKind) -> NicBacking:
        network: Network = next(
            entry for entry in self.found.networks if entry.kind is kind and not entry.is_uplink
        )
        return NicBacking(
            network_moid=network.moid,
            network_name=network.name,
            portgroup_key=network.portgroup_key,
            switch_uuid=network.switch_uuid,
        )

    def from_scratch(self, spec: VmSpec, name: str | None = None) -> CreateVm:
        return self._creation(spec, MakeFromScratch(guest_id="ubuntu64Guest"), name)

    def cloned(self, spec: VmSpec, name: str | None = None) -> CreateVm:
        template = VmRef(name=self.template.name, moid=self.template.moid)
        return self._creation(spec, CloneFrom(template=template), name)

    def _creation(self, spec: VmSpec, source: MakeFromScratch | CloneFrom, name: str | None) -> CreateVm:
        name = name or fresh()
        return CreateVm(
            id=f"create {name}",
            subject=Subject(kind="vm", name=name),
            vm=VmRef(name=name),
            source=source,
            location=self.location,
            spec=spec,
        )


@pytest.fixture
def desk(vcenter: VCenter) -> Iterator[Desk]:
    """Log in; delete afterwards what was made."""
    with vcenter.desk() as desk:
        before = desk.inventory().vm_by_moid
        yield desk
        for vm in desk.inventory().vms:
            if vm.moid not in before:
                if vm.is_on:
                    desk.done(desk.writer.power_off_vm(vm.moid))
                desk.done(desk.writer.destroy_vm(vm.moid))


@pytest.fixture
def place(vcenter: VCenter, desk: Desk) -> Place:
    return place_of(vcenter, desk)


def place_of(vcenter: VCenter, desk: Desk, host: Host | None = None) -> Place:
    found = desk.inventory()
    host = host or next(host for host in found.hosts if host.cluster_moid is not None)
    assert host.cluster_moid is not None
    location = location_on(found, host)
    template = next(vm for vm in found.vms if vm.name == vcenter.template)
    return Place(found, location, host.cluster_moid, template)


def detail_of(vm: Vm) -> VmDetail:
    assert vm.detail is not None
    return vm.detail


MARK = {"vgpu_cfg.plan": "p", "vgpu_cfg.vm": "a"}
SMALL = VmSpec(
    settings={"hardware_version": 20, "cpus": 2, "cores_per_socket": 2, "memory": 1024}, extra_config=MARK
)


def test_a_vm_from_scratch_has_everything_at_once(desk: Desk, place: Place) -> None:
    standard = place.network(NetworkKind.STANDARD)
    distributed = place.network(NetworkKind.DISTRIBUTED)
    spec = SMALL.model_copy(
        update={
            "settings": {**SMALL.settings, "firmware": "efi", "memory_reservation": 1024},
            "devices": (
                NewDisk(size_mib=2048),
                NewDisk(size_mib=1024),
                NewDisk(size_mib=512, controller="nvme"),
                NewNic(backing=standard),
                NewNic(backing=distributed, mac="00:50:56:12:34:56"),
            ),
        }
    )
    change = place.from_scratch(spec)
    vm = desk.vm(desk.made(desk.writer.create_vm(change)))
    detail = detail_of(vm)
    assert (vm.name, vm.host_moid, vm.folder_moid) == (
        change.vm.name,
        place.location.host_moid,
        place.location.folder_moid,
    )
    assert vm.power_state is PowerState.OFF
    assert vm.instance_uuid
    assert vm.mark is not None
    assert (vm.mark.plan, vm.mark.vm) == ("p", "a")
    assert (detail.cpus, detail.cores_per_socket, detail.memory_mib) == (2, 2, 1024)
    assert (detail.firmware, detail.guest_id, detail.hardware_version) == ("efi", "ubuntu64Guest", 20)
    assert detail.memory_reservation_locked
    assert detail.memory_reservation_mib == 1024
    assert sorted(disk.capacity_mib for disk in detail.disks) == [512, 1024, 2048]
    assert {controller.kind for controller in detail.controllers} >= {"scsi", "nvme"}
    assert [nic.kind for nic in detail.nics] == ["vmxnet3", "vmxnet3"]
    assert {nic.network for nic in detail.nics} == {standard.network_moid, distributed.portgroup_key}
    assert "00:50:56:12:34:56" in {nic.mac for nic in detail.nics}
    assert detail.datastore_moids == (place.location.datastore_moid,)
    assert detail.resource_pool_moid == place.location.resource_pool_moid


def test_a_clone_lands_where_it_should_with_its_devices(desk: Desk, place: Place) -> None:
    (before,) = desk.reader.read_vms([place.template.moid])
    change = place.cloned(
        VmSpec(
            devices=(
                NewNic(backing=place.network(NetworkKind.DISTRIBUTED)),
                NewDisk(size_mib=1024),
                GrowDisk(key=detail_of(before).disks[0].key, size_mib=256 * 1024),
            )
        )
    )
    vm = desk.vm(desk.made(desk.writer.create_vm(change)))
    assert (vm.name, vm.host_moid, vm.is_template) == (change.vm.name, place.location.host_moid, False)
    assert vm.power_state is PowerState.OFF
    assert vm.instance_uuid != place.template.instance_uuid
    detail = detail_of(vm)
    assert len(detail.nics) == len(detail_of(before).nics) + 1
    assert len(detail.disks) == len(detail_of(before).disks) + 1
    assert 256 * 1024 in {disk.capacity_mib for disk in detail.disks}
    assert detail_of(desk.vm(place.template.moid)).disks == detail_of(before).disks


def test_a_vm_is_reconfigured_in_one_task(desk: Desk, place: Place) -> None:
    nics = (NewNic(backing=place.network(NetworkKind.STANDARD)),)
    spec = SMALL.model_copy(update={"devices": (NewDisk(size_mib=1024), *nics)})
    moid = desk.made(desk.writer.create_vm(place.from_scratch(spec)))
    before = detail_of(desk.vm(moid))
    distributed = place.network(NetworkKind.DISTRIBUTED)
    change = VmSpec(
        settings={"cpus": 4, "memory": 2048, "memory_reservation": 2048},
        extra_config={"numa.nodeAffinity": "0", "vgpu_cfg.vm": "b"},
        devices=(
            EditNic(key=before.nics[0].key, backing=distributed),
            GrowDisk(key=before.disks[0].key, size_mib=4096),
            NewDisk(size_mib=512),
        ),
        change_version=before.change_version,
    )
    assert desk.done(desk.writer.reconfigure_vm(moid, change)).state is TaskState.SUCCESS
    after = detail_of(desk.vm(moid))
    assert (after.cpus, after.memory_mib, after.memory_reservation_mib) == (4, 2048, 2048)
    assert after.extra_config["numa.nodeAffinity"] == "0"
    assert after.extra_config["vgpu_cfg.vm"] == "b"
    assert after.extra_config["vgpu_cfg.plan"] == "p"
    assert [nic.network for nic in after.nics] == [distributed.portgroup_key]
    assert after.nics[0].mac == before.nics[0].mac
    assert sorted(disk.capacity_mib for disk in after.disks) == [512, 4096]
    assert after.change_version != before.change_version

    deletion = VmSpec(
        extra_config={"numa.nodeAffinity": ""},
        devices=(RemoveDevice(key=after.nics[0].key, was="vm-network"),),
    )
    assert desk.done(desk.writer.reconfigure_vm(moid, deletion)).state is TaskState.SUCCESS
    last = detail_of(desk.vm(moid))
    assert last.nics == ()
    assert "numa.nodeAffinity" not in last.extra_config
    assert last.memory_mib == 2048


def test_a_vm_is_renamed_moved_to_a_folder_and_to_another_host(desk: Desk, place: Place) -> None:
    moid = desk.made(desk.writer.create_vm(place.from_scratch(SMALL)))
    name = f"{fresh()} 50%/a"
    assert desk.done(desk.writer.rename_vm(moid, name)).state is TaskState.SUCCESS
    assert desk.vm(moid).name == name
    folder = place.location.folder_moid
    assert desk.done(desk.writer.move_vm_to_folder(moid, folder)).state is TaskState.SUCCESS
    assert desk.vm(moid).folder_moid == folder
    other = place.found.hosts[-1]
    pool = place.found.cluster_by_moid[other.compute_moid].resource_pool_moid
    store = min(other.datastore_moids)
    to = Destination(
        host_moid=other.moid, host_name=other.name, resource_pool_moid=pool, datastore_moid=store
    )
    assert desk.done(desk.writer.relocate_vm(moid, to)).state is TaskState.SUCCESS
    assert is_at(desk.vm(moid), to)


def test_devices_of_a_vm_with_gpus_are_matched_by_key(desk: Desk, place: Place) -> None:
    spec = SMALL.model_copy(
        update={
            "settings": {**SMALL.settings, "memory_reservation": 1024},
            "devices": (
                NewVgpu(profile="grid_a100-20c"),
                NewVgpu(profile="grid_a100-20c"),
                NewDynamicPassthrough(allowed=((0x15B3, 0x101D),), label="roce"),
            ),
        }
    )
    moid = desk.made(desk.writer.create_vm(place.from_scratch(spec)))
    before = detail_of(desk.vm(moid))
    assert [vgpu.profile for vgpu in before.vgpus] == ["grid_a100-20c", "grid_a100-20c"]
    assert len({vgpu.key for vgpu in before.vgpus}) == 2
    (dynamic,) = before.passthrough
    assert (dynamic.allowed, dynamic.label) == (((0x15B3, 0x101D),), "roce")
    replaced = VmSpec(
        devices=(
            RemoveDevice(key=before.vgpus[0].key, was="grid_a100-20c"),
            NewVgpu(profile="grid_a100-10c"),
        )
    )
    assert desk.done(desk.writer.reconfigure_vm(moid, replaced)).state is TaskState.SUCCESS
    after = detail_of(desk.vm(moid))
    assert sorted(vgpu.profile for vgpu in after.vgpus) == ["grid_a100-10c", "grid_a100-20c"]
    assert before.vgpus[1] in after.vgpus


@pytest.mark.parametrize("kind", [NetworkKind.STANDARD, NetworkKind.DISTRIBUTED])
def test_a_virtual_function_is_added_and_taken_out(kind: NetworkKind, desk: Desk, place: Place) -> None:
    network = place.network(kind)
    plain, card = NewNic(backing=network), NewSriovNic(backing=network, function="0000:24:00.0", mac=MAC)
    spec = SMALL.model_copy(
        update={"settings": {**SMALL.settings, "memory_reservation": 1024}, "devices": (plain, card)}
    )
    moid = desk.made(desk.writer.create_vm(place.from_scratch(spec)))
    before = detail_of(desk.vm(moid))
    (virtual,) = (nic for nic in before.nics if nic.kind == "sriov")
    assert (virtual.function, virtual.mac) == ("0000:24:00.0", MAC)
    assert virtual.network == (network.portgroup_key or network.network_moid)
    deletion = VmSpec(devices=(RemoveDevice(key=virtual.key, was="virtual function"),))
    assert desk.done(desk.writer.reconfigure_vm(moid, deletion)).state is TaskState.SUCCESS
    assert [nic.kind for nic in detail_of(desk.vm(moid)).nics] == ["vmxnet3"]


def test_a_paravirtual_rdma_nic_is_added_and_taken_out(desk: Desk, place: Place) -> None:
    network = place.network(NetworkKind.DISTRIBUTED)
    card = NewPvrdmaNic(backing=network, mac=MAC)
    spec = SMALL.model_copy(
        update={"settings": {**SMALL.settings, "memory_reservation": 1024}, "devices": (card,)}
    )
    moid = desk.made(desk.writer.create_vm(place.from_scratch(spec)))
    (nic,) = detail_of(desk.vm(moid)).nics
    assert (nic.kind, nic.mac, nic.network) == ("pvrdma", MAC, network.portgroup_key)
    deletion = VmSpec(devices=(RemoveDevice(key=nic.key, was="PVRDMA NIC"),))
    assert desk.done(desk.writer.reconfigure_vm(moid, deletion)).state is TaskState.SUCCESS
    assert not detail_of(desk.vm(moid)).nics


def test_a_whole_nic_is_told_from_a_gpu(desk: Desk, place: Place) -> None:
    """The lab lists NICs with their class; vcsim's hosts list none with these ids."""
    nic = NewDynamicPassthrough(allowed=((0x15B3, 0x101D),), label="roce")
    gpu = NewDynamicPassthrough(allowed=((0x10DE, 0x20F1),))
    spec = SMALL.model_copy(
        update={"settings": {**SMALL.settings, "memory_reservation": 1024}, "devices": (nic, gpu)}
    )
    moid = desk.made(desk.writer.create_vm(place.from_scratch(spec)))
    told = {device.allowed: device.is_nic for device in detail_of(desk.vm(moid)).passthrough}
    listed = (device for host in desk.inventory().hosts for device in host.pci_devices)
    is_listed = any((device.vendor_id, device.device_id) in nic.allowed for device in listed)
    assert told == {nic.allowed: is_listed, gpu.allowed: False}


def passed_through(desk: Desk) -> tuple[Host, PciDevice]:
    found = desk.inventory(ReadScope(system_ids=True))
    return next(
        (host, device) for host in found.hosts for device in host.pci_devices if device.passthrough_active
    )


@pytest.mark.parametrize("way", ["created", "reconfigured"])
def test_a_host_is_asked_for_its_system_id_where_the_plan_did_not_know_it(way: str) -> None:
    """The lab alone has hosts that hand devices out: vcsim's list none."""
    vcenter = lab_vcenter("mixed-fleet")
    with vcenter.desk() as desk:
        host, device = passed_through(desk)
        unknown = NewPassthrough(
            pci_id=device.pci_id, system_id="", vendor_id=device.vendor_id, device_id=device.device_id
        )
        place = place_of(vcenter, desk, host)
        spec = SMALL.model_copy(update={"settings": {**SMALL.settings, "memory_reservation": 1024}})
        with_device = spec.model_copy(update={"devices": (unknown,)})
        moid = desk.made(desk.writer.create_vm(place.from_scratch(with_device if way == "created" else spec)))
        if way == "reconfigured":
            added = VmSpec(devices=(unknown,))
            assert desk.done(desk.writer.reconfigure_vm(moid, added)).state is TaskState.SUCCESS
        (passed,) = detail_of(desk.vm(moid)).passthrough
        assert (passed.pci_id, passed.system_id) == (device.pci_id, host.system_id)


def test_a_host_that_hands_nothing_out_tells_no_system_id() -> None:
    vcenter = lab_vcenter("one-a100")
    with vcenter.desk() as desk:
        host = desk.inventory().hosts[0]
        device = host.pci_devices[0]
        unknown = NewPassthrough(pci_id=device.pci_id, system_id="", vendor_id=1, device_id=2)
        spec = SMALL.model_copy(update={"devices": (unknown,)})
        change = place_of(vcenter, desk, host).from_scratch(spec)
        with pytest.raises(NotFound, match="reports no system ID"):
            desk.writer.create_vm(change)


def test_hardware_is_upgraded(desk: Desk, place: Place) -> None:
    moid = desk.made(desk.writer.create_vm(place.from_scratch(SMALL)))
    assert desk.done(desk.writer.upgrade_vm(moid, 21)).state is TaskState.SUCCESS
    assert detail_of(desk.vm(moid)).hardware_version == 21


def test_power_goes_on_and_off(desk: Desk, place: Place) -> None:
    moid = desk.made(desk.writer.create_vm(place.from_scratch(SMALL)))
    assert desk.done(desk.writer.power_on_vm(moid)).state is TaskState.SUCCESS
    assert desk.vm(moid).power_state is PowerState.ON
    again = desk.done(desk.writer.power_on_vm(moid))
    assert (again.state, again.fault) == (TaskState.ERROR, "InvalidPowerState")
    assert again.error
    assert desk.done(desk.writer.power_off_vm(moid)).state is TaskState.SUCCESS
    assert desk.vm(moid).power_state is PowerState.OFF


def test_a_vm_is_deleted(desk: Desk, place: Place) -> None:
    moid = desk.made(desk.writer.create_vm(place.from_scratch(SMALL)))
    assert desk.done(desk.writer.destroy_vm(moid)).state is TaskState.SUCCESS
    assert desk.reader.read_vms([moid]) == ()


def test_what_is_not_there_cannot_be_changed(desk: Desk) -> None:
    with pytest.raises(NotFound, match="vm-90001"):
        desk.writer.destroy_vm("vm-90001")
    with pytest.raises(NotFound):
        desk.writer.reconfigure_vm("vm-90001", VmSpec(devices=(RemoveDevice(key=1, was="x"),)))


def test_a_device_that_is_gone_stops_the_change_before_its_task(desk: Desk, place: Place) -> None:
    moid = desk.made(desk.writer.create_vm(place.from_scratch(SMALL)))
    with pytest.raises(NotFound, match="device 99"):
        desk.writer.reconfigure_vm(moid, VmSpec(devices=(RemoveDevice(key=99, was="x"),)))


def test_a_vm_that_is_not_made_yet_cannot_be_cloned(desk: Desk, place: Place) -> None:
    change = place.cloned(SMALL)
    source = CloneFrom(template=VmRef(name="later"))
    with pytest.raises(NotFound, match="does not exist yet") as caught:
        desk.writer.create_vm(change.model_copy(update={"source": source}))
    assert caught.value.subject == "later"


def test_rules_are_made_edited_and_removed(desk: Desk, place: Place) -> None:
    vms = [desk.made(desk.writer.create_vm(place.from_scratch(SMALL))) for _ in range(3)]
    name = fresh("vgpu-cfg-p")
    rule = SetRule(
        id="rule",
        subject=Subject(kind="cluster", name="gpu"),
        cluster_moid=place.cluster_moid,
        rule_name=name,
        vms=(),
    )
    assert desk.done(desk.writer.set_rule(rule, vms[:2])).state is TaskState.SUCCESS
    made = rule_named(desk, place, name)
    assert (made.kind, made.is_enabled, made.is_mandatory, made.vm_moids) == (
        "anti_affinity",
        True,
        True,
        tuple(vms[:2]),
    )
    edit = rule.model_copy(update={"rule_key": made.key, "is_mandatory": False})
    assert desk.done(desk.writer.set_rule(edit, vms)).state is TaskState.SUCCESS
    edited = rule_named(desk, place, name)
    assert (edited.key, edited.is_mandatory, edited.vm_moids) == (made.key, False, tuple(vms))
    removal = RemoveRule(
        id="rule",
        subject=rule.subject,
        cluster_moid=place.cluster_moid,
        rule_name=name,
        rule_key=made.key,
    )
    assert desk.done(desk.writer.remove_rule(removal)).state is TaskState.SUCCESS
    assert name not in {entry.name for entry in rules(desk, place)}


def rules(desk: Desk, place: Place) -> tuple[ClusterRule, ...]:
    return desk.inventory().cluster_by_moid[place.cluster_moid].rules


def rule_named(desk: Desk, place: Place, name: str) -> ClusterRule:
    (found,) = (entry for entry in rules(desk, place) if entry.name == name)
    return found


def test_many_tasks_are_watched_at_once_and_asked_for_again(desk: Desk, place: Place) -> None:
    tasks = [desk.writer.create_vm(place.from_scratch(SMALL)) for _ in range(5)]
    over: dict[str, TaskUpdate] = {}
    while len(over) < len(tasks):
        for update in desk.writer.wait_for_tasks([task for task in tasks if task not in over], 60):
            if update.state.is_over:
                over[update.task] = update
    assert all(update.state is TaskState.SUCCESS for update in over.values())
    before = desk.session.round_trips
    assert {update.task for update in desk.writer.wait_for_tasks(tasks, 60)} == set(tasks)
    assert desk.session.round_trips == before


def test_how_far_a_task_is_is_told_once_there_was_no_news_for_a_while() -> None:
    vcenter = lab_vcenter("two-a100")
    with vcenter.desk() as desk:
        place = place_of(vcenter, desk)
        task = desk.writer.create_vm(place.cloned(VmSpec()))
        (begun,) = desk.writer.wait_for_tasks([task], 8)
        asked = desk.session.round_trips
        (further,) = desk.writer.wait_for_tasks([task], 8)
        # The wait, and how far it is.
        assert desk.session.round_trips == asked + 2
        assert (begun.progress, further.state, further.progress) == (None, TaskState.RUNNING, 25)
        assert desk.done(task).progress == 100


def test_a_second_reading_tells_what_a_first_one_would(desk: Desk, place: Place) -> None:
    kept, changed, started, gone = (
        desk.made(desk.writer.create_vm(place.from_scratch(SMALL))) for _ in range(4)
    )
    scope = ReadScope(everything=True)
    desk.reader.read_inventory(scope)
    desk.done(desk.writer.reconfigure_vm(changed, VmSpec(settings={"memory": 2048})))
    desk.done(desk.writer.power_on_vm(started))
    desk.done(desk.writer.destroy_vm(gone))
    made = desk.made(desk.writer.create_vm(place.from_scratch(SMALL)))
    again = desk.reader.read_inventory(scope)
    assert again == VCenterReader(desk.session, FixedClock()).read_inventory(scope)
    assert {kept, changed, started, made} <= again.vm_by_moid.keys()
    assert gone not in again.vm_by_moid


def guarded(desk: Desk, moid: str, memory_mib: int = 2048) -> VmSpec:
    """Say what memory a VM gets, if nobody has changed it meanwhile."""
    version = detail_of(desk.vm(moid)).change_version
    return VmSpec(settings={"memory": memory_mib}, change_version=version)


def test_a_vm_comes_along_with_the_end_of_the_task_that_reconfigures_it(desk: Desk, place: Place) -> None:
    moid = desk.made(desk.writer.create_vm(place.from_scratch(SMALL)))

    def memory(mib: int, *, is_guarded: bool) -> int:
        """Change the memory; return how many round trips the reading takes that sees it."""
        spec = guarded(desk, moid, mib) if is_guarded else VmSpec(settings={"memory": mib})
        desk.done(desk.writer.reconfigure_vm(moid, spec))
        asked = desk.session.round_trips
        (found,), _ = desk.reader.read_vms_and_holders([moid], [])
        took = desk.session.round_trips - asked
        assert found.detail is not None
        assert found.detail.memory_mib == mib
        assert (found,) == desk.reader.read_vms([moid])
        # That was a question, and what came unasked is older than it.
        assert desk.reader.read_vms_and_holders([moid], [])[0] == (found,)
        assert desk.session.round_trips == asked + took + 2
        return took

    assert memory(2048, is_guarded=True) == 0
    assert memory(3072, is_guarded=False) == 1


def test_a_vm_that_came_along_is_asked_for_by_whoever_looks_again(desk: Desk, place: Place) -> None:
    moid = desk.made(desk.writer.create_vm(place.from_scratch(SMALL)))
    desk.done(desk.writer.reconfigure_vm(moid, guarded(desk, moid)))
    asked = desk.session.round_trips
    first, second = (desk.reader.read_vms_and_holders([moid], [])[0] for _ in range(2))
    assert first == second
    assert desk.session.round_trips == asked + 1


def test_a_vm_whose_change_was_refused_does_not_come_along() -> None:
    vcenter = lab_vcenter("mixed-fleet")
    with vcenter.desk() as desk:
        moid = next(vm.moid for vm in desk.inventory().vms if vm.name != vcenter.template)
        version = detail_of(desk.vm(moid)).change_version
        spec = VmSpec(extra_config={"mine": "yes"}, change_version=version)
        desk.done(desk.writer.reconfigure_vm(moid, spec))
        # Somebody has changed it since, and may be about to change it once more.
        refused = desk.done(desk.writer.reconfigure_vm(moid, spec))
        assert refused.fault == "ConcurrentAccess"
        asked = desk.session.round_trips
        desk.reader.read_vms_and_holders([moid], [])
        assert desk.session.round_trips == asked + 1


def test_what_else_is_told_of_a_vm_ends_no_wait_for_its_task() -> None:
    vcenter = lab_vcenter("two-a100")
    with vcenter.desk() as desk:
        moid = next(vm.moid for vm in desk.inventory().vms if vm.name == vcenter.template)
        task = desk.writer.reconfigure_vm(moid, guarded(desk, moid))
        (update,) = desk.writer.wait_for_tasks([task], 10)
        assert not update.state.is_over
        # A property that moves on by itself, as that of a VM's uptime does.
        lab = vcenter.lab
        assert lab is not None
        with lab.transaction():
            vm = lab.state.objects[moid]
            vm.name = "told"
            lab.state.touch(vm)
        asked = desk.session.round_trips
        (update,) = desk.writer.wait_for_tasks([task], 10)
        assert update.state.is_over
        # News of the VM, then those of the task; how far it is was not asked.
        assert desk.session.round_trips == asked + 2


def test_the_end_of_a_task_is_told_although_its_vm_has_gone(desk: Desk, place: Place) -> None:
    moid = desk.made(desk.writer.create_vm(place.from_scratch(SMALL)))
    task = desk.writer.reconfigure_vm(moid, guarded(desk, moid))
    desk.writer.destroy_vm(moid)
    assert desk.done(task).state is TaskState.SUCCESS


def test_a_task_whose_vm_goes_before_it_is_done_is_told_to_have_failed() -> None:
    vcenter = lab_vcenter("two-a100")
    with vcenter.desk() as desk:
        moid = next(vm.moid for vm in desk.inventory().vms if vm.name == vcenter.template)
        task = desk.writer.reconfigure_vm(moid, guarded(desk, moid))
        vim.VirtualMachine(moid, desk.session.stub).UnregisterVM()
        assert desk.done(task).fault == "ManagedObjectNotFound"


def test_an_end_that_was_before_its_filter_is_noticed(desk: Desk, place: Place) -> None:
    moid = desk.made(desk.writer.create_vm(place.from_scratch(SMALL)))
    first, second = (
        desk.writer.reconfigure_vm(moid, VmSpec(settings={"memory": memory})) for memory in (2048, 3072)
    )
    desk.done(first)
    # vcsim tells of a filter that comes later only what changes from then on.
    (update,) = desk.writer.wait_for_tasks([second], 1)
    assert update.state.is_over


def test_waiting_for_nothing_is_over_at_once(desk: Desk) -> None:
    before = desk.session.round_trips
    assert desk.writer.wait_for_tasks([], 60) == ()
    assert desk.session.round_trips == before


def test_a_vm_starts_on_the_host_that_is_named(desk: Desk, place: Place) -> None:
    moid = desk.made(desk.writer.create_vm(place.from_scratch(SMALL)))
    (before,) = desk.reader.read_vms([moid])
    assert desk.done(desk.writer.power_on_vm(moid, before.host_moid)).state is TaskState.SUCCESS
    (after,) = desk.reader.read_vms([moid])
    assert (after.is_on, after.host_moid) == (True, before.host_moid)


def test_a_wait_outlives_its_session(desk: Desk, place: Place) -> None:
    first = desk.made(desk.writer.create_vm(place.from_scratch(SMALL)))
    task = desk.writer.power_on_vm(first)
    desk.session.service_content.sessionManager.Logout()
    assert desk.done(task).state is TaskState.SUCCESS
    assert desk.session.renewals == 1


def test_a_task_that_nobody_knows_is_an_error(desk: Desk, place: Place) -> None:
    for _ in range(MOST_FILTERS):  # what comes behind is put into a list
        known = desk.writer.create_vm(place.from_scratch(SMALL))
        desk.done(known)
    with pytest.raises(VCenterError):
        desk.writer.wait_for_tasks(["task-90001"], 1)


def test_a_guest_is_asked_to_shut_down(desk: Desk, place: Place) -> None:
    moid = desk.made(desk.writer.create_vm(place.cloned(VmSpec())))
    desk.done(desk.writer.power_on_vm(moid))
    assert desk.writer.shut_down_guest(moid) in (True, False)


def test_a_fault_of_a_task_keeps_all_its_words() -> None:
    vcenter = lab_vcenter("two-a100")
    assert vcenter.lab is not None
    with vcenter.desk() as desk:
        place = place_of(vcenter, desk)
        moid = desk.made(desk.writer.create_vm(place.cloned(VmSpec())))
        vcenter.lab.faults.add("PowerOnVM_Task", message="Module 'DevicePowerOn' power on failed.")
        update = desk.done(desk.writer.power_on_vm(moid))
    assert (update.state, update.fault) == (TaskState.ERROR, "GenericVmConfigFault")
    assert "Module 'DevicePowerOn' power on failed." in update.error


def test_a_wait_ends_when_its_time_is_over() -> None:
    vcenter = lab_vcenter("two-a100")
    with vcenter.desk() as desk:
        place = place_of(vcenter, desk)
        task = desk.writer.create_vm(place.cloned(VmSpec()))
        first = desk.writer.wait_for_tasks([task], 0)
        assert [update.state.is_over for update in first] == [False]
        assert desk.writer.wait_for_tasks([task], 0) == ()
        assert desk.done(task).state is TaskState.SUCCESS
