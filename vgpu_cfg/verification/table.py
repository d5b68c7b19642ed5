"""All checks: their kinds, order and prerequisites, those that measure, and those chosen for a run.

A run chooses checks by globs over their names, or by `quick`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TypeAlias

from vgpu_cfg.model.verification import Thresholds
from vgpu_cfg.verification.asking import Asking
from vgpu_cfg.verification.checks import (
    container_checks,
    gpudirect_checks,
    guest_checks,
    host_checks,
    link_checks,
    machine_checks,
    monitoring_checks,
    network_checks,
    pair_checks,
    training_checks,
)
from vgpu_cfg.verification.checks.training_checks import TrainingView
from vgpu_cfg.verification.views import GuestView, HostView, PairView


@dataclass(frozen=True, slots=True)
class CheckBase:
    """The properties of every check. `rests_on` names checks without which it is not asked.

    `measures` marks those that take the network for themselves, which `--quick` leaves out. If one could
    prove nothing, `proven_by` may have: a check of more VMs that passed. `watches`: it only collects signs
    for `verify --watch`, and no other run asks it.
    """

    key: str
    title: str
    rests_on: tuple[str, ...]
    measures: bool
    proven_by: str = field(default="", kw_only=True)
    watches: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class HostCheck(CheckBase):
    """A check of one host."""

    ask: Callable[[HostView], Asking]


@dataclass(frozen=True, slots=True)
class GuestCheck(CheckBase):
    """A check of one VM."""

    ask: Callable[[GuestView], Asking]


@dataclass(frozen=True, slots=True)
class PairCheck(CheckBase):
    """A check of one VM towards another."""

    ask: Callable[[PairView], Asking]


@dataclass(frozen=True, slots=True)
class TrainingCheck(CheckBase):
    """A check of all workers together."""

    ask: Callable[[TrainingView], Asking]


Check: TypeAlias = HostCheck | GuestCheck | PairCheck | TrainingCheck

CHECKS: tuple[Check, ...] = (
    HostCheck("connected", "host responds", (), False, host_checks.ask_connected),
    HostCheck("host-alarms", "alarms", ("connected",), False, host_checks.ask_alarms, watches=True),
    HostCheck("host-driver", "host driver", ("connected",), False, host_checks.ask_host_driver),
    HostCheck("graphics", "graphics type", ("host-driver",), False, host_checks.ask_graphics),
    HostCheck("mig", "MIG mode", ("host-driver",), False, host_checks.ask_mig),
    HostCheck("host-ats", "ATS in the VMkernel", ("connected",), False, host_checks.ask_host_ats),
    HostCheck("host-roce", "RoCE in the host driver", ("connected",), False, host_checks.ask_host_roce),
    HostCheck("nic-firmware", "NIC firmware", ("connected",), False, host_checks.ask_nic_firmware),
    HostCheck(
        "host-licence",
        "licenses, as seen by the host",
        ("host-driver",),
        False,
        host_checks.ask_host_licences,
    ),
    HostCheck("host-gpu-health", "GPU health", ("host-driver",), False, machine_checks.ask_host_gpu_health),
    HostCheck(
        "host-kernel-log",
        "Xids in the host's log",
        ("connected",),
        False,
        machine_checks.ask_host_kernel_log,
        watches=True,
    ),
    HostCheck("tenants", "GPU sharing", ("connected",), False, host_checks.ask_tenants),
    HostCheck("near", "GPU and NIC", ("connected",), False, host_checks.ask_near),
    GuestCheck("reached", "guest responds", (), False, guest_checks.ask_reached),
    GuestCheck("staged", "staging", ("reached",), False, guest_checks.ask_staged),
    GuestCheck("clock", "clock", ("reached",), False, machine_checks.ask_clock),
    GuestCheck("kernel-log", "kernel log", ("reached",), False, machine_checks.ask_kernel_log),
    GuestCheck("room", "disk space", ("reached",), False, machine_checks.ask_room),
    GuestCheck("driver", "NVIDIA driver", ("reached",), False, guest_checks.ask_driver),
    GuestCheck("gpus", "GPUs", ("driver",), False, guest_checks.ask_gpus),
    GuestCheck("gpu-health", "GPU health", ("driver",), False, machine_checks.ask_gpu_health),
    GuestCheck(
        "diagnostics", "DCGM diagnostics", ("driver",), False, machine_checks.ask_diagnostics, watches=True
    ),
    GuestCheck("dcgm", "DCGM health", ("driver",), False, machine_checks.ask_dcgm_health, watches=True),
    GuestCheck("gpu-memory", "GPU memory", ("gpus",), False, guest_checks.ask_held),
    GuestCheck("licence", "license", ("driver",), False, guest_checks.ask_licence),
    GuestCheck("nvlink", "NVLink", ("gpus",), False, guest_checks.ask_nvlink),
    GuestCheck("nics", "NICs", ("reached",), False, network_checks.ask_nics),
    GuestCheck("rdma", "RDMA device", ("nics",), False, network_checks.ask_rdma),
    GuestCheck("port", "port speed", ("rdma",), False, link_checks.ask_port),
    GuestCheck("pcie", "PCIe link", ("port",), False, link_checks.ask_pcie),
    GuestCheck("counters", "NIC counters", ("rdma",), False, link_checks.ask_counters, watches=True),
    GuestCheck("gid", "RoCE v2 GID", ("rdma",), False, network_checks.ask_gid),
    GuestCheck("roce", "RoCE settings", ("rdma",), False, network_checks.ask_roce),
    GuestCheck("nccl", "NCCL settings", ("gid",), False, gpudirect_checks.ask_nccl),
    GuestCheck("peermem", "GPU memory for RDMA", ("driver", "rdma"), False, gpudirect_checks.ask_peermem),
    GuestCheck("ats", "ATS in the NIC", ("rdma",), False, gpudirect_checks.ask_ats),
    GuestCheck("runtime", "container runtime", ("reached",), False, container_checks.ask_runtime),
    GuestCheck(
        "container-gpus",
        "GPUs in a container",
        ("runtime", "gpus"),
        False,
        container_checks.ask_container_gpus,
    ),
    GuestCheck("horovod", "Horovod in the image", ("runtime",), False, container_checks.ask_horovod),
    GuestCheck("framework", "PyTorch or MPI", ("runtime",), False, container_checks.ask_framework),
    GuestCheck("worker", "worker container", ("runtime",), False, container_checks.ask_worker),
    GuestCheck(
        "worker-limits",
        "worker limits",
        ("worker", "gpus", "rdma"),
        False,
        container_checks.ask_worker_limits,
    ),
    GuestCheck("metrics", "metrics", ("reached",), False, monitoring_checks.ask_exporters),
    PairCheck("ssh", "SSH mesh", ("reached", "worker"), False, pair_checks.ask_ssh),
    PairCheck("path-mtu", "large packets", ("nics",), False, pair_checks.ask_path_mtu),
    PairCheck("bandwidth", "RDMA, host memory", ("gid", "port", "path-mtu"), True, pair_checks.ask_bandwidth),
    PairCheck("congestion", "loss and congestion", ("bandwidth",), True, link_checks.ask_congestion),
    PairCheck(
        "bandwidth-gpu",
        "RDMA, GPU memory",
        ("bandwidth", "gpus", "peermem"),
        True,
        pair_checks.ask_gpu_bandwidth,
        proven_by="allreduce",
    ),
    TrainingCheck("same-driver", "same driver", ("driver",), False, training_checks.ask_same_driver),
    TrainingCheck(
        "same-setup", "same configuration", ("driver", "rdma"), False, training_checks.ask_same_setup
    ),
    TrainingCheck("names", "names and host file", ("staged",), False, training_checks.ask_names),
    TrainingCheck("same-image", "same image", ("runtime", "worker"), False, training_checks.ask_same_image),
    TrainingCheck("addresses", "addresses", ("nics",), False, training_checks.ask_addresses),
    TrainingCheck("shared-folder", "shared folder", ("staged",), False, training_checks.ask_shared_folder),
    TrainingCheck(
        "allreduce",
        "allreduce",
        ("container-gpus", "horovod", "framework", "ssh", "bandwidth"),
        True,
        training_checks.ask_allreduce,
    ),
)
"""In the order in which they are asked and shown; a check rests on earlier ones only."""

BY_KEY: dict[str, Check] = {check.key: check for check in CHECKS}


def needed_for(keys: Iterable[str]) -> frozenset[str]:
    """Return checks with all that they rest on, directly or over others."""
    needed: set[str] = set()
    todo = list(keys)
    while todo:
        key = todo.pop()
        if key not in needed:
            needed.add(key)
            todo.extend(BY_KEY[key].rests_on)
    return frozenset(needed)


@dataclass(frozen=True, slots=True)
class Choice:
    """The user's selection. `only` are globs over names of checks; empty means all.

    `is_quick` leaves out what measures bandwidth. `parallel` is how many machines are asked at once.
    `watches` adds the checks that collect signs.
    """

    only: tuple[str, ...] = ()
    is_quick: bool = False
    parallel: int = 8
    thresholds: Thresholds = field(default_factory=Thresholds)
    watches: bool = False

    def takes(self, check: CheckBase) -> bool:
        """Whether a run of this kind may make a check at all."""
        return not (check.measures and self.is_quick) and (self.watches or not check.watches)

    def shows(self, check: str) -> bool:
        """Whether a check was asked for by name."""
        names = (check, check.removeprefix("host-"))
        return not self.only or any(fnmatchcase(name, glob) for name in names for glob in self.only)


def unknown_globs(globs: Iterable[str], checks: Iterable[str]) -> tuple[str, ...]:
    """Return the globs that match no check."""
    known = tuple(checks)
    names = {name for check in known for name in (check, check.removeprefix("host-"))}
    return tuple(glob for glob in globs if not any(fnmatchcase(name, glob) for name in names))
