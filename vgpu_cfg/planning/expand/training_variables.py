"""Which variables of `training.environment` cannot be what they are said to be, for torchrun and for ranks.

torchrun takes each of its options from a variable PET_OPTION, too (torch/distributed/argparse_util.py), under
what its command line says; `train` writes that. Types and choices: torch/distributed/run.py, 1.10 to 2.15.
"""

from __future__ import annotations

import re

from vgpu_cfg.model.plan_file import TrainingEntry

PORT = "MASTER_PORT"
DEFAULT_PORT = 29500
"""Where ranks meet; torchrun's own default, which `train` sets."""
LAST_PORT = 65535
OF_EACH_PROCESS = frozenset(
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK", "NNODES", "NODE_ADDR"}
)
"""What a launcher tells each process for itself."""
WRITTEN = {
    "PET_NNODES": "`elastic` says how few and how many workers",
    "PET_NPROC_PER_NODE": "`slots` says how many processes run on a worker",
    "PET_MAX_RESTARTS": "write `max_restarts`",
    "PET_MASTER_ADDR": "write MASTER_ADDR",
    "PET_MASTER_PORT": "write MASTER_PORT",
} | dict.fromkeys(
    (
        *("PET_NODE_RANK", "PET_NO_PYTHON", "PET_RDZV_BACKEND", "PET_RDZV_ENDPOINT", "PET_RDZV_ID"),
        *("PET_RDZV_CONF", "PET_LOCAL_ADDR", "PET_STANDALONE", "PET_MODULE", "PET_RUN_PATH"),
    ),
    "remove it",
)
"""torchrun's options that `train` writes or that go against those, by their variable, and what to do."""
WHOLE_NUMBERS = frozenset({"PET_SHUTDOWN_TIMEOUT"})
NUMBERS = frozenset({"PET_MONITOR_INTERVAL"})
CHOICES = {"PET_START_METHOD": ("spawn", "fork", "forkserver")}


def meeting_port(entry: TrainingEntry) -> int | None:
    """Return the port at which ranks meet; None where horovodrun finds one, or what is written is none."""
    value = entry.environment.get(PORT, str(DEFAULT_PORT))
    return int(value) if entry.framework != "horovod" and _is_port(value) else None


def fault_of_variable(name: str, value: str) -> tuple[str, str] | None:
    """Return what is wrong with a variable and what to do, None where nothing is."""
    if name in OF_EACH_PROCESS:
        return f"{name} is another for each process, and what starts them sets it", "remove it"
    if name in WRITTEN:
        return f"`train` decides what torchrun would read in {name}", WRITTEN[name]
    if name == PORT and not _is_port(value):
        return f"{value!r} is no port, as {name} is one", f"write 1 to {LAST_PORT}"
    if name == "MASTER_ADDR" and not value.strip():
        return (
            f"{name} is empty, and ranks would meet nowhere",
            "write an address of the first worker, or remove it",
        )
    if name in WHOLE_NUMBERS and re.fullmatch("[0-9]+", value) is None:
        return f"{value!r} is no whole number of seconds, as torchrun reads {name}", "as in 30"
    if name in NUMBERS and re.fullmatch(r"[0-9]+([.][0-9]+)?|[.][0-9]+", value) is None:
        return f"{value!r} is no number of seconds, as torchrun reads {name}", "as in 0.1"
    if name in CHOICES and value not in CHOICES[name]:
        return f"{value!r} is nothing that torchrun knows as {name}", f"write {', '.join(CHOICES[name])}"
    return None


def _is_port(value: str) -> bool:
    return re.fullmatch("[0-9]{1,5}", value) is not None and 1 <= int(value) <= LAST_PORT
