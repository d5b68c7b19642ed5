"""A container that systemd holds up: a unit, and a script that makes it anew at each start.

The script is there because what a container is given differs from guest to guest and from boot to boot:
every GPU's device is named, or a container loses them at the next `systemctl daemon-reload`
(NVIDIA/nvidia-container-toolkit issue 48), and an RDMA device is given where there is one.
"""

from __future__ import annotations

from collections.abc import Sequence

from vgpu_cfg.staging.rendering import quote_sh, render

FOLDER = "/opt/vgpu-cfg/containers"


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

    `folder` is made before: not every runtime makes what it mounts.
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
