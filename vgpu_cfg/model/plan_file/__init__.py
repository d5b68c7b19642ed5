"""The plan file's format: its keys and their types, what is refused for now, and the JSON schema."""

from __future__ import annotations

from vgpu_cfg.model.plan_file.device_entries import (
    GpuMatch,
    HostGpuEntry,
    HostNicEntry,
    NicMatch,
    PvrdmaEntry,
    RoceEntry,
    VmknicEntry,
)
from vgpu_cfg.model.plan_file.entries import (
    DeviceEntry,
    DiskEntry,
    FileHeader,
    GpuEntry,
    LibraryTemplate,
    MovedEntry,
    PlaceEntry,
    PlanFile,
    ProtectEntry,
    Scratch,
    Server,
    VerifyEntry,
    VmEntry,
    VmKeys,
)
from vgpu_cfg.model.plan_file.guest_entries import (
    CudaEntry,
    GuestEntry,
    LicenceEntry,
    LoginEntry,
    OfedEntry,
    PackageEntry,
    UserEntry,
)
from vgpu_cfg.model.plan_file.guest_values import (
    NVIDIA_REGISTRY,
    check_domain,
    check_host_name,
    host_name_of,
    registry_of,
)
from vgpu_cfg.model.plan_file.host_entries import (
    AccessEntry,
    BiosEntry,
    ClusterOptionsEntry,
    DisruptionEntry,
    DriverEntry,
    FirmwareToolsEntry,
    HostEntry,
)
from vgpu_cfg.model.plan_file.host_values import split_window
from vgpu_cfg.model.plan_file.network_entries import NetworkEntry, SwitchEntry
from vgpu_cfg.model.plan_file.network_values import parse_nic_address
from vgpu_cfg.model.plan_file.nic_entries import NicDeviceEntry, NicEntry
from vgpu_cfg.model.plan_file.schema import plan_file_schema
from vgpu_cfg.model.plan_file.site_entries import AptEntry, ProxyEntry, SiteEntry
from vgpu_cfg.model.plan_file.training_entries import (
    MonitoringEntry,
    RegistryEntry,
    SharedFolderEntry,
    TrafficEntry,
    TrainingEntry,
    TrainingRoceEntry,
)
from vgpu_cfg.model.plan_file.values import check_vm_name, parse_mac, size_text

__all__ = [
    "NVIDIA_REGISTRY",
    "AccessEntry",
    "AptEntry",
    "BiosEntry",
    "ClusterOptionsEntry",
    "CudaEntry",
    "DeviceEntry",
    "DiskEntry",
    "DisruptionEntry",
    "DriverEntry",
    "FileHeader",
    "FirmwareToolsEntry",
    "GpuEntry",
    "GpuMatch",
    "GuestEntry",
    "HostEntry",
    "HostGpuEntry",
    "HostNicEntry",
    "LibraryTemplate",
    "LicenceEntry",
    "LoginEntry",
    "MonitoringEntry",
    "MovedEntry",
    "NetworkEntry",
    "NicDeviceEntry",
    "NicEntry",
    "NicMatch",
    "OfedEntry",
    "PackageEntry",
    "PlaceEntry",
    "PlanFile",
    "ProtectEntry",
    "ProxyEntry",
    "PvrdmaEntry",
    "RegistryEntry",
    "RoceEntry",
    "Scratch",
    "Server",
    "SharedFolderEntry",
    "SiteEntry",
    "SwitchEntry",
    "TrafficEntry",
    "TrainingEntry",
    "TrainingRoceEntry",
    "UserEntry",
    "VerifyEntry",
    "VmEntry",
    "VmKeys",
    "VmknicEntry",
    "check_domain",
    "check_host_name",
    "check_vm_name",
    "host_name_of",
    "parse_mac",
    "parse_nic_address",
    "plan_file_schema",
    "registry_of",
    "size_text",
    "split_window",
]
