"""`--output json`: one document on standard output, which says what it is; `--schema` prints one, too."""

from __future__ import annotations

import json

import jsonschema
import pytest

from tests.cli.command_line import ROOT, CommandLine
from tests.cli.test_help import COMMANDS as ALL
from tests.cli.test_help import options_of
from vgpu_cfg.cli import labs
from vgpu_cfg.documents import read_document
from vgpu_cfg.lab.state.inventory import Host

PLAN = "plans/pair.yaml"
COMMANDS = {
    "validate": ["validate", PLAN],
    "plan": ["plan", PLAN],
    "status": ["status", PLAN],
    "status-without-plan": ["status", "--server", "lab:two-a100"],
    "inventory": ["inventory", "--server", "lab:two-a100"],
    "pool": ["inventory", "--gpus", "--server", "lab:two-a100"],
    "doctor": ["doctor", "--server", "lab:mixed-fleet"],
    "trial": ["trial", "--yes", "--server", "lab:two-a100"],
    "upgrade": ["upgrade", "--driver", "595.71", "--server", "lab:mixed-fleet"],
    "usage": ["inventory", "--hours=30d", "--server", "lab:two-a100"],
    "fit": ["fit", "grid_a100-40c", "--server", "lab:two-a100"],
    "size": ["size", "--parameters", "7e9", "--workers", "8", "--board", "A100"],
    "profiles": ["profiles", "--board", "A100"],
    "report": ["apply", "--yes", PLAN],
    "runbook": ["runbook", PLAN],
    "hand-over": ["hand-over", PLAN, "--format", "horovod"],
    "privileges": ["privileges", PLAN],
    "verify": ["verify", PLAN],
    "explain": ["explain", "VG107"],
    "lab-list": ["lab", "list"],
    "lab-reset": ["lab", "reset", "two-a100"],
}
AFTER_A_RUN = {"verify"}
WITHOUT = {
    "metrics": "it prints what Prometheus reads",
}
"""Commands that have no --output, with the reason."""


@pytest.mark.parametrize("kind", COMMANDS)
def test_it_says_what_it_is(kind: str, vgpu_cfg: CommandLine) -> None:
    if kind in AFTER_A_RUN:
        vgpu_cfg.done("apply", "--yes", PLAN)
    done = vgpu_cfg.done(*COMMANDS[kind], "--output", "json")
    document = json.loads(done.out)
    assert (document["kind"], document["format"]) == (kind, 1)
    assert bool(done.err) == (kind in {"report", "trial"}), "what goes on in a run is for people to see"


def test_every_command_has_json_or_a_reason_to_have_none() -> None:
    without = {name for name in ALL if "--output" not in options_of(name)}
    assert without == set(WITHOUT)


def test_what_a_run_did_is_json_too(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", "--yes", PLAN)
    document = json.loads(vgpu_cfg.done("runbook", PLAN, "--as-run", "--output", "json").out)
    (run,) = document["runs"]
    assert (document["kind"], run["plan"], run["is_ended"]) == ("as-run", "horovod-a100", True)
    assert [step["result"] for step in run["steps"]] == ["done"] * 4


def test_files_that_are_written_for_another_tool_are_told_too(vgpu_cfg: CommandLine) -> None:
    done = vgpu_cfg.done("hand-over", PLAN, "--format", "horovod", "--to", "made", "--output", "json")
    (file,) = json.loads(done.out)["files"]
    assert (vgpu_cfg.folder / "made" / file["name"]).read_text(encoding="utf-8") == file["text"]


@pytest.mark.parametrize(
    ("words", "code", "subject", "exit_code"),
    [
        (["plan", "missing.yaml"], "DocumentError", "missing.yaml:1:1", 3),
        (["plan"], "UsageError", "vgpu-cfg plan", 2),
        (["fit", "--no-such"], "UsageError", "vgpu-cfg fit", 2),
        (["lab", "list", "more"], "UsageError", "vgpu-cfg lab list", 2),
        (["plan", "plans/seven.yaml"], "VG105", "vm slice-{01..07}", 4),
        (["apply", PLAN], "NobodyToAsk", "Make these 4 changes?", 2),
        (["inventory", "--host", "nobody", "--server", "lab:bare"], "NotFound", "lab:bare", 5),
    ],
)
@pytest.mark.parametrize("asked", [("--output", "json"), ("--output=json",)])
def test_an_error_is_one_line_of_json_on_standard_error(
    words: list[str], code: str, subject: str, exit_code: int, asked: tuple[str, ...], vgpu_cfg: CommandLine
) -> None:
    ran = vgpu_cfg(*words, *asked)
    error = json.loads(ran.err.splitlines()[-1])
    assert (error["kind"], error["format"], error["code"]) == ("error", 1, code)
    assert (ran.code, error["exit_code"]) == (exit_code, exit_code)
    assert subject in error["subject"]
    assert error["message"]
    assert error["remedy"]


def test_what_was_done_at_the_lab_s_servers_is_json_too(vgpu_cfg: CommandLine) -> None:
    lab = vgpu_cfg.lab("two-a100")
    (host,) = lab.state.all(Host)
    with lab.transaction():
        host.is_off = True
        lab.state.touch(host)
    done = vgpu_cfg.done("lab", "hand", "two-a100", host.name, "--power-on", "--output", "json")
    document = json.loads(done.out)
    assert (document["kind"], document["hosts"], document["is_switched_on"]) == (
        "lab-hand",
        [host.name],
        True,
    )


def test_every_fault_of_a_file_is_in_the_error(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.write("faulty.yaml", "version: 1\nname: a b/c\nvms: [{name: x, cpus: none}]\n")
    error = json.loads(vgpu_cfg("validate", "faulty.yaml", "--output", "json").err)
    assert len(error["faults"]) > 1
    assert {fault["file"] for fault in error["faults"]} == {"faulty.yaml"}


def test_a_bug_is_an_error_too(vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_connection: object) -> None:
        raise ZeroDivisionError("not again")

    monkeypatch.setattr(labs, "lab_estates", fail)
    ran = vgpu_cfg("lab", "list", "--output", "json")
    error = json.loads(ran.err)
    assert (ran.code, error["code"], error["exit_code"]) == (1, "Bug", 1)


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
    schema = json.loads(vgpu_cfg.done("validate", "--schema", "plan-file").out)
    validator = jsonschema.Draft202012Validator(schema)
    for path in (ROOT / "examples").glob("*.yaml"):
        validator.validate(read_document(path).data)
    assert not validator.is_valid({"version": 1})


def test_the_schema_of_plans_takes_the_plan_of_every_example(vgpu_cfg: CommandLine) -> None:
    validator = jsonschema.Draft202012Validator(
        json.loads(vgpu_cfg.done("validate", "--schema", "plan-json").out)
    )
    for path in (ROOT / "examples").glob("*.yaml"):
        printed = json.loads(vgpu_cfg.done("plan", path, "-o", "plan.json", "--output", "json").out)
        saved = json.loads((vgpu_cfg.folder / "plan.json").read_text(encoding="utf-8"))
        validator.validate(saved)
        validator.validate(printed["plan"])
        assert printed["plan"].keys() == saved.keys()
