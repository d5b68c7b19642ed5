"""The first checks of every GPU setting: is there a request, can the host's driver fulfill it, is it known.

A desired setting that cannot be is not dropped: its note says why, and the setting objects with it.
"""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_cfg.catalog import Board
from vgpu_cfg.model.desired import DesiredHosts
from vgpu_cfg.model.observed.host_facts import FactGroup, GpuShellFacts
from vgpu_cfg.model.observed.inventory import Gpu, Host
from vgpu_cfg.model.plan_file import HostGpuEntry
from vgpu_cfg.model.plan_values import GpuUse
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Objection
from vgpu_cfg.planning.host_settings.entry import DesiredSetting, HostView
from vgpu_cfg.planning.host_settings.gpus.driver import driver_facts
from vgpu_cfg.planning.host_settings.match import gpu_rules

PASSED_THROUGH = "the GPU is in passthrough mode, so this must be set in its guest"
NO_DRIVER = "no NVIDIA host driver is installed, and the plan file does not request one"

_OBJECTIONS = {
    PASSED_THROUGH: Objection(
        Code.NOT_SUPPORTED, PASSED_THROUGH, "remove it for this GPU, or set `use: vgpu`"
    ),
    NO_DRIVER: Objection(
        Code.NO_HOST_DRIVER, NO_DRIVER, "set `driver` to the required version and installation method"
    ),
}


def served_gpus(entry: DesiredHosts, view: HostView) -> Iterator[tuple[Gpu, HostGpuEntry, str]]:
    """Yield each GPU of which the plan file says something, with its rule and why it cannot be.

    The third is a note, empty where nothing is in the way. GPUs with `use: leave` are left out.
    """
    for gpu, rule in gpu_rules(entry, view):
        if rule.use is GpuUse.LEAVE:
            continue
        note = PASSED_THROUGH if rule.use is GpuUse.PASSTHROUGH else ""
        yield gpu, rule, note or driver_note(entry, view)


def driver_note(entry: DesiredHosts, view: HostView) -> str:
    """Report a setting that needs a missing host driver; nothing if present, planned or unknown."""
    if entry.driver is not None or FactGroup.SOFTWARE not in view.facts.groups:
        return ""
    return "" if driver_facts(view.facts.software).kind is not None else NO_DRIVER


def objection_to(_view: HostView, desired: DesiredSetting) -> Objection | None:
    """Return the objection in a desired setting's note."""
    return _OBJECTIONS.get(desired.note)


def architecture(view: HostView, pci_id: str) -> str:
    """Return the architecture of a GPU's board, empty where the catalogue does not know it."""
    board: Board | None = view.boards.get(pci_id)
    return board.architecture if board is not None else ""


def shares_instances(view: HostView, pci_id: str) -> bool:
    """Whether several vGPUs can share a MIG instance of the GPU by turns."""
    board: Board | None = view.boards.get(pci_id)
    shapes = board.mig.profiles.values() if board is not None and board.mig is not None else ()
    return any(shape.per_instance > 1 for shape in shapes)


def shell_facts(view: HostView, pci_id: str) -> tuple[GpuShellFacts | None, str]:
    """Return the `nvidia-smi` data of a GPU, or None and the reason."""
    shell = view.facts.shell
    if shell is None:
        reason = view.facts.unread.get(FactGroup.SHELL_GPUS)
        return None, reason or "readable only with nvidia-smi in the host's shell, which is closed"
    found = shell.gpus.get(pci_id)
    if found is not None:
        return found, ""
    gpu = view.gpu(pci_id)
    if gpu is not None and gpu.is_passthrough:
        return None, "the GPU is in passthrough mode, so the host's driver cannot access it"
    reported = shell.unread.get(pci_id) or shell.unread.get("")
    return None, reported or "nvidia-smi does not list the GPU"


def with_gpu(host: Host, pci_id: str, **update: object) -> Host:
    """Return the host with one GPU changed."""
    gpus = tuple(gpu.model_copy(update=update) if gpu.pci_id == pci_id else gpu for gpu in host.gpus)
    return host.model_copy(update={"gpus": gpus})
