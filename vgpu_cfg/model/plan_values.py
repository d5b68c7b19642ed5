"""The plan file's words that planning uses as values: device use, NUMA, spread, secrets, and limits.

Limits are the time to wait for an answer, the amount of it to accept, and the number of requests at once.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import PureWindowsPath
from typing import Literal

from vgpu_cfg.model.frozen import Frozen

MIB = 1024 * 1024


class GpuUse(StrEnum):
    """The use of a GPU. LEAVE changes nothing."""

    VGPU = "vgpu"
    PASSTHROUGH = "passthrough"
    LEAVE = "leave"


class SchedulerPolicy(StrEnum):
    """How time-sliced vGPUs take turns; its word in `RmPVMRL` is in the settings table."""

    BEST_EFFORT = "best_effort"
    EQUAL_SHARE = "equal_share"
    FIXED_SHARE = "fixed_share"


class NicUse(StrEnum):
    """The use of a NIC: by the host, passthrough of the entire NIC, or virtual functions."""

    HOST = "host"
    PASSTHROUGH = "passthrough"
    SRIOV = "sriov"


class Disruption(StrEnum):
    """The disruptions that the plan file allows for a host."""

    MAINTENANCE = "maintenance"
    REBOOT = "reboot"
    COLD_BOOT = "cold_boot"


class NumaPolicy(StrEnum):
    """How CPUs and memory are tied to NUMA nodes."""

    FOLLOW_GPU = "follow-gpu"
    """To the nodes of the VM's GPUs; a VM without GPUs is not tied."""
    NODE = "node"
    """To one node, whichever has room, or to those that are named."""
    OFF = "off"


class DesiredNuma(Frozen):
    """The policy; `nodes` is empty unless the plan names them."""

    policy: NumaPolicy = NumaPolicy.FOLLOW_GPU
    nodes: tuple[int, ...] = ()


class Spread(StrEnum):
    """The resource that no two VMs of one line may share."""

    HOSTS = "hosts"
    GPUS = "gpus"
    NUMA = "numa"
    """A NUMA node of a host."""


class SecretReference(Frozen):
    """The location of a secret, never the secret itself."""

    kind: Literal["env", "file", "keyring", "command", "age", "sops"]
    value: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.value}"

    def seen_from(self, folder: str) -> SecretReference:
        """Return the same for where `folder` leads to the file that says it: paths of files count."""
        is_path = self.kind in ("age", "sops") and not self.value.startswith(("~", "/"))
        if not is_path or folder == "." or PureWindowsPath(self.value).is_absolute():
            return self
        return self.model_copy(update={"value": f"{folder}/{self.value}"})


class Limits(Frozen):
    """The limits of everything that comes in over the network.

    An exchange with vCenter can take `timeout_seconds` in addition to the request's own duration. A vCenter
    that has responded before is waited for `outage_seconds`. A response, a download or a command's output
    may have `answer_mib`, unpacked, and a reading or a list that comes in pages `answer_pages` of them. Of
    independent questions `in_flight` are on their way at once.
    """

    timeout_seconds: float = 60.0
    outage_seconds: float = 600.0
    answer_mib: int = 64
    answer_pages: int = 1000
    in_flight: int = 4

    @property
    def answer_bytes(self) -> int:
        """How many bytes an answer may have."""
        return self.answer_mib * MIB
