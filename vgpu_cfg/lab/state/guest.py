"""The state of a simulated guest: its system and files, its logins, its faults, its progress since its boot.

All of it is plain data, kept with its VM in the lab's state. Data on the disk outlast a restart; running
programs do not. A fault of an exercise shows at the same place as in a real guest: in a tool's output, or in
measurements.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from vgpu_cfg.lab.estates.guests import WORDS

GuestPower = Literal["off", "booting", "up"]
CloudState = Literal["", "running", "done", "error"]


@dataclass(slots=True)
class Account:
    """A login account. `password` "" locks it; `keys` are public keys as `ssh-ed25519 AAAA…`."""

    password: str = ""
    keys: tuple[str, ...] = ()
    sudo: bool = True
    shell: str = "/bin/bash"
    groups: tuple[str, ...] = ()
    home: str = ""


@dataclass(slots=True)
class File:
    """A file; `content` is text, with bytes that are no UTF-8 kept as lone surrogates."""

    content: str = ""
    mode: int = 0o644
    owner: str = "root"
    changed: float = 0.0

    def read(self) -> bytes:
        """Return its bytes."""
        return self.content.encode("utf-8", "surrogateescape")


@dataclass(slots=True)
class NicSetting:
    """netplan's settings of one NIC, found by its MAC."""

    name: str = ""
    addresses: tuple[str, ...] = ()
    dhcp: bool = False
    mtu: int | None = None
    gateway: str = ""
    dns: tuple[str, ...] = ()


@dataclass(slots=True)
class RoceSetting:
    """RoCE settings of one NIC, found by its MAC."""

    trust: str = "pcp"
    priority: int | None = None
    dscp: int = 0


@dataclass(slots=True)
class Process:
    """A program that was started: `statuses` are those of its commands that are over.

    One that waits for something has no exit code yet; `waits_for` says for what.
    """

    pid: int
    name: str
    command: str
    owner: str
    started: float
    ended: float | None = None
    exit_code: int | None = None
    statuses: list[int] = field(default_factory=list)
    waits_for: str = ""


@dataclass(slots=True)
class Workload:
    """Work in a guest for its users: a process, or a container of a `runtime`.

    `container` is the one that it runs in, "" for a process of the guest itself.
    """

    name: str
    runtime: str = ""
    container: str = ""
    uses_gpu: bool = True


@dataclass(slots=True)
class Step:
    """One module of a run of the stage command."""

    name: str
    digest: str
    state: str = "waiting"
    why: str = ""


@dataclass(slots=True)
class Staging:
    """A run of the stage command. `step` is the module it is at, `due` when that is done."""

    run: str
    wanted: tuple[str, ...]
    spec: str
    steps: list[Step]
    step: int = 0
    due: float = 0.0
    status: int | None = None
    """Its exit status, None while it runs."""

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.status is not None


@dataclass(slots=True)
class Guest:
    """One guest.

    `free_mib` is the room on its disk. `driver` is NVIDIA's by version, "" without one. `ofed` is the RDMA
    stack. `settings` are NICs' by MAC, as `roce`. `blocks` are texts that modules put into files of
    the system, by module. `phase` and what follows it is the life since the last power-on.
    """

    os: str = "ubuntu-22.04"
    kernel: str = "5.15.0-91-generic"
    cloud_init: bool = True
    datasource: str = "vmware"
    """The place of its cloud-init data: it finds none elsewhere."""
    sshd: bool = True
    headers: bool = True
    """Whether what modules are built with is there for its kernel."""
    boot_seconds: float = 20.0
    free_mib: int = 32_768
    disk_mib: int = 0
    """The size of the first disk as the file system on it knows it."""
    accounts: dict[str, Account] = field(default_factory=dict)
    files: dict[str, File] = field(default_factory=dict)
    folders: dict[str, int] = field(default_factory=dict)
    """Folders and their permissions."""
    owners: dict[str, str] = field(default_factory=dict)
    """Whose a folder is that is not root's."""
    host_name: str = "ubuntu"
    driver: str = ""
    has_grid_driver: bool = True
    """Whether its NVIDIA driver is of the vGPU packages (GRID), and not of the data-center packages."""
    signs_modules: bool = False
    """Whether the key that signs modules built in it is enrolled in its firmware."""
    nouveau: bool = True
    """Whether the system has the nouveau driver, and may load it."""
    ofed: str = "inbox"
    peermem: bool = False
    """Whether nvidia-peermem is loaded at boot."""
    runtimes: list[str] = field(default_factory=list)
    toolkit: list[str] = field(default_factory=list)
    """Runtimes that NVIDIA's Container Toolkit was configured for."""
    images: list[str] = field(default_factory=list)
    logins: dict[str, str] = field(default_factory=dict)
    """Container registries with a login, and their passwords."""
    licence: str = ""
    """The content of the client configuration token."""
    settings: dict[str, NicSetting] = field(default_factory=dict)
    roce: dict[str, RoceSetting] = field(default_factory=dict)
    counters: dict[str, dict[str, int]] = field(default_factory=dict)
    """Counters of NICs, by their MAC and mlx5's names."""
    services: dict[str, bool] = field(default_factory=dict)
    """Units of systemd that modules made: whether they start at boot."""
    blocks: dict[str, str] = field(default_factory=dict)
    """The last digest of a module, by its kind: its parameters as JSON."""
    instance_id: str = ""
    cloud_state: CloudState = ""
    cloud_why: str = ""
    phase: GuestPower = "off"
    has_nouveau: bool = False
    """Nouveau drives a GPU since this boot."""
    boot_due: float = 0.0
    boots: int = 0
    faults: dict[str, str] = field(default_factory=dict)
    """Its faults in an exercise, by the words of `estates/guest_faults.py`."""
    mounts: dict[str, str] = field(default_factory=dict)
    """Shared folders, and the address of their exporter; "" if it is this guest."""
    shm_mib: int = 0
    """The size of /dev/shm if it was set."""
    targets: list[str] = field(default_factory=list)
    """The targets of its Prometheus."""
    staging: Staging | None = None
    processes: list[Process] = field(default_factory=list)
    last_pid: int = 900
    workloads: list[Workload] = field(default_factory=list)
    live_restore: bool = False
    """Docker's containers outlast a restart of its daemon."""
    listening: dict[str, str] = field(default_factory=dict)
    """Ports on which a bandwidth test waits, and its command line."""

    @property
    def is_up(self) -> bool:
        """Whether it has booted."""
        return self.phase == "up"

    def touch_file(self, path: str, content: str, *, mode: int = 0o644, now: float = 0.0) -> None:
        """Write a file of root's."""
        self.files[path] = File(content, mode, "root", now)


def fault_of(guest: Guest, word: str) -> str:
    """Return how much of a fault a guest has, "" for none."""
    if word not in WORDS:
        raise KeyError(word)
    return guest.faults.get(word, "")


def altered(guest: Guest, tool: str, text: bytes) -> bytes:
    """Return a tool's output with the replacements of a fault, line by line."""
    for line in fault_of(guest, "prints").splitlines():
        name, _, rest = line.partition(": ")
        if name == tool:
            pattern, _, new = rest.partition(" => ")
            text = re.sub(pattern.encode(), new.encode(), text, flags=re.MULTILINE)
    return text


def altered_files(guest: Guest) -> dict[str, str]:
    """Return made-up files that have another content, by path."""
    pairs = (line.partition(" ") for line in fault_of(guest, "files").splitlines())
    return {path: f"{content}\n" for path, _, content in pairs}


def counted_besides(guest: Guest) -> dict[str, int]:
    """Return the extra growth of NIC counters in each transfer, by name."""
    pairs = (line.split() for line in fault_of(guest, "counts").splitlines())
    return {name: int(amount) for name, amount in pairs}


ROOT = "root"


def takes_password(guest: Guest, user: str, password: str) -> bool:
    """Whether a password is an account's; an account without one is locked."""
    account = guest.accounts.get(user)
    return account is not None and bool(account.password) and account.password == password


def takes_key(guest: Guest, user: str, key: str) -> bool:
    """Whether a public key (`ssh-ed25519 AAAA…`, with or without a comment) opens an account."""
    account = guest.accounts.get(user)
    return account is not None and plain_key(key) in {plain_key(each) for each in account.keys}


def plain_key(line: str) -> str:
    """Return a public key without its comment."""
    return " ".join(line.split()[:2])


def may_all(guest: Guest, user: str) -> bool:
    """Whether an account has root's rights without being asked for a password."""
    account = guest.accounts.get(user)
    return user == ROOT or (account is not None and account.sudo)
