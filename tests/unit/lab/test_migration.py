"""VMs that move: registered elsewhere while they are off, or carried over as they run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyVmomi import vim, vmodl

from tests.unit.lab.group_rig import A100D, PAIR, GroupRig, config, of_groups, rig_of, single
from tests.unit.lab.rig import add, passthrough
from vgpu_cfg.lab.state.devices import vgpu_backing
from vgpu_cfg.lab.state.inventory import Cluster, Datastore, Host, ResourcePool

ONE, TWO = "one.lab", "two.lab"
TEN = "grid_a100d-10c"
SOURCE_TEXT = "A required migration feature is not supported on the \"Source\" host 'one.lab'."

ESTATE = """
about: Two hosts alike but for what a test says, and one elsewhere.
vcenter: {{settings: {{vgpu.hotmigrate.enabled: {hot}}}}}
clusters:
- name: gpu
  drs: manual
  resource_pools: [small]
  hosts:
  - name: one.lab
    memory: 256GiB
    gpus: [{one}]
    nics: [{{model: ConnectX-6 Dx}}]
    networks: [vm-network, only-one]
  - name: two.lab
    esxi: {esxi}
    memory: {memory}
    gpus: [{two}]
    networks: [vm-network]
    datastores: [{stores}]
- name: other
  hosts:
  - name: far.lab
    gpus: [{one}]
datastores: [{{name: vsan}}, {{name: nfs, kind: NFS}}, {{name: tiny, capacity: 1GiB, free: 1GiB}}]
networks: [{{name: vm-network}}, {{name: only-one}}]
"""
PAIR_OF_GPUS = (
    "{board: A100D, pci_id: '0000:21:00.0', nvlink: ['0000:22:00.0']},"
    "{board: A100D, pci_id: '0000:22:00.0', nvlink: ['0000:21:00.0']}"
)


def estate(tmp_path: Path, **parts: str) -> GroupRig:
    values = {
        "hot": "true", "one": PAIR_OF_GPUS, "two": PAIR_OF_GPUS, "esxi": "8.0 U3", "memory": "256GiB",
        "stores": "vsan, nfs, tiny",
    } | parts  # fmt: skip
    return rig_of(ESTATE.format(**values), tmp_path)


def migrate(rig: GroupRig, vm: Any, host: str = TWO, **more: Any) -> Any:
    """Move a VM to a host and return the fault, None where it moved."""
    ref = rig.host(host) if host else None
    return rig.end(vm.MigrateVM_Task(None, ref, "defaultPriority", **more)).error


def relocate(rig: GroupRig, vm: Any, **fields: Any) -> Any:
    return rig.end(vm.RelocateVM_Task(vim.vm.RelocateSpec(**fields))).error


def running(rig: GroupRig, spec: Any = None, **more: Any) -> Any:
    return rig.on("a", spec or config(single(TEN)), host=ONE, **more)


class TestOff:
    @pytest.mark.parametrize("how", ["migrate", "relocate"])
    def test_a_vm_is_registered_at_another_host(self, tmp_path: Path, how: str) -> None:
        rig = estate(tmp_path, hot="false")
        vm = rig.made("a", config(single(TEN)), host=ONE)
        fault = migrate(rig, vm) if how == "migrate" else relocate(rig, vm, host=rig.host(TWO))
        assert fault is None
        assert (rig.where("a"), rig.vm("a").is_on) == (TWO, False)
        rig.done(vm.PowerOnVM_Task())
        assert rig.where("a") == TWO

    def test_fixed_passthrough_stays_and_fails_at_the_power_on(self, tmp_path: Path) -> None:
        gpu = "{board: A100D, pci_id: '0000:21:00.0', mode: passthrough}"
        rig = estate(tmp_path, one=gpu, two=gpu)
        (info,) = rig.host(ONE).parent.environmentBrowser.QueryConfigTarget(rig.host(ONE)).pciPassthrough or [
            None
        ]
        backing = vim.vm.device.VirtualPCIPassthrough.DeviceBackingInfo(
            id=info.pciDevice.id,
            deviceId=format(info.pciDevice.deviceId & 0xFFFF, "x"),
            systemId=info.systemId,
            vendorId=info.pciDevice.vendorId,
            deviceName="",
        )
        vm = rig.made("a", config(add(passthrough(backing))), host=ONE)
        assert migrate(rig, vm) is None
        fault = rig.end(vm.PowerOnVM_Task()).error
        assert "The systemId does not match the current system" in fault.reason
        assert migrate(rig, vm, ONE) is None
        rig.done(vm.PowerOnVM_Task())

    def test_pool_and_cluster_go_together(self, tmp_path: Path) -> None:
        rig = estate(tmp_path)
        vm = rig.made("a", config(), host=ONE)
        pools = {pool.name: pool for pool in rig.lab.state.all(ResourcePool)}
        far = next(each for each in rig.lab.state.all(Cluster) if each.name == "other")
        assert isinstance(relocate(rig, vm, host=rig.host("far.lab")), vmodl.fault.InvalidArgument)
        assert relocate(rig, vm, pool=vim.ResourcePool(pools["small"].moid)) is None
        assert rig.vm("a").resource_pool == pools["small"].moid
        moved = relocate(rig, vm, host=rig.host("far.lab"), pool=vim.ResourcePool(far.resource_pool))
        assert moved is None
        assert (rig.where("a"), rig.vm("a").resource_pool) == ("far.lab", far.resource_pool)
        back = rig.end(vm.MigrateVM_Task(vim.ResourcePool(pools["small"].moid), None, "defaultPriority"))
        assert isinstance(back.error, vmodl.fault.InvalidArgument), "a cluster of several hosts"

    def test_a_datastore_that_the_host_reaches(self, tmp_path: Path) -> None:
        rig = estate(tmp_path, stores="nfs")
        vm = rig.made("a", config(), host=ONE)
        stores = {store.name: vim.Datastore(store.moid) for store in rig.lab.state.all(Datastore)}
        assert isinstance(migrate(rig, vm), vim.fault.InvalidDatastore)
        assert relocate(rig, vm, host=rig.host(TWO), datastore=stores["nfs"]) is None
        assert vm.config.files.vmPathName.startswith("[nfs] ")
        assert [str(store) for store in vm.datastore] == [str(stores["nfs"])]

    def test_files_need_room(self, tmp_path: Path) -> None:
        rig = estate(tmp_path)
        disk = vim.vm.device.VirtualDisk(key=-2, controllerKey=-1, capacityInKB=4 * 2**20)
        controller = vim.vm.device.ParaVirtualSCSIController(key=-1, busNumber=0, sharedBus="noSharing")
        vm = rig.made("a", config(add(controller), add(disk)), host=ONE)
        stores = {store.name: vim.Datastore(store.moid) for store in rig.lab.state.all(Datastore)}
        fault = relocate(rig, vm, host=rig.host(TWO), datastore=stores["tiny"])
        assert isinstance(fault, vim.fault.NoDiskSpace)
        assert rig.where("a") == ONE, "all of it or nothing"
        assert relocate(rig, vm, datastore=stores["nfs"]) is None
        (kept,) = (one for one in vm.config.hardware.device if isinstance(one, vim.vm.device.VirtualDisk))
        backing: Any = kept.backing
        assert backing.fileName.startswith("[nfs] a/")

    @pytest.mark.parametrize("why", ["maintenance", "lost", "old"])
    def test_a_host_that_takes_no_vm(self, tmp_path: Path, why: str) -> None:
        rig = estate(tmp_path, esxi="7.0 U3" if why == "old" else "8.0 U3")
        vm = rig.made("a", config(), host=ONE)
        rig.state(TWO).in_maintenance = why == "maintenance"
        rig.state(TWO).connection = "notResponding" if why == "lost" else "connected"
        expected = {
            "maintenance": vim.fault.InvalidState,
            "lost": vmodl.fault.HostNotReachable,
            "old": vim.fault.VirtualHardwareVersionNotSupported,
        }[why]
        assert isinstance(migrate(rig, vm), expected)
        assert rig.where("a") == ONE


class TestRunning:
    def test_a_vm_moves_with_what_it_holds(self, tmp_path: Path) -> None:
        rig = estate(tmp_path)
        vm = running(rig, of_groups(PAIR))
        booted = vm.runtime.bootTime
        assert migrate(rig, vm) is None
        assert (rig.where("a"), vm.runtime.powerState, vm.runtime.bootTime) == (TWO, "poweredOn", booted)
        assert len(rig.places("a")) == 2
        assert not any(gpu.uses for gpu in rig.state(ONE).gpus)

    @pytest.mark.parametrize(("hot", "moves"), [("false", False), ("true", True)])
    def test_vgpus_move_only_where_vcenter_lets_them(self, tmp_path: Path, hot: str, moves: bool) -> None:
        rig = estate(tmp_path, hot=hot)
        fault = migrate(rig, running(rig))
        assert (fault is None) is moves
        assert moves or isinstance(fault, vim.fault.MigrationDisabled)
        assert moves or fault.msg == (
            "Migration was temporarily disabled due to another migration activity. "
            "vGPU hot migration is not enabled."
        )

    def test_a_vm_without_vgpus_needs_no_setting(self, tmp_path: Path) -> None:
        rig = estate(tmp_path, hot="false")
        assert migrate(rig, running(rig, config())) is None

    @pytest.mark.parametrize("what", ["uvm", "debugging", "profiling"])
    @pytest.mark.parametrize(("value", "moves"), [("1", False), ("0", True)])
    def test_a_plugin_parameter_keeps_it(self, tmp_path: Path, what: str, value: str, moves: bool) -> None:
        rig = estate(tmp_path)
        spec = config(single(A100D), extra={f"pciPassthru0.cfg.enable_{what}": value})
        fault = migrate(rig, running(rig, spec))
        assert (fault is None) is moves
        assert moves or (fault.msg, fault.atSourceHost) == (SOURCE_TEXT, True)

    def test_a_parameter_of_no_vgpu_keeps_nothing(self, tmp_path: Path) -> None:
        rig = estate(tmp_path)
        spec = config(single(TEN), extra={"pciPassthru3.cfg.enable_uvm": "1"})
        assert migrate(rig, running(rig, spec)) is None

    def test_whole_functions_keep_it(self, tmp_path: Path) -> None:
        gpu = "{board: A100D, mode: passthrough, label: whole}"
        rig = estate(tmp_path, one=gpu, two=gpu)
        kind = vim.vm.device.VirtualPCIPassthrough
        allowed = [kind.AllowedDevice(vendorId=0x10DE, deviceId=rig.state(ONE).gpus[0].pci.device_id)]
        backing = kind.DynamicBackingInfo(deviceName="", allowedDevice=allowed, customLabel="whole")
        fault = migrate(rig, running(rig, config(add(passthrough(backing)))))
        assert (fault.msg, fault.failedHostName) == (SOURCE_TEXT, ONE)
        assert isinstance(fault, vim.fault.MigrationFeatureNotSupported)

    def test_a_full_host_takes_none(self, tmp_path: Path) -> None:
        rig = estate(tmp_path)
        rig.on("there", of_groups(PAIR), host=TWO)
        vm = running(rig)
        fault = migrate(rig, vm)
        assert isinstance(fault, vim.fault.InsufficientGraphicsResourcesFault)
        assert rig.places("a", host=ONE)
        rig.done(rig.seen("there").PowerOffVM_Task())
        assert migrate(rig, vm) is None

    def test_a_group_finds_its_nvlink_or_stays(self, tmp_path: Path) -> None:
        rig = estate(tmp_path, two="{board: A100D, count: 2}")
        fault = migrate(rig, running(rig, of_groups(PAIR)))
        assert isinstance(fault, vim.fault.InsufficientGraphicsResourcesFault)
        rig.done(rig.seen("a").PowerOffVM_Task())
        plain = rig.on("b", config(single(A100D), single(A100D, -2)), host=ONE)
        assert migrate(rig, plain) is None, "two vGPUs that are no group go anywhere"

    @pytest.mark.parametrize(("ecc", "moves"), [("true", True), ("false", False)])
    def test_ecc_must_be_the_same(self, tmp_path: Path, ecc: str, moves: bool) -> None:
        rig = estate(tmp_path, two=f"{{board: A100D, ecc: {ecc}}}")
        fault = migrate(rig, running(rig))
        assert (fault is None) is moves
        if not moves:
            assert isinstance(fault, vim.fault.MigrationFeatureNotSupported)
            assert (fault.atSourceHost, fault.failedHostName) == (False, TWO)

    @pytest.mark.parametrize("two", ["{board: A100D, mode: mig}", "{board: A100}", "{board: L40S}"])
    def test_another_mode_or_board_takes_none(self, tmp_path: Path, two: str) -> None:
        rig = estate(tmp_path, two=two)
        assert isinstance(migrate(rig, running(rig)), vim.fault.InsufficientGraphicsResourcesFault)

    def test_mig_slices_move_to_a_gpu_in_mig_mode(self, tmp_path: Path) -> None:
        rig = estate(tmp_path, one="{board: A100D, mode: mig}", two="{board: A100D, mode: mig}")
        assert migrate(rig, running(rig, config(single("grid_a100d-1-10c")))) is None

    def test_memory_must_be_there(self, tmp_path: Path) -> None:
        for memory, moves in (("64GiB", True), ("32GiB", False)):
            rig = estate(tmp_path, memory=memory)
            fault = migrate(rig, running(rig))
            assert (fault is None) is moves
            assert moves or isinstance(fault, vim.fault.InsufficientMemoryResourcesFault)

    @pytest.mark.parametrize("why", ["maintenance", "lost", "old"])
    def test_a_host_that_takes_no_vm(self, tmp_path: Path, why: str) -> None:
        rig = estate(tmp_path, esxi="7.0 U3" if why == "old" else "8.0 U3")
        vm = running(rig)
        rig.state(TWO).in_maintenance = why == "maintenance"
        rig.state(TWO).connection = "disconnected" if why == "lost" else "connected"
        assert migrate(rig, vm) is not None
        assert (rig.where("a"), rig.vm("a").is_on) == (ONE, True)

    def test_its_networks_must_be_there(self, tmp_path: Path) -> None:
        rig = estate(tmp_path)
        for name, moves in (("only-one", False), ("vm-network", True)):
            backing = vim.vm.device.VirtualEthernetCard.NetworkBackingInfo(deviceName=name)
            nic = vim.vm.device.VirtualVmxnet3(key=-1, backing=backing)
            fault = migrate(rig, rig.on(name, config(add(nic)), host=ONE))
            assert (fault is None) is moves
            assert moves or isinstance(fault, vim.fault.CannotAccessNetwork)

    @pytest.mark.parametrize("mandatory", [True, False])
    def test_mandatory_rules_are_kept(self, tmp_path: Path, mandatory: bool) -> None:
        rig = estate(tmp_path)
        vm, other = running(rig), rig.on("b", config(single(TEN)), host=TWO)
        info = vim.cluster.AntiAffinityRuleSpec(
            name="apart", enabled=True, mandatory=mandatory, vm=[vm, other]
        )
        spec = vim.cluster.ConfigSpecEx(rulesSpec=[vim.cluster.RuleSpec(operation="add", info=info)])
        rig.done(rig.host(ONE).parent.ReconfigureComputeResource_Task(spec, modify=True))
        fault = migrate(rig, vm)
        assert (fault is None) is not mandatory
        assert not mandatory or isinstance(fault, vim.fault.RuleViolation)


def test_the_state_that_is_named_must_be_the_vms(tmp_path: Path) -> None:
    rig = estate(tmp_path)
    vm = rig.made("a", config(), host=ONE)
    with pytest.raises(vim.fault.InvalidPowerState):
        vm.MigrateVM_Task(None, rig.host(TWO), "defaultPriority", "poweredOn")
    assert migrate(rig, vm, state="poweredOff") is None


def test_a_move_names_something(tmp_path: Path) -> None:
    rig = estate(tmp_path)
    vm = rig.made("a", config(), host=ONE)
    with pytest.raises(vmodl.fault.InvalidArgument):
        vm.MigrateVM_Task(None, None, "defaultPriority")
    assert migrate(rig, vm, ONE) is None, "where it is already"


def test_a_move_is_a_task_that_excludes_others(tmp_path: Path) -> None:
    rig = estate(tmp_path)
    vm = rig.made("a", config(), host=ONE)
    moving = vm.MigrateVM_Task(None, rig.host(TWO), "defaultPriority")
    assert isinstance(rig.end(vm.PowerOnVM_Task()).error, vim.fault.TaskInProgress)
    assert rig.end(moving).state == "success"
    assert moving.info.descriptionId == "VirtualMachine.migrate"


@pytest.mark.parametrize(("ecc", "moves"), [("true", True), ("false", False)])
def test_maintenance_mode_moves_only_what_could_be_moved(tmp_path: Path, ecc: str, moves: bool) -> None:
    rig = estate(tmp_path, two=f"{{board: A100D, ecc: {ecc}}}")
    cluster = rig.cluster()
    cluster.drs_behavior, cluster.drs_options = "fullyAutomated", {"VgpuMMAutomationTimeoutSecs": "-1"}
    running(rig)
    assert (rig.enter(ONE).state == "success") is moves
    assert rig.where("a") == (TWO if moves else ONE)


def test_a_backing_tells_that_it_migrates_and_a_profile_how_long_it_stops(tmp_path: Path) -> None:
    rig = estate(tmp_path)
    vm = rig.made("a", config(single(TEN)), host=ONE)
    backing = next(one.backing for one in vm.config.hardware.device if one.key == 13000)
    assert (backing.migrateSupported, backing.vgpuMigrateDataSizeMB) == (True, 10240)
    infos = rig.host(ONE).configManager.graphicsManager.RetrieveVgpuProfileInfo()
    times = {info.profileName: [each.stunTime for each in info.stunTimeEstimates] for info in infos}
    assert times[TEN] == sorted(times[TEN], reverse=True)
    assert times[A100D][0] > times[TEN][0] > 0


def test_older_hosts_tell_no_stun_times(tmp_path: Path) -> None:
    rig = estate(tmp_path, esxi="8.0 U1")
    infos = rig.host(TWO).configManager.graphicsManager.RetrieveVgpuProfileInfo()
    assert infos
    assert not any(info.stunTimeEstimates for info in infos)


def test_a_client_sends_back_what_it_read(tmp_path: Path) -> None:
    rig = estate(tmp_path)
    vm = rig.made("a", config(single(TEN)), host=ONE)
    device = next(one for one in vm.config.hardware.device if one.key == 13000)
    edit = vim.vm.device.VirtualDeviceSpec(operation="edit", device=device)
    assert rig.reconfigured(vm, deviceChange=[edit]) is None
    device.backing = vgpu_backing("grid_a100d-20c")
    assert isinstance(rig.reconfigured(vm, deviceChange=[edit]), vim.fault.InvalidDeviceSpec)
    assert not any(gpu.uses for host in rig.lab.state.all(Host) for gpu in host.gpus)
