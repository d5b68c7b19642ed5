"""nvidia-smi without a question: the summary of GPUs, in the layout of driver 525 with its MIG line.

Temperatures and watts are made up, and no process is ever listed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from vgpu_cfg.lab.nvidia.gpus import bus_id, mig_words, number_of
from vgpu_cfg.lab.nvidia.memory import used_mib
from vgpu_cfg.lab.nvidia.replies import Reply, say
from vgpu_cfg.lab.simulation.clock import as_datetime
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.host import Gpu, Host

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


Row = tuple[int, str, str, str, str]
"""Number, name, address, memory, MIG mode of a GPU; the state of ECC is that of a GPU with it on."""


def summary(lab: Simulation, host: Host, gpus: Sequence[Gpu]) -> Reply:
    """Return the table of some GPUs."""
    version = host.driver.version if host.driver is not None else "N/A"
    rows = [
        (
            number_of(host, gpu),
            gpu.name,
            bus_id(gpu),
            f"{used_mib(gpu)}MiB / {gpu.memory_mib}MiB",
            mig_words(gpu)[0],
        )
        for gpu in gpus
    ]
    without = {number_of(host, gpu) for gpu in gpus if not gpu.ecc_enabled}
    return say(*table(lab.clock.now(), version, "N/A", rows, without_ecc=without))


def table(
    now: float,
    driver: str,
    cuda: str,
    rows: Sequence[Row],
    *,
    without_ecc: Collection[int] = (),
    modes: Mapping[int, str] | None = None,
    processes: Sequence[tuple[int, int, str, int]] = (),
) -> list[str]:
    """Return the lines of the summary, of a host's GPUs or a guest's.

    `modes` are compute modes by GPU, `processes` (GPU, pid, name, MiB).
    """
    title = f" NVIDIA-SMI {driver:<13}Driver Version: {driver:<13}CUDA Version: {cuda}"
    return [
        f"{as_datetime(now):%a %b %e %H:%M:%S %Y}",
        WHOLE,
        f"|{title:<77}|",
        *HEAD,
        *(
            line
            for row in rows
            for line in _lines(
                row, "Off" if row[0] in without_ecc else "0", (modes or {}).get(row[0], "Default")
            )
        ),
        "",
        WHOLE,
        f"|{' Processes:':<77}|",
        "|" + "=" * 77 + "|",
        *(
            f"|{gpu:>5}   N/A  N/A{pid:>12}      C   {name:<28}{used:>8}MiB |"
            for gpu, pid, name, used in processes
        ),
        *(() if processes else (f"|{'  No running processes found':<77}|",)),
        WHOLE,
    ]


def _lines(row: Row, ecc: str, mode: str) -> list[str]:
    number, full_name, address, memory, mig = row
    name = full_name if len(full_name) <= NAME_WIDTH else f"{full_name[: NAME_WIDTH - 3]}..."
    return [
        f"|{number:>4}  {name:<20}On   | {address} Off |{ecc:>21} |",
        f"| N/A   30C    P0    50W / 300W |{memory:>21} |      0%{mode:>13} |",
        f"|{'':31}|{'':22}|{mig:>21} |",
        PARTS,
    ]
