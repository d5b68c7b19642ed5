"""Creation of guests from an estate file, as the copy of a template's, or by default; their ssh host keys.

A host key is made by cloud-init at a first boot, or by ssh-keygen, and shown by sshd.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence

from vgpu_cfg.lab.estates.guests import GuestPart
from vgpu_cfg.lab.guest.system import files
from vgpu_cfg.lab.state.devices import disks_of
from vgpu_cfg.lab.state.guest import Account, File, Guest, Workload
from vgpu_cfg.lab.state.vm import VirtualMachine

SYSTEM_MIB = 8192
"""The disk space of an installed system."""

IMAGE_NAME = "ubuntu"
"""The host name that a cloud image has before anybody gives it one."""

ROOT = "root"
RUNTIME_FOLDERS = ("/", "/etc", "/etc/ssh", "/home", "/opt", "/root", "/tmp", "/usr", "/usr/local")  # noqa: S108 - of a simulated guest
MORE_FOLDERS = ("/usr/local/bin", "/usr/local/sbin", "/var", "/var/lib", "/var/log", "/var/tmp", "/run")  # noqa: S108 - of one, too

PRIVATE = "/etc/ssh/ssh_host_ed25519_key"
PUBLIC = f"{PRIVATE}.pub"


def make_guest(part: GuestPart, disks_mib: Sequence[int], name: str) -> Guest:
    """Return the guest that an estate file describes, on disks of these sizes."""
    account = part.account
    free = part.free if part.free is not None else max(0, sum(disks_mib) - SYSTEM_MIB)
    accounts = {ROOT: Account(home="/root")}
    accounts[account.user] = Account(
        account.password,
        account.keys,
        account.sudo,
        home=f"/home/{account.user}" if account.user != ROOT else "/root",
    )
    guest = Guest(
        os=part.os,
        kernel=part.kernel,
        cloud_init=part.cloud_init,
        datasource=part.datasource,
        sshd=part.sshd,
        headers=part.headers,
        boot_seconds=part.boot_seconds,
        free_mib=free,
        disk_mib=disks_mib[0] if disks_mib else 0,
        accounts=accounts,
        host_name=name,
        driver="" if part.driver == "none" else part.driver,
        has_grid_driver=part.grid,
        signs_modules=part.signs_modules,
        nouveau=part.nouveau and part.driver == "none",
        ofed=part.ofed,
        runtimes=list(part.runtimes),
        toolkit=list(part.runtimes) if part.toolkit else [],
        images=list(part.images),
        faults=dict(part.faults),
        live_restore=part.live_restore,
        workloads=[
            Workload(one.name, one.runtime or "", one.container or (one.name if one.runtime else ""), one.gpu)
            for one in part.runs
        ],
    )
    for folder in (*RUNTIME_FOLDERS, *MORE_FOLDERS):
        guest.folders[folder] = 0o1777 if folder.endswith("tmp") else 0o755
    for each, account_of in accounts.items():
        guest.folders[account_of.home] = 0o700 if each == ROOT else 0o755
    for path, content in part.files.items():
        guest.files[path] = File(content)
    return guest


def guest_of(vm: VirtualMachine) -> Guest:
    """Return a VM's guest, made on first use: an ordinary one, that is up where the VM runs."""
    if vm.made_guest is None:
        vm.made_guest = make_guest(GuestPart(), _disks_of(vm) or (SYSTEM_MIB * 5,), vm.name)
        if vm.is_on:
            mark_long_running(vm)
    return vm.made_guest


def _disks_of(vm: VirtualMachine) -> tuple[int, ...]:
    return tuple(disk.capacityInKB // 1024 for disk in disks_of(vm.devices))


def grow_root(vm: VirtualMachine) -> None:
    """Let the file system fill a first disk that has grown, as cloud-init's growpart does at each boot."""
    guest, disks = guest_of(vm), _disks_of(vm)
    if disks and guest.disk_mib and disks[0] > guest.disk_mib:
        guest.free_mib += disks[0] - guest.disk_mib
        guest.disk_mib = disks[0]


def mark_long_running(vm: VirtualMachine) -> None:
    """Let the guest of a VM that an estate powered on be up: its first boot is long over."""
    guest = guest_of(vm) if vm.made_guest is None else vm.made_guest
    guest.phase, guest.boots = "up", 1
    guest.instance_id = vm.instance_uuid
    guest.cloud_state = "done" if guest.cloud_init else ""


def copy_of(guest: Guest | None) -> Guest | None:
    """Return the guest on a copy of a VM's disks: what only runs is not on them."""
    if guest is None:
        return None
    made = copy.deepcopy(guest)
    stop(made)
    made.boots = 0
    return made


def stop(guest: Guest, *, goes_on: bool = False) -> None:
    """Drop all that ends with the power; a staging that `goes_on` after a restart is known by its files."""
    guest.phase, guest.boot_due, guest.has_nouveau = "off", 0.0, False
    guest.processes, guest.listening, guest.workloads = [], {}, []
    if not goes_on:
        guest.staging = None
    for path in [path for path in guest.files if path.startswith("/run/")]:
        del guest.files[path]


def make_host_key(guest: Guest, seed: str, now: float) -> None:
    """Give a guest an ed25519 host key in the place of any that it had; the same seed gives the same."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(seed.encode()).digest())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    files.write(guest, PRIVATE, private, mode=0o600, now=now, parents=True)
    files.write(guest, PUBLIC, public + f" root@{guest.host_name}\n".encode(), now=now, parents=True)


def told_host_key(guest: Guest) -> str:
    """Return the public host key without its comment, "" where there is none."""
    found = guest.files.get(PUBLIC)
    return " ".join(found.content.split()[:2]) if found is not None else ""
