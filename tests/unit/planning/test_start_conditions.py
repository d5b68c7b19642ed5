"""What of a VM would keep it from starting, and what is ruled out: every thing wrong, and right."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plans.estate import make_inventory
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.vm import PassthroughDevice, PowerState, VgpuDevice, Vm
from vgpu_cfg.planning.remedies.start_conditions import (
    ConditionKind,
    ConditionState,
    StartCondition,
    check_conditions,
)

A, B = "0000:21:00.0", "0000:e2:00.0"
RIGHT_MMIO = {"pciPassthru.use64bitMMIO": "TRUE", "pciPassthru.64bitMMIOSizeGB": "128"}


def a100(pci: str = A, **more: Any) -> dict[str, Any]:
    return {"board": "A100", "pci": pci, "node": 0} | more


def ready(**detail: Any) -> dict[str, Any]:
    """Say of a VM's detail what is not as a start needs it."""
    return {
        "firmware": "efi",
        "memory_mib": 65536,
        "memory_reservation_locked": True,
        "extra_config": RIGHT_MMIO,
        "hardware_version": 21,
    } | detail


def estate(
    host: dict[str, Any] | None = None, vms: dict[str, Any] | None = None, **detail: Any
) -> tuple[Vm, Inventory]:
    """Make the VM "late", which is off and has one grid_a100-40c, on a host with one A100."""
    late = {"host": "esx-01", "gpus": ["grid_a100-40c"], "power": "poweredOff", "memory_gib": 64}
    observed = make_inventory(
        {"hosts": {"esx-01": {"gpus": [a100()]} | (host or {})}, "vms": {"late": late} | (vms or {})}
    )
    vm = next(one for one in observed.vms if one.name == "late")
    assert vm.detail is not None
    vm = vm.model_copy(update={"detail": vm.detail.model_copy(update=ready(**detail))})
    others = tuple(one for one in observed.vms if one.name != "late")
    return vm, observed.model_copy(update={"vms": (*others, vm)})


def assessed(vm: Vm, observed: Inventory) -> dict[ConditionKind, StartCondition]:
    found = check_conditions(vm, observed, load_catalog())
    assert len({one.about for one in found}) == len(found)
    return {one.about: one for one in found}


def test_of_a_vm_that_is_ready_everything_is_ruled_out() -> None:
    found = assessed(*estate())
    assert {one.verdict for one in found.values()} == {ConditionState.RIGHT}
    assert set(found) == set(ConditionKind) - {ConditionKind.CPUS, ConditionKind.PASSTHROUGH}
    assert found[ConditionKind.MMIO].says == "64-bit MMIO 128 GB"
    assert found[ConditionKind.HARDWARE_VERSION].says == "hardware version 21"
    assert not any(one.command for one in found.values())


@pytest.mark.parametrize(
    ("detail", "about", "says", "command"),
    [
        (
            {"firmware": "bios"},
            ConditionKind.FIRMWARE,
            "firmware is bios, but must be EFI (a guest installed in BIOS mode will no longer boot)",
            "device.boot -vm {} -firmware efi",
        ),
        (
            {"memory_reservation_locked": False, "memory_reservation_mib": 1024},
            ConditionKind.MEMORY,
            "1024 of 65536 MiB reserved",
            "vm.change -vm {} -memory-pin=true",
        ),
        (
            {"extra_config": {}},
            ConditionKind.MMIO,
            "pciPassthru.use64bitMMIO is not set, but must be TRUE",
            "vm.change -vm {} -e pciPassthru.use64bitMMIO=TRUE -e pciPassthru.64bitMMIOSizeGB=128",
        ),
        (
            {"extra_config": RIGHT_MMIO | {"pciPassthru.use64bitMMIO": "FALSE"}},
            ConditionKind.MMIO,
            "pciPassthru.use64bitMMIO is FALSE, but must be TRUE",
            "vm.change",
        ),
        (
            {"extra_config": RIGHT_MMIO | {"pciPassthru.64bitMMIOSizeGB": "64"}},
            ConditionKind.MMIO,
            "pciPassthru.64bitMMIOSizeGB is 64, but must be 128",
            "vm.change",
        ),
        (
            {"extra_config": {"pciPassthru.use64bitMMIO": "TRUE"}},
            ConditionKind.MMIO,
            "pciPassthru.64bitMMIOSizeGB is not set, but must be 128",
            "vm.change",
        ),
        (
            {"extra_config": RIGHT_MMIO | {"pciPassthru.64bitMMIOSizeGB": "much"}},
            ConditionKind.MMIO,
            "pciPassthru.64bitMMIOSizeGB is much, but must be 128",
            "vm.change",
        ),
        ({"hardware_version": 22}, ConditionKind.HARDWARE_VERSION, "esx-01 supports up to 21", ""),
        (
            {"hardware_version": 10},
            ConditionKind.HARDWARE_VERSION,
            "its devices require 11",
            "vm.upgrade -version=11 -vm {}",
        ),
        ({"cpus": 129}, ConditionKind.CPUS, "129 vCPUs require a virtual IOMMU", ""),
    ],
)
def test_what_is_wrong_with_the_vm_is_said_with_the_command_that_mends_it(
    detail: dict[str, Any], about: ConditionKind, says: str, command: str
) -> None:
    found = assessed(*estate(**detail))
    assert found[about].verdict is ConditionState.WRONG
    assert says in found[about].says
    assert command.format("/dc1/vm/training/late") in found[about].command
    assert bool(command) is bool(found[about].command)
    assert [one.about for one in found.values() if one.verdict is not ConditionState.RIGHT] == [about]


@pytest.mark.parametrize(
    ("detail", "about"),
    [
        ({"memory_reservation_locked": False, "memory_reservation_mib": 65536}, ConditionKind.MEMORY),
        (
            {"extra_config": {"PCIpassthru.use64bitmmio": "true", "pciPassthru.64bitMMIOSizeGB": "512"}},
            ConditionKind.MMIO,
        ),
        ({"firmware": "EFI"}, ConditionKind.FIRMWARE),
        (
            {"cpus": 129, "extra_config": RIGHT_MMIO | {"pciPassthru.vmiop.allowViommu": "TRUE"}},
            ConditionKind.CPUS,
        ),
    ],
)
def test_what_is_right_in_another_way_is_right(detail: dict[str, Any], about: ConditionKind) -> None:
    assert assessed(*estate(**detail))[about].verdict is ConditionState.RIGHT


@pytest.mark.parametrize(
    ("detail", "about"),
    [
        ({"firmware": ""}, ConditionKind.FIRMWARE),
        ({"hardware_version": None}, ConditionKind.HARDWARE_VERSION),
        ({"extra_config": {}, "memory_mib": 16384}, ConditionKind.MMIO),
    ],
)
def test_what_is_not_known_is_not_called_right(detail: dict[str, Any], about: ConditionKind) -> None:
    assert assessed(*estate(**detail))[about].verdict is ConditionState.UNKNOWN


@pytest.mark.parametrize(
    ("host", "says"),
    [
        ({"maintenance": True}, "esx-01 is in maintenance mode"),
        ({"connection": "disconnected"}, "esx-01 is disconnected"),
    ],
)
def test_a_host_out_of_use(host: dict[str, Any], says: str) -> None:
    found = assessed(*estate(host))
    assert found[ConditionKind.HOST].verdict is ConditionState.WRONG
    assert found[ConditionKind.HOST].says == says


def test_gpus_of_another_graphics_type() -> None:
    found = assessed(*estate({"gpus": [a100(type="shared")]}))
    says = "the GPUs' graphics type is shared, but must be sharedDirect"
    assert found[ConditionKind.GRAPHICS_TYPE].says == says
    assert found[ConditionKind.GRAPHICS_TYPE].verdict is ConditionState.WRONG
    assert found[ConditionKind.GPU_ROOM].verdict is ConditionState.WRONG


def test_a_host_without_gpus_for_vgpus() -> None:
    found = assessed(*estate({"gpus": [a100(passthrough=True)]}))
    assert found[ConditionKind.GRAPHICS_TYPE].says == "esx-01 has no GPU for vGPUs"


@pytest.mark.parametrize(
    ("wanted", "running", "why"),
    [
        ("grid_a100-40c", "grid_a100-40c", "is full, with early (VG103)"),
        ("grid_a100-20c", "grid_a100-10c", "is running another size, with early (VG104)"),
    ],
)
def test_a_gpu_that_is_taken_names_its_holder(wanted: str, running: str, why: str) -> None:
    holder = {"host": "esx-01", "gpus": [running], "on": [A], "memory_gib": 16}
    found = assessed(*estate(vms={"early": holder}, vgpus=(VgpuDevice(key=13000, profile=wanted),)))
    assert found[ConditionKind.GPU_ROOM].verdict is ConditionState.WRONG
    assert found[ConditionKind.GPU_ROOM].says == f"no GPU on esx-01 can currently run {wanted}: {A} {why}"


def test_a_second_gpu_that_is_free_is_room() -> None:
    holder = {"host": "esx-01", "gpus": ["grid_a100-10c"], "on": [A], "memory_gib": 16}
    found = assessed(*estate({"gpus": [a100(), a100(B)]}, vms={"early": holder}))
    assert found[ConditionKind.GPU_ROOM].verdict is ConditionState.RIGHT


def test_a_vm_that_runs_has_its_room() -> None:
    vm, observed = estate()
    running = vm.model_copy(update={"power_state": PowerState.ON})
    assert assessed(running, observed)[ConditionKind.GPU_ROOM].says == "GPU capacity (it is running)"


def test_a_profile_that_nobody_knows_is_not_judged() -> None:
    vm, observed = estate()
    assert vm.detail is not None
    (vgpu,) = vm.detail.vgpus
    odd = vm.detail.model_copy(update={"vgpus": (vgpu.model_copy(update={"profile": "grid_z9-7c"}),)})
    found = assessed(vm.model_copy(update={"detail": odd}), observed)
    assert found[ConditionKind.GPU_ROOM].verdict is ConditionState.UNKNOWN
    assert found[ConditionKind.MMIO].verdict is ConditionState.UNKNOWN


# ---------------------------------------------------------------- passthrough


def with_device(
    host: dict[str, Any] | None, vms: dict[str, Any] | None = None, **device: Any
) -> StartCondition:
    """Judge a VM that has one passed-through device and no vGPU."""
    vm, observed = estate(host, vms, vgpus=(), passthrough=(PassthroughDevice(key=13000, **device),))
    return assessed(vm, observed)[ConditionKind.PASSTHROUGH]


PASSED = {"gpus": [a100(passthrough=True, label="big")]}
A100_IDS = ((0x10DE, 0x20F1),)


@pytest.mark.parametrize(
    "device",
    [
        {"pci_id": A, "system_id": "system-0"},
        {"pci_id": A},
        {"allowed": A100_IDS},
        {"allowed": A100_IDS, "label": "big"},
    ],
    ids=["fixed", "fixed without system id", "dynamic", "labelled"],
)
def test_a_device_that_is_passed_through_and_free(device: dict[str, Any]) -> None:
    assert with_device(PASSED, **device).says == "passthrough active and available"


@pytest.mark.parametrize(
    ("host", "device", "says"),
    [
        (PASSED, {"pci_id": B}, f"esx-01 does not have a device {B}"),
        (None, {"pci_id": A}, f"{A} is not in passthrough mode"),
        (
            {"gpus": [a100(passthrough_pending=True)]},
            {"pci_id": A},
            f"{A} is not in passthrough mode, pending reboot",
        ),
        (PASSED, {"pci_id": A, "system_id": "other"}, f"{A} was configured for another host (systemId)"),
        (PASSED, {"allowed": ((0x10DE, 0x1234),)}, "esx-01 does not have a device with the specified IDs"),
        (PASSED, {"allowed": A100_IDS, "label": "small"}, "esx-01 does not have a device labeled small"),
        (
            {"gpus": [a100(passthrough_pending=True)]},
            {"allowed": A100_IDS},
            "no device with the specified IDs is in passthrough mode",
        ),
    ],
)
def test_a_device_that_cannot_be_attached(
    host: dict[str, Any] | None, device: dict[str, Any], says: str
) -> None:
    found = with_device(host, **device)
    assert found.verdict is ConditionState.WRONG
    assert found.says == says


def test_a_vm_without_devices_is_judged_by_host_and_version_only() -> None:
    assert set(assessed(*estate(vgpus=(), firmware="bios"))) == {
        ConditionKind.HOST,
        ConditionKind.HARDWARE_VERSION,
    }


def test_a_vm_whose_host_or_configuration_was_not_read() -> None:
    vm, observed = estate()
    lost = check_conditions(vm.model_copy(update={"host_moid": None}), observed, load_catalog())
    assert [one.verdict for one in lost] == [ConditionState.UNKNOWN]
    light = check_conditions(vm.model_copy(update={"detail": None}), observed, load_catalog())
    assert [one.verdict for one in light] == [ConditionState.RIGHT, ConditionState.UNKNOWN]
