"""Start of training: the command `train` on the first VM, the host file, and the programs on each worker.

Facts known beforehand are in files; facts that only the guests know (interfaces, RDMA devices, GID indexes)
`train` reads at each start, by `look`, over the mesh. On a worker `rank` starts each process with the plan's
variables; `node` ends the rest of a job and prints its logs; `enter` leads into a container without sshd.
"""

from __future__ import annotations

from vgpu_cfg.errors import GuestError
from vgpu_cfg.model.guests.guest import TRAINING_REPORT_KEY
from vgpu_cfg.model.guests.modules import HostNameModule
from vgpu_cfg.model.guests.training_modules import (
    LauncherModule,
    RankModule,
    SshMeshModule,
    TrainWorker,
    WorkerModule,
)
from vgpu_cfg.staging import values
from vgpu_cfg.staging.netplan import requested_options
from vgpu_cfg.staging.rendering import (
    Staged,
    StagingContext,
    quote_sh,
    render,
    source_file,
    timed_units,
    two_scripts,
)
from vgpu_cfg.staging.runtimes import CONTAINER, exec_command, image_file, mount_pairs

FOLDER = "/opt/vgpu-cfg"
"""The container path of the files staged for training: they are mounted at the same path."""


def stage_rank(module: RankModule, context: StagingContext) -> Staged:
    """Write what starts a process. Raises `GuestError` for a name that an environment cannot carry."""
    texts = {
        f"{FOLDER}/rank": (render("train/rank.sh.j2"), "755"),
        f"{FOLDER}/node": (render("train/node.sh.j2", report_key=TRAINING_REPORT_KEY), "755"),
        f"{FOLDER}/training.env": (environment_file(module), "644"),
    }
    texts |= timed_units("training", f"{FOLDER}/node report", "report active training to vCenter", seconds=30)
    worker = context.spec.get(WorkerModule)
    if worker is not None and enters(context):
        texts[f"{FOLDER}/enter"] = (render("train/enter.sh.j2", **container_words(worker, context)), "755")
    named = [(path, f"rank/{path.rpartition('/')[2]}", mode) for path, (_, mode) in texts.items()]
    sources = (source_file(name, texts[path][0]) for path, name, _ in named)
    return Staged(
        check=render("files.check.sh.j2", files=named),
        apply=render("rank.apply.sh.j2", files=named, timer="vgpu-cfg-training.timer"),
        files=tuple(sources),
    )


def enters(context: StagingContext) -> bool:
    """Whether training runs in a container into which no ssh leads."""
    worker = context.spec.get(WorkerModule)
    return worker is not None and not worker.sshd


def container_words(worker: WorkerModule, context: StagingContext) -> dict[str, object]:
    """Return the values with which a template enters the worker's container; each caller uses these."""
    return {
        "image": values.image_name(worker.image, "training.image"),
        "runtime": worker.runtime,
        "container": CONTAINER,
        "words": exec_command(worker, context),
        "image_path": image_file(worker.image),
    }


def environment_file(module: RankModule) -> str:
    """Return the plan file's training command, to be read by a shell."""
    lines = [
        f"export {values.variable_name(name, 'training.environment')}={quote_sh(value)}\n"
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


COMMAND = "/usr/local/bin/train"
FILES = {
    f"{FOLDER}/hostfile": "644",
    f"{FOLDER}/look": "755",
    f"{FOLDER}/train": "755",
    COMMAND: "755",
}
"""The installed files of the module, by permissions."""


def stage_launcher(module: LauncherModule, context: StagingContext) -> Staged:
    """Write the launcher. Raises `GuestError` for a name that a host file or an environment cannot carry."""
    if not module.workers:
        raise GuestError(
            "no training VMs are specified",
            subject=context.spec.vm,
            remedy="list them in training.workers",
        )
    for worker in module.workers:
        _check(worker)
    own = _own_names(context)
    texts = {
        f"{FOLDER}/hostfile": host_file(module),
        f"{FOLDER}/look": render("train/look.sh.j2"),
        f"{FOLDER}/train": render(
            "train/train.sh.j2",
            max_restarts=module.max_restarts,
            elastic=module.elastic,
            enters=enters(context),
            mounts=mounts_entered(context),
            framework=module.framework,
            port=values.port(module.port, "training.port"),
            workers=module.workers,
            own=own if module.runs_work else (),
            asked=" ".join(
                [
                    *map(requested_options, module.nics),
                    *(f"control:{requested_options(nic)}" for nic in module.control_nics),
                ]
            ),
        ),
        COMMAND: _outer(module, context),
    }
    named = [(path, source_name(path), mode) for path, mode in FILES.items()]
    return two_scripts("files", *(source_file(name, texts[path]) for path, name, _ in named), files=named)


def source_name(path: str) -> str:
    """Return the temporary name of a file until it is installed."""
    return "launcher/command" if path == COMMAND else f"launcher/{path.rpartition('/')[2]}"


def host_file(module: LauncherModule) -> str:
    """Return the host file as horovodrun and mpirun both read it.

    Horovod 0.28 takes the first word of each line and what follows the first `=`: no comment, no empty
    line, nothing after the number of slots (horovod/runner/common/util/hosts.py).
    """
    return "".join(f"{worker.name} slots={worker.slots}\n" for worker in module.workers)


def mounts_entered(context: StagingContext) -> tuple[tuple[str, str], ...]:
    """List the mounts of containers that are entered: source and target."""
    worker = context.spec.get(WorkerModule)
    return mount_pairs(worker, context) if worker is not None and not worker.sshd else ()


def _outer(module: LauncherModule, context: StagingContext) -> str:
    worker = context.spec.get(WorkerModule)
    if not module.image or worker is None or not worker.sshd:
        return render("train/on-guest.sh.j2")
    return render(
        "train/in-container.sh.j2", **container_words(worker, context), mounts=mount_pairs(worker, context)
    )


def _check(worker: TrainWorker) -> None:
    values.domain_name(worker.name)
    if worker.address:
        values.address(worker.address)
    if worker.slots < 1:
        raise GuestError(
            "a worker has no slots", subject=worker.name, remedy="set training.slots to 1 or more"
        )


def _own_names(context: StagingContext) -> tuple[str, ...]:
    """Return the names of the VM that training starts on, by which the host file may mean it."""
    host_name, mesh = context.spec.get(HostNameModule), context.spec.get(SshMeshModule)
    names = [context.spec.vm]
    if host_name is not None:
        names.append(host_name.host_name)
    if mesh is not None:
        names += [name for peer in mesh.peers if peer.vm == mesh.vm for name in peer.names]
    return tuple(dict.fromkeys(names))
