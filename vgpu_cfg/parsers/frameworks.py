"""The software of a training: PyTorch's own values, `mpirun --version`, nccl.env, and an image's environment.

Sources: PyTorch's `torch.__version__`, `torch.version.cuda` and `torch.cuda.nccl.version()`, which is one
number up to 1.9 and three from 1.10 on; the first lines that Open MPI, MPICH's Hydra and Intel MPI print; the
Dockerfiles of nvidia/cuda (`CUDA_VERSION`, `NCCL_VERSION`), of which NVIDIA's and PyTorch's are made;
`PYTORCH_VERSION` of PyTorch's (pytorch/pytorch, issue 48324). PyTorch may carry an NCCL of its own in
addition to that of the image (pytorch/pytorch, issue 150049).

Belief: images-name-their-cuda.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.parsers.text import UnreadableOutput, lines_with_content

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


_VERSION = re.compile(r"\d+(?:\.\d+)*")
_FRAMEWORKS = (("PYTORCH_VERSION", "PyTorch"), ("TENSORFLOW_VERSION", "TensorFlow"))


class ImageVersions(Frozen):
    """Versions as the image states them, "" where it does not."""

    cuda: str = ""
    nccl: str = ""
    framework: str = ""


def parse_image_env(text: str) -> ImageVersions:
    """Read what `env` prints in a container; lines of something else are left out."""
    values = dict(line.partition("=")[::2] for line in text.splitlines() if "=" in line)
    framework = next(
        (f"{name} {values[key]}" for key, name in _FRAMEWORKS if _VERSION.match(values.get(key, ""))), ""
    )
    return ImageVersions(
        cuda=_version(values.get("CUDA_VERSION", "")),
        nccl=_version(values.get("NCCL_VERSION", "")),
        framework=framework,
    )


def _version(text: str) -> str:
    found = _VERSION.match(text)
    return found.group() if found else ""
