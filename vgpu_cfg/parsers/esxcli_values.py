"""What the records of single esxcli commands mean, be they text from a shell or XML from vCenter.

Both spell a field alike but for blanks and case ("VMkernel Name", "VMkernelName"), so it is found by its
letters and digits alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.host_facts import KernelSetting, SoftwarePackage
from vgpu_cfg.parsers.errors import UnreadableOutput
from vgpu_cfg.parsers.esxcli import HEADING, Record, parse_blocks, parse_fields, parse_table
from vgpu_cfg.parsers.text import pci_id_of, value_or_none

GRAPHICS_HOST = "esxcli graphics host get"
GRAPHICS_DEVICES = "esxcli graphics device list"
PCI_DEVICES = "esxcli hardware pci list"
MODULE_PARAMETERS = "esxcli system module parameters list"
KERNEL_SETTINGS = "esxcli system settings kernel list"
PACKAGES = "esxcli software vib list"


class GraphicsHost(Frozen):
    """The host's defaults, in esxcli's words: Shared or SharedPassthru, Performance or Consolidation."""

    default_type: str
    assignment_policy: str | None = None


class GraphicsDevice(Frozen):
    """A graphics device. `graphics_type` is Basic, Shared, SharedPassthru or Direct; memory in KiB."""

    pci_id: str
    vendor_name: str = ""
    device_name: str = ""
    module_name: str | None = None
    graphics_type: str = ""
    memory_kib: int | None = None
    vm_count: int | None = None


class PciListing(Frozen):
    """A PCI function. `vmkernel_name` is vmnic4, vmgfx0, or PF_0.59.0_VF_15 for a virtual function.

    `numa_node` is None where the host tells none; owners are VMkernel, VM Passthru or Unknown.
    """

    pci_id: str
    vmkernel_name: str | None = None
    vendor_name: str = ""
    device_name: str = ""
    vendor_id: int | None = None
    device_id: int | None = None
    sub_vendor_id: int | None = None
    sub_device_id: int | None = None
    class_id: int | None = None
    class_name: str = ""
    module_name: str | None = None
    configured_owner: str = ""
    current_owner: str = ""
    is_passthrough_capable: bool | None = None
    parent: str | None = None
    reset_method: str | None = None
    numa_node: int | None = None


class ModuleParameter(Frozen):
    """A parameter of a kernel module; an empty `value` means that none is set."""

    name: str
    type: str = ""
    value: str = ""
    description: str = ""


def parse_graphics_host(text: str) -> GraphicsHost:
    """Read `graphics host get`. Raises UnreadableOutput."""
    return graphics_host(parse_fields(GRAPHICS_HOST, text))


def parse_graphics_devices(text: str) -> tuple[GraphicsDevice, ...]:
    """Read `graphics device list`. Raises UnreadableOutput."""
    return graphics_devices(parse_blocks(GRAPHICS_DEVICES, text))


def parse_pci_devices(text: str) -> tuple[PciListing, ...]:
    """Read `hardware pci list`. Raises UnreadableOutput."""
    return pci_devices(parse_blocks(PCI_DEVICES, text))


def parse_module_parameters(text: str) -> tuple[ModuleParameter, ...]:
    """Read `system module parameters list -m`. Raises UnreadableOutput."""
    return module_parameters(parse_table(MODULE_PARAMETERS, text))


def parse_kernel_settings(text: str) -> Mapping[str, KernelSetting]:
    """Read `system settings kernel list`, with or without `-o`. Raises UnreadableOutput."""
    return kernel_settings(parse_table(KERNEL_SETTINGS, text))


def parse_packages(text: str) -> tuple[SoftwarePackage, ...]:
    """Read `software vib list`. Raises UnreadableOutput."""
    return packages(parse_table(PACKAGES, text))


def graphics_host(record: Record) -> GraphicsHost:
    """Say what the host's graphics defaults are. Raises UnreadableOutput where the type is absent."""
    fields = _Fields(GRAPHICS_HOST, record)
    return GraphicsHost(
        default_type=fields.needed("Default Graphics Type"),
        assignment_policy=fields.get("Shared Passthru Assignment Policy"),
    )


def graphics_devices(records: Iterable[Record]) -> tuple[GraphicsDevice, ...]:
    """Say what the graphics devices are. Raises UnreadableOutput for one without an address.

    The name of the address in the XML is unproven; a text has it as the heading.
    """
    found = (_Fields(GRAPHICS_DEVICES, record) for record in records)
    return tuple(
        GraphicsDevice(
            pci_id=fields.address(),
            vendor_name=fields.get("Vendor Name") or "",
            device_name=fields.get("Device Name") or "",
            module_name=fields.name("Module Name"),
            graphics_type=fields.get("Graphics Type") or "",
            memory_kib=fields.number("Memory Size in KB"),
            vm_count=fields.number("Number of VMs"),
        )
        for fields in found
    )


def pci_devices(records: Iterable[Record]) -> tuple[PciListing, ...]:
    """Say what the PCI functions are. Raises UnreadableOutput for one without an address."""
    found = (_Fields(PCI_DEVICES, record) for record in records)
    return tuple(
        PciListing(
            pci_id=fields.address(),
            vmkernel_name=fields.name("VMkernel Name"),
            vendor_name=fields.get("Vendor Name") or "",
            device_name=fields.get("Device Name") or "",
            vendor_id=fields.number("Vendor ID"),
            device_id=fields.number("Device ID"),
            sub_vendor_id=fields.number("SubVendor ID"),
            sub_device_id=fields.number("SubDevice ID"),
            class_id=fields.number("Device Class"),
            class_name=fields.get("Device Class Name") or "",
            module_name=fields.name("Module Name"),
            configured_owner=fields.get("Configured Owner") or "",
            current_owner=fields.get("Current Owner") or "",
            is_passthrough_capable=fields.truth("Passthru Capable"),
            parent=fields.name("Parent Device"),
            reset_method=fields.name("Reset Method"),
            numa_node=fields.node("NUMA Node"),
        )
        for fields in found
    )


def module_parameters(records: Iterable[Record]) -> tuple[ModuleParameter, ...]:
    """Say what the parameters of a module are. Raises UnreadableOutput for one without a name."""
    found = (_Fields(MODULE_PARAMETERS, record) for record in records)
    return tuple(
        ModuleParameter(
            name=fields.needed("Name"),
            type=fields.get("Type") or "",
            value=fields.raw("Value"),
            description=fields.get("Description") or "",
        )
        for fields in found
    )


def kernel_settings(records: Iterable[Record]) -> Mapping[str, KernelSetting]:
    """Say what the boot settings are, by name. Raises UnreadableOutput where a value's column is absent."""
    found = (_Fields(KERNEL_SETTINGS, record) for record in records)
    return {
        fields.needed("Name"): KernelSetting(
            configured=fields.column("Configured"),
            runtime=fields.column("Runtime"),
            default=fields.raw("Default"),
        )
        for fields in found
    }


def packages(records: Iterable[Record]) -> tuple[SoftwarePackage, ...]:
    """Say which VIBs are installed. Raises UnreadableOutput for one without name or version."""
    found = (_Fields(PACKAGES, record) for record in records)
    return tuple(
        SoftwarePackage(
            name=fields.needed("Name"), version=fields.needed("Version"), vendor=fields.get("Vendor") or ""
        )
        for fields in found
    )


class _Fields:
    """One record, whose fields are found by their letters and digits."""

    def __init__(self, command: str, record: Record) -> None:
        self._command = command
        self._record = record
        self._values = {_plain(name): value for name, value in record.items()}

    def raw(self, name: str) -> str:
        return self._values.get(_plain(name), "").strip()

    def get(self, name: str) -> str | None:
        return value_or_none(self.raw(name))

    def name(self, name: str) -> str | None:
        told = self.get(name)
        return None if told == "None" else told

    def needed(self, name: str) -> str:
        told = self.get(name)
        if told is None:
            raise self._error(f"no {name}")
        return told

    def column(self, name: str) -> str:
        if _plain(name) not in self._values:
            raise self._error(f"no {name}")
        return self.raw(name)

    def address(self) -> str:
        told = self.raw("Address") or self.raw(HEADING)
        found = pci_id_of(told)
        if found is None:
            raise self._error(f"no PCI address in {told!r}")
        return found

    def number(self, name: str) -> int | None:
        told = self.get(name)
        if told is None:
            return None
        try:
            return int(told, 16) if told.lower().startswith("0x") else int(told)
        except ValueError as error:
            raise self._error(f"{name} is no number") from error

    def node(self, name: str) -> int | None:
        told = self.number(name)
        return told if told is not None and told >= 0 else None

    def truth(self, name: str) -> bool | None:
        told = self.get(name)
        if told is None:
            return None
        if told.lower() not in ("true", "false"):
            raise self._error(f"{name} is neither true nor false")
        return told.lower() == "true"

    def _error(self, why: str) -> UnreadableOutput:
        shown = ", ".join(f"{name}={value}" for name, value in self._record.items())
        return UnreadableOutput(self._command, why, line=shown)


def _plain(name: str) -> str:
    return "".join(letter for letter in name if letter.isalnum()).casefold()
