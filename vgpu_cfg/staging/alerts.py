"""The alert rules of the Prometheus on the head: failing GPUs, RDMA ports that lose packets, exporters.

The names are DCGM's (dcgm_fields.h), node exporter's, and those of `rdma-metrics`. Thresholds are choices.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from vgpu_cfg.model.verification import OF_PROGRAMS

_XID = "DCGM_FI_DEV_XID_ERRORS"


class Alert(NamedTuple):
    """A rule: it fires once `expr` has held `lasts` long; `summary` is for people, with labels."""

    name: str
    expr: str
    lasts: str
    severity: str
    summary: str


_GPU = "GPU {{ $labels.gpu }} of {{ $labels.vm }}"
_PORT = "{{ $labels.device }} of {{ $labels.vm }}"
ALERTS = (
    Alert(
        "GpuXid",
        f"{_XID} > 0 unless ({' or '.join(f'{_XID} == {number}' for number in sorted(OF_PROGRAMS))})",
        "0s",
        "warning",
        f"{_GPU} reported Xid {{{{ $value }}}}; look it up with vgpu-cfg explain",
    ),
    Alert(
        "GpuRemapFailed",
        "DCGM_FI_DEV_ROW_REMAP_FAILURE > 0",
        "0s",
        "critical",
        f"{_GPU} cannot repair its memory; have it replaced",
    ),
    Alert(
        "GpuRemapPending",
        "DCGM_FI_DEV_ROW_REMAP_PENDING > 0",
        "0s",
        "warning",
        f"{_GPU} will repair its memory at the next reset; restart the VM in a maintenance window",
    ),
    Alert(
        "GpuMemoryErrors",
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL > 0",
        "0s",
        "critical",
        f"{_GPU} had {{{{ $value }}}} uncorrectable memory errors since the driver was loaded",
    ),
    Alert("GpuHot", "DCGM_FI_DEV_GPU_TEMP > 85", "15m", "warning", f"{_GPU} is above 85 degrees"),
    Alert(
        "RdmaDrops",
        "increase(vgpu_cfg_port_rx_discards_phy_total[10m]) > 0",
        "0s",
        "warning",
        f"{_PORT} dropped packets; check PFC on the switch port",
    ),
    Alert(
        "RdmaTimeouts",
        "increase(vgpu_cfg_rdma_local_ack_timeout_err_total[10m]) > 0",
        "0s",
        "warning",
        f"{_PORT} waited for lost packets; check the link and the switch",
    ),
    Alert(
        "RdmaLinkPaused",
        "increase(vgpu_cfg_port_rx_global_pause_total[10m]) > 0",
        "0s",
        "warning",
        f"{_PORT} was paused for all traffic; set PFC for one priority instead",
    ),
    Alert(
        "ExporterDown", "up == 0", "10m", "warning", "{{ $labels.instance }} of {{ $labels.vm }} is silent"
    ),
)


def alert_rules() -> dict[str, Any]:
    """Return the rule file as Prometheus reads it."""
    rules = [
        {
            "alert": one.name,
            "expr": one.expr,
            "for": one.lasts,
            "labels": {"severity": one.severity},
            "annotations": {"summary": one.summary},
        }
        for one in ALERTS
    ]
    return {"groups": [{"name": "vgpu-cfg", "rules": rules}]}
