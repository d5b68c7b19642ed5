"""Estates made by rule instead of written: any number of hosts, GPUs and VMs, the same for the same name.

    fleet-100x8           100 hosts of 8 GPUs, one template
    fleet-1000x8-10000vms and 10,000 VMs, of which the first run on GPUs
    fleet-20x8+480        20 such hosts, and 480 without a GPU in clusters of their own

Boards, sizes and modes vary from host to host; VMs are packed host by host without asking the
rules, in shapes that the rules allow.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import cycle

from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.lab.building.site import HOST_BRIDGES, Site, gpu_name, gpu_pci, new_site, nic_pci
from vgpu_cfg.lab.estates.stock import GPU_BUSES, NIC_MODELS, RELEASES
from vgpu_cfg.lab.simulation.clock import VMS_RUN_SINCE
from vgpu_cfg.lab.state.devices import FIRST_PASSTHROUGH, vgpu_backing
from vgpu_cfg.lab.state.host import Gpu, Host, HostDriver, Nic, NumaNode, PciDevice, VgpuUse, Vib
from vgpu_cfg.lab.state.host_defaults import DAEMON_VIB, EVALUATION, bundle_vibs, set_defaults
from vgpu_cfg.lab.state.inventory import Cluster, Folder, LabState, ResourcePool, VirtualMachine

DIGEST = "fleet-3"
"""Part of a saved state's stamp: raise it when the same name would give another fleet."""

HOSTS_PER_CLUSTER = 50
MOST_HOSTS = 10_000
MOST_GPUS = 64
MOST_VMS = 200_000
_NAME = re.compile(r"fleet-([0-9]{1,18})x([0-9]{1,18})(?:\+([0-9]{1,18}))?(?:-([0-9]{1,18})vms)?")


@dataclass(frozen=True, slots=True)
class FleetSize:
    """The content of a fleet's name: hosts with so many GPUs each, hosts with none, VMs."""

    name: str
    hosts: int
    gpus: int
    without: int
    vms: int


@dataclass(frozen=True, slots=True)
class _Kind:
    """One kind of host: the board, and the profile its first VMs have, so many to a GPU."""

    board: str
    profile: str
    per_gpu: int
    window_gb: int


_KINDS = (
    _Kind("A100", "grid_a100-10c", 4, 128),
    _Kind("A100D", "grid_a100d-20c", 4, 256),
    _Kind("L40S", "nvidia_l40s-24c", 2, 128),
    _Kind("H100", "nvidia_h100-80c", 1, 256),
)


def parse_name(name: str) -> FleetSize | None:
    """Return the size that a fleet's name says; None where it is no fleet's name.

    Raises DocumentError for a fleet that no memory would hold.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    size = FleetSize(name, int(found[1]), int(found[2]), int(found[3] or 0), int(found[4] or 0))
    if size.hosts + size.without > MOST_HOSTS or size.gpus > MOST_GPUS or size.vms > MOST_VMS:
        limits = f"{MOST_HOSTS} hosts, {MOST_GPUS} GPUs in each, {MOST_VMS} VMs"
        raise DocumentError(
            [DocumentFault(name, 1, 1, "the fleet is too large for the lab")], remedy=f"use at most {limits}"
        )
    return size


def build_fleet(size: FleetSize) -> LabState:
    """Build the state of a fleet."""
    site = new_site(size.name, vcenter="lab", release="8.0 U3", datacenter="dc1")
    site.add_datastore("vsan", "vsan", 4_000_000_000, 3_000_000_000)
    site.add_network("vm-network")
    site.add_folder("training")
    hosts = _add_hosts(site, size)
    _add_template(site, hosts[0]) if hosts else None
    _add_vms(site, hosts, size.vms)
    return site.state


def _add_hosts(site: Site, size: FleetSize) -> list[Host]:
    parts = [_parts(kind, size.gpus) for kind in _KINDS]
    bare = _parts(_KINDS[0], 0)
    return [
        *(
            _add_host(site, "gpu", index, _make_host(site, index, *parts[index % len(_KINDS)]))
            for index in range(size.hosts)
        ),
        *(
            _add_host(site, "cpu", index, _make_host(site, size.hosts + index, *bare))
            for index in range(size.without)
        ),
    ]


def _add_host(site: Site, clusters: str, index: int, host: Host) -> Host:
    """Add a host to one of the clusters of this name, of which each takes fifty."""
    at = index // HOSTS_PER_CLUSTER
    name = clusters if at == 0 else f"{clusters}-{at + 1:02}"
    cluster = site.clusters.get(name) or site.add_cluster(name)
    return site.add_host(cluster, host, ("vsan",), ("vm-network",))


def _parts(
    kind: _Kind, gpus: int
) -> tuple[_Kind, tuple[PciDevice, ...], PciDevice, tuple[NumaNode, ...], int]:
    """Return what all hosts of a kind share."""
    board = load_catalog().board(kind.board)
    addresses = [
        *(f"0000:{bus:02x}:00.0" for bus in GPU_BUSES),
        *(f"0001:{n:02x}:00.0" for n in range(1, 256)),
    ][:gpus]
    devices = tuple(
        gpu_pci(board, pci_id, 0 if index < (gpus + 1) // 2 else 1) for index, pci_id in enumerate(addresses)
    )
    nic = nic_pci(NIC_MODELS["ConnectX-6 Dx"], "0000:1a:00.0", 0)
    nodes = tuple(
        NumaNode(node, 32, 524_288, tuple(pci.pci_id for pci in (*devices, nic) if pci.numa_node == node))
        for node in (0, 1)
    )
    return kind, devices, nic, nodes, board.framebuffer_mib


def _make_host(
    site: Site,
    index: int,
    kind: _Kind,
    devices: tuple[PciDevice, ...],
    nic: PciDevice,
    nodes: tuple[NumaNode, ...],
    framebuffer_mib: int,
) -> Host:
    release = RELEASES["8.0 U3"]
    name = gpu_name(load_catalog().board(kind.board))
    host = Host(
        moid=site.state.new_moid("host"),
        name=f"esx-{index + 1:04}.lab",
        uuid=f"4c4c4544-0000-1000-8000-{index:012x}",
        system_id=f"5e0000aa-{index:04x}-4000-8000-{index:012x}",
        version=release.version,
        update=release.update,
        build=release.build,
        api_version=release.api_version,
        numa_nodes=nodes,
        other_pci=HOST_BRIDGES,
        gpus=[Gpu(pci=pci, board=kind.board, name=name, memory_mib=framebuffer_mib) for pci in devices],
        nics=[Nic(device="vmnic0", pci=nic, mac=f"b8:ce:f6:00:{index >> 8 & 0xFF:02x}:{index & 0xFF:02x}")],
        licence=EVALUATION,
    )
    set_defaults(host)
    host.bundles = _BUNDLES
    return host


def _bundles(version: str) -> dict[str, tuple[Vib, ...]]:
    """Return the two bundles of a driver release, as NVIDIA ships them, at their paths on the datastore."""
    vibs = bundle_vibs(HostDriver(version=version), 8)
    daemon = tuple(vib for vib in vibs if vib.name == DAEMON_VIB)
    return {
        f"/vmfs/volumes/vsan/NVD-AIE-800_{version}.zip": tuple(vib for vib in vibs if vib not in daemon),
        f"/vmfs/volumes/vsan/nvd-gpu-mgmt-daemon_{version}.zip": daemon,
    }


_BUNDLES = _bundles("595.71.03")
"""The release that fleets can be upgraded to; all hosts read one datastore."""


def _add_template(site: Site, host: Host) -> None:
    template = _machine(site, "ubuntu-22.04-efi", 19)
    template.is_template = True
    site.add_vm(
        template,
        host=host,
        folder=site.state.get(site.datacenter.vm_folder, Folder),
        pool=None,
        datastore=site.datastores["vsan"],
        disks_mib=(64 * 1024,),
        networks=(site.networks["vm-network"],),
    )


def _add_vms(site: Site, hosts: list[Host], count: int) -> None:
    """Spread VMs over the hosts in turn; a host's VMs take its GPUs until half of them are full."""
    folder = site.add_folder("others")
    store, networks = site.datastores["vsan"], (site.networks["vm-network"],)
    pools = {host.moid: _root_pool(site, host) for host in hosts}
    on_host = dict.fromkeys((host.moid for host in hosts), 0)
    kinds = {host.moid: _KINDS[index % len(_KINDS)] for index, host in enumerate(hosts)}
    for index, host in zip(range(count), cycle(hosts), strict=False):
        kind = kinds[host.moid]
        nth = on_host[host.moid]
        on_host[host.moid] = nth + 1
        gpu_at = nth // kind.per_gpu
        gpu = host.gpus[gpu_at] if gpu_at < len(host.gpus) // 2 else None
        vm = _machine(site, f"vm-{index + 1:05}", 19)
        if gpu is not None:
            vm.memory_reservation_mib, vm.memory_reservation_locked = vm.memory_mib, True
            vm.extra_config = {
                "pciPassthru.use64bitMMIO": "TRUE",
                "pciPassthru.64bitMMIOSizeGB": str(kind.window_gb),
            }
            gpu.uses.append(VgpuUse(vm.moid, FIRST_PASSTHROUGH, kind.profile))
        vm.power_state, vm.boot_time = "poweredOn", VMS_RUN_SINCE
        site.add_vm(
            vm,
            host=host,
            folder=folder,
            pool=pools[host.moid],
            datastore=store,
            disks_mib=(40 * 1024,),
            networks=networks,
            passthrough=(_backing(kind.profile),) if gpu is not None else (),
        )


_BACKINGS = {kind.profile: vgpu_backing(kind.profile) for kind in _KINDS}


def _backing(profile: str) -> object:
    return _BACKINGS[profile]


def _root_pool(site: Site, host: Host) -> ResourcePool:
    cluster = site.state.get(host.parent, Cluster)
    return site.state.get(cluster.resource_pool, ResourcePool)


def _machine(site: Site, name: str, hardware_version: int) -> VirtualMachine:
    moid = site.state.new_moid("vm")
    number = site.state.last_number
    return VirtualMachine(
        moid=moid,
        name=name,
        uuid=f"42{number:06x}-1f0a-4d3b-9c11-{number:012x}",
        instance_uuid=f"50{number:06x}-2b7c-4e11-8a5d-{number:012x}",
        cpus=4,
        memory_mib=8192,
        hardware_version=hardware_version,
    )
