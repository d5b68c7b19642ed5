"""GPU monitoring: exporters on workers, Prometheus with its alert rules and Grafana on the head, all pinned.

The nvidia-smi method writes its values under the names that DCGM exporter uses, so one dashboard shows both.
The alerts' metrics are DCGM's (dcgm_fields.h), node exporter's, and those of `rdma-metrics`. Their thresholds
are choices.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from vgpu_cfg.documents.foreign import write_foreign
from vgpu_cfg.errors import GuestError
from vgpu_cfg.model.guests.downloads import MONITORING_IMAGES
from vgpu_cfg.model.guests.training_modules import MonitoringModule
from vgpu_cfg.model.verification import OF_PROGRAMS
from vgpu_cfg.staging import values
from vgpu_cfg.staging.dashboard import dashboard
from vgpu_cfg.staging.rendering import (
    Staged,
    StagingContext,
    render,
    secret_file,
    source_file,
    timed_units,
    two_scripts,
)
from vgpu_cfg.staging.runtimes import COMMANDS, container_files

DCGM_PORT, NODE_PORT = 9400, 9100
SECRET = "grafana-password"  # noqa: S105 - the name of a file
_ETC = "/etc/vgpu-cfg/monitoring"
_UNITS = {
    "vgpu-cfg-dcgm-exporter.service",
    "vgpu-cfg-gpu-metrics.service",
    "vgpu-cfg-gpu-metrics.timer",
    "vgpu-cfg-rdma-metrics.service",
    "vgpu-cfg-rdma-metrics.timer",
    "vgpu-cfg-node-exporter.service",
    "vgpu-cfg-prometheus.service",
    "vgpu-cfg-grafana.service",
}
_RULES = "rules.yml"
"""It is in the directory of prometheus.yml, which names it."""
_METRICS = "/var/lib/vgpu-cfg/metrics"
_FOLDER = "/opt/vgpu-cfg"

HARDWARE_COUNTERS = (
    "np_cnp_sent",
    "np_ecn_marked_roce_packets",
    "rp_cnp_handled",
    "rp_cnp_ignored",
    "out_of_sequence",
    "packet_seq_err",
    "implied_nak_seq_err",
    "local_ack_timeout_err",
    "rnr_nak_retry_err",
    "out_of_buffer",
)
"""Counters of RDMA devices, as sysfs names them."""

PORT_COUNTERS = (
    "rx_discards_phy",
    "tx_discards_phy",
    "rx_out_of_buffer",
    "rx_global_pause",
    "tx_global_pause",
)
PRIORITY_COUNTERS = ("rx_bytes", "tx_bytes", "rx_pause", "tx_pause", "rx_discards")
"""Counters of ports, as `ethtool -S` names them: of all, and by priority (`rx_prio3_pause`)."""


def stage_monitoring(module: MonitoringModule, context: StagingContext) -> Staged:
    """Write the units of the exporters, or of Prometheus and Grafana with all that they read."""
    unknown = sorted(set(module.images) - set(MONITORING_IMAGES))
    if unknown:
        raise GuestError(
            f"monitoring has no image called {unknown[0]}",
            subject="training.monitoring.images",
            remedy=f"use one of {', '.join(MONITORING_IMAGES)}",
        )
    images = {
        name: values.image_name(image, f"training.monitoring.images.{name}")
        for name, image in {**MONITORING_IMAGES, **module.images}.items()
    }
    files = _exporters(module, images) if module.role == "exporter" else _servers(module, images)
    secrets = []
    if module.role == "server" and module.grafana_password:
        secrets.append(secret_file(SECRET, context.secret(module.grafana_password, "the Grafana password")))
    named = [
        (path, f"monitoring/{number}", mode) for number, (path, (_, mode)) in enumerate(files.items(), 1)
    ]
    units = [path.rsplit("/", 1)[1] for path in files if path.endswith((".service", ".timer"))]
    return two_scripts(
        "monitoring",
        *(source_file(name, files[path][0]) for path, name, _ in named),
        *secrets,
        files=named,
        # What a timer starts is not held up by itself.
        started=[unit for unit in units if f"{unit.removesuffix('.service')}.timer" not in units],
        others=sorted(_UNITS - set(units)),
        reload=f"{_ETC}/prometheus.yml",
        role=module.role,
        secret=SECRET if secrets else "",
        password=f"{_ETC}/grafana-password",
    )


def _exporters(module: MonitoringModule, images: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    command = COMMANDS[module.runtime]
    node = [command, "run", "--rm", "--name", "vgpu-cfg-node-exporter", "--network=host", "--pid=host"]
    node += ["--volume", "/:/host:ro,rslave"]
    arguments = ["--path.rootfs=/host", f"--web.listen-address=:{NODE_PORT}"]
    arguments.append(f"--collector.textfile.directory=/host{_METRICS}")
    counted = {"hardware": HARDWARE_COUNTERS, "port": PORT_COUNTERS, "by_priority": PRIORITY_COUNTERS}
    files = {f"{_FOLDER}/rdma-metrics": (render("rdma-metrics.sh.j2", folder=_METRICS, **counted), "755")}
    files |= timed_units("rdma-metrics", f"{_FOLDER}/rdma-metrics", "counters of RDMA devices", seconds=15)
    if module.exporter == "nvidia-smi":
        files[f"{_FOLDER}/gpu-metrics"] = (render("gpu-metrics.sh.j2", folder=_METRICS), "755")
        files |= timed_units("gpu-metrics", f"{_FOLDER}/gpu-metrics", "GPU metrics", seconds=15)
    else:
        dcgm = [command, "run", "--rm", "--name", "vgpu-cfg-dcgm-exporter", "--gpus", "all", "--network=host"]
        # What profiling counters want; without it the exporter serves the others.
        dcgm += ["--cap-add=SYS_ADMIN", "--volume", f"{_ETC}/counters.csv:/etc/vgpu-cfg/counters.csv:ro"]
        dcgm += [images["dcgm-exporter"], "-f", "/etc/vgpu-cfg/counters.csv"]
        files[f"{_ETC}/counters.csv"] = (render("counters.csv.j2"), "644")
        files |= container_files(
            "vgpu-cfg-dcgm-exporter", command=command, words=dcgm, description="GPU metrics"
        )
    files |= container_files(
        "vgpu-cfg-node-exporter",
        command=command,
        words=[*node, images["node-exporter"], *arguments],
        description="metrics for the guest and its RDMA ports",
    )
    return files


def _servers(module: MonitoringModule, images: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    command = COMMANDS[module.runtime]
    run = [command, "run", "--rm", "--network=host", "--name"]
    prometheus = [*run, "vgpu-cfg-prometheus", "--user", "65534:65534"]
    prometheus += ["--volume", f"{_ETC}:/etc/prometheus:ro"]
    prometheus += ["--volume", "/var/lib/vgpu-cfg/prometheus:/prometheus", images["prometheus"]]
    prometheus += ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]
    # Only Grafana asks it, on this host.
    prometheus += ["--storage.tsdb.retention.time=30d", "--web.listen-address=127.0.0.1:9090"]
    settings = {
        "GF_ANALYTICS_REPORTING_ENABLED": "false",
        "GF_ANALYTICS_CHECK_FOR_UPDATES": "false",
        "GF_USERS_ALLOW_SIGN_UP": "false",
        "GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH": "/etc/vgpu-cfg/dashboards/training.json",
    }
    if module.grafana_password:
        settings["GF_SECURITY_ADMIN_PASSWORD__FILE"] = "/etc/vgpu-cfg/grafana-password"  # noqa: S105 - a path
    else:
        settings |= {
            "GF_AUTH_ANONYMOUS_ENABLED": "true",
            "GF_AUTH_ANONYMOUS_ORG_ROLE": "Viewer",
            "GF_AUTH_DISABLE_LOGIN_FORM": "true",
            "GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION": "true",
        }
    grafana = [*run, "vgpu-cfg-grafana", "--user", "472:0"]
    grafana += [word for name, value in settings.items() for word in ("--env", f"{name}={value}")]
    grafana += ["--volume", f"{_ETC}/provisioning:/etc/grafana/provisioning:ro"]
    grafana += ["--volume", f"{_ETC}/dashboards:/etc/vgpu-cfg/dashboards:ro"]
    if module.grafana_password:
        grafana += ["--volume", f"{_ETC}/grafana-password:/etc/vgpu-cfg/grafana-password:ro"]
    grafana += ["--volume", "/var/lib/vgpu-cfg/grafana:/var/lib/grafana", images["grafana"]]
    source = {"apiVersion": 1, "datasources": [_DATASOURCE]}
    provider = {"apiVersion": 1, "providers": [_PROVIDER]}
    return {
        f"{_ETC}/prometheus.yml": (scrape_configuration(module), "644"),
        f"{_ETC}/{_RULES}": (write_foreign(alert_rules()), "644"),
        f"{_ETC}/provisioning/datasources/prometheus.yaml": (write_foreign(source), "644"),
        f"{_ETC}/provisioning/dashboards/training.yaml": (write_foreign(provider), "644"),
        f"{_ETC}/dashboards/training.json": (json.dumps(dashboard(), indent=1) + "\n", "644"),
        **container_files(
            "vgpu-cfg-prometheus", command=command, words=prometheus, description="worker metrics"
        ),
        **container_files("vgpu-cfg-grafana", command=command, words=grafana, description="worker dashboard"),
    }


_DATASOURCE = {
    "name": "Prometheus",
    "uid": "vgpu-cfg",
    "type": "prometheus",
    "access": "proxy",
    "url": "http://127.0.0.1:9090",
    "isDefault": True,
    "editable": False,
}
_PROVIDER = {
    "name": "vgpu-cfg",
    "type": "file",
    "allowUiUpdates": False,
    "options": {"path": "/etc/vgpu-cfg/dashboards"},
}


def scrape_configuration(module: MonitoringModule) -> str:
    """Return prometheus.yml: a job for each kind of exporter, and each VM by its name."""
    jobs: dict[str, list[dict[str, object]]] = {}
    listed = list(module.targets)
    if module.exporter == "dcgm":
        # Beside each DCGM exporter runs a node exporter, which knows the RDMA ports.
        listed += [one.model_copy(update={"port": NODE_PORT}) for one in listed if one.port == DCGM_PORT]
    for target in dict.fromkeys(listed):
        address = (
            values.address(target.address)
            if _is_address(target.address)
            else values.domain_name(target.address)
        )
        place = f"[{address}]" if ":" in address else address
        port = values.port(target.port, f"{target.vm}'s metrics port")
        job = {DCGM_PORT: "gpu", NODE_PORT: "node"}.get(port, f"port-{port}")
        jobs.setdefault(job, []).append({"targets": [f"{place}:{port}"], "labels": {"vm": target.vm}})
    return write_foreign(
        {
            "global": {"scrape_interval": "15s", "scrape_timeout": "10s"},
            "rule_files": [_RULES],
            "scrape_configs": [{"job_name": job, "static_configs": found} for job, found in jobs.items()],
        }
    )


def _is_address(text: str) -> bool:
    return ":" in text or text.replace(".", "").isdigit()


_XID = "DCGM_FI_DEV_XID_ERRORS"


class Alert(NamedTuple):
    """A rule: it fires once `expr` has held `lasts` long; `summary` is for people, with labels."""

    name: str
    expr: str
    lasts: str
    severity: str
    summary: str


_GPU = "GPU {{ $labels.gpu }} on {{ $labels.vm }}"
_PORT = "{{ $labels.device }} on {{ $labels.vm }}"
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
        "ExporterDown",
        "up == 0",
        "10m",
        "warning",
        "{{ $labels.instance }} on {{ $labels.vm }} is not reporting",
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
