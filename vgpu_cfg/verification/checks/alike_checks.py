"""Checks of all workers together, except training: one driver, one image, one shared folder.

Belief: guest-sees-ecc-but-no-power-limit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from vgpu_cfg.knowledge.verify_failures import VerifyCode
from vgpu_cfg.verification.asking import TIMED_OUT, Asking, Command, failed, passed, said, skipped, unproven
from vgpu_cfg.verification.checks.container_checks import CLIENTS, CONTAINER, IMAGES_FOLDER
from vgpu_cfg.verification.checks.training_checks import TrainingView
from vgpu_cfg.verification.views import GuestView

_ALONE = "only one worker, so nothing to compare"


def ask_same_driver(view: TrainingView) -> Asking:
    """See whether all workers have one driver: NCCL, CUDA and the framework see one version or fail oddly."""
    yield from ()
    seen = {
        one.name: one.learned.gpus.driver_version or "unknown" for one in view.trained if one.learned.gpus
    }
    if len(view.trained) < 2:
        return skipped(_ALONE)
    if not any(worker.gpus for worker in view.trained):
        return skipped("no worker has a GPU")
    if len(set(seen.values())) > 1:
        return failed(VerifyCode.DRIVERS_DIFFER, _by_value(seen), "the same version on all workers")
    version = next(iter(seen.values()))
    if len(seen) < len(view.trained) or version == "unknown":
        return unproven("not every worker reports its driver version")
    return passed(version)


def ask_addresses(view: TrainingView) -> Asking:
    """See that no two machines have one address or one MAC on the NICs of the plan."""
    yield from ()
    owners: dict[str, list[str]] = {}
    for one in list({one.name: one for one in (view.launcher, *view.workers)}.values()):
        planned = (one.learned.interface_of(nic) for nic in one.nics)
        for seen in (interface for interface in planned if interface is not None):
            for value in (*(address.partition("/")[0] for address in seen.addresses), seen.mac):
                owners.setdefault(value, []).append(one.name)
    if not owners:
        return skipped("the plan does not configure their NICs")
    twice = [f"{value} on {', '.join(names)}" for value, names in owners.items() if value and len(names) > 1]
    if twice:
        return failed(
            VerifyCode.OTHER_MACHINE, "; ".join(twice), "each IP and MAC address on only one machine"
        )
    return passed(f"{len(owners)} unique IP and MAC addresses")


def ask_same_setup(view: TrainingView) -> Asking:
    """See whether NICs of one model have one firmware, and GPUs of one name one mode of ECC."""
    yield from ()
    if len(view.trained) < 2:
        return skipped(_ALONE)
    seen: dict[str, dict[str, str]] = {}
    for worker in view.trained:
        own = {nic.device for nic in worker.learned.rdma}
        for device in worker.learned.devices:
            if device.name in own and device.firmware:
                kind = f"firmware of NICs {device.part_id or 'of an unknown model'}"
                seen.setdefault(kind, {})[f"{worker.name} {device.name}"] = device.firmware
        for gpu in worker.learned.gpus.gpus if worker.learned.gpus is not None else ():
            if gpu.ecc is not None:
                seen.setdefault(f"ECC of {gpu.name}", {})[f"{worker.name} {gpu.pci_id}"] = gpu.ecc
    differing = [
        f"{kind}: {_by_value(values)}" for kind, values in seen.items() if len(set(values.values())) > 1
    ]
    if differing:
        return failed(VerifyCode.WORKERS_DIFFER, "; ".join(differing), "the same on all workers")
    if not seen:
        return skipped("no worker reports NIC firmware or ECC state", is_asked=True)
    return passed("; ".join(f"{kind}: {next(iter(values.values()))}" for kind, values in seen.items()))


HOST_FILE = "/opt/vgpu-cfg/hostfile"


def ask_names(view: TrainingView) -> Asking:
    """See whether the host file has all workers, and their names lead over the planned network on each."""
    module = view.launcher.launcher
    if module is None:
        return skipped("no launcher is configured for these workers")
    answer = yield Command(("cat", HOST_FILE), on=view.launcher.name)
    if answer.status == 0:
        listed = {line.split()[0] for line in answer.stdout.splitlines() if line.split("#")[0].strip()}
        absent = [worker.name for worker in module.workers if worker.name not in listed]
        if absent:
            return failed(
                VerifyCode.GUEST_UNSTAGED,
                f"the host file of {view.launcher.name} does not list {', '.join(absent)}",
                f"{len(module.workers)} workers in {HOST_FILE}",
                meaning="training silently starts without them",
                remedy=f"run `sudo vgpu-cfg-stage launcher` in {view.launcher.name} to rewrite it",
            )
    wrong: list[str] = []
    count = 0
    for machine in {one.name: one for one in (view.launcher, *view.workers)}.values():
        for peer in machine.mesh.peers if machine.mesh is not None else ():
            if not peer.names or not peer.addresses:
                continue
            answer = yield Command(("getent", "ahosts", peer.names[0]), on=machine.name)
            found = dict.fromkeys(line.split()[0] for line in answer.stdout.splitlines() if line.strip())
            count += 1
            first = next(iter(found), "")
            is_wrong = found and not found.keys() & set(peer.addresses)
            told = ", ".join(sorted(found))
            if peer.vm == machine.name:
                # Debian maps the own name to 127.0.1.1 (Debian Reference, "The hostname resolution").
                is_wrong, told = first.startswith(("127.", "::1")), first
            if answer.status == 0 and is_wrong:
                wrong.append(
                    f"on {machine.name}, the name {peer.names[0]} resolves to {told}, not {peer.addresses[0]}"
                )
    if wrong:
        return failed(
            VerifyCode.OTHER_MACHINE,
            "; ".join(wrong),
            "the addresses in the plan",
            meaning="/etc/hosts or DNS directs training to another network or machine; Gloo and MPI offer "
            "the address of a worker's own name to the others",
            remedy="run `sudo vgpu-cfg-stage hosts` in that guest to rewrite /etc/hosts; then check its DNS",
        )
    return passed(f"{count} names, {len(module.workers)} workers in the host file")


def ask_same_image(view: TrainingView) -> Asking:
    """See whether the image is the same content on all workers, and whether their containers run it."""
    ids: dict[str, str] = {}
    old: list[str] = []
    for worker in view.workers:
        image = worker.image
        if image is None:
            continue
        if image.runtime == "apptainer":
            name = hashlib.sha256(image.image.encode()).hexdigest()[:16]
            answer = yield Command(
                ("sha256sum", f"{IMAGES_FOLDER}/{name}.sif"), on=worker.name, timeout_seconds=600
            )
            ids[worker.name] = answer.stdout.partition(" ")[0] if answer.status == 0 else ""
            continue
        client = CLIENTS[image.runtime]
        words = (client, "image", "inspect", "--format", "{{.Id}}", image.image)
        answer = yield Command(words, on=worker.name)
        if answer.status != 0:
            return failed(
                VerifyCode.IMAGES_DIFFER, f"{worker.name}: {said(answer)}", f"{image.image} on all workers"
            )
        ids[worker.name] = answer.stdout.strip()
        if worker.worker is not None and image.runtime == "docker":
            words = (client, "container", "inspect", "--format", "{{.Image}}", CONTAINER)
            answer = yield Command(words, on=worker.name)
            if answer.status == 0 and answer.stdout.strip() not in ("", ids[worker.name]):
                old.append(worker.name)
    if any(not one for one in ids.values()):
        return unproven("the image file could not be read on every worker")
    if not ids:
        return skipped("no worker has a training image")
    if len(set(ids.values())) > 1:
        apptainer = any(one.image is not None and one.image.runtime == "apptainer" for one in view.workers)
        if apptainer:
            return unproven("the Apptainer image files differ, because each worker built its own")
        return failed(VerifyCode.IMAGES_DIFFER, _by_value(ids), "the same content on all workers")
    if old:
        return failed(
            VerifyCode.IMAGES_DIFFER,
            f"the container of {', '.join(old)} runs an older image",
            "the image currently on the worker",
            meaning="the container was started before the image was pulled again",
            remedy="`systemctl restart vgpu-cfg-worker` in the guest",
        )
    return passed(_short(next(iter(ids.values()))))


def ask_shared_folder(view: TrainingView) -> Asking:
    """See whether all machines see one folder: each writes a file into it, each reads all of them."""
    machines = list({one.name: one for one in (view.launcher, *view.workers)}.values())
    sharing = [one for one in machines if one.shared_folder is not None]
    if not sharing:
        return skipped("the plan has no shared folder")
    path = next(one.shared_folder.path for one in sharing if one.shared_folder is not None).rstrip("/")
    stamp = f"{view.launcher.now:%Y%m%d%H%M%S%f}"
    files = {one.name: f"{path}/.vgpu-cfg-verify-{stamp}-{one.name}" for one in sharing}
    faults: list[str] = []
    written: list[GuestView] = []
    try:
        for one in sharing:
            module = one.shared_folder
            if module is not None and module.role == "client":
                # Whoever looks into a folder of a server that is gone waits for ever: here it has an end.
                words = ("timeout", "--kill-after=5", "30", "ls", f"{path}/")
                answer = yield Command(words, on=one.name, timeout_seconds=60)
                if answer.status == TIMED_OUT:
                    faults.append(f"{one.name} gets no response from the server of {path}")
                    continue
                mounted = yield Command(("findmnt", "-n", "-o", "FSTYPE,SOURCE", "-T", path), on=one.name)
                if answer.status != 0 or "nfs" not in mounted.stdout:
                    faults.append(f"{one.name} has not mounted {path}")
                    continue
                export = _export_of(mounted.stdout)
                if module.server and export and export.strip("[]") != module.server:
                    faults.append(
                        f"{one.name} has mounted it from a different server, {export}, not {module.server}"
                    )
                    continue
            written.append(one)
            words = ("sh", "-c", 'printf "%s" "$0" > "$1"', one.name, files[one.name])
            answer = yield Command(words, on=one.name, timeout_seconds=60)
            if answer.status != 0:
                faults.append(f"{one.name} cannot write: {said(answer)}")
        for one in sharing if not faults else ():
            answer = yield Command(("cat", *files.values()), on=one.name, timeout_seconds=60)
            if answer.stdout != "".join(files):
                faults.append(f"{one.name} does not see the files written by other machines")
    finally:
        for one in written:
            yield Command(("rm", "-f", files[one.name]), on=one.name, timeout_seconds=60, is_cleanup=True)
    if faults:
        return failed(
            VerifyCode.NOT_SHARED, "; ".join(faults), f"{path}, the same on {len(sharing)} machines"
        )
    return passed(f"{path}: {len(sharing)} machines can read and write")


def _export_of(text: str) -> str:
    """Return the server of the last NFS mount that `findmnt -o FSTYPE,SOURCE` lists, "" if it lists none.

    With systemd's automount the line before is that of autofs, whose source is no server.
    """
    rows = [line.split() for line in text.splitlines()]
    sources = [row[1] for row in rows if len(row) > 1 and row[0].startswith("nfs")]
    return sources[-1].rpartition(":")[0] if sources else ""


def _by_value(seen: Mapping[str, str]) -> str:
    values: dict[str, list[str]] = {}
    for name, value in seen.items():
        values.setdefault(value, []).append(name)
    return "; ".join(f"{_short(value) or 'unknown'} on {_names(names)}" for value, names in values.items())


def _names(names: Iterable[str]) -> str:
    return ", ".join(names)


def _short(value: str) -> str:
    digest = value.removeprefix("sha256:")
    return f"{digest[:12]}" if len(digest) == 64 else value
