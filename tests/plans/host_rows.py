"""What an inventory in few words says of devices, and of what only plans with `hosts:` look at."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from vgpu_cfg.catalog import Board
from vgpu_cfg.model.observed.cordon import MaintenanceEntry
from vgpu_cfg.model.observed.host_facts import (
    ClusterFacts,
    ClusterImage,
    DepotLook,
    DistributedSwitch,
    EstateFacts,
    FactGroup,
    FirmwareValue,
    GpuLinks,
    GpuShellFacts,
    HostFacts,
    HostMark,
    HostSwitch,
    KernelSetting,
    MigInstance,
    ServiceFact,
    ShellFacts,
    SoftwarePackage,
    Vmknic,
    recovered_mark,
)
from vgpu_cfg.model.observed.inventory import VGPU_PART, DeviceGroupInfo, GroupPart, HostNic, PciDevice, Sriov
from vgpu_cfg.model.wording import version_tuple

Row = Mapping[str, Any]

MELLANOX = 0x15B3
_VERSION = "8.0.3"
BOOTED = datetime(2026, 11, 1, 6, 0, tzinfo=UTC)
DRIVER = {"NVD-AIE_ESXi_8.0.0_Driver": "580.95.02-1OEM", "nvdgpumgmtdaemon": "580.95.02"}
FIRMWARE = {"ATS_ENABLED": "False", "SRIOV_EN": "False", "NUM_OF_VFS": "0", "LINK_TYPE_P1": "ETH"}

_ATS_OPTION = "VMkernel.Boot.atsSupport"


def device_ids(board: Board | None) -> tuple[int, int]:
    """Return the PCI device and subsystem of a board; None stands for one that nobody knows."""
    if board is None:
        return 0x9999, 0
    return board.pci_ids[0].device_id, board.pci_ids[0].subsystem_id or 0


def make_nic(row: Row) -> HostNic:
    """Build a ConnectX-6 Dx, or what the row says it is."""
    pci_id = row["pci"]
    passed = bool(row.get("passthrough"))
    device = PciDevice(
        pci_id=pci_id,
        vendor_id=MELLANOX,
        device_id=row.get("device_id", 0x101D),
        class_id=0x0207 if row.get("infiniband") else 0x0200,
        vendor_name="Mellanox Technologies",
        device_name=row.get("name", "MT2892 Family [ConnectX-6 Dx]"),
        passthrough_capable=True,
        passthrough_enabled=passed or row.get("passthrough_pending", False),
        passthrough_active=passed,
        hardware_label=row.get("label"),
        parent_bridge=row.get("bridge"),
        numa_node=row.get("node", 0),
        sriov=Sriov(
            is_capable=row.get("most", 16) > 0,
            is_active=row.get("functions", 0) > 0,
            functions=row.get("functions", 0),
            requested=row.get("requested", row.get("functions", 0)),
            most=row.get("most", 16),
        ),
    )
    return HostNic(
        device=row.get("vmnic", ""),
        driver="nmlx5_core",
        speed_mbps=100_000,
        pci_id=pci_id,
        pci=device,
        numa_node=device.numa_node,
    )


def make_bridge(pci_id: str, above: str | None) -> PciDevice:
    """Build a PCI bridge under another one, or under none that is told."""
    return PciDevice(pci_id=pci_id, vendor_id=0x8086, device_id=0x347A, class_id=0x0604, parent_bridge=above)


def make_group(row: str | Row) -> DeviceGroupInfo:
    """Build a vendor's device group: of vGPUs, as its name tells (Nvidia:2@grid_a100-40c%NVLink), or parts.

    Its parts are {profile: NAME} and {nic: "15b3:101d"}, or {kind: WORD} for what nobody can ask for.
    """
    if not isinstance(row, str):
        return DeviceGroupInfo(
            name=row["name"], parts=tuple(_part(one, at) for at, one in enumerate(row["parts"]))
        )
    name = row
    count, profile = name.partition(":")[2].partition("%")[0].split("@")
    return DeviceGroupInfo.of_peers(name, profile, int(count))


def _part(row: Row, sequence: int) -> GroupPart:
    if "profile" in row:
        return GroupPart(kind=VGPU_PART, profile=row["profile"], sequence=sequence)
    if "kind" in row:
        return GroupPart(kind=row["kind"], sequence=sequence)
    vendor, device = (int(word, 16) for word in row["nic"].split(":"))
    return GroupPart(kind="pciPassthru", name="a NIC", allowed=((vendor, device),), sequence=sequence)


def make_facts(estate: Row) -> EstateFacts:
    """Build the facts of every host and cluster."""
    hosts = {f"host-{name}": _host_facts(row or {}) for name, row in (estate.get("hosts") or {}).items()}
    clusters = {
        f"cluster-{name}": ClusterFacts(
            drs_options=(row or {}).get("drs_options") or {},
            drs_overrides={
                f"vm-{vm}": behavior for vm, behavior in ((row or {}).get("drs_overrides") or {}).items()
            },
            image_managed=bool((row or {}).get("image", False)),
            image=ClusterImage(**image) if isinstance(image := (row or {}).get("image"), dict) else None,
            config_managed=(row or {}).get("config_profile", False),
        )
        for name, row in (estate.get("clusters") or {"gpu": {}}).items()
    }
    switches = tuple(
        DistributedSwitch(
            moid=f"dvs-{name}",
            name=name,
            uuid=(row or {}).get("uuid", f"50 {name}"),
            mtu=(row or {}).get("mtu", 1500),
            members={f"host-{one}": uplinks for one, uplinks in ((row or {}).get("members") or {}).items()},
            portgroup_vlans={
                f"network-{one}": vlan for one, vlan in ((row or {}).get("vlans") or {}).items()
            },
        )
        for name, row in (estate.get("switches") or {}).items()
    )
    return EstateFacts(
        hosts=hosts,
        clusters=clusters,
        vcenter_options=estate.get("vcenter_options") or {},
        switches=switches,
    )


def _host_facts(row: Row) -> HostFacts:
    facts = dict(row.get("facts") or {})
    if "unread" in facts:
        facts["unread"] = {FactGroup(group): text for group, text in facts["unread"].items()}
    has_driver = row.get("driver", True)
    entered = MaintenanceEntry.model_validate(facts["entered"]) if "entered" in facts else None
    return HostFacts(
        groups=frozenset(FactGroup),
        boot_time=BOOTED,
        lockdown=facts.get("lockdown", "lockdownDisabled"),
        rebind_without_reboot=facts.get("rebind", True),
        services={
            "xorg": ServiceFact(running=True, policy="on"),
            "TSM-SSH": ServiceFact(running=facts.get("ssh", False)),
        },
        rulesets={"pvrdma": facts.get("pvrdma_open", False)},
        vmknics=tuple(Vmknic.model_validate(one) for one in facts.get("vmknics") or ()),
        switches=tuple(
            HostSwitch.model_validate(one)
            for one in facts.get("switches") or ({"name": "vSwitch0", "mtu": 1500, "uplinks": ("vmnic0",)},)
        ),
        options=_options(str(row.get("version", _VERSION))) | (facts.get("options") or {}),
        modules={"nmlx5_core": "", "nmlx5_rdma": ""}
        | ({"nvidia": ""} if has_driver else {})
        | (facts.get("modules") or {}),
        kernel={
            name: KernelSetting.model_validate(one)
            for name, one in (
                _kernel(str(row.get("version", _VERSION))) | (facts.get("kernel") or {})
            ).items()
        },
        software=tuple(
            SoftwarePackage(name=name, version=version)
            for name, version in (facts.get("software") or (DRIVER if has_driver else {})).items()
        ),
        depots={depot: DepotLook.model_validate(look) for depot, look in (facts.get("depots") or {}).items()},
        owners=tuple(facts.get("owners") or ()),
        mark=_mark(facts, entered),
        entered=entered,
        done=facts.get("done") or {},
        vmnics=facts.get("vmnics") or {},
        shell=_shell(row, has_driver=has_driver) if facts.get("shell", True) else None,
        unread=facts.get("unread") or {},
    )


def _mark(facts: Mapping[str, Any], entered: MaintenanceEntry | None) -> HostMark | None:
    if "mark" in facts:
        return HostMark.model_validate(facts["mark"])
    return recovered_mark(entered) if entered is not None else None


def _options(version: str) -> dict[str, bool | int | str]:
    """Return the advanced options that a release has."""
    ats: dict[str, bool | int | str] = {_ATS_OPTION: True} if version_tuple(version) >= (7, 0, 3) else {}
    return ats | {"Net.PVRDMAVmknic": ""}


def _kernel(version: str) -> dict[str, Any]:
    """Return the boot settings of a release: ATS has another name before 7.0 U2 and is on from 7.0 U3."""
    name = "atsSupport" if version_tuple(version) >= (7, 0, 2) else "vtdAtsSupport"
    value = str(version_tuple(version) >= (7, 0, 3)).upper()
    return {name: {"configured": value, "runtime": value, "default": value}}


def _shell(row: Row, *, has_driver: bool) -> ShellFacts:
    unread: dict[str, str] = {} if has_driver else {"": "nvidia-smi is not there"}
    unread |= (row.get("facts") or {}).get("shell_unread") or {}
    gpus: dict[str, GpuShellFacts] = {}
    for gpu in row.get("gpus") or () if has_driver else ():
        is_mig = gpu.get("sharing") == "mig"
        gpus[gpu["pci"]] = GpuShellFacts(
            mig_current=is_mig,
            mig_pending=gpu.get("mig_pending", is_mig),
            ecc_current=gpu.get("ecc", True),
            ecc_pending=gpu.get("ecc_pending", gpu.get("ecc", True)),
            host_vgpu_mode=gpu.get("vgpu_host_mode", "SR-IOV"),
            module_id=gpu.get("module"),
        )
    firmware = {
        nic["pci"]: {
            name: FirmwareValue(default=value, current=value, next_boot=value)
            if isinstance(value, str)
            else FirmwareValue.model_validate(value)
            for name, value in (FIRMWARE | (nic.get("firmware") or {})).items()
        }
        for nic in row.get("nics") or ()
        if not nic.get("passthrough") and nic["pci"] not in unread
    }
    has_tools = (row.get("facts") or {}).get("firmware_tools")
    if has_tools is False:
        reason = "/opt/mellanox/bin/mlxconfig is not on this host: install NVIDIA's MFT and NMST components"
        unread |= dict.fromkeys(firmware, reason)
        firmware = {}
    told = (row.get("facts") or {}).get("links")
    nodes = (row.get("facts") or {}).get("nodes") or {}
    links = GpuLinks(links=told, numa_nodes=nodes) if told is not None else None
    mig = (row.get("facts") or {}).get("mig")
    return ShellFacts(
        links=links,
        mig=None
        if mig is None
        else {
            pci_id: tuple(MigInstance(start=start, size=size) for start, size in places)
            for pci_id, places in mig.items()
        },
        gpus=gpus,
        firmware=firmware,
        has_firmware_tools=has_tools,
        driver_version="580.95.02" if has_driver else None,
        unread=unread,
    )
