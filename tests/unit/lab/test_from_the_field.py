"""Refusals that people reported: each request is sent to the lab, with a twin that succeeds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyVmomi import vim

from tests.page_tables import as_code, hold_table
from tests.unit.lab.guest.guest_rig import DRIVER, GuestRig, module
from tests.unit.lab.host_rig import BUNDLE_8, HostRig
from tests.unit.lab.rig import TEMPLATE, Rig, add, change, disk, estate_of, gpu_spec, options
from tests.unit.lab.wire.test_esxcli import answer, refused
from vgpu_cfg.lab.rules.refusals import reported, text_of
from vgpu_cfg.lab.state.devices import disks_of, nics_of
from vgpu_cfg.lab.state.inventory import (
    Cluster,
    Datastore,
    DistributedSwitch,
    Folder,
    Network,
    ResourcePool,
    VirtualMachine,
)

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "lab-refusals.md"
KNOWN = {"both": "fault, text", "fault": "fault", "text": "text", "rule": "that it is rejected"}
ConfigSpec = vim.vm.ConfigSpec
GROWN = ConfigSpec(deviceChange=[change("edit", disk(100 * 1024, key=2000))])
ESTATE = """
about: one host
clusters:
- name: gpu
  drs: {drs}
  admission_control: {kept}
  resource_pools: [open, {{name: small, memory_limit: 64GiB}}, {{name: fixed, memory_reservation: 64GiB}}]
  hosts:
  - name: esx
    memory: 512GiB
    esxi: {esxi}
    cpu: {{model: Intel Xeon, cores: 128}}
    gpus: [{{board: A100}}, {{board: A100, mode: passthrough}}]
    networks: [vm-network]
datastores: [{{name: vsan, kind: VMFS, free: {free}}}, {{name: old, maintenance: true}}]
switches: [{{name: dvs}}]
networks: [{{name: vm-network}}, {{name: far, switch: dvs}}]
folders: [training]
templates:
- {{name: ubuntu-22.04-efi, nested: {nested}, guest: {{tools: {tools}}}, snapshots: [{snapshots}]}}
beside:
- {{datacenter: dc2, folders: [elsewhere], clusters: [{{name: other, hosts: [{{name: esx-2}}]}}]}}
"""
KEYS = {
    "drs": "manual", "kept": 0, "esxi": "8.0 U3", "free": "1TiB", "nested": "false", "tools": "true",
    "snapshots": "",
}  # fmt: skip


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return of(tmp_path)


def of(tmp_path: Path, **keys: object) -> Rig:
    return Rig(estate_of(ESTATE.format(**KEYS | keys), tmp_path))


def same(row: str, fault: Any, **values: object) -> bool:
    """Whether a fault is that of a row, with its text."""
    return type(fault).__name__.endswith(reported()[row].fault) and fault.msg == text_of(row, **values)


def no_power(rig: Rig, vm: VirtualMachine) -> Any:
    return rig.refused(vm, "PowerOnVM_Task")


def whole(rig: Rig) -> VirtualMachine:
    """Return a VM that runs with a whole GPU of its host."""
    host = rig.host("esx")
    gpu = host.gpus[1]
    backing = vim.vm.device.VirtualPCIPassthrough.DeviceBackingInfo(
        id=gpu.pci_id, deviceId="20f1", systemId=host.system_id, vendorId=0x10DE, deviceName="A100"
    )
    return rig.running("whole", devices=(backing,), cluster="gpu")


def clone(rig: Rig, name: str, *profiles: str, **more: Any) -> VirtualMachine:
    return rig.clone(name, *profiles, cluster="gpu", **more)


def test_disk_with_parents(rig: Rig, tmp_path: Path) -> None:
    vm = clone(rig, "a")
    rig.done(vm, "ReconfigVM_Task", spec=GROWN)
    rig.done(vm, "CreateSnapshot_Task", name="s", memory=False, quiesce=False)
    larger = ConfigSpec(deviceChange=[change("edit", disk(200 * 1024, key=2000))])
    assert same("disk-with-parents", rig.refused(vm, "ReconfigVM_Task", spec=larger), deviceIndex=0)
    rig.done(vm, "RemoveAllSnapshots_Task")
    rig.done(vm, "ReconfigVM_Task", spec=larger)

    rig = of(tmp_path, snapshots="base")
    call = rig.clone_call("b", cluster="gpu", config=GROWN)
    assert same("disk-with-parents", rig.refused(**call), deviceIndex=0)
    call["spec"].location.diskMoveType = "moveAllDiskBackingsAndConsolidate"
    rig.done(**call)
    assert disks_of(rig.vm("b").devices)[0].backing.parent is None
    clone(rig, "c")


def test_nested_with_passthrough(rig: Rig) -> None:
    vm = clone(rig, "a", "grid_a100-10c")
    exposed = ConfigSpec(nestedHVEnabled=True)
    assert same("nested-with-passthrough", rig.refused(vm, "ReconfigVM_Task", spec=exposed))
    rig.done(clone(rig, "plain"), "ReconfigVM_Task", spec=exposed)


def test_nested_template_with_passthrough(tmp_path: Path) -> None:
    rig = of(tmp_path, nested="true")
    call = rig.clone_call("a", "grid_a100-10c", cluster="gpu")
    assert same("nested-with-passthrough", rig.refused(**call))
    call["spec"].config.nestedHVEnabled = False
    rig.done(**call)


@pytest.mark.parametrize("esxi", ["7.0 U3", "8.0 U3"])
def test_iommu_with_vgpu(tmp_path: Path, esxi: str) -> None:
    rig = of(tmp_path, esxi=esxi)
    names = ("vvtd.enable", "pciPassthru.vmiop.allowViommu", "pciPassthru.vmiop.enableViommu")
    keys = dict.fromkeys(names, "TRUE")
    for name, extra, cpus, runs in (
        ("a", {}, 128, False), ("b", {}, 126, True), ("c", keys, 128, esxi.startswith("8")),
    ):  # fmt: skip
        spec = gpu_spec("grid_a100-10c", extra=extra)
        spec.numCPUs, spec.numCoresPerSocket = cpus, 2
        vm = clone(rig, name, config=spec)
        assert runs or same("iommu-with-vgpu", no_power(rig, vm))
        if runs:
            rig.done(vm, "PowerOnVM_Task")


def test_snapshot_with_passthrough(rig: Rig) -> None:
    vm = whole(rig)
    taken = {"name": "s", "memory": False, "quiesce": False}
    assert same("snapshot-with-passthrough", rig.refused(vm, "CreateSnapshot_Task", **taken))
    assert same(
        "snapshot-with-passthrough", rig.refused(**rig.clone_call("b", source="whole", cluster="gpu"))
    )
    plain = clone(rig, "a", "grid_a100-10c")
    rig.done(plain, "PowerOnVM_Task")
    rig.done(plain, "CreateSnapshot_Task", **taken)


def test_suspend_with_passthrough(rig: Rig) -> None:
    assert same("suspend-with-passthrough", rig.refused(whole(rig), "SuspendVM_Task"))
    plain = clone(rig, "a", "grid_a100-10c")
    rig.done(plain, "PowerOnVM_Task")
    rig.done(plain, "SuspendVM_Task")


def test_memory_snapshot_of_independent_disk(rig: Rig) -> None:
    vm = clone(rig, "a")
    flat = vim.vm.device.VirtualDisk.FlatVer2BackingInfo(diskMode="independent_persistent", fileName="")
    device = vim.vm.device.VirtualDisk(key=-1, controllerKey=1000, capacityInKB=2**20, backing=flat)
    created = vim.vm.device.VirtualDeviceSpec(operation="add", fileOperation="create", device=device)
    rig.done(vm, "ReconfigVM_Task", spec=ConfigSpec(deviceChange=[created]))
    rig.done(vm, "PowerOnVM_Task")
    taken = {"name": "s", "quiesce": False}
    fault = rig.refused(vm, "CreateSnapshot_Task", memory=True, **taken)
    assert same("memory-snapshot-of-independent-disk", fault)
    rig.done(vm, "CreateSnapshot_Task", memory=False, **taken)


@pytest.mark.parametrize("tools", ["true", "false"])
def test_customization_without_tools(tmp_path: Path, tools: str) -> None:
    rig = of(tmp_path, tools=tools)
    kinds = vim.vm.customization
    spec = kinds.Specification(
        identity=kinds.LinuxPrep(domain="example.com", hostName=kinds.FixedName(name="a")),
        globalIPSettings=kinds.GlobalIPSettings(),
        nicSettingMap=[kinds.AdapterMapping(adapter=kinds.IPSettings(ip=kinds.DhcpIpGenerator()))],
    )
    call = rig.clone_call("a", cluster="gpu")
    call["spec"].customization = spec
    if tools == "true":
        rig.done(**call)
    else:
        assert same("customization-without-tools", rig.refused(**call))


def test_reserved_mac(rig: Rig) -> None:
    vm = clone(rig, "a")
    nic = nics_of(vm.devices)[0]
    for mac, runs in (
        ("00:0c:29:00:00:01", False),
        ("00:50:56:40:00:01", False),
        ("00:50:56:3f:00:01", True),
    ):
        device = vim.vm.device.VirtualVmxnet3(key=nic.key, macAddress=mac, addressType="manual")
        rig.done(vm, "ReconfigVM_Task", spec=ConfigSpec(deviceChange=[change("edit", device)]))
        assert runs or same("reserved-mac", no_power(rig, vm), mac=mac)
    rig.done(vm, "PowerOnVM_Task")
    unchecked = ConfigSpec(extraConfig=options(**{"ethernet0.checkMACAddress": "false"}))
    other = clone(rig, "b", config=unchecked)
    device = vim.vm.device.VirtualVmxnet3(key=nic.key, macAddress="00:0c:29:00:00:01", addressType="manual")
    rig.done(other, "ReconfigVM_Task", spec=ConfigSpec(deviceChange=[change("edit", device)]))
    rig.done(other, "PowerOnVM_Task")


@pytest.mark.parametrize("name", ["n" * 81, "a/" * 20 + "n"])
def test_name_too_long(rig: Rig, name: str) -> None:
    assert same("name-too-long", rig.refused(**rig.clone_call(name, cluster="gpu")), name=name)
    clone(rig, name[:-1])


def test_memory_not_of_4_mib(rig: Rig) -> None:
    vm = clone(rig, "a", memory_mib=16386)
    assert same("memory-not-of-4-mib", no_power(rig, vm), memory=16386)
    rig.done(vm, "ReconfigVM_Task", spec=ConfigSpec(memoryMB=16388))
    rig.done(vm, "PowerOnVM_Task")


def test_unknown_guest_id(rig: Rig) -> None:
    vm, where = clone(rig, "a"), "configSpec.guestId"
    fault = rig.refused(vm, "ReconfigVM_Task", spec=ConfigSpec(guestId="ubuntu-64"))
    assert same("unknown-guest-id", fault, invalidProperty=where)
    assert fault.invalidProperty == where
    rig.done(vm, "ReconfigVM_Task", spec=ConfigSpec(guestId="rhel9_64Guest"))


def test_no_room_for_swap(tmp_path: Path) -> None:
    rig = of(tmp_path, free="48GiB")
    vm = clone(rig, "a", reserve=False)
    assert same("no-room-for-swap", no_power(rig, vm))
    rig.done(
        vm, "ReconfigVM_Task", spec=ConfigSpec(memoryAllocation=vim.ResourceAllocationInfo(reservation=32768))
    )
    rig.done(vm, "PowerOnVM_Task")


def test_too_many_sockets(rig: Rig) -> None:
    vm, where = clone(rig, "a"), "configSpec.numCPUs"
    fault = rig.refused(vm, "ReconfigVM_Task", spec=ConfigSpec(numCPUs=130))
    assert same("too-many-sockets", fault, invalidProperty=where)
    rig.done(vm, "ReconfigVM_Task", spec=ConfigSpec(numCPUs=128, numCoresPerSocket=2, cpuHotAddEnabled=True))
    rig.done(vm, "PowerOnVM_Task")
    fault = rig.refused(vm, "ReconfigVM_Task", spec=ConfigSpec(numCPUs=130))
    assert same("too-many-sockets", fault, invalidProperty=where)


def test_disk_above_62_tib(rig: Rig) -> None:
    vm = clone(rig, "a")
    huge = ConfigSpec(deviceChange=[change("edit", disk(63 * 2**20, key=2000))])
    assert same("disk-above-62-tib", rig.refused(vm, "ReconfigVM_Task", spec=huge), deviceIndex=0)
    large = ConfigSpec(deviceChange=[change("edit", disk(62 * 2**20, key=2000))])
    rig.done(vm, "ReconfigVM_Task", spec=large)


def test_switch_of_other_hosts(rig: Rig) -> None:
    far, switch = rig.find(Network, "far"), rig.find(DistributedSwitch)
    port = vim.dvs.PortConnection(portgroupKey=far.moid, switchUuid=switch.uuid)
    backing = vim.vm.device.VirtualEthernetCard.DistributedVirtualPortBackingInfo(port=port)
    spec = ConfigSpec(deviceChange=[add(vim.vm.device.VirtualVmxnet3(key=-1, backing=backing))])
    vm, where = clone(rig, "a"), "spec.deviceChange.device.port.switchUuid"
    assert same("switch-of-other-hosts", rig.refused(vm, "ReconfigVM_Task", spec=spec), invalidProperty=where)
    rig.host("esx").networks.append(far.moid)
    rig.done(vm, "ReconfigVM_Task", spec=spec)


def test_two_datacenters(rig: Rig) -> None:
    call = rig.clone_call("a", cluster="gpu", folder="elsewhere")
    fault = rig.refused(**call)
    assert same("two-datacenters", fault, invalidProperty="spec.location.host")
    assert isinstance(fault.faultCause, vim.fault.DatacenterMismatch)
    call["folder"] = vim.Folder(rig.find(Folder, "training").moid)
    rig.done(**call)


def test_datastore_in_maintenance(rig: Rig) -> None:
    call = rig.clone_call("a", cluster="gpu")
    call["spec"].location.datastore = vim.Datastore(rig.find(Datastore, "old").moid)
    assert same("datastore-in-maintenance", rig.refused(**call))
    call["spec"].location.datastore = vim.Datastore(next(iter(rig.host("esx").datastores)))
    rig.done(**call)


def test_template_is_not_changed(rig: Rig) -> None:
    template = rig.vm(TEMPLATE)
    assert same(
        "template-is-not-changed", rig.refused(template, "ReconfigVM_Task", spec=ConfigSpec(numCPUs=2))
    )
    rig.done(template, "ReconfigVM_Task", spec=ConfigSpec(annotation="golden"))
    pool = vim.ResourcePool(rig.find(Cluster, "gpu").resource_pool)
    rig.lab.call(template, "MarkAsVirtualMachine", pool=pool, host=None)
    rig.done(template, "ReconfigVM_Task", spec=ConfigSpec(numCPUs=2))


@pytest.mark.parametrize(("kept", "runs"), [(50, False), (25, True)])
def test_failover_capacity(tmp_path: Path, kept: int, runs: bool) -> None:
    rig = of(tmp_path, kept=kept)
    vm = clone(rig, "a", memory_mib=256 * 1024)
    assert runs or same("failover-capacity", no_power(rig, vm))
    assert not runs or rig.done(vm, "PowerOnVM_Task") is None


@pytest.mark.parametrize("pool", ["small", "fixed"])
def test_pool_limit(rig: Rig, pool: str) -> None:
    call = rig.clone_call("a", cluster="gpu", memory_mib=65540)
    call["spec"].location.pool = vim.ResourcePool(rig.find(ResourcePool, pool).moid)
    rig.done(**call)
    assert same("pool-limit", no_power(rig, rig.vm("a")))
    rig.done(rig.vm("a"), "ReconfigVM_Task", spec=ConfigSpec(memoryMB=65536))
    rig.done(rig.vm("a"), "PowerOnVM_Task")


@pytest.mark.parametrize("drs", ["manual", "off"])
def test_pool_without_drs(tmp_path: Path, drs: str) -> None:
    rig = of(tmp_path, drs=drs)
    root = rig.lab.state.get(rig.find(Cluster, "gpu").resource_pool, ResourcePool)
    usual = vim.ResourceAllocationInfo(reservation=0, limit=-1, expandableReservation=True)
    call = {"name": "p", "spec": vim.ResourceConfigSpec(cpuAllocation=usual, memoryAllocation=usual)}
    if drs == "manual":
        rig.lab.call(root, "CreateResourcePool", **call)
        return
    with pytest.raises(Exception, match="not supported") as caught:
        rig.lab.call(root, "CreateResourcePool", **call)
    assert same("pool-without-drs", caught.value)


def test_unsigned_vib() -> None:
    rig = HostRig()
    rig.rest()
    host = rig.state()
    host.bundles[BUNDLE_8] = tuple(replace(vib, level="CommunitySupported") for vib in host.bundles[BUNDLE_8])
    text = text_of("unsigned-vib", vib="", level="community", of_host="partner").removeprefix("VIB ")
    said = refused(rig, "software.vib.install", depot=BUNDLE_8)
    assert "[AcceptanceConfigError]" in said
    assert text.partition("'s ")[2] in said
    host.acceptance = "CommunitySupported"
    answer(rig, "software.vib.install", depot=BUNDLE_8)


@pytest.mark.parametrize("package", ["https://files.lab/NVIDIA-Linux-x86_64-580.95.05.run", DRIVER])
def test_data_center_driver_on_vgpu(package: str) -> None:
    rig = GuestRig()
    rig.staged(module("nouveau"), module("driver", package=package, sha256="", branches=[], refused=[]))
    runs = package == DRIVER
    assert rig.states()["driver"] == ("done" if runs else "failed")
    assert runs or "installed in this system is not supported by the NVRM" in rig.why("driver")


@pytest.mark.parametrize("signs", [True, False])
def test_unsigned_module(signs: bool) -> None:
    rig = GuestRig()
    template = rig.vm("ubuntu-22.04-plain")
    template.secure_boot = True
    assert template.made_guest is not None
    template.made_guest.signs_modules = signs
    rig.staged(module("nouveau"), module("driver", package=DRIVER, sha256="", branches=[], refused=[]))
    assert rig.states()["driver"] == ("done" if signs else "failed")
    assert signs or rig.why("driver") == text_of("unsigned-module")


def test_every_row_has_a_test() -> None:
    tests = {name.removeprefix("test_").replace("_", "-") for name in globals() if name.startswith("test_")}
    assert {name.removesuffix("s") for name in reported()} <= {name.removesuffix("s") for name in tests}


def test_enough_is_rejected_and_each_rejection_has_a_source() -> None:
    sources = [row.source for row in reported().values()]
    assert len(sources) >= 15
    assert [one for one in sources if not one.startswith(("https://", "VMware ESXi ", "vSphere "))] == []


def test_the_page_has_the_rows() -> None:
    rows = (
        f"| `{name}` | {as_code(row.when)} | `{row.fault}` | {KNOWN[row.known]} | {_linked(row.source)} |"
        for name, row in reported().items()
    )
    hold_table(
        PAGE,
        "\n".join(["| Name | Rejected if | Fault | Source has | Source |", "|---|---|---|---|---|", *rows]),
    )


def _linked(source: str) -> str:
    return f"<{source}>" if source.startswith("https://") else source
