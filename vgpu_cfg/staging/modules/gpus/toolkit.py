"""GPU access for containers: NVIDIA's container toolkit, and its configuration in the runtime.

https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html

Belief: nvidia-ctk-drop-in.
"""

from __future__ import annotations

from vgpu_cfg.model.guests.downloads import TOOLKIT, check_pin
from vgpu_cfg.model.guests.training_modules import ToolkitModule
from vgpu_cfg.model.plan_file.guest_values import check_url
from vgpu_cfg.staging import values
from vgpu_cfg.staging.rendering import Staged, render
from vgpu_cfg.staging.runtimes import SERVICES

CONFIGURATIONS = {
    "docker": "/etc/docker/daemon.json",
    "containerd": "/etc/containerd/config.toml",
    "apptainer": "",
}

_PACKAGES = (TOOLKIT, f"{TOOLKIT}-base", "libnvidia-container-tools", "libnvidia-container1")
"""All four have the toolkit's version, and the package managers would take the newest of each."""


def stage_toolkit(module: ToolkitModule) -> Staged:
    """Install the toolkit and configure the runtime; Apptainer's --nv needs neither."""
    repository = values.asserted(check_url, "the toolkit's repository", module.repository)
    version = values.asserted(check_pin, "the toolkit's version", module.version) if module.version else ""
    words = {
        "runtime": module.runtime,
        "repository": repository.rstrip("/"),
        "toolkit": f"{TOOLKIT} {version}".rstrip(),
        "key_address": module.key_address,
        "key_sha256": values.sha256(module.key_sha256),
        "apt_packages": " ".join(f"{name}={version}" for name in _PACKAGES) if version else TOOLKIT,
        "dnf_packages": " ".join(f"{name}-{version}" for name in _PACKAGES) if version else TOOLKIT,
        "configuration": CONFIGURATIONS[module.runtime],
        "service": SERVICES[module.runtime],
    }
    return Staged(check=render("toolkit.check.sh.j2", **words), apply=render("toolkit.apply.sh.j2", **words))
