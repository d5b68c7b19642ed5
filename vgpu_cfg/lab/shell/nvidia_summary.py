"""nvidia-smi without a question: the summary of GPUs, in the layout of driver 525 with its MIG line.

Temperatures and watts are made up, and no process is ever listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vgpu_cfg.lab.clock import as_datetime
from vgpu_cfg.lab.host_state import Gpu, Host
from vgpu_cfg.lab.shell.gpus import bus_id, mig_words, number_of
from vgpu_cfg.lab.shell.memory import used_mib
from vgpu_cfg.lab.shell.replies import Reply, say

if TYPE_CHECKING:
    from vgpu_cfg.lab.vcenter import Lab

WHOLE = "+" + "-" * 77 + "+"
PARTS = "+" + "-" * 31 + "+" + "-" * 22 + "+" + "-" * 22 + "+"
HEAD = (
    "|" + PARTS[1:],
    "| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |",
    "| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |",
    "|                               |                      |               MIG M. |",
    "|" + "=" * 31 + "+" + "=" * 22 + "+" + "=" * 22 + "|",
)
NAME_WIDTH = 18


def summary(lab: Lab, host: Host, gpus: Sequence[Gpu]) -> Reply:
    """Return the table of some GPUs."""
    version = host.driver.version if host.driver is not None else "N/A"
    title = f" NVIDIA-SMI {version:<13}Driver Version: {version:<13}CUDA Version: N/A"
    return say(
        f"{as_datetime(lab.clock.now()):%a %b %e %H:%M:%S %Y}",
        WHOLE,
        f"|{title:<77}|",
        *HEAD,
        *(line for gpu in gpus for line in _lines(host, gpu)),
        "",
        WHOLE,
        f"|{' Processes:':<77}|",
        "|" + "=" * 77 + "|",
        f"|{'  No running processes found':<77}|",
        WHOLE,
    )


def _lines(host: Host, gpu: Gpu) -> list[str]:
    name = gpu.name if len(gpu.name) <= NAME_WIDTH else f"{gpu.name[: NAME_WIDTH - 3]}..."
    memory = f"{used_mib(gpu)}MiB / {gpu.memory_mib}MiB"
    ecc = "0" if gpu.ecc_enabled else "Off"
    return [
        f"|{number_of(host, gpu):>4}  {name:<20}On   | {bus_id(gpu)} Off |{ecc:>21} |",
        f"| N/A   30C    P0    50W / 300W |{memory:>21} |      0%      Default |",
        f"|{'':31}|{'':22}|{mig_words(gpu)[0]:>21} |",
        PARTS,
    ]
