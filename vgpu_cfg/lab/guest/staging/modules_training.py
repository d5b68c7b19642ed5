"""The modules about training: container runtimes, images, the ssh mesh, workers, launcher, metrics."""

from __future__ import annotations

import base64
import json

from vgpu_cfg.lab.guest.staging.work import (
    DONE,
    ModuleFailedError,
    Work,
    WorkResult,
    applies,
    check_packages,
    contents_of,
    fetch,
    find_image,
    image_facts,
    is_written,
    log_in,
)
from vgpu_cfg.lab.guest.system import creation, files
from vgpu_cfg.lab.guest.system.gpus import driver_loads
from vgpu_cfg.lab.guest.system.workloads import end_container, restart_runtime

RUNTIME_MIB = 1024
UNPACKED = 2
"""How much room an image takes, measured in its size in the registry: a number of the lab's own."""
MESH, OPT, TRAIN = "/etc/vgpu-cfg/mesh", "/opt/vgpu-cfg", "/usr/local/bin/train"
WORKER, MESH_SSHD = "vgpu-cfg-worker", "vgpu-cfg-mesh"
DOCKER = "/root/.docker/config.json"
GRAFANA = "/etc/vgpu-cfg/monitoring/grafana-password"


def _has_runtime(work: Work) -> bool:
    return work.text("runtime") in work.guest.runtimes and _has_room(work)


def _has_room(work: Work) -> bool:
    return work.guest.free_mib >= int(work.value("minimum_free_gib")) * 1024


@applies("containers", _has_runtime, seconds=60.0)
def install_runtime(work: Work) -> WorkResult:
    """Install a container runtime from the distribution."""
    runtime, guest = work.text("runtime"), work.guest
    if not _has_room(work):
        raise ModuleFailedError(_no_room(work))
    if runtime not in guest.runtimes:
        check_packages(work)
        if guest.free_mib < RUNTIME_MIB:
            raise ModuleFailedError(f"the disk has {guest.free_mib} MiB free, {runtime} needs {RUNTIME_MIB}")
        guest.free_mib -= RUNTIME_MIB
        guest.runtimes.append(runtime)
        if not _has_room(work):
            raise ModuleFailedError(_no_room(work))
    return DONE


def _no_room(work: Work) -> str:
    return f"the disk has {work.guest.free_mib // 1024} GiB free, {work.value('minimum_free_gib')} are needed"


def _has_toolkit(work: Work) -> bool:
    return work.text("runtime") in work.guest.toolkit


@applies("toolkit", _has_toolkit, seconds=40.0)
def install_toolkit(work: Work) -> WorkResult:
    """Install NVIDIA Container Toolkit, and configure the runtime for it."""
    runtime = work.check_runtime()
    fetch(work, work.text("repository"))
    work.guest.toolkit.append(runtime)
    restart_runtime(work.lab, work.vm, runtime)
    return DONE


def _is_logged_in(work: Work) -> bool:
    return work.text("server") in work.guest.logins and work.is_written()


@applies("registry", _is_logged_in, seconds=3.0)
def log_in_to_registry(work: Work) -> WorkResult:
    """Log in to a container registry with the password that lies ready."""
    password = work.secret(work.text("password"))
    if password is None:
        raise ModuleFailedError(f"the password for {work.text('server')} is missing")
    server, user = work.text("server"), work.text("user")
    log_in(work, server, user, password)
    work.guest.logins[server] = password
    # What docker keeps of a login where no credential helper is set up: base64 is no secret keeping.
    kept = {"auths": {server: {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}}}
    now = work.lab.clock.now()
    files.write(work.guest, DOCKER, json.dumps(kept).encode(), mode=0o600, now=now, parents=True)
    return work.written()


def _has_image(work: Work) -> bool:
    image = work.text("image")
    return image in work.guest.images and (not _wants_horovod(work) or contents_of(work, image).horovod)


def _wants_horovod(work: Work) -> bool:
    return work.text("framework") == "horovod"


def _image_seconds(work: Work) -> float:
    try:
        size = image_facts(work.lab.state.internet, work.text("image")).size
    except ModuleFailedError:
        return 5.0
    return 5.0 + size / work.lab.state.internet.mib_per_second


@applies("image", _has_image, seconds=_image_seconds)
def get_image(work: Work) -> WorkResult:
    """Pull an image, or load it from an archive, and prove that it holds the required parts."""
    guest, image = work.guest, work.text("image")
    work.check_runtime()
    if image not in guest.images:
        least = int(work.value("minimum_free_gib")) * 1024
        if guest.free_mib < least:
            raise ModuleFailedError(
                f"the disk has {guest.free_mib // 1024} GiB free, the image needs {least // 1024}"
            )
        if work.text("archive"):
            fetch(work, work.text("archive"), work.text("sha256") if work.value("sha256") else "")
            size = 8192
        else:
            size = find_image(work, image).size
        if guest.free_mib < size * UNPACKED:
            raise ModuleFailedError(f"no space left on device: the image needs {size * UNPACKED // 1024} GiB")
        guest.free_mib -= size * UNPACKED
        guest.images.append(image)
    if _wants_horovod(work) and not contents_of(work, image).horovod:
        raise ModuleFailedError("the image does not contain Horovod: horovodrun --check-build fails in it")
    return DONE


def _has_mesh(work: Work) -> bool:
    return work.is_written() and all(
        not (text := work.bundle_file(f"mesh/{name}")) or _mesh_file(work, name) == text
        for name in ("known_hosts", "ssh_config", "authorized_keys")
    )


def _mesh_file(work: Work, name: str) -> str:
    found = work.guest.files.get(f"{MESH}/{name}")
    return found.content if found is not None else ""


@applies("ssh-mesh", _has_mesh)
def make_mesh(work: Work) -> WorkResult:
    """Put keys and configuration of the mesh where containers find them."""
    if not work.parts("peers"):
        raise ModuleFailedError("the SSH mesh contains no hosts")
    if work.bundle_file(f"mesh/{MESH_SSHD}.service") and not work.guest.services.get(MESH_SSHD):
        end_container(work.lab, work.vm, WORKER)  # its sshd of before holds the port
        work.guest.services[MESH_SSHD] = True
    now = work.lab.clock.now()
    secrets = {path.rpartition("/")[2]: file.content for path, file in work.secret_files().items()}
    names = " ".join(str(name) for part in work.parts("peers") for name in part.get("names", ()))
    texts = {
        "sshd_config": f"Port {work.text('port')}\n",
        "ssh_config": "".join(f"Host {name}\n    Port {work.text('port')}\n" for name in names.split()),
        "known_hosts": f"# {names}\n",
        "authorized_keys": "# the mesh's\n",
        "id.pub": "# the mesh's\n",
    }
    own = work.guest.files
    is_given = any(name.endswith("host_key") for name in secrets)
    texts["host_key.pub"] = "" if is_given else own[creation.PUBLIC].content
    for name, otherwise in texts.items():
        text = work.bundle_file(f"mesh/{name}") or otherwise
        files.write(work.guest, f"{MESH}/{name}", text.encode(), now=now, parents=True)
    for name, made in (("host_key", own[creation.PRIVATE].content), ("id", _mesh_file(work, "id"))):
        text = next((content for secret, content in secrets.items() if secret.endswith(name)), made)
        if not text:
            raise ModuleFailedError(f"the mesh's {name} is missing: stage this module again")
        files.write(work.guest, f"{MESH}/{name}", text.encode(), mode=0o600, now=now, parents=True)
    return work.written()


def _has_worker(work: Work) -> bool:
    return work.is_written() and work.guest.services.get(WORKER, False)


@applies("worker", _has_worker, seconds=8.0)
def start_worker(work: Work) -> WorkResult:
    """Start the container that waits for work."""
    guest, runtime, image = work.guest, work.check_runtime(), work.text("image")
    if image not in guest.images:
        raise ModuleFailedError(f"the image {image} is missing")
    if work.value("gpus"):
        if runtime not in guest.toolkit:
            raise ModuleFailedError(f"{runtime} is not configured for the NVIDIA Container Toolkit")
        if not driver_loads(work.lab.state, work.vm) or not guest.driver:
            raise ModuleFailedError("the container gets no GPU: the NVIDIA driver is not loaded")
    if work.value("rdma") and not any(nic.rdma for nic in work.seen_nics()):
        raise ModuleFailedError("no RDMA device is available for the container")
    end_container(work.lab, work.vm, WORKER)
    guest.services[WORKER] = True
    return work.written()


def _has_rank(work: Work) -> bool:
    return work.is_written() and f"{OPT}/rank" in work.guest.files


@applies("rank", _has_rank)
def write_rank(work: Work) -> WorkResult:
    """Write what starts a process of a training, and the plan's variables."""
    now = work.lab.clock.now()
    environment = work.value("environment")
    pairs = environment.items() if isinstance(environment, dict) else ()
    text = work.bundle_file("rank/training.env") or "".join(f"{name}={value}\n" for name, value in pairs)
    files.write(work.guest, f"{OPT}/training.env", text.encode(), now=now, parents=True)
    text = work.bundle_file("rank/rank") or "#!/bin/sh\n"
    files.write(work.guest, f"{OPT}/rank", text.encode(), mode=0o755, now=now, parents=True)
    return work.written()


def _has_launcher(work: Work) -> bool:
    found = work.guest.files.get(f"{OPT}/hostfile")
    return (
        work.is_written()
        and TRAIN in work.guest.files
        and found is not None
        and found.content == _hosts(work)
    )


def _hosts(work: Work) -> str:
    return "".join(f"{part.get('name')} slots={part.get('slots')}\n" for part in work.parts("workers"))


@applies("launcher", _has_launcher)
def write_launcher(work: Work) -> WorkResult:
    """Write the host file and the command `train`."""
    now = work.lab.clock.now()
    hosts = _hosts(work)
    if not hosts:
        raise ModuleFailedError("no worker to launch on")
    files.write(work.guest, f"{OPT}/hostfile", hosts.encode(), now=now, parents=True)
    for name, path in (("launcher/train", f"{OPT}/train"), ("launcher/command", TRAIN)):
        text = work.bundle_file(name) or "#!/bin/sh\n"
        files.write(work.guest, path, text.encode(), mode=0o755, now=now, parents=True)
    return work.written()


@applies("monitoring", is_written, seconds=20.0)
def start_monitoring(work: Work) -> WorkResult:
    """Start exporters, or Prometheus and Grafana, as containers."""
    work.check_runtime()
    images = work.value("images")
    for image in images.values() if isinstance(images, dict) else ():
        find_image(work, str(image))
    password = work.secret(work.text("grafana_password")) if work.text("grafana_password") else None
    if password is not None:
        now = work.lab.clock.now()
        files.write(work.guest, GRAFANA, password.encode(), mode=0o600, now=now, parents=True)
    work.guest.targets = [f"{part.get('address')}:{part.get('port')}" for part in work.parts("targets")]
    work.guest.services[f"vgpu-cfg-{work.text('role')}"] = True
    return work.written()
