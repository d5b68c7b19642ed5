"""What an image's environment tells of what is in it."""

from __future__ import annotations

import pytest

from vgpu_cfg.parsers.frameworks import ImageVersions, parse_image_env

# ENV lines of the Dockerfile of nvidia/cuda 12.4.1-runtime-ubuntu22.04 (nvidia/container-images/cuda,
# dist/12.4.1/ubuntu2204), and of PyTorch's (pytorch/pytorch, issue 125862).
CUDA = """PATH=/usr/local/nvidia/bin:/usr/local/cuda/bin:/usr/bin
NVARCH=x86_64
NVIDIA_REQUIRE_CUDA=cuda>=12.4 brand=tesla,driver>=470,driver<471
NV_CUDA_CUDART_VERSION=12.4.127-1
CUDA_VERSION=12.4.1
NCCL_VERSION=2.21.5-1
"""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (CUDA, ImageVersions(cuda="12.4.1", nccl="2.21.5")),
        (
            CUDA + "PYTORCH_VERSION=2.4.0.dev20240514\n",
            ImageVersions(cuda="12.4.1", nccl="2.21.5", framework="PyTorch 2.4.0.dev20240514"),
        ),
        ("PATH=/bin\nno equals sign\nCUDA_VERSION=\nNCCL_VERSION=latest\n", ImageVersions()),
        ("", ImageVersions()),
    ],
)
def test_what_is_stated(text: str, found: ImageVersions) -> None:
    assert parse_image_env(text) == found
