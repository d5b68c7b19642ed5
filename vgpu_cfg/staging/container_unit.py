"""A container that systemd holds up: a unit, and a script that makes it anew at each start.

The script is necessary because a container's devices differ from guest to guest and from boot to boot: every
GPU's device is named, or a container loses them at the next `systemctl daemon-reload`
(NVIDIA/nvidia-container-toolkit issue 48), and an RDMA device is added if there is one.

The texts that containers, mounts and exports can carry; those for any guest are in `values`.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

from vgpu_cfg.errors import GuestError
from vgpu_cfg.model.plan_file.guest_values import check_image, check_registry, check_shell_variable
from vgpu_cfg.staging.rendering import quote_sh, render
from vgpu_cfg.staging.values import asserted

FOLDER = "/opt/vgpu-cfg/containers"

_UNSAFE_IN_PATHS = re.compile(r"[\x00-\x1f\x7f:,]")


def container_files(
    name: str,
    *,
    command: str,
    words: Sequence[str],
    description: str,
    gpus: bool = False,
    rdma: bool = False,
    folder: str = "",
) -> dict[str, tuple[str, str]]:
    """Return the files of a container by path, with their permissions; `words` run it in the foreground.

    `folder` is made before: not every runtime creates the sources of mounts.
    """
    image_at = next((at for at, word in enumerate(words) if word == "--entrypoint"), len(words))
    if command == "apptainer":
        image_at = 2  # after `apptainer exec`: devices need no word there
    options, rest = words[:image_at], words[image_at:]
    script = render(
        "container-run.sh.j2",
        name=name,
        command=command,
        options=" ".join(map(quote_sh, options)),
        rest=" ".join(map(quote_sh, rest)),
        gpus=gpus and command != "apptainer",
        folder=folder,
        rdma=rdma and command != "apptainer",
    )
    service = (
        "docker.service" if command == "docker" else "containerd.service" if command == "nerdctl" else ""
    )
    unit = render("container.service.j2", description=description, script=f"{FOLDER}/{name}", service=service)
    return {f"{FOLDER}/{name}": (script, "755"), f"/etc/systemd/system/{name}.service": (unit, "644")}


def checked_variable(text: str, where: str) -> str:
    """Return the name of an environment variable."""
    return asserted(check_shell_variable, where, text)


def checked_image(text: str, where: str) -> str:
    """Return a container image's name, with its registry, tag or digest."""
    return asserted(check_image, where, text)


def checked_registry(text: str, where: str) -> str:
    """Return a registry's host name, with its port where it has one."""
    return asserted(check_registry, where, text)


def checked_path(text: str, where: str) -> str:
    """Return an absolute path that a mount can carry: anything but ':', ',' and control characters."""
    if not text.startswith("/") or _UNSAFE_IN_PATHS.search(text) or "/../" in f"{text}/":
        raise _refused(text, where, "use an absolute path without ':', ',', '..', or control characters")
    return text


def checked_network(text: str, where: str) -> str:
    """Return an address or a network."""
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise _refused(text, where, "specify an address or a network, such as 10.111.0.0/24") from None
    return text


def checked_port(number: int, where: str) -> int:
    """Return a TCP port."""
    if not 0 < number < 65536:
        raise _refused(str(number), where, "specify a port from 1 to 65535")
    return number


def _refused(text: str, where: str, remedy: str) -> GuestError:
    return GuestError(f"invalid value for {where}: {text!r}", subject=where, remedy=remedy)
