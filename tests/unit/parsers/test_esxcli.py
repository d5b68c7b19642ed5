from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.parsers.printed import DISGUISES, printed
from vgpu_cfg.model.host_facts import KernelSetting, SoftwarePackage
from vgpu_cfg.parsers.errors import ToolFailed, UnreadableOutput
from vgpu_cfg.parsers.esxcli import parse_table
from vgpu_cfg.parsers.esxcli_values import (
    GraphicsHost,
    parse_graphics_devices,
    parse_graphics_host,
    parse_kernel_settings,
    parse_module_parameters,
    parse_packages,
    parse_pci_devices,
)

PCI = "esxcli-hardware-pci-list-gpu-nic-vf.txt"


def test_the_hosts_graphics() -> None:
    assert parse_graphics_host(printed("esxcli-graphics-host-get.txt")) == GraphicsHost(
        default_type="SharedPassthru", assignment_policy="Performance"
    )


def test_graphics_devices_by_their_heading() -> None:
    used, unused = parse_graphics_devices(printed("esxcli-graphics-device-list-two.txt"))
    assert (used.pci_id, used.graphics_type, used.vm_count) == ("0000:af:00.0", "SharedPassthru", 2)
    assert (used.memory_kib, used.module_name) == (41943040, "nvidia")
    assert (unused.pci_id, unused.graphics_type, unused.module_name) == ("0000:d8:00.0", "Basic", None)


def test_pci_functions() -> None:
    gpu, function = parse_pci_devices(printed(PCI))
    assert (gpu.pci_id, gpu.vmkernel_name, gpu.numa_node) == ("0000:37:00.0", "vmgfx0", 0)
    assert (gpu.vendor_id, gpu.device_id, gpu.sub_device_id, gpu.class_id) == (0x10DE, 0x20F1, 0x145F, 0x0302)
    assert (gpu.module_name, gpu.parent, gpu.reset_method) == ("nvidia", "PCI 0:54:0:0", "Bridge reset")
    assert gpu.is_passthrough_capable
    assert (function.vmkernel_name, function.module_name, function.numa_node) == (
        "PF_0.59.0_VF_15",
        None,
        None,
    )
    assert function.is_passthrough_capable


def test_parameters_of_a_module_also_those_without_a_value() -> None:
    found = {
        one.name: one for one in parse_module_parameters(printed("esxcli-module-parameters-nmlx5-core.txt"))
    }
    assert {name: one.value for name, one in found.items()} == {
        "dcbx": "1",
        "max_vfs": "",
        "pfcrx": "0x08",
        "pfctx": "0x08",
        "trust_state": "",
    }
    assert found["max_vfs"].type == "array of int"
    assert found["trust_state"].description == "Port policy to calculate the switch priority"


def test_a_boot_setting_that_waits_for_a_reboot() -> None:
    found = parse_kernel_settings(printed("esxcli-kernel-list-ats-pending.txt"))
    assert found["atsSupport"] == KernelSetting(configured="TRUE", runtime="FALSE", default="TRUE")
    assert found["smallFontForTTY"] == KernelSetting(configured="", runtime="", default="")


def test_a_boot_setting_that_holds() -> None:
    found = parse_kernel_settings(printed("esxcli-kernel-list-as-the-guide-prints-it.txt"))
    assert found == {"atsSupport": KernelSetting(configured="TRUE", runtime="TRUE", default="FALSE")}


def test_installed_packages() -> None:
    found = parse_packages(printed("esxcli-vib-list.txt"))
    assert found[0] == SoftwarePackage(
        name="NVD-AIE_ESXi_8.0.0_Driver", version="525.105.14-1OEM.800.1.0.20613240", vendor="NVIDIA"
    )
    assert [package.name for package in found[1:]] == ["nvdgpumgmtdaemon", "mft"]


def test_esxclis_own_error_is_told_as_such() -> None:
    with pytest.raises(ToolFailed, match="Unknown command or namespace") as caught:
        parse_graphics_devices(printed("esxcli-unknown-namespace.txt"))
    assert caught.value.tool == "esxcli graphics device list"


RULE = "Name  Value\n----  -----\n"


@pytest.mark.parametrize(
    ("parse", "text", "said"),
    [
        (parse_kernel_settings, printed("esxcli-kernel-list-shifted-cells.txt"), "not under their columns"),
        (parse_kernel_settings, "", "printed nothing"),
        (parse_kernel_settings, "Name  Value\n", "no table"),
        (parse_kernel_settings, f"{RULE}a     b\n", "no Configured"),
        (parse_module_parameters, f"{RULE}      b\n", "no Name"),
        (parse_module_parameters, "Name  Name\n----  ----\n", "no header"),
        (parse_graphics_host, "   Default\n", "no field"),
        (parse_graphics_host, "   A: 1\n   A: 2\n", "a field twice"),
        (parse_graphics_host, "   A: 1\n", "no Default Graphics Type"),
        (parse_pci_devices, "   Address: 0000:37:00.0\n", "no heading"),
        (parse_pci_devices, "somewhere\n   Vendor ID: 0x10de\n", "no PCI address"),
        (parse_pci_devices, "0000:37:00.0\n   Vendor ID: many\n", "Vendor ID is no number"),
        (parse_pci_devices, "0000:37:00.0\n   Passthru Capable: maybe\n", "neither true nor false"),
    ],
)
def test_what_is_not_understood_is_an_error(parse: Callable[[str], object], text: str, said: str) -> None:
    with pytest.raises(UnreadableOutput, match=said):
        parse(text)


@pytest.mark.parametrize("disguise", DISGUISES)
@pytest.mark.parametrize(
    ("parse", "name"),
    [
        (parse_pci_devices, PCI),
        (parse_kernel_settings, "esxcli-kernel-list-ats-pending.txt"),
        (parse_packages, "esxcli-vib-list.txt"),
        (parse_graphics_host, "esxcli-graphics-host-get.txt"),
    ],
)
def test_no_disguise_changes_anything(
    parse: Callable[[str], object], name: str, disguise: Callable[[str], str]
) -> None:
    assert parse(disguise(printed(name))) == parse(printed(name))


CELLS = st.from_regex(r"([a-zA-Z0-9_.]+( [a-zA-Z0-9_.]+){0,2})?", fullmatch=True)
NAMES = st.from_regex(r"[A-Z][a-z]{0,8}( [A-Z][a-z]{1,5})?", fullmatch=True)


@given(st.lists(NAMES, min_size=1, max_size=6, unique=True), st.data())
def test_generated_tables_give_back_their_cells(names: list[str], data: st.DataObject) -> None:
    first = st.from_regex(r"[a-zA-Z0-9_.]+", fullmatch=True)
    rows = data.draw(st.lists(st.tuples(first, *[CELLS for _ in names[1:]]), min_size=0, max_size=6))
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    lines = [names, ["-" * width for width in widths], *map(list, rows)]
    text = "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines
    )
    assert parse_table("esxcli", text) == tuple(dict(zip(names, row, strict=True)) for row in rows)
