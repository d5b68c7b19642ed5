"""Monitoring: promtool reads the scrape configuration, and the dashboard draws only what is collected."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import Any

import pytest

from tests.unit.parsers.printed import printed
from tests.unit.staging.training.sandbox import Sandbox, context_for
from tests.unit.staging.training.test_worker import verify
from vgpu_cfg.documents.foreign import read_foreign, write_foreign
from vgpu_cfg.errors import GuestError
from vgpu_cfg.model.guests.downloads import MONITORING_IMAGES
from vgpu_cfg.model.guests.training_modules import MonitoringModule, ScrapeTarget
from vgpu_cfg.staging.dashboard import PANELS, dashboard
from vgpu_cfg.staging.modules.monitoring import (
    ALERTS,
    HARDWARE_COUNTERS,
    PORT_COUNTERS,
    PRIORITY_COUNTERS,
    alert_rules,
    scrape_configuration,
)

ETC = "/etc/vgpu-cfg/monitoring"
TARGETS = tuple(
    ScrapeTarget(vm=f"hvd-0{n}", address=f"10.0.0.2{n}", port=port) for n in (1, 2) for port in (9400, 9100)
)
NODE_EXPORTER = {
    # collector/infiniband_linux.go and netdev_common.go of prometheus/node_exporter v1.8.
    "node_infiniband_port_data_transmitted_bytes_total",
    "node_infiniband_port_data_received_bytes_total",
    "node_infiniband_port_discards_transmitted_total",
    "node_infiniband_port_errors_received_total",
    "node_network_transmit_bytes_total",
    "node_network_receive_bytes_total",
}


COUNTERS = ("vgpu-cfg-rdma-metrics.timer", "vgpu-cfg-rdma-metrics.service")
OWN = (
    {f"vgpu_cfg_rdma_{name}_total" for name in HARDWARE_COUNTERS}
    | {f"vgpu_cfg_port_{name}_total" for name in PORT_COUNTERS}
    | {f"vgpu_cfg_port_{name[:2]}_prio_{name[3:]}_total" for name in PRIORITY_COUNTERS}
)
"""What `rdma-metrics` writes; a test below reads it of a NIC."""
RULES = "rules.yml"


def fires(alert: str, series: str, values: str, *, is_on: bool = True) -> dict[str, object]:
    """Return a test for promtool: whether an alert fires after 20 minutes of a series."""
    labels = dict(re.findall(r'(\w+)="([^"]*)"', series))
    (rule,) = (one for one in ALERTS if one.name == alert)
    text = rule.summary.replace("{{ $value }}", values.partition("x")[0])
    for name, value in labels.items():
        text = text.replace(f"{{{{ $labels.{name} }}}}", value)
    fired = {"exp_labels": {**labels, "severity": rule.severity}, "exp_annotations": {"summary": text}}
    asked = {"eval_time": "20m", "alertname": alert, "exp_alerts": [fired] if is_on else []}
    return {
        "interval": "1m",
        "input_series": [{"series": series, "values": values}],
        "alert_rule_test": [asked],
    }


_OF_GPU = 'gpu="0",vm="hvd-01"'
_OF_PORT = 'device="ens192",vm="hvd-01"'
ALERT_TESTS = [
    fires("GpuXid", f"DCGM_FI_DEV_XID_ERRORS{{{_OF_GPU}}}", "79x30"),
    *(
        fires("GpuXid", f"DCGM_FI_DEV_XID_ERRORS{{{_OF_GPU}}}", f"{number}x30", is_on=False)
        for number in (0, 13, 31, 43, 45)
    ),
    fires("GpuRemapFailed", f"DCGM_FI_DEV_ROW_REMAP_FAILURE{{{_OF_GPU}}}", "1x30"),
    fires("GpuRemapPending", f"DCGM_FI_DEV_ROW_REMAP_PENDING{{{_OF_GPU}}}", "1x30"),
    fires("GpuRemapPending", f"DCGM_FI_DEV_ROW_REMAP_PENDING{{{_OF_GPU}}}", "0x30", is_on=False),
    fires("GpuMemoryErrors", f"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{{{_OF_GPU}}}", "2x30"),
    fires("GpuHot", f"DCGM_FI_DEV_GPU_TEMP{{{_OF_GPU}}}", "90x30"),
    fires("GpuHot", f"DCGM_FI_DEV_GPU_TEMP{{{_OF_GPU}}}", "70x30", is_on=False),
    *(
        fires(alert, f"vgpu_cfg_{name}_total{{{_OF_PORT}}}", values, is_on=values != "7x30")
        for alert, name in (
            ("RdmaDrops", "port_rx_discards_phy"),
            ("RdmaTimeouts", "rdma_local_ack_timeout_err"),
            ("RdmaLinkPaused", "port_rx_global_pause"),
        )
        for values in ("0+1x30", "7x30")
    ),
    fires("ExporterDown", 'up{instance="10.0.0.21:9400",vm="hvd-01"}', "0x30"),
]


def server(**more: object) -> MonitoringModule:
    return MonitoringModule.model_validate({"role": "server", "targets": TARGETS, **more})


def exporter(**more: object) -> MonitoringModule:
    return MonitoringModule.model_validate({"role": "exporter", **more})


def staged(guest: Sandbox, module: MonitoringModule, **secrets: str) -> None:
    guest.stand_in("systemctl")
    guest.stand_in("docker")
    guest.stand_in("chown")
    assert guest.apply(module, context_for(module, secrets=secrets)) == 0, guest.output
    assert guest.run("monitoring", "check") == 0, guest.output


def metrics_of(document: dict[str, Any]) -> set[str]:
    expressions = [target["expr"] for panel in document["panels"] for target in panel["targets"]]
    return {name for one in expressions for name in re.findall(r"\b(?:DCGM_FI|node|vgpu_cfg)_\w+", one)}


def collected(guest: Sandbox) -> set[str]:
    rows = guest.read(f"{ETC}/counters.csv").splitlines()
    return {row.split(",")[0] for row in rows if not row.startswith("#")}


def test_every_metric_that_is_drawn_is_collected(guest: Sandbox) -> None:
    staged(guest, exporter())
    assert len(PANELS) == len({panel.title for panel in PANELS})
    assert metrics_of(dashboard()) <= collected(guest) | NODE_EXPORTER | OWN
    # A planted fault: DCGM has no such field.
    changed = json.loads(json.dumps(dashboard()).replace("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_USE"))
    assert metrics_of(changed) - collected(guest) - NODE_EXPORTER - OWN == {"DCGM_FI_DEV_GPU_USE"}


def test_the_counters_are_rows_of_three(guest: Sandbox) -> None:
    staged(guest, exporter())
    for row in guest.read(f"{ETC}/counters.csv").splitlines():
        if not row.startswith("#"):
            assert re.fullmatch(r"DCGM_FI_DEV_[A-Z_]+, (gauge|counter), [^,]+", row), row


def test_the_dashboard_is_grafanas(guest: Sandbox) -> None:
    staged(guest, server())
    document = json.loads(guest.read(f"{ETC}/dashboards/training.json"))
    source = read_foreign(guest.read(f"{ETC}/provisioning/datasources/prometheus.yaml"), "x")["datasources"][
        0
    ]
    panels = document["panels"]
    assert {panel["datasource"]["uid"] for panel in panels} == {source["uid"]}
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len(places)
    # What chooses the workers is a label that the scrape configuration sets.
    assert document["templating"]["list"][0]["query"]["query"] == "label_values(up, vm)"
    assert all('vm=~"$vm"' in target["expr"] for panel in panels for target in panel["targets"])
    provider = read_foreign(guest.read(f"{ETC}/provisioning/dashboards/training.yaml"), "x")["providers"][0]
    mounted = guest.read("/opt/vgpu-cfg/containers/vgpu-cfg-grafana")
    assert f"{ETC}/dashboards:{provider['options']['path']}:ro" in mounted
    titles = [panel["title"] for panel in panels]
    for subject in (
        "GPU utilization",
        "Framebuffer",
        "NVLink",
        "PCIe",
        "Power",
        "Temperature",
        "RDMA traffic",
    ):
        assert any(title.startswith(subject) for title in titles), subject


def check_config(text: str, guest: Sandbox) -> subprocess.CompletedProcess[str]:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not here: apt-get install prometheus")
    guest.write("/rules.yml", write_foreign(alert_rules()))
    path = guest.write("/prometheus.yml", text)
    words = [promtool, "check", "config", str(path)]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)


def test_promtool_takes_the_scrape_configuration(guest: Sandbox) -> None:
    odd = ScrapeTarget(vm='it\'s $(x): "y" {z}', address="fd00::21", port=9999)
    text = scrape_configuration(server(targets=(*TARGETS, odd)))
    done = check_config(text, guest)
    assert done.returncode == 0, done.stdout + done.stderr
    document = read_foreign(text, "prometheus.yml")
    jobs = {job["job_name"]: job["static_configs"] for job in document["scrape_configs"]}
    assert jobs["gpu"] == [
        {"targets": ["10.0.0.21:9400"], "labels": {"vm": "hvd-01"}},
        {"targets": ["10.0.0.22:9400"], "labels": {"vm": "hvd-02"}},
    ]
    assert jobs["port-9999"] == [{"targets": ["[fd00::21]:9999"], "labels": {"vm": odd.vm}}]
    assert check_config(text.replace("static_configs", "static_config"), guest).returncode != 0
    assert check_config(text.replace('"15s"', '"soon"'), guest).returncode != 0


def test_the_node_exporter_beside_dcgm_is_read_though_nobody_names_it() -> None:
    targets = tuple(one for one in TARGETS if one.port == 9400)
    assert scrape_configuration(server(targets=targets)).count(":9100") == 2
    assert scrape_configuration(server()).count(":9100") == 2
    assert ":9100" not in scrape_configuration(server(targets=targets, exporter="nvidia-smi"))


def test_promtool_takes_every_question_of_the_dashboard(guest: Sandbox) -> None:
    """As rules, since promtool checks expressions there."""
    rules = [
        {
            "record": f"panel:{number}",
            "expr": target["expr"].replace("$__rate_interval", "1m").replace("$vm", ".*"),
        }
        for number, panel in enumerate(dashboard()["panels"])
        for target in panel["targets"]
    ]

    def check(listed: list[dict[str, str]]) -> int:
        promtool = shutil.which("promtool")
        if promtool is None:
            pytest.skip("promtool is not here: apt-get install prometheus")
        path = guest.write("/rules.yml", json.dumps({"groups": [{"name": "panels", "rules": listed}]}))
        words = [promtool, "check", "rules", str(path)]
        return subprocess.run(words, capture_output=True, check=False, timeout=120).returncode

    assert check(rules) == 0
    assert check([{"record": "panel:0", "expr": "rate(node_network_receive_bytes_total[)"}]) != 0


def test_promtool_takes_the_alerts_which_name_only_what_is_collected(guest: Sandbox) -> None:
    staged(guest, server())
    text = guest.read(f"{ETC}/rules.yml")
    assert read_foreign(guest.read(f"{ETC}/prometheus.yml"), "x")["rule_files"] == [RULES]
    staged(guest, exporter())
    named = set(re.findall(r"\b(?:DCGM_FI|node|vgpu_cfg)_\w+", " ".join(one.expr for one in ALERTS)))
    assert named <= collected(guest) | NODE_EXPORTER | OWN
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not here: apt-get install prometheus")
    guest.write("/rules.yml", text)
    path = guest.write("/tests.yml", json.dumps({"rule_files": ["rules.yml"], "tests": ALERT_TESTS}))
    words = [promtool, "test", "rules", str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_image_is_pinned() -> None:
    for image in MONITORING_IMAGES.values():
        tag = image.rpartition(":")[2]
        assert re.match(r"v?\d+\.\d+\.\d+", tag), image
        assert "." in image.split("/")[0]


@pytest.mark.parametrize(
    ("module", "units"),
    [
        (exporter(), (*COUNTERS, "vgpu-cfg-dcgm-exporter.service", "vgpu-cfg-node-exporter.service")),
        (
            exporter(exporter="nvidia-smi"),
            (
                *COUNTERS,
                "vgpu-cfg-gpu-metrics.timer",
                "vgpu-cfg-gpu-metrics.service",
                "vgpu-cfg-node-exporter.service",
            ),
        ),
        (server(), ("vgpu-cfg-prometheus.service", "vgpu-cfg-grafana.service")),
    ],
)
def test_systemd_takes_the_units(guest: Sandbox, module: MonitoringModule, units: tuple[str, ...]) -> None:
    staged(guest, module)
    places = sorted(path.name for path in (guest.root / "etc/systemd/system").iterdir())
    assert places == sorted(units)
    for unit in units:
        assert verify(guest, f"/etc/systemd/system/{unit}") == ""
        # A oneshot that a timer starts is not held up by itself.
        started = not unit.endswith("-metrics.service")
        assert (f"systemctl restart {unit}" in guest.calls) == started


def test_the_exporters_share_no_more_than_they_need(guest: Sandbox) -> None:
    staged(guest, exporter())
    dcgm = guest.read("/opt/vgpu-cfg/containers/vgpu-cfg-dcgm-exporter")
    assert f"--gpus all --network=host --cap-add=SYS_ADMIN --volume {ETC}/counters.csv" in dcgm
    assert f"{MONITORING_IMAGES['dcgm-exporter']} -f /etc/vgpu-cfg/counters.csv" in dcgm
    node = guest.read("/opt/vgpu-cfg/containers/vgpu-cfg-node-exporter")
    assert "--volume /:/host:ro,rslave" in node
    staged(guest, server())
    assert "--web.listen-address=127.0.0.1:9090" in guest.read("/opt/vgpu-cfg/containers/vgpu-cfg-prometheus")


def test_another_worker_is_read_without_a_restart(guest: Sandbox) -> None:
    staged(guest, server())
    guest.forget_calls()
    more = server(targets=(*TARGETS, ScrapeTarget(vm="hvd-03", address="10.0.0.23", port=9400)))
    guest.bring(more, context_for(more))
    assert guest.run("monitoring", "check") != 0
    assert guest.run("monitoring", "apply") == 0
    assert "systemctl reload vgpu-cfg-prometheus.service" in guest.calls
    assert not [call for call in guest.calls if "restart" in call]


def test_another_exporter_takes_the_place_of_the_first(guest: Sandbox) -> None:
    staged(guest, exporter())
    staged(guest, exporter(exporter="nvidia-smi"))
    assert "systemctl disable --quiet --now vgpu-cfg-dcgm-exporter.service" in guest.calls
    assert not (guest.root / "etc/systemd/system/vgpu-cfg-dcgm-exporter.service").exists()


PASSWORD = "s3cret $(x) 'y'"


def test_grafanas_password_lies_in_a_file_of_its_own(guest: Sandbox) -> None:
    module = server(grafana_password="grafana")
    staged(guest, module, grafana=PASSWORD)
    assert guest.read(f"{ETC}/grafana-password") == PASSWORD
    assert guest.mode(f"{ETC}/grafana-password") == "400"
    script = guest.read("/opt/vgpu-cfg/containers/vgpu-cfg-grafana")
    assert "GF_SECURITY_ADMIN_PASSWORD__FILE=/etc/vgpu-cfg/grafana-password" in script
    assert "GF_AUTH_ANONYMOUS_ENABLED" not in script
    assert PASSWORD not in guest.output + guest.read("/scripts/monitoring.sh")
    assert list((guest.root / "var/lib/vgpu-cfg/secrets").iterdir()) == []
    with pytest.raises(GuestError):
        guest.bring(module, context_for(module))


def test_without_a_password_it_can_only_be_looked_at(guest: Sandbox) -> None:
    staged(guest, server())
    script = guest.read("/opt/vgpu-cfg/containers/vgpu-cfg-grafana")
    for setting in (
        "GF_AUTH_ANONYMOUS_ORG_ROLE=Viewer",
        "GF_AUTH_DISABLE_LOGIN_FORM=true",
        "GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION=true",
    ):
        assert f"--env {setting}" in script


SMI = """0, GPU-1111, NVIDIA A100-40C, 97, 41, 39123, 1337, 61, 231.44
1, GPU-2222, NVIDIA "A100" \\40C, [N/A], 0, 0, 40960, 33, [Not Supported]"""


def test_nvidia_smis_words_become_dcgms(guest: Sandbox) -> None:
    staged(guest, exporter(exporter="nvidia-smi"))
    guest.write("/smi", f"{SMI}\n")
    guest.stand_in("nvidia-smi", 'cat "$VGPU_CFG_ROOT/smi"')
    done = guest.command([f"{guest.root}/opt/vgpu-cfg/gpu-metrics"])
    assert done.returncode == 0, done.stderr
    text = guest.read("/var/lib/vgpu-cfg/metrics/gpu.prom")
    assert 'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1111",modelName="NVIDIA A100-40C"} 97\n' in text
    assert 'DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-1111",modelName="NVIDIA A100-40C"} 231.44\n' in text
    assert 'DCGM_FI_DEV_FB_FREE{gpu="1",UUID="GPU-2222",modelName="NVIDIA A100 40C"} 40960\n' in text
    assert 'DCGM_FI_DEV_POWER_USAGE{gpu="1"' not in text
    promtool = shutil.which("promtool")
    if promtool is not None:
        words = [promtool, "check", "metrics"]
        checked = subprocess.run(words, input=text, capture_output=True, text=True, check=False, timeout=120)
        # Its advice on names is DCGM's to take.
        assert "error while linting" not in checked.stderr
        broken = text.replace("} 97", "} many")
        checked = subprocess.run(
            words, input=broken, capture_output=True, text=True, check=False, timeout=120
        )
        assert "error while linting" in checked.stderr
    drawn = {name for name in metrics_of(dashboard()) if name in text}
    assert drawn >= {
        "DCGM_FI_DEV_GPU_UTIL",
        "DCGM_FI_DEV_FB_USED",
        "DCGM_FI_DEV_GPU_TEMP",
        "DCGM_FI_DEV_POWER_USAGE",
    }


def lint(text: str) -> str:
    promtool = shutil.which("promtool")
    if promtool is None:
        return ""
    words = [promtool, "check", "metrics"]
    checked = subprocess.run(words, input=text, capture_output=True, text=True, check=False, timeout=120)
    return checked.stderr


def test_what_nics_count_becomes_metrics(guest: Sandbox) -> None:
    staged(guest, exporter())
    guest.write("/statistics", printed("ethtool-statistics-of-a-whole-nic.txt"))
    guest.stand_in("ethtool", '[ "$*" = "-S ens192" ] && cat "$VGPU_CFG_ROOT/statistics"')
    for line in printed("hw-counters-of-a-busy-port.txt").splitlines():
        path, _, value = line.partition(":")
        guest.write(path, f"{value}\n")
    guest.write("/sys/class/infiniband/mlx5_0/device/net/ens192/address", "b8:3f:d2:00:00:01\n")
    done = guest.command([f"{guest.root}/opt/vgpu-cfg/rdma-metrics"])
    assert done.returncode == 0, done.stderr
    text = guest.read("/var/lib/vgpu-cfg/metrics/rdma.prom")
    assert 'vgpu_cfg_rdma_np_cnp_sent_total{device="mlx5_0",port="1"} 1052612505\n' in text
    assert 'vgpu_cfg_port_rx_prio_pause_total{device="ens192",priority="3"} 12\n' in text
    assert 'vgpu_cfg_port_rx_discards_phy_total{device="ens192"} 0\n' in text
    names = set(re.findall(r"^(\w+)\{", text, re.MULTILINE))
    # Global pause is told only where it is on.
    assert OWN - names == {f"vgpu_cfg_port_{side}_global_pause_total" for side in ("rx", "tx")}
    assert names <= OWN
    assert text.count("# TYPE ") == len(names)
    assert "error while linting" not in lint(text)
    assert sorted(path.name for path in (guest.root / "var/lib/vgpu-cfg/metrics").iterdir()) == ["rdma.prom"]


def test_a_guest_without_rdma_counts_nothing(guest: Sandbox) -> None:
    staged(guest, exporter())
    done = guest.command([f"{guest.root}/opt/vgpu-cfg/rdma-metrics"])
    assert (done.returncode, guest.read("/var/lib/vgpu-cfg/metrics/rdma.prom")) == (0, "")


@pytest.mark.parametrize(
    "module",
    [
        server(images={"loki": "x"}),
        server(images={"grafana": "--privileged"}),
        server(images={"grafana": "a b"}),
        server(targets=(ScrapeTarget(vm="x", address="$(x)", port=1),)),
        server(targets=(ScrapeTarget(vm="x", address="a:b", port=1),)),
        server(targets=(ScrapeTarget(vm="x", address="10.0.0.1", port=0),)),
    ],
)
def test_what_cannot_be_is_refused(guest: Sandbox, module: MonitoringModule) -> None:
    with pytest.raises(GuestError):
        guest.bring(module, context_for(module))
