"""What is sent of a host's devices and options, given what the host has."""

from __future__ import annotations

from typing import Any

import pytest
from pyVmomi import VmomiSupport, vim

from tests.unit.vsphere.soap_answers import serialized
from vgpu_cfg.changes.kinds.change_host import GraphicsWrite, PassthroughDevice, PassthroughWrite
from vgpu_cfg.errors import NotFound, NotOffered
from vgpu_cfg.model.observed.gpu_use import AssignmentPolicy, GraphicsType
from vgpu_cfg.model.vgpu import VgpuMode
from vgpu_cfg.vsphere.writing.host_managers import (
    as_type_of,
    graphics_config,
    option_values,
    passthrough_configs,
)

GPU = "0000:af:00.0"
OTHER = "0000:b0:00.0"
LONG: Any = VmomiSupport.vmodlTypes["long"]


def xml(value: Any) -> str:
    info = VmomiSupport.Object(name="spec", type=type(value), version="vim.version.v8_0_3_0", flags=0)
    return serialized(value, info)


def graphics(*devices: tuple[str, str, str | None]) -> Any:
    return vim.host.GraphicsConfig(
        hostDefaultGraphicsType="shared",
        sharedPassthruAssignmentPolicy="performance",
        deviceType=[
            vim.host.GraphicsConfig.DeviceType(deviceId=device, graphicsType=kind, vgpuMode=mode)
            for device, kind, mode in devices
        ],
    )


def devices_of(config: Any) -> list[tuple[str, str, str | None]]:
    return [(entry.deviceId, entry.graphicsType, entry.vgpuMode) for entry in config.deviceType]


def test_types_that_nobody_asks_about_go_back_as_they_were_and_modes_are_unset() -> None:
    current = graphics((GPU, "sharedDirect", "mixedSize"), (OTHER, "shared", None))
    config = graphics_config(current, GraphicsWrite())
    assert config.hostDefaultGraphicsType == "shared"
    assert config.sharedPassthruAssignmentPolicy == "performance"
    assert devices_of(config) == [(GPU, "sharedDirect", None), (OTHER, "shared", None)]
    assert "vgpuMode" not in xml(config)


def test_the_default_and_the_policy_change_and_the_devices_stay() -> None:
    write = GraphicsWrite(
        default_type=GraphicsType.SHARED_DIRECT, assignment_policy=AssignmentPolicy.CONSOLIDATION
    )
    config = graphics_config(graphics((GPU, "shared", None)), write)
    assert config.hostDefaultGraphicsType == "sharedDirect"
    assert config.sharedPassthruAssignmentPolicy == "consolidation"
    assert devices_of(config) == [(GPU, "shared", None)]


def test_a_device_keeps_what_is_not_asked_of_it() -> None:
    current = graphics((GPU.upper(), "shared", "sameSize"), (OTHER, "shared", None))
    config = graphics_config(current, GraphicsWrite(graphics_types={GPU: GraphicsType.SHARED_DIRECT}))
    assert devices_of(config) == [(GPU.upper(), "sharedDirect", None), (OTHER, "shared", None)]
    config = graphics_config(current, GraphicsWrite(vgpu_modes={GPU: VgpuMode.MIXED_SIZE}))
    assert devices_of(config) == [(GPU.upper(), "shared", "mixedSize"), (OTHER, "shared", None)]


def test_a_device_without_an_entry_gets_one_of_the_default_type() -> None:
    write = GraphicsWrite(
        default_type=GraphicsType.SHARED_DIRECT,
        graphics_types={OTHER: GraphicsType.SHARED},
        vgpu_modes={GPU: VgpuMode.SAME_SIZE, OTHER: VgpuMode.MIXED_SIZE},
    )
    config = graphics_config(graphics(), write)
    assert devices_of(config) == [(OTHER, "shared", "mixedSize"), (GPU, "sharedDirect", "sameSize")]
    assert "<vgpuMode>sameSize</vgpuMode>" in xml(config)


def plain(pci_id: str = GPU, *, enabled: bool = False, label: str | None = None) -> Any:
    return vim.host.PciPassthruInfo(
        id=pci_id,
        dependentDevice=pci_id,
        passthruEnabled=enabled,
        passthruCapable=True,
        passthruActive=enabled,
        hardwareLabel=label,
    )


def sriov(pci_id: str = GPU, *, functions: int = 0, capable: bool = True, label: str | None = None) -> Any:
    return vim.host.SriovInfo(
        id=pci_id,
        dependentDevice=pci_id,
        passthruEnabled=False,
        passthruCapable=True,
        passthruActive=False,
        hardwareLabel=label,
        sriovEnabled=functions > 0,
        sriovCapable=capable,
        sriovActive=False,
        numVirtualFunctionRequested=functions,
        numVirtualFunction=0,
        maxVirtualFunctionSupported=8,
    )


def configs(info: Any, **device: Any) -> Any:
    write = PassthroughWrite(devices=(PassthroughDevice(pci_id=GPU, **device),))
    (config,) = passthrough_configs([info, plain(OTHER)], write, "esx-01")
    return config


def test_passthrough_changes_and_the_label_stays() -> None:
    config = configs(plain(label="roce"), is_passthrough=True)
    assert type(config) is vim.host.PciPassthruConfig
    assert (config.id, config.passthruEnabled, config.hardwareLabel) == (GPU, True, "roce")
    assert "applyNow" not in xml(config)
    assert configs(plain(enabled=True), is_passthrough=False).passthruEnabled is False


def test_the_label_changes_and_passthrough_stays() -> None:
    config = configs(plain(enabled=True), label="roce")
    assert (config.passthruEnabled, config.hardwareLabel) == (True, "roce")
    assert "<hardwareLabel></hardwareLabel>" in xml(configs(plain(label="roce"), label=""))
    assert "hardwareLabel" not in xml(configs(plain(), is_passthrough=True))


@pytest.mark.parametrize("functions", [4, 0])
def test_virtual_functions_are_asked_for_by_number(functions: int) -> None:
    config = configs(sriov(functions=8), virtual_functions=functions)
    assert type(config) is vim.host.SriovConfig
    assert (config.sriovEnabled, config.numVirtualFunction) == (functions > 0, functions)
    assert config.passthruEnabled is False


def test_virtual_functions_stay_where_only_the_label_changes() -> None:
    config = configs(sriov(functions=8), label="roce")
    assert (config.sriovEnabled, config.numVirtualFunction) == (True, 8)
    assert type(configs(sriov(), label="roce")) is vim.host.PciPassthruConfig


def test_a_function_that_is_handed_through_whole_gives_up_its_virtual_ones() -> None:
    config = configs(sriov(functions=8), is_passthrough=True)
    assert (config.passthruEnabled, config.sriovEnabled, config.numVirtualFunction) == (True, False, 0)
    assert type(configs(sriov(), is_passthrough=True)) is vim.host.PciPassthruConfig


def test_no_virtual_functions_where_there_can_be_none() -> None:
    with pytest.raises(NotOffered, match="does not support SR-IOV"):
        configs(plain(), virtual_functions=4)
    with pytest.raises(NotOffered, match="does not support SR-IOV"):
        configs(sriov(capable=False), virtual_functions=4)
    assert type(configs(plain(), virtual_functions=0)) is vim.host.PciPassthruConfig


def test_a_function_that_the_host_does_not_list_is_an_error() -> None:
    write = PassthroughWrite(devices=(PassthroughDevice(pci_id=GPU, is_passthrough=True),))
    with pytest.raises(NotFound, match=GPU) as caught:
        passthrough_configs([plain(OTHER)], write, "esx-01")
    assert caught.value.subject == "esx-01"


@pytest.mark.parametrize(
    ("value", "current", "sent"),
    [
        (True, None, "boolean"),
        (7, None, "int"),
        (7, LONG(1), "long"),
        (7, 1, "int"),
        ("vmk1", "", "string"),
        ("true", False, "boolean"),
        (False, "true", "string"),
        (7, "1", "string"),
        ("7", LONG(1), "long"),
        ("seven", LONG(1), "string"),
        ("maybe", True, "string"),
        (True, 1, "boolean"),
    ],
)
def test_an_option_goes_over_the_wire_in_the_type_that_it_has_there(
    value: bool | int | str, current: Any, sent: str
) -> None:
    (option,) = option_values({"A.b": value}, {} if current is None else {"A.b": current})
    assert f'<value xsi:type="xsd:{sent}">' in xml(option)


def test_truth_in_words_is_lower_case() -> None:
    assert as_type_of(True, "false") == "true"
    assert as_type_of("FALSE", True) is False
