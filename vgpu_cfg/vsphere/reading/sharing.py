"""Whether a GPU is cut by MIG, where the API does not say so.

From API 8.0.3.0 on `vgpuMode` tells. Before, what shows it is, in this order: the profiles
that run on the GPU; what the host could create on its board now; what its driver knows for
the board at all. Where these name both kinds, nothing is concluded.

What a cluster says of single VMs: DRS and HA overrides.

Source: vSphere API reference, ClusterConfigInfoEx.drsVmConfig and dasVmConfig.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from vgpu_cfg.catalog import Board, load_catalog
from vgpu_cfg.model.observed.drs import VmOverrides
from vgpu_cfg.model.observed.inventory import Gpu, Host, PciDevice
from vgpu_cfg.model.observed.vm import SettingValue, Vm
from vgpu_cfg.model.vgpu import Sharing, VgpuProfile
from vgpu_cfg.planning.vms.settings.cluster_rows import DRS_LIST, HA_LIST
from vgpu_cfg.planning.vms.settings.table import overrides
from vgpu_cfg.vsphere.wire.leaves import leaves_of


def board_of(device: PciDevice) -> Board | None:
    """Return the board that a PCI function is, None for what the catalogue lacks."""
    return load_catalog().by_pci(device.vendor_id, device.device_id, device.subsystem_id)


def prefixes_of(device: PciDevice) -> tuple[str, ...]:
    """Return the prefixes of a board's profile names; none for what the catalogue lacks."""
    board = board_of(device)
    return () if board is None else board.prefixes


def infer_sharing(host: Host, vms: Mapping[str, Vm]) -> Host:
    """Fill in the sharing of the host's GPUs, as far as it can be told."""
    if all(gpu.sharing is not None for gpu in host.gpus):
        return host
    gpus = tuple(
        gpu if gpu.sharing is not None else gpu.model_copy(update={"sharing": _infer(host, gpu, vms)})
        for gpu in host.gpus
    )
    return host.model_copy(update={"gpus": gpus})


def _infer(host: Host, gpu: Gpu, vms: Mapping[str, Vm]) -> Sharing | None:
    if gpu.is_passthrough:
        return None
    own = prefixes_of(gpu.pci)
    if not own and len({other.pci.device_id for other in host.gpus}) > 1:
        return None
    running = (
        device.profile
        for moid in gpu.vm_moids
        if moid in vms and (detail := vms[moid].detail) is not None
        for device in detail.vgpus
    )
    known = (info.name for info in host.profiles or ())
    for names in (running, host.creatable_profiles, known):
        found = _sharings(names, own)
        if found:
            return found.pop() if len(found) == 1 else None
    return None


def _sharings(names: Iterable[str], prefixes: tuple[str, ...]) -> set[Sharing]:
    """Collect how the profiles of a board share; without prefixes, of any board."""
    found = set()
    for name in names:
        try:
            profile = VgpuProfile.parse(name)
        except ValueError:
            continue
        if not prefixes or profile.prefix in prefixes:
            found.add(profile.sharing)
    return found


def vm_overrides(configuration: Any) -> tuple[VmOverrides, ...]:
    """Return what a cluster's configuration says of single VMs, as far as the VMs' table has words for it."""
    leaves: dict[str, dict[str, SettingValue]] = {}
    for name in (DRS_LIST, HA_LIST):
        for moid, entry in entries(configuration, name):
            found = leaves.setdefault(moid, {})
            found |= {f"{name}.{path}": value for path, value in leaves_of(entry)}
            # Only where it says so is DRS off for the VM (vSphere API reference, ClusterDrsVmConfigInfo).
            if name == DRS_LIST:
                found.setdefault(f"{name}.enabled", True)
    said = {moid: tuple(overrides(found)) for moid, found in leaves.items()}
    return tuple(VmOverrides(vm_moid=moid, settings=settings) for moid, settings in said.items() if settings)


def entries(configuration: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the entries of one of a cluster's lists, each with the moid of its VM."""
    for entry in getattr(configuration, name, None) or ():
        yield str(entry.key._moId), entry
