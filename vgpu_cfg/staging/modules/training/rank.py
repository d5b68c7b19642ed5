"""Start every process of a training on its worker, and end all of them there.

`rank` starts each process with the plan's variables; `node` ends the rest of a job and prints its logs;
`enter` leads into a container that has no sshd.
"""

from __future__ import annotations

from vgpu_cfg.model.guests.training_modules import RankModule, WorkerModule
from vgpu_cfg.staging.container_unit import checked_image, checked_variable
from vgpu_cfg.staging.rendering import Staged, StagingContext, quote_sh, render, source_file
from vgpu_cfg.staging.runtimes import CONTAINER, exec_command, image_file

FOLDER = "/opt/vgpu-cfg"
"""The container path of the files staged for training: they are mounted at the same path."""


def stage_rank(module: RankModule, context: StagingContext) -> Staged:
    """Write what starts a process. Raises `GuestError` for a name that an environment cannot carry."""
    texts = {
        f"{FOLDER}/rank": (render("train/rank.sh.j2"), "755"),
        f"{FOLDER}/node": (render("train/node.sh.j2"), "755"),
        f"{FOLDER}/training.env": (environment_file(module), "644"),
    }
    worker = context.spec.get(WorkerModule)
    if worker is not None and enters(context):
        texts[f"{FOLDER}/enter"] = (render("train/enter.sh.j2", **container_words(worker, context)), "755")
    named = [(path, f"rank/{path.rpartition('/')[2]}", mode) for path, (_, mode) in texts.items()]
    return Staged(
        check=render("files.check.sh.j2", files=named),
        apply=render("files.apply.sh.j2", files=named),
        files=tuple(source_file(name, texts[path][0]) for path, name, _ in named),
    )


def enters(context: StagingContext) -> bool:
    """Whether training runs in a container into which no ssh leads."""
    worker = context.spec.get(WorkerModule)
    return worker is not None and not worker.sshd


def container_words(worker: WorkerModule, context: StagingContext) -> dict[str, object]:
    """Return the values with which a template enters the worker's container; each caller uses these."""
    return {
        "image": checked_image(worker.image, "training.image"),
        "runtime": worker.runtime,
        "container": CONTAINER,
        "words": exec_command(worker, context),
        "image_path": image_file(worker.image),
    }


def environment_file(module: RankModule) -> str:
    """Return the plan file's training command, to be read by a shell."""
    lines = [
        f"export {checked_variable(name, 'training.environment')}={quote_sh(value)}\n"
        for name, value in sorted(module.environment.items())
    ]
    return "".join(
        [
            (
                "# Written by vgpu-cfg: the environment for training. Variables set by the caller take "
                "precedence.\n"
            ),
            *lines,
        ]
    )
