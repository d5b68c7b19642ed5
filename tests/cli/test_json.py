"""`--output json`: one document on standard output, which says what it is; `schema` prints one, too."""

from __future__ import annotations

import json

import jsonschema
import pytest

from tests.cli.command_line import ROOT, CommandLine
from vgpu_cfg.documents import read_document

PLAN = "plans/pair.yaml"
COMMANDS = {
    "validate": ["validate", PLAN],
    "plan": ["plan", PLAN],
    "status": ["status", PLAN],
    "inventory": ["inventory", "--server", "lab:two-a100"],
    "pool": ["inventory", "--gpus", "--server", "lab:two-a100"],
    "fit": ["fit", "grid_a100-40c", "--server", "lab:two-a100"],
    "rebalance": ["rebalance", PLAN, "--dry-run"],
    "profiles": ["profiles", "--board", "A100"],
    "report": ["apply", "--yes", PLAN],
}


@pytest.mark.parametrize("kind", COMMANDS)
def test_it_says_what_it_is(kind: str, vgpu_cfg: CommandLine) -> None:
    done = vgpu_cfg.done(*COMMANDS[kind], "--output", "json")
    document = json.loads(done.out)
    assert (document["kind"], document["format"]) == (kind, 1)
    assert bool(done.err) == (kind == "report"), "what goes on in a run is for people to see"


def test_a_run_with_nothing_to_do_is_a_report_too(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", "--yes", PLAN)
    again = json.loads(vgpu_cfg.done("apply", PLAN, "--output", "json").out)
    assert (again["kind"], again["tasks"], again["outcomes"]) == ("report", 0, [])
    gone = json.loads(vgpu_cfg.done("destroy", "--yes", PLAN, "--output", "json").out)
    assert {row["name"] for row in gone["vms"]} == {"hvd-01", "hvd-02"}


def test_a_plan_that_is_refused_is_printed_with_its_findings(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", "--yes", PLAN)
    for words in (["plan"], ["apply", "--yes"]):
        refused = vgpu_cfg(*words, "plans/before.yaml", "--output", "json")
        assert refused.code == 4
        document = json.loads(refused.out)
        assert document["kind"] == "plan"
        assert [found["code"] for found in document["plan"]["diagnostics"]] == ["VG103"]


def test_the_schema_takes_every_example(vgpu_cfg: CommandLine) -> None:
    schema = json.loads(vgpu_cfg.done("schema").out)
    validator = jsonschema.Draft202012Validator(schema)
    for path in (ROOT / "examples").glob("*.yaml"):
        validator.validate(read_document(path).data)
    assert not validator.is_valid({"version": 1})
