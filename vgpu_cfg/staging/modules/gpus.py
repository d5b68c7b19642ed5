"""A guest's GPU software: NVIDIA's driver, its license, the CUDA Toolkit, and access for containers.

Sources: NVIDIA, CUDA Installation Guide for Linux 12.9, "Package Manager Installation" (repositories,
cuda-keyring, packages: `cuda` brings a driver, `cuda-toolkit-X-Y` does not), "Runfile Installation"
(--toolkit) and "Post-installation Actions" (PATH, LD_LIBRARY_PATH);
https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html

Belief: gridd-token-files, cuda-repository, nvidia-ctk-drop-in.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from vgpu_cfg.errors import GuestError
from vgpu_cfg.model.guests.downloads import CUDA_KEYRINGS, CUDA_RPM_KEYS, TOOLKIT, check_pin
from vgpu_cfg.model.guests.modules import CudaModule, DriverModule, LicenceModule
from vgpu_cfg.model.guests.training_modules import ToolkitModule
from vgpu_cfg.model.plan_file.guest_values import (
    CUDA_PACKAGES,
    DRIVER_PACKAGES,
    check_cuda_version,
    check_url,
    package_kind,
)
from vgpu_cfg.staging import values
from vgpu_cfg.staging.rendering import (
    Staged,
    StagingContext,
    halves,
    render,
    secret_file,
    source_file,
    two_scripts,
)
from vgpu_cfg.staging.runtimes import SERVICES

_BRANCH = re.compile(r"[0-9]{3,4}")


def stage_driver(module: DriverModule) -> Staged:
    """Install the package unless the guest has a driver of a branch that the host accepts."""
    for branch in (*module.branches, *module.refused):
        if not _BRANCH.fullmatch(branch):
            raise values.refuse("a driver branch", branch, "specify its number, such as 580")
    package = values.package_of(module.package, DRIVER_PACKAGES, "the driver package")
    return halves(
        "driver.sh.j2",
        package=package,
        file=f"driver{package_kind(package)}",
        sha256=values.sha256(module.sha256),
        branches=module.branches,
        refused=module.refused,
    )


_BLACKLIST = "blacklist nouveau\noptions nouveau modeset=0\n"


def stage_nouveau() -> Staged:
    """Prevent nouveau from loading, so that NVIDIA's driver finds the GPU free (NVAIE5 3.4).

    A restart is due only if nouveau runs and cannot be unloaded.
    """
    return halves("nouveau.sh.j2", source_file("blacklist-nouveau.conf", _BLACKLIST))


_FEATURE_TYPES = (0, 1, 2, 4)


def stage_licence(module: LicenceModule, context: StagingContext) -> Staged:
    """Write gridd.conf and the token, and wait, within bounds, until all GPUs are licensed."""
    token = context.secret(module.token, "the client configuration token").strip()
    if module.feature_type not in _FEATURE_TYPES:
        raise GuestError(
            f"gridd.conf does not support FeatureType {module.feature_type}",
            subject=context.spec.vm,
            remedy="use 4 for compute, 2 for a virtual workstation, 1 for NVIDIA vGPU, 0 for none",
        )
    return halves("licence.sh.j2", secret_file("licence-token", token), feature_type=module.feature_type)


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


CONFIGURATIONS = {
    "docker": "/etc/docker/daemon.json",
    "containerd": "/etc/containerd/config.toml",
    "apptainer": "",
}

_TOOLKIT_PACKAGES = (TOOLKIT, f"{TOOLKIT}-base", "libnvidia-container-tools", "libnvidia-container1")
"""All four have the toolkit's version, and the package managers would take the newest of each."""


def stage_toolkit(module: ToolkitModule) -> Staged:
    """Install the toolkit and configure the runtime; Apptainer's --nv needs neither."""
    repository = values.asserted(check_url, "the toolkit's repository", module.repository)
    version = values.asserted(check_pin, "the toolkit's version", module.version) if module.version else ""
    return two_scripts(
        "toolkit",
        runtime=module.runtime,
        repository=repository.rstrip("/"),
        toolkit=f"{TOOLKIT} {version}".rstrip(),
        key_address=module.key_address,
        key_sha256=values.sha256(module.key_sha256),
        apt_packages=" ".join(f"{name}={version}" for name in _TOOLKIT_PACKAGES) if version else TOOLKIT,
        dnf_packages=" ".join(f"{name}-{version}" for name in _TOOLKIT_PACKAGES) if version else TOOLKIT,
        configuration=CONFIGURATIONS[module.runtime],
        service=SERVICES[module.runtime],
    )
