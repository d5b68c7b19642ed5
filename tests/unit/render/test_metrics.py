"""Metrics: their page, rules and dashboard, and the same numbers as in text and JSON, on every estate."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.contract.vcenters import FixedClock
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.cli.flows.metrics_flow import SiteCollector, as_text
from vgpu_cfg.documents.foreign import read_foreign
from vgpu_cfg.errors import Unreachable
from vgpu_cfg.lab import estate_names, open_lab
from vgpu_cfg.lab.simulation.clock import VirtualClock
from vgpu_cfg.lab.simulation.sessions import LAB_CREDENTIALS
from vgpu_cfg.model.choices import UseBy
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.plan_file import GpuEntry
from vgpu_cfg.model.vgpu import VgpuProfile
from vgpu_cfg.planning.pool.shapes import CurrentHosts
from vgpu_cfg.planning.pool.summary import read_pool
from vgpu_cfg.planning.pool.use import use_rows
from vgpu_cfg.ports import ReadScope
from vgpu_cfg.render.data.pool import pool_data
from vgpu_cfg.render.data.verification import SIGN, UNREAD, WATCHED
from vgpu_cfg.render.layout.lines import plain
from vgpu_cfg.render.metrics import METRICS, UP, Site, samples
from vgpu_cfg.render.text.pool.gpus import render_pool
from vgpu_cfg.render.text.pool.use import percent
from vgpu_cfg.render.views.estate.inventory import UseTable
from vgpu_cfg.render.views.pictures.estate_map import view_map
from vgpu_cfg.vsphere.reading.reader import VCenterReader
from vgpu_cfg.vsphere.wire.session import Session

TOP = Path(__file__).resolve().parents[3]
PAGE = TOP / "docs" / "reference" / "metrics.md"
RULES = TOP / "examples" / "prometheus" / "rules.yaml"
DASHBOARD = TOP / "examples" / "prometheus" / "dashboard.json"
BEGIN, END = "<!-- table -->", "<!-- /table -->"
NAME = re.compile(r"vgpu_cfg_\w+")
MIB = 1024 * 1024
MEASURED = """
about: GPUs that are measured, and one that is not
vcenter: {statistics_level: 4}
clusters:
- name: gpu
  hosts:
  - name: esx-01.lab
    gpus:
    - {board: A100D, pci_id: "0000:21:00.0", day: [62.5]}
    - {board: A100D, pci_id: "0000:e2:00.0", day: [0]}
  - name: esx-02.lab
    gpus: [{board: A100D}]
vms:
- name: worker
  host: esx-01.lab
  cpus: 8
  memory: 64GiB
  hardware_version: 21
  gpus: [{profile: grid_a100d-80c, on: "0000:21:00.0"}]
  extra_config: {pciPassthru.use64bitMMIO: "TRUE", pciPassthru.64bitMMIOSizeGB: "512"}
"""


@cache
def look_at(estate: str) -> Inventory:
    """Read an estate with the use of its GPUs."""
    lab = open_lab(estate, clock=VirtualClock())
    with Session(lab, "lab", LAB_CREDENTIALS.user, LAB_CREDENTIALS.password) as session:
        reader = VCenterReader(session, FixedClock())
        observed = reader.read_inventory(ReadScope())
        use = reader.read_gpu_use(observed.hosts, 7)
    return observed.model_copy(update={"gpu_use": use})


def seen(estate: str) -> tuple[Site, dict[str, Any], str]:
    """Return an estate's metrics, its JSON and its text, all of one reading."""
    observed = look_at(estate)
    pool = read_pool(observed, load_catalog())
    rows = UseTable(use_rows(pool.gpus, observed, UseBy.GPU))
    text = plain(render_pool(pool, observed.vcenter, 120, use=rows, with_all=True))
    return Site(pool, observed.read_at, {}), pool_data(pool, observed), text


def told(site: Site, name: str) -> dict[tuple[str, ...], float]:
    (found,) = (dict(values) for metric, values in samples(site) if metric.name == name)
    return found


@pytest.fixture(params=[*estate_names(), MEASURED])
def estate(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Each built-in estate, and one that is all about use."""
    if request.param != MEASURED:
        return str(request.param)
    file = tmp_path_factory.getbasetemp() / "measured.yaml"
    file.write_text(MEASURED)
    return str(file)


def test_the_numbers_are_those_of_json_and_text(estate: str) -> None:
    site, data, text = seen(estate)
    rows = {(row["board"], row["mode"]): row for row in data["pool"]}
    sums: dict[str, Callable[[dict[str, Any]], int]] = {
        "vgpu_cfg_pool_gpus": lambda row: row["gpus"],
        "vgpu_cfg_pool_idle_gpus": lambda row: row["idle"],
        "vgpu_cfg_pool_not_ready_gpus": lambda row: row["not_ready"],
        "vgpu_cfg_pool_stranded_bytes": lambda row: row["lost_mib"] * MIB,
        "vgpu_cfg_pool_locked_bytes": lambda row: row["bound_mib"] * MIB,
    }
    for name, value in sums.items():
        assert told(site, name) == {key: value(row) for key, row in rows.items()}, name
    for name, key in (("used", "used"), ("free", "room")):
        counts = {(*at, profile): count for at, row in rows.items() for profile, count in row[key].items()}
        assert told(site, f"vgpu_cfg_pool_vgpus_{name}") == counts
    measured = [gpu for gpu in data["gpus"] if gpu["use"]]
    uses: dict[str, Callable[[dict[str, Any]], float]] = {
        "utilization_ratio": lambda use: use["utilization_percent"] / 100,
        "utilization_mean_ratio": lambda use: use["past"]["average_percent"] / 100,
        "memory_used_bytes": lambda use: use["memory_used_mib"] * MIB,
        "memory_bytes": lambda use: use["memory_total_mib"] * MIB,
        "temperature_celsius": lambda use: use["temperature_celsius"],
        "power_watts": lambda use: use["power_watts"],
    }
    for name, of_use in uses.items():
        assert told(site, f"vgpu_cfg_gpu_{name}") == {
            (gpu["host"], gpu["pci_id"], gpu["board"]): pytest.approx(of_use(gpu["use"])) for gpu in measured
        }, name
    held = Counter((gpu["host"], gpu["pci_id"]) for gpu in data["gpus"] for _ in gpu["runs"])
    assert Counter({labels[:2]: 0 for labels in told(site, "vgpu_cfg_gpu_held")}) | held == held
    assert sum(told(site, "vgpu_cfg_gpu_held").values()) == sum(held.values())
    for gpu in measured:
        (line,) = (line for line in text.splitlines() if f"{gpu['host']} {gpu['pci_id']}" in line)
        assert percent(gpu["use"]["utilization_percent"]) in line
        assert percent(gpu["use"]["past"]["average_percent"]) in line
        assert f"{gpu['use']['temperature_celsius']} °C" in line
        assert f"{gpu['use']['power_watts']} W" in line
    unmeasured = len(data["gpus"]) - len(measured)
    assert told(site, "vgpu_cfg_gpus_not_measurable") == {(): unmeasured}
    assert (f"{unmeasured} of " in text and "vCenter reports no data for them" in text) == (
        0 < unmeasured < len(data["gpus"])
    )
    idle = {one["vm"] for one in data["idle"]}
    assert {labels[1] for labels in told(site, "vgpu_cfg_vm_idle")} == idle


def test_fit_and_the_picture_count_alike(estate: str) -> None:
    site, _, _ = seen(estate)
    observed = look_at(estate)
    totals = view_map(observed, load_catalog()).totals

    def total(name: str) -> float:
        return sum(told(site, f"vgpu_cfg_pool_{name}").values())

    assert (totals.gpus, totals.idle, totals.closed) == (
        total("gpus"),
        total("idle_gpus"),
        total("not_ready_gpus"),
    )
    assert (totals.lost_mib * MIB, totals.bound_mib * MIB) == (
        total("stranded_bytes"),
        total("locked_bytes"),
    )
    free: Counter[str] = Counter()
    for (_, _, profile), count in told(site, "vgpu_cfg_pool_vgpus_free").items():
        free[profile] += int(count)
    now = CurrentHosts(observed, load_catalog())
    counted = {
        name: now.fit_gpu(GpuEntry(profile=(VgpuProfile.parse(name),)), lambda _: True).total for name in free
    }
    assert counted == free


def table() -> str:
    rows = [
        f"| `{one.name}` | {', '.join(f'`{label}`' for label in one.labels)} | {one.meaning} |"
        for one in (UP, *METRICS)
    ]
    return "\n".join(["| Metric | Labels | Meaning |", "|---|---|---|", *rows])


def test_the_page_has_the_table() -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    shown, after = rest.split(END)
    if os.environ.get("REWRITE_PAGES"):
        PAGE.write_text(f"{before}{BEGIN}\n{table()}\n{END}{after}", encoding="utf-8")
        pytest.skip("written anew")
    assert shown.strip() == table(), "REWRITE_PAGES=1 writes it anew"


def expressions() -> list[str]:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def test_rules_and_dashboard_ask_for_what_there_is() -> None:
    known = {UP.name, SIGN, WATCHED, UNREAD, *(metric.name for metric in METRICS)}
    groups = read_foreign(RULES.read_text(), str(RULES))["groups"]
    asked = [rule["expr"] for group in groups for rule in group["rules"]] + expressions()
    assert {name for text in asked for name in NAME.findall(text)} <= known


def promtool(*words: str, stdin: str = "") -> int:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not here: apt-get install prometheus")
    done = subprocess.run(
        [program, *words], input=stdin, capture_output=True, text=True, check=False, timeout=120
    )
    return done.returncode


def test_promtool_takes_rules_and_questions(tmp_path: Path) -> None:
    assert promtool("check", "rules", str(RULES)) == 0
    listed = [{"record": f"panel:{number}", "expr": text} for number, text in enumerate(expressions())]
    path = tmp_path / "panels.yaml"
    path.write_text(json.dumps({"groups": [{"name": "panels", "rules": listed}]}))
    assert promtool("check", "rules", str(path)) == 0
    path.write_text(RULES.read_text().replace("sum by", "sum bye", 1))
    assert promtool("check", "rules", str(path)) != 0


def test_amtool_takes_the_routes() -> None:
    """An alert of each severity of the rules has a receiver of its own."""
    program = shutil.which("amtool")
    if program is None:
        pytest.skip("amtool is not here: apt-get install prometheus-alertmanager")
    file = f"--config.file={RULES.with_name('alertmanager.yaml')}"
    found = {}
    for severity in sorted(set(re.findall(r"severity: (\w+)", RULES.read_text()))):
        words = [program, "config", "routes", "test", file, f"severity={severity}"]
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
        found[severity] = done.stdout.strip()
    assert found == {"critical": "on-call", "info": "weekly", "warning": "gpu-admins"}


def test_promtool_takes_the_metrics(tmp_path: Path) -> None:
    file = tmp_path / "measured.yaml"
    file.write_text(MEASURED)
    text = as_text(seen(str(file))[0])
    assert promtool("check", "metrics", stdin=text) == 0
    assert promtool("check", "metrics", stdin=text.replace("# HELP", "# HLEP")) != 0


def test_vcenter_is_read_no_more_often_than_asked_and_told_when_it_is_away(
    capsys: pytest.CaptureFixture[str],
) -> None:
    site, _, _ = seen("one-a100")
    times = iter([0.0, 30.0, 61.0, 61.0])
    answers: list[Site | Exception] = [site, Unreachable("nobody answers", subject="vc", remedy="")]

    def read() -> Site:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    collector = SiteCollector(read, every_seconds=60, clock=lambda: next(times))
    names = [family.name for family in collector.collect()]
    assert names[0] == UP.name
    assert [family.name for family in collector.collect()] == names
    assert len(answers) == 1
    (up,) = collector.collect()
    assert [(sample.name, sample.value) for sample in up.samples] == [(UP.name, 0.0)]
    assert "nobody answers (vc)" in capsys.readouterr().err
