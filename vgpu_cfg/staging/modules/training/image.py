"""Load a container image in a guest, and prove that it holds the requirements of training."""

from __future__ import annotations

from vgpu_cfg.model.guests.training_modules import ImageModule, WorkerModule
from vgpu_cfg.staging import values
from vgpu_cfg.staging.container_unit import checked_image
from vgpu_cfg.staging.rendering import Staged, StagingContext, render, source_file
from vgpu_cfg.staging.runtimes import COMMANDS, STORES, image_file

PROBE = "image/probe"


def pulled_name(image: str, digest: str) -> str:
    """Return the name to pull, by its digest and without its tag if it has one.

    Apptainer refuses a tag next to a digest (containers/image, docker transport), and the others ignore it.
    """
    name, _, own = image.partition("@")
    digest = own or digest
    if not digest:
        return image
    folder, slash, last = name.rpartition("/")
    return checked_image(f"{folder}{slash}{last.partition(':')[0]}@{digest}", "training.image")


def stage_image(module: ImageModule, context: StagingContext) -> Staged:
    """Pull or load the image, and run a probe in it once per image."""
    image = checked_image(module.image, "training.image")
    worker = context.spec.get(WorkerModule)
    registry = image.split("/", 1)[0] if "/" in image else ""
    pulled = pulled_name(image, module.digest_pin)
    words = {
        "runtime": module.runtime,
        "command": COMMANDS[module.runtime],
        "image": image,
        "pulled": pulled,
        "digest": module.digest_pin,
        "registry": registry if "." in registry or ":" in registry else "docker.io",
        "archive": values.package(module.archive) if module.archive else "",
        "sha256": values.sha256(module.sha256),
        "store": STORES[module.runtime],
        "minimum": module.minimum_free_gib,
        "path": image_file(image),
        "gpus": worker is not None and worker.gpus,
        "login": bool(module.server),
    }
    probe = render("image-probe.sh.j2", framework=module.framework, sshd=worker is not None and worker.sshd)
    return Staged(
        check=render("image.check.sh.j2", **words),
        apply=render("image.apply.sh.j2", **words),
        files=(source_file(PROBE, probe),),
    )
