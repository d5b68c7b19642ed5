"""What starts a training beside Horovod: which PyTorch and which Open MPI an image holds, as they say it.

Versions are those of PyTorch's own wheel 2.6.0 (CUDA 12.6, NCCL 2.21.5), and of an Open MPI of that year:
what NVIDIA's images of a month hold, the lab does not know.
"""

from __future__ import annotations

from collections.abc import Sequence

from vgpu_cfg.lab.estates.guests import ImagePart
from vgpu_cfg.lab.guest.shell.session import Result
from vgpu_cfg.lab.guest.tools.base import fail, out

TORCH = ("torch 2.6.0+cu126", "cuda 12.6", "nccl 2.21.5", "distributed yes")
MPIRUN = "mpirun (Open MPI) 4.1.7\n\nReport bugs to http://www.open-mpi.org/community/help/"
_ABSENT = 127


def answer_of(image: ImagePart, words: Sequence[str]) -> Result | None:
    """Answer what an image's PyTorch or mpirun is asked; None where the question is about neither."""
    line = " ".join(words)
    if "import torch" in line:
        if not image.torch:
            return fail("ModuleNotFoundError: No module named 'torch'", status=1)
        found = out(*TORCH) if 'print("torch"' in line else out("True")
        return Result(found.status, found.out, b"/usr/local/bin/torchrun\n")
    if words[:1] == ["mpirun"]:
        if not image.mpi:
            return fail('exec: "mpirun": executable file not found in $PATH: unknown.', status=_ABSENT)
        return out(MPIRUN)
    return None
