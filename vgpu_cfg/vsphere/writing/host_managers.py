"""The managers of a host, the data required before a call to one of them, and the merge into current values.

One round trip brings the host's name, its API version, its managers and all data that a write has to merge
into. Nothing is kept between writes: the base of a merge is read just before.

The request for a host's devices and options is merged into the host's current values, in vSphere's words. The
merge is pure: a reading goes in, the request comes out. All other fields go back as they were read, since
most of these objects replace the old one whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from pyVmomi import VmomiSupport, vim

from vgpu_cfg.changes.kinds.change_host import GraphicsWrite, PassthroughDevice, PassthroughWrite
from vgpu_cfg.errors import NotFound, VersionTooOld
from vgpu_cfg.model.vgpu import VgpuMode
from vgpu_cfg.vsphere.wire.collector import Item, Paths, Start, collect_from
from vgpu_cfg.vsphere.wire.faults import not_offered, to_error
from vgpu_cfg.vsphere.wire.session import Session
from vgpu_cfg.vsphere.wire.versions import is_at_least

ManagerName = Literal[
    "advancedOption",
    "firewallSystem",
    "graphicsManager",
    "kernelModuleSystem",
    "networkSystem",
    "pciPassthruSystem",
    "serviceSystem",
]
"""Properties of vim `HostConfigManager` that are used here."""

VGPU_MODES: Mapping[VgpuMode, str] = {VgpuMode.SAME_SIZE: "sameSize", VgpuMode.MIXED_SIZE: "mixedSize"}
"""vim `HostGraphicsConfigVgpuMode` (8.0.3.0)."""

OptionSetting: TypeAlias = bool | int | str

_LONG: Any = VmomiSupport.vmodlTypes["long"]


@dataclass(frozen=True, slots=True)
class HostManagers:
    """The result of one reading of a host; values are pyvmomi's."""

    session: Session
    item: Item

    @property
    def name(self) -> str:
        """The host's name, or its id if vCenter has none."""
        return str(self.item.get("name", self.item.moid))

    def manager(self, name: ManagerName) -> Any:
        """Return one of the host's managers, to call. Raises NotOffered where the host has none."""
        found = self.item.get(f"configManager.{name}")
        if found is None:
            raise not_offered(f"the host has no {name}", self.name)
        return found

    def require(self, path: str, what: str) -> Any:
        """Return a property that a write merges into.

        Raises NotOffered if the host has none, and the reason if vCenter gives one.
        """
        found = self.item.get(path)
        if found is None and path in self.item.faults:
            raise to_error(self.item.faults[path], f"reading {what}", self.name)
        if found is None:
            raise not_offered(f"the host reports no {what}", self.name)
        return found

    def require_api(self, version: str, what: str) -> None:
        """Raise VersionTooOld unless vCenter and the host both know this version.

        Fields that the negotiated version lacks would be dropped from the request silently.
        """
        self.session.require_api(version, what)
        own = str(self.item.get("config.product.apiVersion", ""))
        if not is_at_least(own, version):
            raise VersionTooOld(
                f"{what} requires API {version}, but the host has {own or 'an unknown version'}",
                subject=self.name,
                remedy=f"ESXi with API {version} or later is required",
            )


def read_managers(session: Session, moid: str, manager: ManagerName, *paths: str) -> HostManagers:
    """Read a host's name, version, one of its managers and these properties, in one round trip.

    Raises NotFound where the host has gone.
    """
    wanted = (host_paths(manager, *paths),)
    return only_host(session, moid, collect_from(session, wanted, [Start("vim.HostSystem", moid)]))


def host_paths(manager: ManagerName, *paths: str) -> Paths:
    """Return the data of a host for a write through one of its managers."""
    return Paths("vim.HostSystem", ("name", "config.product.apiVersion", f"configManager.{manager}", *paths))


def only_host(session: Session, moid: str, items: list[Item]) -> HostManagers:
    """Find a host in a reading. Raises NotFound where it has gone."""
    for item in items:
        if item.moid == moid:
            return HostManagers(session, item)
    raise NotFound("the host no longer exists", subject=moid, remedy="plan again; the inventory has changed")


def graphics_config(current: Any, write: GraphicsWrite) -> Any:
    """Return a host's graphics configuration with the requested changes.

    An entry for a device overrides the host's default type. One that is made for a vGPU mode alone gets the
    default as its type, which the API requires. A mode that is unset stays unchanged (govmomi,
    HostGraphicsConfigDeviceType), so only requested ones are sent: the configured mode may not hold since a
    reboot, and asserting it may fail on a GPU in use.
    """
    default = str(write.default_type or current.hostDefaultGraphicsType)
    entries = {str(entry.deviceId).lower(): _device_type(entry) for entry in current.deviceType or ()}
    for pci_id in (*write.graphics_types, *write.vgpu_modes):
        made = vim.host.GraphicsConfig.DeviceType(deviceId=pci_id, graphicsType=default)
        entries.setdefault(pci_id, made)
    for pci_id, graphics_type in write.graphics_types.items():
        entries[pci_id].graphicsType = str(graphics_type)
    for pci_id, mode in write.vgpu_modes.items():
        entries[pci_id].vgpuMode = VGPU_MODES[mode]
    return vim.host.GraphicsConfig(
        hostDefaultGraphicsType=default,
        sharedPassthruAssignmentPolicy=str(write.assignment_policy or current.sharedPassthruAssignmentPolicy),
        deviceType=list(entries.values()),
    )


def _device_type(entry: Any) -> Any:
    return vim.host.GraphicsConfig.DeviceType(deviceId=entry.deviceId, graphicsType=entry.graphicsType)


def passthrough_configs(infos: Sequence[Any], write: PassthroughWrite, host_name: str) -> list[Any]:
    """Return what `UpdatePassthruConfig` takes for each function that the write names.

    `infos` is the host's `pciPassthruInfo`. `applyNow` (7.0) is left unset: the host then applies all that it
    can at once, and the rest when it boots (govmomi, HostPciPassthruConfig). Raises NotFound for a function
    that the host does not list, NotOffered for virtual functions where there can be none.
    """
    by_id = {str(info.id).lower(): info for info in infos}
    configs = []
    for device in write.devices:
        info = by_id.get(device.pci_id)
        if info is None:
            raise NotFound(
                f"the host has no PCI function {device.pci_id}",
                subject=host_name,
                remedy="plan again; the inventory has changed",
            )
        configs.append(_passthrough_config(info, device, host_name))
    return configs


def _passthrough_config(info: Any, device: PassthroughDevice, host_name: str) -> Any:
    is_capable = isinstance(info, vim.host.SriovInfo) and bool(info.sriovCapable)
    functions = device.virtual_functions
    if functions and not is_capable:
        raise not_offered(f"{device.pci_id} does not support SR-IOV", host_name)
    if functions is None and is_capable and info.sriovEnabled:
        # One that is handed through whole can have none; else those that nobody asks about stay.
        functions = 0 if device.is_passthrough else int(info.numVirtualFunctionRequested or 0)
    label = device.label if device.label is not None else getattr(info, "hardwareLabel", None)
    common = {
        "id": info.id,
        "passthruEnabled": bool(info.passthruEnabled)
        if device.is_passthrough is None
        else device.is_passthrough,
        "hardwareLabel": label,
    }
    if functions is None or not is_capable:
        return vim.host.PciPassthruConfig(**common)
    return vim.host.SriovConfig(**common, sriovEnabled=functions > 0, numVirtualFunction=functions)


def option_values(options: Mapping[str, OptionSetting], current: Mapping[str, Any]) -> list[Any]:
    """Return options as the server wants them, each in the type that it has there.

    A LongOption refuses an xsd:int, which a plain integer goes out as. `current` holds the values that were
    read; others are sent unchanged.
    """
    return [
        vim.option.OptionValue(key=key, value=as_type_of(value, current.get(key)))
        for key, value in options.items()
    ]


def as_type_of(value: OptionSetting, current: Any) -> Any:
    """Return a value in the type of another: bool, long, int or str; unchanged if it does not fit."""
    match current:
        case bool():
            return {"true": True, "false": False}.get(str(value).lower(), value)
        case _ if isinstance(current, int) and not isinstance(value, bool):
            number = _LONG if isinstance(current, _LONG) else int
            try:
                return number(value)
            except ValueError:
                return value
        case str():
            return str(value).lower() if isinstance(value, bool) else str(value)
        case _:
            return value
