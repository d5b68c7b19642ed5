"""The container in which training runs: one per VM, held up by systemd, with the mesh's sshd where needed."""

from __future__ import annotations

from vgpu_cfg.model.guests.training_modules import WorkerModule
from vgpu_cfg.staging.container_unit import container_files
from vgpu_cfg.staging.rendering import Staged, StagingContext, render, source_file
from vgpu_cfg.staging.runtimes import COMMANDS, CONTAINER, LOGS_FOLDER, run_command

START = "/opt/vgpu-cfg/worker-start"


def stage_worker(module: WorkerModule, context: StagingContext) -> Staged:
    """Write the unit and its program; it is restarted only if these changed."""
    files = container_files(
        CONTAINER,
        command=COMMANDS[module.runtime],
        words=[*run_command(module, context), START],
        description="training worker container",
        gpus=module.gpus,
        rdma=module.rdma,
        folder=LOGS_FOLDER,
    )
    files[START] = (render("worker-start.sh.j2", sshd=module.sshd), "755")
    named = [(path, f"worker/{number}", mode) for number, (path, (_, mode)) in enumerate(files.items(), 1)]
    words = {"files": named, "unit": CONTAINER, "what": "the worker container"}
    return Staged(
        check=render("container.check.sh.j2", **words),
        apply=render("container.apply.sh.j2", **words),
        files=tuple(source_file(name, files[path][0]) for path, name, _ in named),
    )
