"""The dashboard of a training: which metrics are drawn, in which unit, for each worker.

Metrics of GPUs have the names of DCGM exporter (etc/default-counters.csv), those of RDMA traffic the names of
node exporter's infiniband collector; what not all its releases count is this tool's own (`rdma-metrics`).

Belief: dcgm-exporter-with-a-vgpu, dcgm-nvlink-unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

SOURCE = {"type": "prometheus", "uid": "vgpu-cfg"}
WIDTH, HEIGHT = 12, 8


@dataclass(frozen=True, slots=True)
class Panel:
    """A graph: queries with their legends. `unit` is Grafana's word for it."""

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    most: float | None = None


_GPU = "{{vm}} GPU {{gpu}}"
_PORT = "{{vm}} {{device}}"
_PRIORITY = "{{vm}} {{device}} priority {{priority}}"


def _rate(metric: str, then: str = "") -> str:
    return f'rate({metric}{{vm=~"$vm"}}[$__rate_interval]){then}'


PANELS: tuple[Panel, ...] = (
    Panel("GPU utilization", "percent", (('DCGM_FI_DEV_GPU_UTIL{vm=~"$vm"}', _GPU),), 100),
    Panel("Framebuffer in use", "mbytes", (('DCGM_FI_DEV_FB_USED{vm=~"$vm"}', _GPU),)),
    Panel(
        "NVLink traffic (DCGM counter)",
        "none",
        (('sum by (vm, gpu) (rate(DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL{vm=~"$vm"}[$__rate_interval]))', _GPU),),
    ),
    Panel(
        "PCIe traffic",
        "KBs",
        (
            ('DCGM_FI_DEV_PCIE_TX_THROUGHPUT{vm=~"$vm"}', f"{_GPU} sent"),
            ('DCGM_FI_DEV_PCIE_RX_THROUGHPUT{vm=~"$vm"}', f"{_GPU} received"),
        ),
    ),
    Panel(
        "RDMA traffic",
        "Bps",
        (
            (
                'rate(node_infiniband_port_data_transmitted_bytes_total{vm=~"$vm"}[$__rate_interval])',
                f"{_PORT} sent",
            ),
            (
                'rate(node_infiniband_port_data_received_bytes_total{vm=~"$vm"}[$__rate_interval])',
                f"{_PORT} received",
            ),
        ),
    ),
    Panel(
        "RDMA packets dropped or with errors",
        "pps",
        (
            (
                'rate(node_infiniband_port_discards_transmitted_total{vm=~"$vm"}[$__rate_interval])',
                f"{_PORT} dropped",
            ),
            (
                'rate(node_infiniband_port_errors_received_total{vm=~"$vm"}[$__rate_interval])',
                f"{_PORT} with errors",
            ),
        ),
    ),
    Panel(
        "RDMA packets lost or out of order",
        "pps",
        (
            (_rate("vgpu_cfg_rdma_out_of_sequence_total"), f"{_PORT} out of order"),
            (_rate("vgpu_cfg_rdma_packet_seq_err_total"), f"{_PORT} retransmission requested"),
            (_rate("vgpu_cfg_rdma_local_ack_timeout_err_total"), f"{_PORT} acknowledgment timeout"),
            (_rate("vgpu_cfg_port_rx_discards_phy_total"), f"{_PORT} dropped by the NIC"),
        ),
    ),
    Panel(
        "RDMA pauses by priority",
        "pps",
        (
            (_rate("vgpu_cfg_port_rx_prio_pause_total", " > 0"), f"{_PRIORITY} paused"),
            (_rate("vgpu_cfg_port_tx_prio_pause_total", " > 0"), f"{_PRIORITY} pause sent"),
            (_rate("vgpu_cfg_port_rx_global_pause_total", " > 0"), f"{_PORT} whole link paused"),
        ),
    ),
    Panel(
        "RDMA congestion: marks and notifications",
        "pps",
        (
            (_rate("vgpu_cfg_rdma_np_ecn_marked_roce_packets_total"), f"{_PORT} marked"),
            (_rate("vgpu_cfg_rdma_np_cnp_sent_total"), f"{_PORT} CNP sent"),
            (_rate("vgpu_cfg_rdma_rp_cnp_handled_total"), f"{_PORT} CNP handled"),
        ),
    ),
    Panel("Power", "watt", (('DCGM_FI_DEV_POWER_USAGE{vm=~"$vm"}', _GPU),)),
    Panel("Temperature", "celsius", (('DCGM_FI_DEV_GPU_TEMP{vm=~"$vm"}', _GPU),)),
    Panel("Last XID error", "none", (('DCGM_FI_DEV_XID_ERRORS{vm=~"$vm"}', _GPU),)),
    Panel(
        "Guest network traffic",
        "Bps",
        (
            (
                'rate(node_network_transmit_bytes_total{vm=~"$vm",device!~"lo|docker.*|veth.*"}[$__rate_interval])',
                f"{_PORT} sent",
            ),
            (
                'rate(node_network_receive_bytes_total{vm=~"$vm",device!~"lo|docker.*|veth.*"}[$__rate_interval])',
                f"{_PORT} received",
            ),
        ),
    ),
)


def dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana's JSON."""
    return {
        "uid": "vgpu-cfg-training",
        "title": "Training",
        "tags": ["vgpu-cfg"],
        "schemaVersion": 39,
        "editable": False,
        "refresh": "15s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_variable()]},
        "panels": [_panel(number, panel) for number, panel in enumerate(PANELS)],
    }


def _variable() -> dict[str, Any]:
    query = "label_values(up, vm)"
    return {
        "name": "vm",
        "label": "Worker",
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": "vm"},
        "definition": query,
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0, "custom": {"lineWidth": 1, "fillOpacity": 5}}
    if panel.most is not None:
        defaults["max"] = panel.most
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": SOURCE,
        "gridPos": {"x": number % 2 * WIDTH, "y": number // 2 * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {"refId": "ABCDEF"[at], "datasource": SOURCE, "expr": expression, "legendFormat": legend}
            for at, (expression, legend) in enumerate(panel.queries)
        ],
    }
