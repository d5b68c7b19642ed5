"""nvidia-smi -mig and -e: the mode that a GPU gets at once, and the one that waits.

Words are recorded: from ESXi with an A100 (pending until a reboot), from NVIDIA's MIG guide (a GPU in use),
from a board without MIG, and of ECC. The MIG guide states that Ampere boards need ESXi's reboot and later
ones do not; the status 0 without a change is reported for other settings of nvidia-smi.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vgpu_cfg.lab.nvidia.gpus import Reply, board_of, bus_id, on_or_off, say
from vgpu_cfg.lab.simulation.gpu_modes import watched_gpus
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.host import Gpu, Host
from vgpu_cfg.lab.state.host_defaults import KEEPS_MIG


def set_mig(lab: Simulation, host: Host, gpus: Sequence[Gpu], *, is_on: bool) -> Reply:
    """Switch MIG mode: at once, or from the next restart on, or not at all."""
    with watched_gpus(lab, host):
        lines = [line for gpu in gpus for line in _set_mig(gpu, is_on=is_on)]
    lab.state.touch(host)
    return say(*lines, "All done.")


def _set_mig(gpu: Gpu, *, is_on: bool) -> Iterator[str]:
    board, where = board_of(gpu), bus_id(gpu)
    verb = "enable" if is_on else "disable"
    if board.mig is None:
        yield f"Unable to {verb} MIG Mode for GPU {where}: Not Supported"
        yield "Treating as warning and moving on."
        return
    gpu.mig_pending = is_on
    pending = f"Warning: MIG mode is in pending {verb} state for GPU {where}"
    if gpu.mig_enabled == is_on:
        yield f"{on_or_off(is_on=is_on)} MIG Mode for GPU {where}"
    elif gpu.uses:
        yield f"{pending}:In use by another client"
        yield (
            f"{where} is currently being used by one or more other processes (e.g. CUDA application or a "
            "monitoring application such as another instance of nvidia-smi). Please first kill all processes "
            "using the device and retry the command or reboot the system to make MIG mode effective."
        )
    elif board.architecture in KEEPS_MIG:
        yield f"{pending}:Not Supported"
        yield f"Reboot the system or try nvidia-smi --gpu-reset to make MIG mode effective on GPU {where}"
    else:
        gpu.mig_enabled = is_on
        yield f"{on_or_off(is_on=is_on)} MIG Mode for GPU {where}"


def set_ecc(lab: Simulation, host: Host, gpus: Sequence[Gpu], *, is_on: bool) -> Reply:
    """Switch ECC from the next restart on."""
    for gpu in gpus:
        gpu.ecc_pending = is_on
    lab.state.touch(host)
    lines = [f"{on_or_off(is_on=is_on)} ECC support for GPU {bus_id(gpu)}." for gpu in gpus]
    waits = any(gpu.ecc_enabled != is_on for gpu in gpus)
    return say(*lines, "All done.", *(["Reboot required."] if waits else []))
