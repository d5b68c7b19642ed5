"""Slurm's lines for slurm.conf and gres.conf (slurm.schedmd.com, pages slurm.conf and gres.conf).

A node's GPUs are `Gres=gpu:TYPE:COUNT` in slurm.conf, and in gres.conf a line `NodeName= Name=gpu Type=
File=` for each type. A type is any word without blanks, colons and commas; GPUs of several types are taken
to be in the order of the plan file, as the guest's /dev/nvidia0, 1, ... follow its virtual PCI slots.
"""

from __future__ import annotations

from vgpu_cfg.model.host_list import HostList, ListedHost
from vgpu_cfg.staging.export.parts import Exported, ExportOptions, text_of

_SIGNS = "_.-"


def write_slurm(host_list: HostList, _options: ExportOptions) -> Exported:
    """Write what belongs into slurm.conf, and what into gres.conf."""
    conf = ["GresTypes=gpu", *(_node(host) for host in host_list.workers)]
    gres = [line for host in host_list.workers for line in _gres(host)]
    notes = [
        "RealMemory is left out: `slurmd -C` on a worker prints what Slurm sees there",
        "slurm.conf names other things too: these lines are added to it",
    ]
    if any(len(host.gpu_kinds) > 1 for host in host_list.workers):
        notes.append("a worker has GPUs of several kinds: compare gres.conf with its `nvidia-smi -L`")
    files = {
        "slurm.conf": "".join(f"{line}\n" for line in conf),
        "gres.conf": "".join(f"{line}\n" for line in gres),
    }
    return Exported(files, tuple(notes))


def _node(host: ListedHost) -> str:
    words = [f"NodeName={host.host_name}"]
    if host.address:
        words.append(f"NodeAddr={host.address}")
    if host.cpus:
        words.append(f"CPUs={host.cpus}")
    kinds = [f"gpu{_typed(kind)}:{count}" for kind, count in host.gpu_kinds.items()]
    if kinds:
        words.append(f"Gres={','.join(kinds)}")
    return " ".join([*words, "State=UNKNOWN"])


def _typed(kind: str) -> str:
    word = text_of(kind, _SIGNS)
    return f":{word}" if word else ""


def _gres(host: ListedHost) -> list[str]:
    lines = []
    numbers: dict[str, list[int]] = {}
    for number, gpu in enumerate(host.gpus):
        numbers.setdefault(gpu.kind, []).append(number)
    for kind, found in numbers.items():
        type_ = f" Type={_typed(kind)[1:]}" if _typed(kind) else ""
        lines.append(f"NodeName={host.host_name} Name=gpu{type_} File=/dev/nvidia{_numbered(found)}")
    return lines


def _numbered(numbers: list[int]) -> str:
    """Spell device numbers as Slurm does: 0, [0-3], [0,2-3]."""
    if len(numbers) == 1:
        return str(numbers[0])
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return f"[{','.join(f'{run[0]}-{run[-1]}' if len(run) > 1 else str(run[0]) for run in runs)}]"
