"""Guests in an estate file: a template's system, registries and packages, and the faults of an exercise.

Every key has a default: a template without settings is an ordinary cloud image of Ubuntu with VMware's tools
and cloud-init, and every named registry answers.

Each fault of an exercise is a word, with its extent.

Every part of an estate file rests on a base that is defined here: mappings without unknown keys, and sizes
with a unit.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

_SIZE = re.compile(r"(\d+)\s*([MGT])iB")
_FACTOR = {"M": 1, "G": 1024, "T": 1024 * 1024}


def _mib(value: object) -> object:
    if isinstance(value, str):
        found = _SIZE.fullmatch(value.strip())
        if found is None:
            raise ValueError(f"{value!r} is not a size, such as 512MiB, 64GiB or 2TiB")
        return int(found[1]) * _FACTOR[found[2]]
    return value


Size = Annotated[int, BeforeValidator(_mib), Field(gt=0)]
"""Text with a unit (`64GiB`), or whole MiB."""

Room = Annotated[int, BeforeValidator(_mib), Field(ge=0)]
"""The same, which may be none."""


class Part(BaseModel):
    """Any mapping of the file: unknown keys are faults."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Runtime = Literal["docker", "containerd", "apptainer"]
RdmaStack = Literal["none", "inbox", "mlnx", "doca"]

WORDS = {
    "boot": "systemd units that do not start at boot",
    "checkpoint": "how its training responds when asked to save: fails, or late",
    "clock": "seconds by which its clock is ahead; negative if behind",
    "compute": "the compute mode of its GPUs, such as Prohibited",
    "counts": "counters that its RDMA NICs increase in each transfer: rx_symbol_err_phy 900; one per line",
    "customization": "the part of guest customization that fails: network, identity, or unknown",
    "driver": "missing: no module for its kernel; otherwise, the version of its newer libraries",
    "files": "different content of a file that the kernel generates, such as /proc/uptime 4.1; one per line",
    "firewall": "closed: other machines cannot reach its exporters",
    "firmware": "the firmware version of its NICs",
    "framebuffer": "the framebuffer of its GPUs, in MiB",
    "gpu": "the name of its GPUs",
    "health": "a path in nvidia-smi's report and its value, such as Remapped Rows/Pending=Yes; one per line",
    "held": "the GPU memory held by a leftover process, in MiB",
    "image": "different content of its images",
    "licence": "hours until its license expires",
    "log": "a line in the kernel log",
    "memlock": "the KiB that its containers can lock",
    "metrics": "down: its exporters do not respond",
    "mount": "gone: its shared folder is not mounted",
    "nccl": "silent: NCCL does not report its transports; socket: it uses TCP",
    "other": "another machine responds at its address",
    "pcie": "the PCIe link of its NICs, such as 8.0 8",
    "perftest": "no-cuda: its perftest was built without CUDA",
    "port": "down: its RDMA NICs have no link",
    "prints": "a regular expression to replace in a tool's output: ethtool: yes => no; one per line",
    "root": "ro: its disk is mounted read-only",
    "send": "the maximum send rate of its NICs, in Gb/s",
    "shm": "the size of /dev/shm in its worker, in MiB",
    "sums": "wrong: its part of a sum is wrong",
    "switch": "a fault on the switch ports of its RDMA NICs: mtu (MTU 1500) or vlan (wrong VLAN)",
}


class AccountPart(Part):
    """An account of the template. Without a `password` there are no password logins."""

    user: str = "ubuntu"
    password: str = ""
    keys: tuple[str, ...] = ()
    sudo: bool = True


class WorkloadPart(Part):
    """Work in a guest for its users: a process, or a container of a `runtime`.

    `container` is the one that it runs in; a runtime alone gives it a container of its own name.
    """

    name: str
    runtime: Runtime | None = None
    container: str = ""
    gpu: bool = True


class GuestPart(Part):
    """The system on a template's or VM's disk. `driver` is NVIDIA's by version, `none` without one.

    Without `grid` it is of the data-center packages. `signs_modules`: Secure Boot takes modules built in it.
    `datasource` is where its cloud-init looks for data, `headers` are the running kernel's. `faults` are its
    faults, and those of its clones. `runs` is what runs in it while it is up.
    """

    os: str = "ubuntu-22.04"
    kernel: str = "5.15.0-91-generic"
    cloud_init: bool = True
    datasource: Literal["vmware", "nocloud"] = "vmware"
    sshd: bool = True
    headers: bool = True
    tools: bool = True
    driver: str = "none"
    grid: bool = True
    signs_modules: bool = False
    nouveau: bool = True
    ofed: RdmaStack = "inbox"
    runtimes: tuple[Runtime, ...] = ()
    toolkit: bool = False
    images: tuple[str, ...] = ()
    files: dict[str, str] = Field(default_factory=dict)
    free: Room | None = None
    boot_seconds: float = Field(default=20.0, ge=0)
    account: AccountPart = AccountPart()
    faults: dict[str, str] = Field(default_factory=dict)
    runs: tuple[WorkloadPart, ...] = ()
    live_restore: bool = False

    @field_validator("faults")
    @classmethod
    def _known(cls, faults: dict[str, str]) -> dict[str, str]:
        for word in faults:
            if word not in WORDS:
                message = f"{word!r} is not a guest fault\nuse one of {', '.join(WORDS)}"
                raise ValueError(message)
        return faults


class ImagePart(Part):
    """A container image of a registry: its content. `env` is what its Dockerfile states by ENV."""

    size: Size = 8192
    horovod: bool = True
    torch: bool = False
    mpi: bool = True
    env: dict[str, str] = Field(default_factory=dict)


class RegistryPart(Part):
    """A container registry. With a `password` it wants a login; an `expired` one is refused.

    Without `images` it has every image that anybody asks for.
    """

    reachable: bool = True
    user: str = "$oauthtoken"
    password: str = ""
    expired: tuple[str, ...] = ()
    images: dict[str, ImagePart] | None = None


class InternetPart(Part):
    """The servers that guests reach beyond the lab.

    `unreachable` are names of hosts. `checksums` are the sha256 of packages by URL. `licence` is the license
    server's answer to a token.
    """

    unreachable: tuple[str, ...] = ()
    registries: dict[str, RegistryPart] = Field(default_factory=dict)
    checksums: dict[str, str] = Field(default_factory=dict)
    missing: tuple[str, ...] = ()
    licence: Literal["valid", "expired", "unreachable"] = "valid"
    expired_tokens: tuple[str, ...] = ()
    mib_per_second: int = Field(default=100, gt=0)
