"""What a plan file asks of guests and of training over several of them; None means "not asked for"."""

from __future__ import annotations

from typing import Literal

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.plan_file import LoginEntry, OfedEntry, PackageEntry, TrainingEntry, UserEntry


class DesiredLicence(Frozen):
    """The client configuration token (a secret's name), and the feature type in gridd.conf's numbers."""

    token: str
    feature_type: int = 4


class DesiredGuest(Frozen):
    """How one VM's guest is set up.

    `user_data` is the text of the user's own #cloud-config. `domain` is "" without one. `driver`, `ofed`
    and `runtime` are None where this tool shall not see to them; a package of which nothing is said is
    what the template has.
    """

    by: Literal["cloud-init", "guest-operations", "ssh"] = "cloud-init"
    host_name: str
    domain: str = ""
    login: LoginEntry = LoginEntry()
    users: tuple[UserEntry, ...] = ()
    user_data: str = ""
    licence: DesiredLicence | None = None
    driver: PackageEntry | None = None
    ofed: OfedEntry | None = None
    runtime: Literal["docker", "containerd", "apptainer"] | None = None
    toolkit_repository: str | None = None
    shared_memory: str = ""
    wait_seconds: int = 1800


class DesiredTraining(TrainingEntry):
    """Which VMs train together, and with what.

    `workers` are names of VMs in the order of the plan, all of them; `head` is the name of the VM from which
    training starts where it is none of them. `registry` has its server and password, the bandwidths of
    `traffic` are Mbit/s. Without `keys` this machine keeps the secret from which the plan's keys follow.
    """

    origin: str = ""
