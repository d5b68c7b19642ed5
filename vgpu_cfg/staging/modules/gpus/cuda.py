"""Install the CUDA Toolkit in a guest: from a package without a driver, with its PATH.

NVIDIA, CUDA Installation Guide for Linux 12.9, "Package Manager Installation" (repositories, cuda-keyring,
packages: `cuda` brings a driver, `cuda-toolkit-X-Y` does not), "Runfile Installation" (--toolkit) and
"Post-installation Actions" (PATH, LD_LIBRARY_PATH).

Belief: cuda-repository.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from vgpu_cfg.model.guests.downloads import CUDA_KEYRINGS, CUDA_RPM_KEYS
from vgpu_cfg.model.guests.modules import CudaModule
from vgpu_cfg.model.plan_file.guest_values import CUDA_PACKAGES, check_cuda_version, check_url, package_kind
from vgpu_cfg.staging import values
from vgpu_cfg.staging.rendering import Staged, halves, render, source_file

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


def stage_cuda(module: CudaModule) -> Staged:
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
        package=package,
        file=f"cuda{package_kind(package)}",
        sha256=values.sha256(module.sha256),
        keyring_sha256=values.sha256(module.keyring_sha256),
        keyrings=tuple(CUDA_KEYRINGS.items()),
        rpm_keys=CUDA_RPM_KEYS,
        drivers=DRIVERS,
    )
