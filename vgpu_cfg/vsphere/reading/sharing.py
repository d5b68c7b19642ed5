"""Whether a GPU is cut by MIG, if the API does not show it.

From API 8.0.3.0 on `vgpuMode` shows it. Before, these show it, in this order: the profiles that run on the
GPU; the profiles that the host could now create on its board; all profiles that its driver knows for the
board. If these name both kinds, nothing is concluded.

A cluster's settings for single VMs: DRS and HA overrides.

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
    """Return the board of a PCI function, None if the catalog lacks it."""
    return load_catalog().of_device(device)


def prefixes_of(device: PciDevice) -> tuple[str, ...]:
    """Return the prefixes of a board's profile names; none if the catalog lacks it."""
    board = board_of(device)
    return () if board is None else board.prefixes


def infer_sharing(host: Host, vms: Mapping[str, Vm]) -> Host:
    """Fill in the sharing of the host's GPUs, if known."""
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
    """Return a cluster's settings for single VMs, as far as the VMs' table has them."""
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
