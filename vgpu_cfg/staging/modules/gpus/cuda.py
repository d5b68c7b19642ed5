"""Install the CUDA Toolkit in a guest: from a package without a driver, with its PATH.

NVIDIA, CUDA Installation Guide for Linux 12.9, "Package Manager Installation" (repositories, cuda-keyring,
packages: `cuda` brings a driver, `cuda-toolkit-X-Y` does not), "Runfile Installation" (--toolkit) and
"Post-installation Actions" (PATH, LD_LIBRARY_PATH).

Belief: cuda-repository.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from vgpu_cfg.model.guests.modules import CudaModule
from vgpu_cfg.model.plan_file.guest_values import CUDA_PACKAGES, check_cuda_version, check_url, package_kind
from vgpu_cfg.staging import values
from vgpu_cfg.staging.rendering import Staged, StagingContext, halves, render, source_file

NVIDIA = "https://developer.download.nvidia.com/compute/cuda/repos"
DRIVERS = (
    *(
        "cuda",
        "cuda-drivers*",
        "cuda-runtime-*",
        "cuda-[0-9]*",
        "nvidia-driver*",
        "nvidia-dkms*",
        "nvidia-open*",
    ),
    *("nvidia-kernel*", "nvidia-compute-utils*", "libnvidia-*", "libcuda1", "kmod-nvidia*", "nvidia-kmod*"),
)
"""The packages in NVIDIA's repository that would replace the vGPU's own guest driver."""


KEYRINGS = {
    "debian11/x86_64": "dfc6e5cdbfc9b4cd1ca8bf6b6eda5d8582ca50d51b7e64ba049b935d52325d58",
    "debian12/x86_64": "e7f219eab6fe4819cdb5c15b98233dc3420302d9c00883219cd3d896857cf48d",
    "debian12/sbsa": "bf2f53b1a19259501119f732bdef2699f8c80c69a18e6a78dad78d67d96766dc",
    "debian13/x86_64": "dd28f1f6ba0038180d6b23f846cefca1e3de4c9327751665241370bacea452a1",
    "ubuntu2004/x86_64": "cf5ca9853118b9fb2b78dd2708786e1eb5ab14e39d8738539281429428eb4efe",
    "ubuntu2204/x86_64": "d93190d50b98ad4699ff40f4f7af50f16a76dac3bb8da1eaaf366d47898ff8df",
    "ubuntu2204/sbsa": "36d1aed84dfcf93ee9a0212d149f1c4187db92e03ab96a759ec0689aa438fd9e",
    "ubuntu2404/x86_64": "d2a6b11c096396d868758b86dab1823b25e14d70333f1dfa74da5ddaf6a06dba",
    "ubuntu2404/sbsa": "6ea7d2737648936820e85677177957a0f6521b840d98eb0bbae0a4f003fa7249",
}
"""The SHA-256 of cuda-keyring_1.1-1_all.deb in NVIDIA's repositories, as installers in public use have it.

Read in November 2026: GoogleCloudPlatform/compute-gpu-installation (x86_64); a second source for ubuntu2204,
ubuntu2404, debian12 and for sbsa.
"""


def stage(module: CudaModule, context: StagingContext) -> Staged:  # noqa: ARG001 - one signature for all
    """Install the toolkit unless its folder is there, and write its PATH."""
    version = values.asserted(check_cuda_version, "the CUDA Toolkit version", module.version)
    repository = values.asserted(check_url, "the CUDA repository", module.repository)
    package = values.package_of(module.package, CUDA_PACKAGES, "the CUDA Toolkit package")
    return halves(
        "cuda.sh.j2",
        source_file("cuda.sh", render("cuda-profile.sh.j2", version=version)),
        version=version,
        name=f"cuda-toolkit-{version.replace('.', '-')}",
        repository=repository,
        host=urlsplit(repository).hostname or "",
        nvidia=NVIDIA,
        package=package,
        file=f"cuda{package_kind(package)}",
        sha256=values.sha256(module.sha256),
        keyring_sha256=values.sha256(module.keyring_sha256),
        keyrings=tuple(KEYRINGS.items()),
        drivers=DRIVERS,
    )
