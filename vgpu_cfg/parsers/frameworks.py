"""The framework that starts a training: PyTorch's own values, and `mpirun --version`.

Sources: PyTorch's `torch.__version__`, `torch.version.cuda` and `torch.cuda.nccl.version()`, which is one
number up to 1.9 and three from 1.10 on; the first lines that Open MPI, MPICH's Hydra and Intel MPI print.

The content of a guest's /opt/vgpu-cfg/nccl.env: the set variables, and why one is not set.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.parsers.errors import UnreadableOutput
from vgpu_cfg.parsers.text import lines_with_content

TORCH = "python3, importing torch"
MPIRUN = "mpirun --version"

ASK_TORCH = """\
import torch
from torch.distributed import is_available
print("torch", torch.__version__)
print("cuda", torch.version.cuda or "none")
try:
    found = torch.cuda.nccl.version() if torch.version.cuda else ()
except Exception:
    found = ()
print("nccl", found if isinstance(found, int) else ".".join(str(part) for part in found) or "none")
print("distributed", "yes" if is_available() else "no")
"""
"""The program whose lines `parse_torch` reads."""

_LINE = re.compile(r"(?P<name>torch|cuda|nccl|distributed) (?P<value>\S+)")
_OPEN_MPI = re.compile(r"mpirun \((?:Open MPI|OpenRTE)\) (?P<version>\d+(?:\.\d+)+\S*)")
_OTHERS = (("HYDRA", "MPICH"), ("Intel(R) MPI", "Intel MPI"))

SETTINGS = "/opt/vgpu-cfg/nccl.env"

_NCCL_SETTINGS_LINE = re.compile(r"export ([A-Z][A-Z0-9_]*)=(.*)")
_REMARK = re.compile(r"# (NCCL_[A-Z0-9_]*): (.*)")


@dataclass(frozen=True, slots=True)
class Torch:
    """A PyTorch. `cuda` and `nccl` are "" where it was built without."""

    version: str
    cuda: str
    nccl: str
    is_distributed: bool


@dataclass(frozen=True, slots=True)
class Mpi:
    """Whose mpirun it is; `version` is "" where it is not Open MPI's."""

    name: str
    version: str = ""

    @property
    def is_open_mpi(self) -> bool:
        """Whether `train` can start it."""
        return self.name == "Open MPI"


def parse_torch(text: str) -> Torch:
    """Read what `ASK_TORCH` prints, among warnings. Raises UnreadableOutput where a line is missing."""
    found = {}
    for line in lines_with_content(text):
        words = _LINE.fullmatch(line.text.strip())
        if words is not None:
            found[words["name"]] = "" if words["value"] == "none" else words["value"]
    lacking = {"torch", "cuda", "nccl", "distributed"} - found.keys()
    if lacking:
        raise UnreadableOutput(TORCH, f"missing: {', '.join(sorted(lacking))}", line=text.strip()[-200:])
    return Torch(found["torch"], found["cuda"], found["nccl"], found["distributed"] == "yes")


def parse_mpirun(text: str) -> Mpi:
    """Read whose mpirun it is. Raises UnreadableOutput for what none of them prints."""
    found = _OPEN_MPI.search(text)
    if found is not None:
        return Mpi("Open MPI", found["version"])
    for mark, name in _OTHERS:
        if mark in text:
            return Mpi(name)
    raise UnreadableOutput(MPIRUN, "unknown mpirun", line=text.strip()[:200])


class NcclSettings(Frozen):
    """The variables, and by variable why it is left out."""

    variables: Mapping[str, str]
    remarks: Mapping[str, str]


def parse_nccl_settings(text: str) -> NcclSettings:
    """Read the file. Raises `UnreadableOutput` for a line that no shell would take as it was meant."""
    variables: dict[str, str] = {}
    remarks: dict[str, str] = {}
    for line in text.splitlines():
        remark = _REMARK.fullmatch(line)
        if remark is not None:
            remarks[remark[1]] = remark[2]
        if not line.strip() or line.startswith("#"):
            continue
        found = _NCCL_SETTINGS_LINE.fullmatch(line)
        try:
            words = shlex.split(found[2]) if found is not None else []
        except ValueError:
            words = []
        if found is None or len(words) > 1 or (found[2] and not words):
            raise UnreadableOutput(SETTINGS, "a line that does not set a variable", line=line[:200])
        variables[found[1]] = words[0] if words else ""
    return NcclSettings(variables=variables, remarks=remarks)
