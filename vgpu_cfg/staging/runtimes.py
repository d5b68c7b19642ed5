"""The three container runtimes: their commands, and the systemd unit that runs a container.

nerdctl accepts docker's arguments, and drives containerd; Apptainer has arguments of its own, has no daemon
and shares network, processes and shared memory with the guest anyway.

A script makes the container anew at each start, because its devices differ from guest to guest and from boot
to boot: every GPU's device is named, or a container loses them at the next `systemctl daemon-reload`
(NVIDIA/nvidia-container-toolkit issue 48), and an RDMA device is added if there is one.

Belief: container-commands, container-error-texts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from vgpu_cfg.errors import GuestError
from vgpu_cfg.model.guests.modules import LimitsModule, SharedFolderModule
from vgpu_cfg.model.guests.training_modules import WorkerModule
from vgpu_cfg.staging import values
from vgpu_cfg.staging.rendering import StagingContext, quote_sh, render

CONTAINER = "vgpu-cfg-worker"
"""The name of the container in which training runs."""

COMMANDS = {"docker": "docker", "containerd": "nerdctl", "apptainer": "apptainer"}
SERVICES = {"docker": "docker.service", "containerd": "containerd.service", "apptainer": ""}
IMAGES_FOLDER = "/var/lib/vgpu-cfg/images"
STORES = {"docker": "/var/lib/docker", "containerd": "/var/lib/containerd", "apptainer": IMAGES_FOLDER}
"""Each runtime's folder of images, unless the template sets another."""

UNITS_FOLDER = "/opt/vgpu-cfg/containers"

LOGS_FOLDER = "/var/log/vgpu-cfg"
"""The folder in which `train` gathers the output of ranks."""

_OWN_MOUNTS = (
    ("/etc/vgpu-cfg/mesh", True),
    ("/opt/vgpu-cfg", True),
    ("/etc/hosts", True),
    (LOGS_FOLDER, False),
)


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
    unit = render(
        "container.service.j2", description=description, script=f"{UNITS_FOLDER}/{name}", service=service
    )
    return {f"{UNITS_FOLDER}/{name}": (script, "755"), f"/etc/systemd/system/{name}.service": (unit, "644")}


def image_file(image: str) -> str:
    """Return where Apptainer's file of an image lies."""
    return f"{IMAGES_FOLDER}/{hashlib.sha256(image.encode()).hexdigest()[:16]}.sif"


def mount_pairs(worker: WorkerModule, context: StagingContext) -> tuple[tuple[str, str], ...]:
    """List the user's mounts, source and target, the shared folder included.

    Raises `GuestError` for a path that no mount can carry.
    """
    pairs: list[tuple[str, str]] = []
    for text in worker.mounts:
        source, colon, target = text.partition(":")
        if not colon:
            target = source
        where = "training.mounts"
        if target.rstrip("/") in ("", *(path for path, _ in _OWN_MOUNTS)):
            raise GuestError(
                f"a mount would hide files that training requires: {text!r}",
                subject=where,
                remedy="use another target",
            )
        pairs.append((values.mount_path(source, where), values.mount_path(target, where)))
    shared = context.spec.get(SharedFolderModule)
    if shared is not None and all(target != shared.path for _, target in pairs):
        pairs.append((shared.path, values.mount_path(shared.path, "training.shared_folder")))
    return tuple(pairs)


def run_command(worker: WorkerModule, context: StagingContext) -> list[str]:
    """Return the words that start the container in the foreground with a shell that is given a script."""
    image = values.image_name(worker.image, "training.image")
    if worker.runtime == "apptainer":
        return [*_apptainer(worker, context), image_file(image), "/bin/sh"]
    words = [COMMANDS[worker.runtime], "run", "--rm", "--name", CONTAINER]
    if worker.gpus:
        words += ["--gpus", "all"]
    words += ["--network=host"]
    # The guest's own /dev/shm, which the limits module gives its size; without that one, a private one.
    limits = context.spec.get(LimitsModule)
    is_sized = limits is not None and bool(limits.shared_memory)
    own_size = _size(worker.shared_memory) if worker.shared_memory else ""
    words += ["--shm-size", own_size] if own_size and not is_sized else ["--ipc=host"]
    words += ["--ulimit", "memlock=-1", "--ulimit", "stack=67108864"]
    for source, target, read_only in _mounts(worker, context):
        words += ["--volume", f"{source}:{target}{':ro' if read_only else ''}"]
    # What the unit is made for stands in it, so that another port is another unit.
    words += ["--label", f"vgpu-cfg.port={worker.port}", "--entrypoint", "/bin/sh", image]
    return words


def exec_command(worker: WorkerModule, context: StagingContext) -> list[str]:
    """Return the words that begin a command in the container; options, the container and the command follow.

    With Apptainer it is a container of its own next to the worker, with the same mounts, and the following
    words begin with the image's file.
    """
    if worker.runtime == "apptainer":
        return _apptainer(worker, context)
    return [COMMANDS[worker.runtime], "exec"]


def _apptainer(worker: WorkerModule, context: StagingContext) -> list[str]:
    words = ["apptainer", "exec", "--writable-tmpfs", "--no-home"]
    if worker.gpus:
        words += ["--nv"]
    for source, target, read_only in _mounts(worker, context):
        words += ["--bind", f"{source}:{target}{':ro' if read_only else ''}"]
    if worker.rdma:
        words += ["--bind", "/dev/infiniband:/dev/infiniband"]
    return words


def _mounts(worker: WorkerModule, context: StagingContext) -> list[tuple[str, str, bool]]:
    own = [(path, path, read_only) for path, read_only in _OWN_MOUNTS]
    return [*own, *((source, target, False) for source, target in mount_pairs(worker, context))]


def _size(text: str) -> str:
    """Return a size as docker writes it: 64GiB is 64g."""
    number = text.strip().lower().removesuffix("ib").removesuffix("b")
    if not number[:-1].isdigit() or number[-1] not in "kmg0123456789":
        raise GuestError(
            f"invalid shared memory size: {text!r}",
            subject="guest.shared_memory",
            remedy="use a value such as 64GiB",
        )
    return number
