"""The GPUs that nvidia-smi sees on a host: their names there, their selection, and the framebuffer in use.

The framebuffer in use is that which a GPU's vGPUs hold. A tool of the host's shell results in a status and
two texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from uuid import NAMESPACE_DNS, uuid5

from vgpu_cfg.catalog import Board, load_catalog
from vgpu_cfg.lab.rules.gpu_load import entry_of
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.host import Gpu, Host


def visible(host: Host) -> list[Gpu]:
    """Return the GPUs that the driver has, as nvidia-smi numbers them: by address.

    The driver of kind `vgpu` has no compute boards (NVIDIA AI Enterprise user guide); that those are the
    ones with HBM is derived.
    """
    seen = (gpu for gpu in host.gpus if not host.is_passed_through(gpu.pci_id) and _is_claimed(host, gpu))
    return sorted(seen, key=lambda gpu: gpu.pci_id)


def _is_claimed(host: Host, gpu: Gpu) -> bool:
    is_graphics = board_of(gpu).memory_type.startswith("GDDR")
    return host.driver is not None and (host.driver.kind == "nvd-aie" or is_graphics)


def board_of(gpu: Gpu) -> Board:
    """Return a GPU's board."""
    return load_catalog().board(gpu.board)


def bus_id(gpu: Gpu) -> str:
    """Return a GPU's address with eight digits of domain, in capitals: `00000000:E2:00.0`."""
    return f"0000{gpu.pci_id.upper()}"


def uuid_of(host: Host, gpu: Gpu) -> str:
    """Return a GPU's UUID, made up and always the same."""
    return f"GPU-{uuid5(NAMESPACE_DNS, f'{gpu.pci_id}.{host.uuid}')}"


def on_or_off(*, is_on: bool) -> str:
    """Return nvidia-smi's word for a mode."""
    return "Enabled" if is_on else "Disabled"


def mig_words(gpu: Gpu) -> tuple[str, str]:
    """Return the current and the pending MIG mode; `N/A` for a board without."""
    if board_of(gpu).mig is None:
        return "N/A", "N/A"
    return on_or_off(is_on=gpu.mig_enabled), on_or_off(is_on=gpu.mig_pending)


def select(host: Host, wanted: str) -> list[Gpu] | None:
    """Return the GPUs of `-i`: numbers, addresses or UUIDs, with commas; None where one is not there."""
    seen = visible(host)
    if not wanted:
        return seen
    chosen = [_named(host, seen, name) for name in wanted.split(",")]
    return [gpu for gpu in chosen if gpu is not None] if None not in chosen else None


def _named(host: Host, seen: Iterable[Gpu], name: str) -> Gpu | None:
    for number, gpu in enumerate(seen):
        if name == str(number) or name == uuid_of(host, gpu) or _address(name) == gpu.pci_id:
            return gpu
    return None


def _address(name: str) -> str:
    """Return an address with four digits of domain, in small letters; any other text unchanged."""
    match name.lower().split(":"):
        case [bus, slot]:
            return f"0000:{bus}:{slot}"
        case [domain, bus, slot] if domain.strip("0123456789abcdef") == "":
            return f"{domain[-4:].zfill(4)}:{bus}:{slot}"
        case _:
            return name


def number_of(host: Host, gpu: Gpu) -> int:
    """Return the number of a GPU that the driver has."""
    return visible(host).index(gpu)


def used_mib(gpu: Gpu) -> int:
    """Return the sum of what runs on a GPU."""
    entries = (entry_of(gpu.board, use.profile) for use in gpu.uses)
    return sum(entry.framebuffer_mib for entry in entries if entry is not None)


@dataclass(frozen=True, slots=True)
class Reply:
    """The exit status, and what went to either stream."""

    status: int = 0
    stdout: str = ""
    stderr: str = ""


Tool = Callable[["Simulation", Host, Sequence[str]], Reply]
"""`tool(lab, host, arguments)`, without the tool's own name."""


def say(*lines: str, status: int = 0) -> Reply:
    """Return a reply of whole lines on stdout."""
    return Reply(status, "".join(f"{line}\n" for line in lines))


def complain(*lines: str, status: int = 1) -> Reply:
    """Return a reply of whole lines on stderr."""
    return Reply(status, stderr="".join(f"{line}\n" for line in lines))
