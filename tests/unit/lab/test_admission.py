"""What the lab refuses at a power-on, each with the twin that it lets through."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyVmomi import vim, vmodl

from tests.unit.lab.rig import Rig, estate_of, gpu_spec, options
from vgpu_cfg.lab.rules.gpu_load import creatable_profiles
from vgpu_cfg.lab.state.inventory import Host

GRAPHICS = "The amount of graphics resource available in the parent resource pool is insufficient"
ONE_HOST = """
about: one host
clusters:
- name: gpu
  hosts:
  - name: esx
    memory: {memory}
    esxi: {esxi}
    graphics_type: {graphics}
    driver: {driver}
    bios: {{sriov: {sriov}}}
    gpus: [{gpus}]
folders: [training]
templates:
- {{name: ubuntu-22.04-efi, hardware_version: {version}}}
"""


def one_host(tmp_path: Path, gpus: str = "{board: A100, count: 2}", **parts: str) -> Rig:
    values = {
        "memory": "512GiB", "esxi": "8.0 U3", "graphics": "sharedDirect", "driver": "{}", "sriov": "true",
        "version": "19",
    } | parts  # fmt: skip
    return Rig(estate_of(ONE_HOST.format(gpus=gpus, **values), tmp_path))


def test_a_full_gpu_takes_no_second_vm() -> None:
    rig = Rig()
    first, second = (rig.running(name, "grid_a100-40c") for name in ("one", "two"))
    assert {*rig.gpu_of(first), *rig.gpu_of(second)} == {"0000:21:00.0", "0000:e2:00.0"}
    fault = rig.refused(rig.clone("three", "grid_a100-40c"), "PowerOnVM_Task")
    assert isinstance(fault, vim.fault.InsufficientGraphicsResourcesFault)
    assert GRAPHICS in repr(fault)
    assert fault.faultMessage[0].message == "No graphics device is available for vGPU 'grid_a100-40c'."
    rig.done(first, "PowerOffVM_Task")
    rig.done(rig.vm("three"), "PowerOnVM_Task")


def test_same_size_mode_locks_a_gpu_to_one_size(tmp_path: Path) -> None:
    rig = one_host(tmp_path, "{board: A100}")
    rig.running("ten", "grid_a100-10c")
    fault = rig.refused(rig.clone("twenty", "grid_a100-20c"), "PowerOnVM_Task")
    assert isinstance(fault, vim.fault.InsufficientGraphicsResourcesFault)
    for name in ("b", "c", "d"):
        rig.running(name, "grid_a100-10c")
    fault = rig.refused(rig.clone("e", "grid_a100-10c"), "PowerOnVM_Task")
    assert isinstance(fault, vim.fault.InsufficientGraphicsResourcesFault)


def test_classes_of_one_size_share_a_gpu_from_8_0_2(tmp_path: Path) -> None:
    for release, allowed in (("8.0 U1", False), ("8.0 U2", True)):
        rig = one_host(tmp_path, "{board: L40S}", esxi=release)
        rig.running("desk", "nvidia_l40s-12q")
        vm = rig.clone("train", "nvidia_l40s-12c")
        assert (rig.run(vm, "PowerOnVM_Task").state == "success") is allowed


def test_seven_slices_and_no_eighth() -> None:
    rig = Rig("mig-a100")
    for number in range(14):
        rig.running(f"s{number}", "grid_a100-1-5c", memory_mib=16384, window_gb=None)
    starts = [[use.start for use in gpu.uses] for gpu in rig.host().gpus]
    assert starts == [[6, 5, 4, 3, 2, 1, 0]] * 2
    fault = rig.refused(rig.clone("s14", "grid_a100-1-5c"), "PowerOnVM_Task")
    assert isinstance(fault, vim.fault.InsufficientGraphicsResourcesFault)


def test_mig_fills_one_gpu_first_and_leaves_room_for_a_4g() -> None:
    rig = Rig("mig-a100")
    for name, profile in (("a", "grid_a100-3-20c"), ("b", "grid_a100-4-20c")):
        rig.running(name, profile)
    first, second = rig.host().gpus
    assert [(use.profile, use.start) for use in first.uses] == [
        ("grid_a100-3-20c", 4),
        ("grid_a100-4-20c", 0),
    ]
    assert second.uses == []


def test_a_gpu_in_mig_mode_takes_only_mig_profiles_and_the_reverse() -> None:
    mig, sliced = Rig("mig-a100"), Rig()
    for rig, profile in ((mig, "grid_a100-10c"), (sliced, "grid_a100-2-10c")):
        vm = rig.clone("wrong", profile)
        assert isinstance(rig.refused(vm, "PowerOnVM_Task"), vim.fault.InsufficientGraphicsResourcesFault)
    for rig, profile in ((sliced, "grid_a100-10c"), (mig, "grid_a100-2-10c")):
        rig.running("right", profile)


def test_only_one_instance_has_the_media_engines() -> None:
    rig = Rig("mig-a100")
    rig.running("a", "grid_a100-1-5cme")
    rig.running("b", "grid_a100-1-5cme")
    assert [len(gpu.uses) for gpu in rig.host().gpus] == [1, 1]
    fault = rig.refused(rig.clone("c", "grid_a100-1-5cme"), "PowerOnVM_Task")
    assert isinstance(fault, vim.fault.InsufficientGraphicsResourcesFault)


def test_mixed_sizes_lie_at_their_placement_ids(tmp_path: Path) -> None:
    rig = one_host(tmp_path, "{board: A100D, mode: mixed_size}")
    for name, profile in (("a", "grid_a100d-16c"), ("b", "grid_a100d-16c"), ("c", "grid_a100d-40c")):
        rig.running(name, profile, window_gb=512)
    (gpu,) = rig.host().gpus
    assert [use.start for use in gpu.uses] == [0, 24, 40]
    fault = rig.refused(rig.clone("d", "grid_a100d-8c"), "PowerOnVM_Task")
    assert isinstance(fault, vim.fault.InsufficientGraphicsResourcesFault), "8 GB are free, at no legal id"
    rig.running("e", "grid_a100d-4c")
    assert gpu.uses[-1].start == 16


def test_graphics_type_in_force_must_be_shared_direct(tmp_path: Path) -> None:
    for graphics, allowed in (
        ("sharedDirect", True),
        ("shared", False),
        ("{configured: sharedDirect, runtime: shared}", False),
    ):
        rig = one_host(tmp_path, graphics=graphics)
        task = rig.run(rig.clone("a", "grid_a100-10c"), "PowerOnVM_Task")
        assert (task.state == "success") is allowed
        if not allowed:
            assert isinstance(task.fault, vim.fault.InsufficientGraphicsResourcesFault)


def test_without_a_host_driver_nothing_is_known(tmp_path: Path) -> None:
    rig = one_host(tmp_path, driver="none")
    fault = rig.refused(**rig.clone_call("a", "grid_a100-10c"))
    assert isinstance(fault, vim.fault.InvalidDeviceBacking)


def test_the_graphics_driver_has_no_c_types(tmp_path: Path) -> None:
    rig = one_host(tmp_path, "{board: L40S}", driver="{kind: vgpu}")
    assert isinstance(rig.refused(**rig.clone_call("a", "nvidia_l40s-12c")), vim.fault.InvalidDeviceBacking)
    rig.running("b", "nvidia_l40s-12q")


def test_sriov_off_in_the_bios_fails_the_plugin(tmp_path: Path) -> None:
    rig = one_host(tmp_path, sriov="false")
    fault = rig.refused(rig.clone("a", "grid_a100-10c"), "PowerOnVM_Task")
    assert fault.reason == "Could not initialize plugin 'libnvidia-vgx.so' for vGPU 'grid_a100-10c'."
    turing = one_host(tmp_path, "{board: T4}", sriov="false")
    turing.running("a", "grid_t4-8c")


def test_all_memory_must_be_reserved() -> None:
    rig = Rig()
    vm = rig.clone("a", "grid_a100-40c", reserve=False, memory_mib=32768)
    fault = rig.refused(vm, "PowerOnVM_Task")
    assert isinstance(fault, vim.fault.GenericVmConfigFault)
    assert fault.reason == (
        "Invalid memory setting: memory reservation (sched.mem.min) should be equal to memsize(32768)."
    )
    rig.done(vm, "ReconfigVM_Task", spec=vim.vm.ConfigSpec(memoryReservationLockedToMax=True))
    rig.done(vm, "PowerOnVM_Task")


@pytest.mark.parametrize(
    ("firmware", "window_gb", "memory_mib", "allowed"),
    [
        ("efi", 128, 65536, True),
        ("efi", 64, 65536, False),
        ("efi", None, 65536, False),
        ("efi", None, 16384, True),
        ("bios", 128, 65536, False),
        ("bios", 128, 16384, False),
    ],
)
def test_firmware_and_window_carry_the_bar(
    firmware: str, window_gb: int | None, memory_mib: int, allowed: bool
) -> None:
    rig = Rig()
    vm = rig.clone("a", "grid_a100-40c", firmware=firmware, window_gb=window_gb, memory_mib=memory_mib)
    task = rig.run(vm, "PowerOnVM_Task")
    assert (task.state == "success") is allowed
    if not allowed:
        assert task.fault.reason == "Module 'DevicePowerOn' power on failed."
        assert vm.log[0].startswith("PCIPassthru: total number of pages needed (")
        assert "exceeds limit (" in vm.log[0]


def test_a_gpu_without_a_large_bar_needs_no_window(tmp_path: Path) -> None:
    rig = one_host(tmp_path, "{board: T4}")
    rig.running("a", "grid_t4-16c", firmware="bios", window_gb=None)


def test_two_gpus_need_the_window_of_both() -> None:
    rig = Rig()
    vm = rig.clone("a", "grid_a100-40c", "grid_a100-40c", window_gb=128)
    assert rig.refused(vm, "PowerOnVM_Task").reason == "Module 'DevicePowerOn' power on failed."
    rig.done(
        vm,
        "ReconfigVM_Task",
        spec=vim.vm.ConfigSpec(extraConfig=options(**{"pciPassthru.64bitMMIOSizeGB": "256"})),
    )
    rig.done(vm, "PowerOnVM_Task")
    assert sorted(rig.gpu_of(vm)) == ["0000:21:00.0", "0000:e2:00.0"]


def test_memory_left_for_reservations() -> None:
    rig = Rig()
    rig.running("a", "grid_a100-40c", memory_mib=400 * 1024)
    fault = rig.refused(rig.clone("b", "grid_a100-40c", memory_mib=200 * 1024), "PowerOnVM_Task")
    assert isinstance(fault, vim.fault.InsufficientMemoryResourcesFault)
    assert fault.requested == 200 * 2**30
    rig.running("c", "grid_a100-40c", memory_mib=100 * 1024)


def test_numa_affinity_names_nodes_of_the_host() -> None:
    for value, allowed in (("0", True), ("0,1", True), ("2", False), ("0, 1", False), ("x", False)):
        rig = Rig()
        vm = rig.clone("a", "grid_a100-40c", extra={"numa.nodeAffinity": value})
        assert (rig.run(vm, "PowerOnVM_Task").state == "success") is allowed


def test_hardware_versions_limit_vgpus(tmp_path: Path) -> None:
    for version, most in (("13", 1), ("19", 4), ("20", 8)):
        rig = one_host(tmp_path, "{board: A100, count: 9}", version=version)
        rig.clone("ok", *["grid_a100-40c"] * most)
        fault = rig.refused(**rig.clone_call("many", *["grid_a100-40c"] * (most + 1)))
        assert isinstance(fault, vim.fault.TooManyDevices)


def test_an_old_host_runs_no_new_hardware_version(tmp_path: Path) -> None:
    rig = one_host(tmp_path, esxi="7.0 U2", version="20")
    host = rig.host()
    vm = rig.vm("ubuntu-22.04-efi")
    rig.lab.call(
        vm, "MarkAsVirtualMachine", pool=vim.ResourcePool(rig.lab.state.cluster_of(host).resource_pool)
    )
    assert isinstance(rig.refused(vm, "PowerOnVM_Task"), vim.fault.VirtualHardwareVersionNotSupported)


def test_before_8_0_several_vgpus_are_whole_gpus(tmp_path: Path) -> None:
    rig = one_host(tmp_path, esxi="7.0 U2")
    fractions = rig.clone("a", "grid_a100-20c", "grid_a100-20c")
    assert "libnvidia-vgx.so" in rig.refused(fractions, "PowerOnVM_Task").reason
    rig.running("b", "grid_a100-40c", "grid_a100-40c")


def test_hosts_that_cannot_be_used() -> None:
    rig = Rig("mixed-fleet")
    for host, kind in (
        ("esx-a100-05.lab", vmodl.fault.HostNotReachable),
        ("esx-a100-06.lab", vim.fault.InvalidState),
    ):
        assert isinstance(rig.refused(**rig.clone_call("x", "grid_a100d-80c", host=host)), kind)
    rig.clone("y", "grid_a100d-80c", host="esx-a100-02.lab")


def test_a_template_and_a_running_vm_do_not_power_on() -> None:
    rig = Rig()
    assert isinstance(rig.refused(rig.vm("ubuntu-22.04-efi"), "PowerOnVM_Task"), vmodl.fault.NotSupported)
    fault = rig.refused(rig.running("a", "grid_a100-40c"), "PowerOnVM_Task")
    assert (fault.requestedState, fault.existingState) == ("poweredOn", "poweredOn")


def test_what_can_be_created_now_follows_what_runs() -> None:
    rig = Rig()
    assert "grid_a100-40c" in creatable_profiles(rig.host())
    assert "grid_a100-1-5c" not in creatable_profiles(rig.host())
    rig.running("a", "grid_a100-10c")
    rig.running("b", "grid_a100-40c")
    assert creatable_profiles(rig.host()) == ("grid_a100-10c",)


@pytest.mark.parametrize("choice", ["least_loaded", "lowest", "random"])
def test_the_host_chooses_the_gpu(choice: str) -> None:
    first, second = "0000:21:00.0", "0000:e2:00.0"
    match choice:
        case "least_loaded":
            assert _gpus_chosen(choice) == [first, second, first, second]
        case "lowest":
            assert _gpus_chosen(choice) == [first] * 4
        case _:
            assert _gpus_chosen(choice) == _gpus_chosen(choice)
            assert len({tuple(_gpus_chosen(choice, seed)) for seed in range(5)}) > 1


def _gpus_chosen(choice: str, seed: int = 3) -> list[str]:
    rig = Rig(gpu_choice=choice, seed=seed)
    return [rig.gpu_of(rig.running(name, "grid_a100-10c"))[0] for name in "abcd"]


def test_consolidation_fills_a_gpu_before_the_next() -> None:
    rig = Rig()
    rig.host().assignment_policy = "consolidation"
    used = [rig.gpu_of(rig.running(name, "grid_a100-10c"))[0] for name in "abcde"]
    assert used == ["0000:21:00.0"] * 4 + ["0000:e2:00.0"]


def test_too_many_processors_for_the_host() -> None:
    rig = Rig()
    spec = gpu_spec("grid_a100-40c")
    spec.numCPUs, spec.numCoresPerSocket = 200, 2
    vm = rig.clone("a", config=spec)
    assert isinstance(rig.refused(vm, "PowerOnVM_Task"), vim.fault.NumVirtualCpusNotSupported)
    assert rig.find(Host).threads == 128
