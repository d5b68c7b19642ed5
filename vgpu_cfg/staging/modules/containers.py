"""The container in which training runs: the runtime, the registry's login, the image, and the worker.

A runtime of the template is used, whatever its source. The image must pass a probe for the requirements of
training. Each VM has one worker, held up by systemd, with the mesh's sshd if required.
"""

from __future__ import annotations

from vgpu_cfg.model.guests.training_modules import ContainersModule, ImageModule, RegistryModule, WorkerModule
from vgpu_cfg.model.plan_file.guest_values import check_registry_user
from vgpu_cfg.staging import values
from vgpu_cfg.staging.rendering import Staged, StagingContext, render, secret_file, source_file, two_scripts
from vgpu_cfg.staging.runtimes import (
    COMMANDS,
    CONTAINER,
    LOGS_FOLDER,
    SERVICES,
    STORES,
    container_files,
    image_file,
    run_command,
)


def stage_containers(module: ContainersModule) -> Staged:
    """Install the runtime and start it; an installed one is used, whatever its source."""
    return two_scripts(
        "containers",
        runtime=module.runtime,
        command=COMMANDS[module.runtime],
        service=SERVICES[module.runtime],
        store=STORES[module.runtime],
        minimum=module.minimum_free_gib,
    )


SECRET = "registry-password"  # noqa: S105 - the name of a file


def stage_registry(module: RegistryModule, context: StagingContext) -> Staged:
    """Log in; done again whenever a password is brought. Raises `GuestError` where it is not known."""
    password = context.secret(module.password, f"the password for {module.server}")
    return two_scripts(
        "registry",
        secret_file(SECRET, password),
        runtime=module.runtime,
        command=COMMANDS[module.runtime],
        server=values.registry_host(module.server, "training.registry.server"),
        user=values.asserted(check_registry_user, "a registry's user", module.user),
        secret=SECRET,
    )


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
    return values.image_name(f"{folder}{slash}{last.partition(':')[0]}@{digest}", "training.image")


def stage_image(module: ImageModule, context: StagingContext) -> Staged:
    """Pull or load the image, and run a probe in it once per image."""
    image = values.image_name(module.image, "training.image")
    worker = context.spec.get(WorkerModule)
    registry = image.split("/", 1)[0] if "/" in image else ""
    pulled = pulled_name(image, module.digest_pin)
    probe = render("image-probe.sh.j2", framework=module.framework, sshd=worker is not None and worker.sshd)
    return two_scripts(
        "image",
        source_file(PROBE, probe),
        runtime=module.runtime,
        command=COMMANDS[module.runtime],
        image=image,
        pulled=pulled,
        digest=module.digest_pin,
        registry=registry if "." in registry or ":" in registry else "docker.io",
        archive=values.package(module.archive) if module.archive else "",
        sha256=values.sha256(module.sha256),
        store=STORES[module.runtime],
        minimum=module.minimum_free_gib,
        path=image_file(image),
        gpus=worker is not None and worker.gpus,
        login=bool(module.server),
    )


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
    return two_scripts(
        "container",
        *(source_file(name, files[path][0]) for path, name, _ in named),
        files=named,
        unit=CONTAINER,
        what="the worker container",
    )
