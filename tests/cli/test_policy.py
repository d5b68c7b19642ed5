"""The example policy for plans, judged by OPA's engine: it accepts plans, and rejects what it names."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import CommandLine

ROOT = Path(__file__).parents[2]
POLICY = ROOT / "examples" / "policy" / "vgpu_cfg.rego"
BUILT = ROOT / ".cache" / "contract" / "opa-judge"
LAB = ("--server", "lab:estates/work-on-hosts.yaml")

pytestmark = pytest.mark.long("OPA's engine, built of Go: tests/contract/opa")

Denied = Callable[[Any], list[str]]


@pytest.fixture
def denied(tmp_path: Path) -> Denied:
    """Ask the policy why it rejects a document; skipped aloud where there is no engine."""
    if not BUILT.exists():
        pytest.skip("no policy is judged: script/build-contract says why")

    def ask(document: Any) -> list[str]:
        path = tmp_path / "input.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        words = [str(BUILT), "data.main.deny", str(path), str(POLICY)]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        return list(json.loads(done.stdout))

    return ask


def finding(code: str, severity: str) -> dict[str, Any]:
    subject = {"kind": "cluster", "name": "gpu", "moid": "domain-c1"}
    return {"code": code, "severity": severity, "subject": subject, "message": "m", "remedy": "r"}


def test_plans_pass_saved_or_printed(denied: Denied, vgpu_cfg: CommandLine) -> None:
    printed = vgpu_cfg.done("plan", "examples/four-10c.yaml", "-o", "plan.json", "--output", "json").out
    assert denied(json.loads(printed)) == []
    saved = json.loads((vgpu_cfg.folder / "plan.json").read_text(encoding="utf-8"))
    assert denied(saved) == []
    saved["diagnostics"] = [finding("VG018", "warning")]
    assert denied(saved) == []


def test_one_that_vgpu_cfg_rejects_does_not(denied: Denied, vgpu_cfg: CommandLine) -> None:
    printed = vgpu_cfg("plan", "plans/two-whole.yaml", "--output", "json")
    assert printed.code == 4
    reasons = denied(json.loads(printed.out))
    assert reasons
    assert all(one.startswith("VG") for one in reasons)


def test_nor_one_that_powers_off_a_vm_of_others(denied: Denied, vgpu_cfg: CommandLine) -> None:
    moving = vgpu_cfg.done("drain", "esx-01.lab", "--others", "--dry-run", *LAB, "--output", "json")
    assert denied(json.loads(moving.out)) == []
    vgpu_cfg.done("cordon", "host:esx-02.lab", "--reason", "new DIMM", *LAB)
    off = vgpu_cfg.done(
        "drain", "esx-01.lab", "--others", "--power-off", "plain-db", "--dry-run", *LAB, "--output", "json"
    )
    assert denied(json.loads(off.out)) == [
        'plain-db is not a VM of this plan, and is affected by "power off plain-db": powered off'
    ]


@pytest.mark.parametrize("severity", ["error", "warning", "info"])
def test_nor_one_that_leaves_no_spare(severity: str, denied: Denied, vgpu_cfg: CommandLine) -> None:
    printed = json.loads(vgpu_cfg.done("plan", "examples/four-10c.yaml", "--output", "json").out)
    printed["plan"]["diagnostics"] = [finding("VG163", severity)]
    assert denied(printed) == ["VG163: cluster gpu: m"]


@pytest.mark.parametrize("document", [{}, [], {"plan": {}}, {"format": 3, "changes": []}])
def test_nor_what_it_cannot_judge(document: Any, denied: Denied) -> None:
    assert denied(document) == ["not a plan.json of format 2: update the policy before you apply this plan"]


def test_an_unknown_effect_on_others_counts_as_an_outage(denied: Denied, vgpu_cfg: CommandLine) -> None:
    printed = json.loads(vgpu_cfg.done("plan", "examples/four-10c.yaml", "--output", "json").out)
    row = {"change": "c", "subject": {"kind": "vm", "name": "erp", "moid": "vm-9"}, "experience": "melted"}
    for is_own in (True, False):
        printed["plan"]["disturbed"] = [row | {"is_own": is_own}]
        assert bool(denied(printed)) is not is_own
