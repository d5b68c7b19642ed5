"""What an estate file says of guests and of what they reach: a template's system, registries, packages.

Every key has a default: a template of which nothing is said is an ordinary cloud image of Ubuntu with
VMware's tools and cloud-init, and every registry that anybody names answers.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from vgpu_cfg.lab.estates.guest_faults import WORDS
from vgpu_cfg.lab.estates.parts import Part, Room, Size

Runtime = Literal["docker", "containerd", "apptainer"]
RdmaStack = Literal["none", "inbox", "mlnx", "doca"]


class AccountPart(Part):
    """An account of the template. Without a `password` nobody logs in with one."""

    user: str = "ubuntu"
    password: str = ""
    keys: tuple[str, ...] = ()
    sudo: bool = True


class WorkloadPart(Part):
    """What runs in a guest for its users: a process, or a container of a `runtime`.

    `container` is the one that it runs in; a runtime alone gives it a container of its own name.
    """

    name: str
    runtime: Runtime | None = None
    container: str = ""
    gpu: bool = True


class GuestPart(Part):
    """The system on a template's or VM's disk. `driver` is NVIDIA's by version, `none` without one.

    `datasource` is where its cloud-init looks for data, `headers` are the running kernel's.
    `faults` are what is wrong with it, and with its clones. `runs` is what runs in it while it is up.
    """

    os: str = "ubuntu-22.04"
    kernel: str = "5.15.0-91-generic"
    cloud_init: bool = True
    datasource: Literal["vmware", "nocloud"] = "vmware"
    sshd: bool = True
    headers: bool = True
    tools: bool = True
    driver: str = "none"
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
                message = f"a guest has no fault called {word!r}\nthey are {', '.join(WORDS)}"
                raise ValueError(message)
        return faults


class ImagePart(Part):
    """A container image of a registry: what it holds. `env` is what its Dockerfile states by ENV."""

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
    """What guests reach beyond the lab.

    `unreachable` are names of hosts. `checksums` are the sha256 of packages by URL. `licence` is what the
    licence server says of a token.
    """

    unreachable: tuple[str, ...] = ()
    registries: dict[str, RegistryPart] = Field(default_factory=dict)
    checksums: dict[str, str] = Field(default_factory=dict)
    missing: tuple[str, ...] = ()
    licence: Literal["valid", "expired", "unreachable"] = "valid"
    expired_tokens: tuple[str, ...] = ()
    mib_per_second: int = Field(default=100, gt=0)
