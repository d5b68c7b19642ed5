"""The rules of `verify --watch`: the signs of a machine's health that belong together, and the remedy.

A sign's kind is an Xid (`xid-79`), a trouble that the driver reports now (`lost`), or a failed check's code.
Xids follow the immediate action of NVIDIA's Xid catalog; the states of memory and the recovery action follow
NVIDIA's "GPU Memory Error Management". No rule acts unless the plan file names it.

Belief: watch-by-what-drivers-report.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from vgpu_cfg.knowledge.verify_failures import VerifyCode as Code
from vgpu_cfg.model.verification import OF_PROGRAMS, RESETS

_CATALOG = "https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html"
_MEMORY = "https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/error-recovery-and-response-flags.html"
_SMI = "nvidia-smi manual page"

CORDON = "vgpu-cfg cordon {target} --reason={rule} --server={server}"
DRAIN = "vgpu-cfg drain {host} --server={server}"
BUNDLE = "vgpu-cfg doctor --bundle {gpu} --plan {plan}"


class Urgency(StrEnum):
    """How soon a sign needs a person: now, in the next maintenance window, or not at all."""

    NOW = "now"
    SOON = "soon"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class HealthRule:
    """A kind of trouble: its signs and its remedy, one command or step a line.

    `may_cordon`: the plan file can let it cordon, by a state that the driver reports and never by a log line.
    It is reported once it has lasted `patience_minutes`: resets, restarts and upgrades pass through it.
    """

    key: str
    title: str
    kinds: frozenset[str]
    urgency: Urgency
    do: tuple[str, ...]
    source: str
    may_cordon: bool = False
    patience_minutes: int = 0


def _xids(*numbers: int) -> frozenset[str]:
    return frozenset(f"xid-{number}" for number in numbers)


_RESTART_APP = (8, 25, 32, 37, 39, 40, 41, 44, 60, 66, 67, 68, 69, 70, 71, 72, 75, 76, 77, 80, 82, 83, 84, 85)
_RESTART_APP += (86, 88, 89, *range(96, 106), *range(126, 136), 137, 139, 141)
"""RESTART_APP, and IGNORE with a program as the cause."""

RULES: tuple[HealthRule, ...] = (
    HealthRule(
        "gpu-lost",
        "a GPU no longer responds",
        _xids(79) | {"lost"},
        Urgency.NOW,
        (CORDON, DRAIN, BUNDLE, "power-cycle the host; if the error recurs, have the board checked"),
        _CATALOG,
        may_cordon=True,
    ),
    HealthRule(
        "memory-failed",
        "unrepairable GPU memory",
        _xids(64, 157, 161) | {"remap-failed"},
        Urgency.NOW,
        (CORDON, DRAIN, BUNDLE, "have the GPU replaced"),
        _MEMORY,
        may_cordon=True,
    ),
    HealthRule(
        "gpu-reset",
        "a GPU must be reset before it can be used again",
        _xids(*RESETS) | {"reset"},
        Urgency.NOW,
        (
            CORDON,
            DRAIN,
            (
                "take the recovery action that the driver reports: restart the VM or, for vGPUs, reboot"
                " the host"
            ),
        ),
        _CATALOG,
        may_cordon=True,
    ),
    HealthRule(
        "memory-errors",
        "uncorrectable GPU memory errors",
        _xids(48, 95, 140, 171, 172) | {"ecc"},
        Urgency.NOW,
        (
            CORDON,
            (
                "discard all results since the errors occurred, reset the GPU, and check whether it"
                " repaired its memory"
            ),
        ),
        _MEMORY,
    ),
    HealthRule(
        "memory-repair",
        "a GPU memory repair is pending a reset",
        _xids(63, 94, 160) | {"remap-pending"},
        Urgency.SOON,
        (
            (
                "no immediate action is required; in the next maintenance window, restart the VM or, for"
                " vGPUs, reboot the host"
            ),
        ),
        _MEMORY,
    ),
    HealthRule(
        "nvlink",
        "a link between GPUs has failed",
        _xids(74, 136, *range(144, 151)) | {Code.NO_NVLINK, Code.NVLINK_LANES},
        Urgency.NOW,
        (
            "check `nvidia-smi nvlink -e` and `-s`",
            DRAIN,
            "if the same link fails again, reseat the bridge or cable",
        ),
        _CATALOG,
    ),
    HealthRule(
        "fabric",
        "a GPU has not joined the NVSwitch fabric",
        frozenset({"fabric"}),
        Urgency.NOW,
        ("check Fabric Manager and its version on the machine that manages the NVSwitches", DRAIN),
        _SMI,
        patience_minutes=15,
    ),
    HealthRule(
        "thermal",
        "a GPU is throttled because of heat",
        frozenset({"thermal"}),
        Urgency.SOON,
        ("in the BMC, check the fans, the airflow, and the inlet temperature",),
        _SMI,
        patience_minutes=15,
    ),
    HealthRule(
        "power",
        "a GPU is throttled because of power limits",
        _xids(54) | {"brake", "slowdown", Code.GPU_CAPPED},
        Urgency.SOON,
        ("in the BMC, check the power supplies and their limits, and check the GPU's power cables",),
        _SMI,
        patience_minutes=15,
    ),
    HealthRule(
        "pcie",
        "a GPU's PCIe link has lost lanes",
        frozenset({"lanes"}),
        Urgency.SOON,
        ("reseat the board and riser in the next maintenance window",),
        _SMI,
        patience_minutes=15,
    ),
    HealthRule(
        "driver",
        "the driver reports errors instead of readings",
        frozenset({"error", Code.DRIVER_ABSENT, Code.HOST_DRIVER}),
        Urgency.SOON,
        ("vgpu-cfg verify {plan} --only=driver,gpus",),
        _SMI,
        patience_minutes=30,
    ),
    HealthRule(
        "guest-gpus",
        "a guest has fewer GPUs than its VM",
        frozenset({Code.GPUS_MISSING}),
        Urgency.NOW,
        ("look for Xid 79 in the host's log, and restart the VM", BUNDLE),
        _SMI,
        patience_minutes=15,
    ),
    HealthRule(
        "licence",
        "a vGPU has no license, or its license expires soon",
        frozenset({Code.UNLICENSED, Code.LICENCE_ENDS, Code.LICENCE_SOON}),
        Urgency.SOON,
        ("check the license server, and check nvidia-gridd in the guest",),
        "NVIDIA Virtual GPU Client Licensing User Guide",
        patience_minutes=15,
    ),
    HealthRule(
        "nic",
        "an RDMA NIC is down, slow, or corrupts packets",
        frozenset({Code.RDMA_DOWN, Code.PORT_SLOW, Code.PCIE_NARROW, "nic-damage"}),
        Urgency.NOW,
        ("check the cable, the transceiver, and the switch port",),
        "kernel: networking/device_drivers/ethernet/mellanox/mlx5/counters.rst",
        patience_minutes=5,
    ),
    HealthRule(
        "pauses",
        "the RDMA network is paused for long periods or drops packets",
        frozenset({"nic-paused", "nic-storm", "nic-dropped"}),
        Urgency.SOON,
        (
            (
                "check PFC and ECN on both switch ports, and look for a NIC with pause storms, which"
                " slow down the others"
            ),
        ),
        "kernel: networking/device_drivers/ethernet/mellanox/mlx5/counters.rst",
    ),
    HealthRule(
        "host-silent",
        "a host is disconnected from vCenter",
        frozenset({Code.HOST_SILENT}),
        Urgency.NOW,
        ("check the host's console and management network",),
        "vSphere: Troubleshooting Host Not Responding",
        patience_minutes=10,
    ),
    HealthRule(
        "alarm",
        "a host has a red alarm in vCenter",
        frozenset({"alarm-red"}),
        Urgency.SOON,
        (
            "in the vSphere Client, check the host under Monitor > Hardware Health",
            "then acknowledge the alarm or reset it to green under Monitor > Triggered Alarms",
        ),
        "vSphere: Monitoring Events, Alarms, and Automated Actions",
    ),
    HealthRule(
        "guest-silent",
        "a guest does not respond",
        frozenset({Code.GUEST_UNREACHED}),
        Urgency.SOON,
        ("open the VM's console, or restart the VM",),
        "docs/how-to/reach-guests.md",
        patience_minutes=15,
    ),
    HealthRule(
        "exporter",
        "metrics from a guest are missing",
        frozenset({Code.EXPORTER_SILENT}),
        Urgency.SOON,
        ("vgpu-cfg verify {plan} --only=metrics",),
        "docs/how-to/watch-the-gpus.md",
        patience_minutes=15,
    ),
    HealthRule(
        "dcgm",
        "DCGM reports a failure",
        frozenset({"dcgm-failure"}),
        Urgency.SOON,
        (CORDON, "in the guest, run `dcgmi diag -r 2` once its GPUs are idle"),
        "NVIDIA DCGM User Guide: Health and Diagnostics",
    ),
    HealthRule(
        "kernel",
        "the kernel reports failing hardware",
        frozenset({"kernel"}),
        Urgency.SOON,
        ("paste the line into `vgpu-cfg explain`",),
        "docs/reference/explain.md",
    ),
    HealthRule(
        "warning",
        "a host has a yellow alarm in vCenter, or DCGM warns",
        frozenset({"alarm-yellow", "dcgm-warning"}),
        Urgency.NOTE,
        ("no immediate action is required; an acknowledged alarm is no longer reported",),
        "vSphere: Monitoring Events, Alarms, and Automated Actions",
    ),
    HealthRule(
        "application",
        "a program on the GPU failed or was stopped",
        _xids(*OF_PROGRAMS, *_RESTART_APP),
        Urgency.NOTE,
        ("restart the program; no action is required for the GPU unless all programs fail on it",),
        _CATALOG,
    ),
    HealthRule(
        "other-xid",
        "an Xid that requires no immediate action",
        frozenset(),
        Urgency.NOTE,
        ("look up the number with `vgpu-cfg explain`",),
        _CATALOG,
    ),
)
"""In the order of a report. The last one takes every Xid that no other names."""

BY_KEY = {rule.key: rule for rule in RULES}


def rule_of(kind: str) -> HealthRule | None:
    """Return the rule of a sign, None for a failed check that is no matter of health."""
    other = RULES[-1] if kind.startswith("xid-") else None
    return next((rule for rule in RULES if kind in rule.kinds), other)
