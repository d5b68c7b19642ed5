"""Hosts as a setting sees them, in few words: one A100 and one ConnectX-6 Dx unless a test says otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vgpu_cfg.catalog import Board, load_catalog
from vgpu_cfg.model.desired import DesiredHosts
from vgpu_cfg.model.observed.host_facts import ClusterFacts, FactGroup, HostFacts, ServiceFact
from vgpu_cfg.model.observed.inventory import Cluster, Gpu, Host, HostNic, PciDevice
from vgpu_cfg.planning.host_settings.entry import HostView

GPU = "0000:21:00.0"
GPU_2 = "0000:e2:00.0"
NIC = "0000:24:00.0"
NIC_2 = "0000:e4:00.0"
MELLANOX = 0x15B3
CONNECTX_6_DX = 0x101D

XORG: Mapping[str, ServiceFact] = {"xorg": ServiceFact(running=True, policy="automatic")}
ALL_READ = frozenset(FactGroup)


def board(name: str) -> Board:
    """Return a board of the catalogue."""
    return load_catalog().board(name)


def gpu(pci_id: str = GPU, name: str = "A100", *, pci: Mapping[str, Any] | None = None, **more: Any) -> Gpu:
    """Observe a GPU; `name` is a board's key or prefix, `pci` overrides what its function shows."""
    ids = board(name).pci_ids[0]
    function = {
        "pci_id": pci_id,
        "vendor_id": 0x10DE,
        "device_id": ids.device_id,
        "subdevice_id": ids.subsystem_id or 0,
        "class_id": 0x0302,
        "device_name": ids.name,
        "passthrough_capable": True,
    }
    return Gpu(pci=PciDevice.model_validate(function | dict(pci or {})), name=f"NVIDIA {ids.name}", **more)


def nic(
    device: str = "vmnic2",
    pci_id: str = NIC,
    *,
    device_id: int = CONNECTX_6_DX,
    pci: Mapping[str, Any] | None = None,
    **more: Any,
) -> HostNic:
    """Observe a Mellanox NIC on its own driver; `pci` overrides what its function shows."""
    function = {
        "pci_id": pci_id,
        "vendor_id": MELLANOX,
        "device_id": device_id,
        "class_id": 0x0200,
        "device_name": "MT2892 Family [ConnectX-6 Dx]",
        "passthrough_capable": True,
    }
    return HostNic(
        device=device,
        pci_id=pci_id,
        pci=PciDevice.model_validate(function | dict(pci or {})),
        **{"driver": "nmlx5_core", **more},
    )


def view(
    *,
    gpus: tuple[Gpu, ...] | None = None,
    nics: tuple[HostNic, ...] | None = None,
    devices: tuple[PciDevice, ...] = (),
    facts: Mapping[str, Any] | HostFacts | None = None,
    cluster: Mapping[str, Any] | None = None,
    **host: Any,
) -> HostView:
    """Observe one host. `facts` are fields of HostFacts, all groups read but those in its `unread`.

    `devices` are PCI functions besides those of the GPUs and NICs, such as a NIC that is passed through.
    `cluster` are fields of ClusterFacts; all else goes to the Host (`version`, `graphics_type`).
    """
    shown = (gpu(),) if gpus is None else gpus
    wired = (nic(),) if nics is None else nics
    functions = (*(one.pci for one in shown), *(one.pci for one in wired if one.pci is not None), *devices)
    boards = {
        one.pci_id: found
        for one in shown
        if (found := load_catalog().by_pci(one.pci.vendor_id, one.pci.device_id, one.pci.subdevice_id))
    }
    return HostView(
        host=Host(
            moid="host-1",
            **{
                "name": "esx-01",
                "version": "8.0.3",
                "cluster_moid": "domain-c1",
                "gpus": shown,
                "nics": wired,
                "pci_devices": functions,
                **host,
            },
        ),
        facts=facts if isinstance(facts, HostFacts) else make_facts(**(facts or {})),
        cluster=Cluster(moid="domain-c1", name="gpu", host_moids=("host-1",)),
        cluster_facts=ClusterFacts.model_validate(dict(cluster or {})),
        boards=boards,
        names={pci_id: found.names for pci_id, found in boards.items()},
    )


def make_facts(**fields: Any) -> HostFacts:
    """Make facts of a host on which every group was read, but those that `unread` names."""
    unread = fields.get("unread", {})
    given = {"groups": ALL_READ - frozenset(unread), "services": XORG, **fields}
    return HostFacts.model_validate(given)


def hosts(**keys: Any) -> DesiredHosts:
    """Desire one entry of `hosts`; `gpus` and `nics` may be one rule or several, as plain mappings."""
    for key in ("gpus", "nics", "vmknics"):
        if isinstance(keys.get(key), Mapping):
            keys[key] = (keys[key],)
    return DesiredHosts.model_validate({"cluster": "gpu", **keys})
