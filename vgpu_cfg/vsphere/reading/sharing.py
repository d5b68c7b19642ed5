"""Whether a GPU is cut by MIG, if the API does not show it.

From API 8.0.3.0 on `vgpuMode` shows it. Before, these show it, in this order: the profiles that run on the
GPU; the profiles that the host could now create on its board; all profiles that its driver knows for the
board. If these name both kinds, nothing is concluded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vgpu_cfg.catalog import Board, load_catalog
from vgpu_cfg.model.observed.inventory import Gpu, Host, PciDevice
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.vgpu import Sharing, VgpuProfile


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
