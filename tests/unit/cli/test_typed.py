"""Commands in messages get the plan file and the vCenter of the command that prints them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from vgpu_cfg.changes.plan import Diagnostic, Plan, PlanTarget
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.suggestion import Fix, FixKind, FixPart, Suggestion
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.cli.options import typed
from vgpu_cfg.model.desired import DesiredPlan


@pytest.fixture(autouse=True)
def _begun() -> Iterator[None]:
    typed.begin([], None)
    yield
    typed.begin([], None)


def begin(
    plan: str = "", server: tuple[str, ...] = (), words: tuple[str, ...] = (), recording: str = ""
) -> None:
    typed.begin(words, Path(recording) if recording else None)
    if plan:
        typed.of_plan(Path(plan))
    typed.at_server(*server)


SERVER = ("--server", "vc 1")


@pytest.mark.parametrize(
    ("command", "whole"),
    [
        ("vgpu-cfg plan", "vgpu-cfg plan 'my plan.yaml' --insecure"),
        ("vgpu-cfg plan PLAN --suggest", "vgpu-cfg plan 'my plan.yaml' --suggest --insecure"),
        ("vgpu-cfg apply other.yml", "vgpu-cfg apply other.yml --insecure"),
        ("vgpu-cfg apply saved.json", "vgpu-cfg apply saved.json --insecure"),
        ("vgpu-cfg uncordon host:esx-01", "vgpu-cfg uncordon host:esx-01 --server 'vc 1' --insecure"),
        ("vgpu-cfg uncordon --server=x", "vgpu-cfg uncordon --server=x"),
        ("vgpu-cfg plan --context x", "vgpu-cfg plan --context x"),
        ("vgpu-cfg explain VG001", "vgpu-cfg explain VG001"),
        ("govc ls", "govc ls"),
        ("vgpu-cfg", "vgpu-cfg"),
        ("it's", "it's"),
        ("", ""),
    ],
)
def test_a_command_is_completed(command: str, whole: str) -> None:
    begin("my plan.yaml", SERVER, ("--insecure",))
    assert typed.completed_command(command) == whole
    text = f"run `{command}`, or `govc ls`"
    is_own = command.startswith("vgpu-cfg ")
    assert typed.completed(text) == (text.replace(command, whole) if is_own else text)


@pytest.mark.parametrize(
    ("plan", "recording", "command", "whole"),
    [
        ("", "", "vgpu-cfg plan PLAN", "vgpu-cfg plan PLAN"),
        ("", "", "vgpu-cfg status", "vgpu-cfg status"),
        ("p.json", "", "vgpu-cfg plan", "vgpu-cfg plan PLAN -o p.json"),
        ("p.json", "", "vgpu-cfg apply", "vgpu-cfg apply p.json"),
        ("p.yaml", "r.json", "vgpu-cfg plan", "vgpu-cfg plan p.yaml --from=r.json"),
        ("p.yaml", "r.json", "vgpu-cfg inventory --hours", "vgpu-cfg inventory --hours"),
        ("p.yaml", "r.json", "vgpu-cfg fit", "vgpu-cfg fit --from=r.json"),
        ("p.yaml", "r.json", "vgpu-cfg unlock", "vgpu-cfg unlock"),
    ],
)
def test_a_command_about_a_recording_or_a_saved_plan(
    plan: str, recording: str, command: str, whole: str
) -> None:
    begin(plan, recording=recording)
    assert typed.completed_command(command) == whole


def plan_with(*remedies: tuple[str, str]) -> Plan:
    found = tuple(
        Diagnostic(
            code="VG001",
            severity=Severity(severity),
            subject=Subject(kind="vm", name="a"),
            message="m",
            remedy=remedy,
        )
        for severity, remedy in remedies
    )
    return Plan(
        name="p",
        target=PlanTarget(address="v"),
        read_at=datetime(2026, 11, 30, tzinfo=UTC),
        desired=DesiredPlan(name="p", vcenter="v"),
        diagnostics=found,
    )


@pytest.mark.parametrize(
    ("remedies", "options"),
    [
        ([("error", "add --allow-destroy 12")], " --allow-destroy 12"),
        (
            [("error", "add: --allow=network --force; or wait"), ("error", "add --force")],
            " --allow=network --force",
        ),
        ([("error", "add --force"), ("error", "free a GPU")], None),
        ([("error", "free a GPU, or add --force")], None),
        ([("warning", "add --force"), ("info", "free a GPU")], " --force"),
        ([("info", "free a GPU")], None),
        ([], None),
    ],
)
def test_the_options_that_approve(
    remedies: list[tuple[str, str]], options: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["x", "apply", "my plan.yaml"])
    whole = "" if options is None else f"vgpu-cfg apply 'my plan.yaml'{options}"
    assert typed.approved(plan_with(*remedies)) == whole


@pytest.mark.parametrize(
    ("words", "whole"),
    [(["drain", "a b", "--dry-run"], "vgpu-cfg drain 'a b'"), (["drain", "a"], "")],
)
def test_a_command_in_earnest(words: list[str], whole: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["x", *words])
    assert typed.in_earnest() == whole


def test_fixes_and_findings_have_whole_commands() -> None:
    begin("p.yaml", ("--server", "v"))
    part = FixPart(
        kind=FixKind.OUTSIDE, says="s", command="vgpu-cfg uncordon x", then=("vgpu-cfg apply", "govc ls")
    )
    fixed = typed.with_fixes(Suggestion(fixes=(Fix(parts=(part,)),), tried=3))
    assert fixed.tried == 3
    assert fixed.fixes[0].parts[0].lines == (
        "vgpu-cfg uncordon x --server v",
        "vgpu-cfg apply p.yaml",
        "govc ls",
    )
    found = typed.advised(plan_with(("error", "run `vgpu-cfg unlock r1`")))
    assert [one.remedy for one in found.diagnostics] == ["run `vgpu-cfg unlock r1 --server v`"]
