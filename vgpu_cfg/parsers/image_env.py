"""The content of a container image by its environment.

Sources: the Dockerfiles of nvidia/cuda (`CUDA_VERSION`, `NCCL_VERSION`), of which NVIDIA's and PyTorch's are
made; `PYTORCH_VERSION` of PyTorch's (pytorch/pytorch, issue 48324). PyTorch may carry an NCCL of its own in
addition to that of the image (pytorch/pytorch, issue 150049).

Belief: images-name-their-cuda.
"""

from __future__ import annotations

import re

from vgpu_cfg.model.frozen import Frozen

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
