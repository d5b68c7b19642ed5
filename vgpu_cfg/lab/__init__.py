"""A simulated vCenter with GPUs: opened by an estate's name, it answers requests as bytes."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.lab.estates.files import estate_names

if TYPE_CHECKING:
    from vgpu_cfg.lab.rules.gpu_load import GpuChoice
    from vgpu_cfg.lab.simulation.clock import LabClock
    from vgpu_cfg.lab.vcenter import Lab as Lab

__all__ = ["about_estate", "estate_names", "open_lab", "reset_lab"]


def open_lab(
    estate: str | Path,
    *,
    folder: Path | None = None,
    clock: LabClock | None = None,
    gpu_choice: GpuChoice = "least_loaded",
    seed: int = 0,
    task_seconds: float = 1.0,
    task_limit: int | None = None,
    attribute_length: int | None = None,
) -> Lab:
    """Open a lab: a shipped estate, `fleet-<hosts>x<gpus>[+<hosts>][-<vms>vms]`, or an estate file.

    `folder` holds its state between commands; None keeps it in memory. `clock` is the wall clock by
    default. `task_seconds` scales how long tasks last. Values of custom attributes are cut off after
    `attribute_length` characters. Raises `DocumentError`.
    """
    from vgpu_cfg.lab.building import fleet
    from vgpu_cfg.lab.building.builder import build_state
    from vgpu_cfg.lab.estates.files import read_estate
    from vgpu_cfg.lab.simulation.clock import RealClock
    from vgpu_cfg.lab.state.store import Store
    from vgpu_cfg.lab.vcenter import Lab

    size = fleet.parse_name(str(estate))
    if size is not None:
        name, digest, build = str(estate), fleet.DIGEST, partial(fleet.build_fleet, size)
    else:
        source = read_estate(estate)
        name, digest, build = source.name, source.digest, partial(build_state, source)
    store = Store(folder, name, digest, build, called=str(estate)) if folder is not None else None
    lab = Lab(
        build(),
        clock=clock if clock is not None else RealClock(),
        store=store,
        gpu_choice=gpu_choice,
        seed=seed,
        task_seconds=task_seconds,
        task_limit=task_limit,
        attribute_length=attribute_length,
    )
    if folder is not None:
        lab.faults.load(folder)
    lab.settle()
    return lab


def about_estate(name: str) -> str:
    """Return the description of a shipped estate, in one sentence."""
    from vgpu_cfg.lab.estates.files import read_estate

    return read_estate(name).estate.about


def reset_lab(folder: Path) -> bool:
    """Forget the state kept in a folder, scripted faults included; False where there was none.

    Raises DocumentError where it cannot be removed.
    """
    try:
        shutil.rmtree(folder)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        fault = DocumentFault(str(folder), 1, 1, f"the lab's state cannot be removed: {error.strerror}")
        raise DocumentError([fault], remedy="check who owns the folder") from error
    return True
