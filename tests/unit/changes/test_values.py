"""What changes, plans, reports and fixes say of themselves."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.changes.test_answers import OBSERVED, OWN, change_of
from vgpu_cfg.changes.base import all_needed, of_kind
from vgpu_cfg.changes.by_hand import Part, as_typed, filled
from vgpu_cfg.changes.change import DestroyVm, PowerOnVm
from vgpu_cfg.changes.plan import (
    Diagnostic,
    Hindrance,
    Plan,
    PlanTarget,
    all_disturbed,
    how_to_approve,
    lacking,
    reckoned,
)
from vgpu_cfg.changes.report import (
    CanaryResult,
    LeftBehind,
    Outcome,
    OutcomeStatus,
    Report,
    Rollback,
    in_place,
)
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.suggestion import Fate, Fix, FixKind, FixPart, OtherVm
from vgpu_cfg.changes.values import (
    Edit,
    Placement,
    Subject,
    changed,
    edit_text,
    set_to,
    table_rows,
    wire_text,
)
from vgpu_cfg.model.choices import Approval
from vgpu_cfg.model.desired import DesiredPlan

HVD = Subject(kind="vm", name="hvd-01", moid="vm-1")
PLAN = Plan(
    name="p",
    target=PlanTarget(address="vc.example.com"),
    read_at=datetime(2026, 11, 30, 12, tzinfo=UTC),
    desired=DesiredPlan.model_validate({"name": "p", "vcenter": "vc.example.com"}),
    placements=(Placement(vm="hvd-01", host_moid="host-1", host_name="esx-01"),),
    changes=(change_of("reconfigure while it runs"), change_of("delete"), change_of("cordon")),
)


def renewed(change: Any, **values: Any) -> Any:
    return type(change).model_validate(change.model_dump() | values)


@pytest.mark.parametrize(
    ("edit", "texts"),
    [
        (Edit(key="cpus", after="8"), ("cpus 8", "+ 8", "new -> 8", "cpus||8")),
        (Edit(key="cpus", before="4", after="8"), ("cpus 4 -> 8", "4 -> 8", "4 -> 8", "cpus|4|8")),
        (Edit(key="cpus", before="4"), ("cpus 4 -> none", "- 4", "4 -> none", "cpus|4|none")),
        (
            Edit(key="cpus", before="", after="8", is_default=True, note="why"),
            ("cpus  -> 8", " -> 8*  why", "-> 8*  why", "cpus||8*"),
        ),
    ],
)
def test_an_edit_reads(edit: Edit, texts: Sequence[str]) -> None:
    lines = ["".join(part for part, _ in words) for words in (changed(edit), set_to(edit, unset="new"))]
    assert (edit_text(edit), *lines, *map("|".join, table_rows((edit,)))) == tuple(texts)
    styles = {style for _, style in changed(edit)}
    assert styles == ({"red"} if edit.after is None else {"", "dim"} if edit.note else {""})


def test_values_on_the_wire() -> None:
    assert [wire_text(value) for value in (True, False, 3, "A")] == ["true", "false", "3", "A"]


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ("create a linked clone", "create a full clone of a VM", ["from tmpl"]),
        ("create an empty VM", "create a linked clone", []),
        ("create a linked clone", "rename", []),
        ("enter maintenance", "enter maintenance at any time", ["migrates web on, gone"]),
        ("enter maintenance at any time", "enter maintenance", ["migrates no VMs"]),
        ("enter maintenance", "enter maintenance that is held", []),
        ("stage a guest", "stage a guest by SSH, in part", ["proxy* (changed)", "limits"]),
        ("stage a guest by SSH, in part", "stage a guest", ["no host-name", "no site", "no limits"]),
        ("rename", "delete", []),
    ],
)
def test_changes_that_read_alike_differ_in(one: str, other: str, words: list[str]) -> None:
    assert list(change_of(one).differs_from(change_of(other))) == words


def test_clones_elsewhere_differ_in_their_places() -> None:
    here = change_of("create a linked clone")
    place = here.location.model_copy(update={"datastore_moid": "x", "folder_moid": "y"})
    assert list(here.differs_from(here.model_copy(update={"location": place}))) == ["vsan", "training"]


@pytest.mark.parametrize(
    ("one", "other", "is_alike"),
    [
        ("power on", "power on by itself", False),
        ("power on", "power on pinned", False),
        ("reboot", "reboot", True),
        ("make a rule", "change a rule", False),
        ("restart a service", "restart another service", False),
    ],
)
def test_changes_of_one_shape_read_alike(one: str, other: str, is_alike: bool) -> None:
    assert (change_of(one).shape("a") == change_of(other).shape("a")) is is_alike


def test_changes_of_a_kind_and_what_they_need() -> None:
    changes = [change_of("delete"), change_of("power on"), change_of("delete a new VM")]
    assert [one.id for one in of_kind(changes, DestroyVm)] == ["do hvd-01", "do new-01"]
    assert [one.id for one in of_kind(changes, PowerOnVm)] == ["do hvd-01"]
    needs = {"a": ["b", "gone"], "b": ["c"], "c": ["a"], "d": []}
    assert all_needed(["a"], needs) == {"a", "b", "c"}
    assert all_needed(["gone", "d"], needs) == {"d"}


def test_a_part_is_filled_with_names_and_values() -> None:
    part = Part(
        what="{host}",
        why="{device} of {host}",
        client="{host} > {value} ",
        commands=("esxcli x {value} {device}", "set {value}", "# {value}", "govc y {host}"),
        expected="not {before}",
        verify=("nvidia-smi {device}",),
        undo=("esxcli x {before}",),
    )
    found = filled(part, host="esx 1", device="d", value="a b", before=None)
    assert found == Part(
        what="{host}",
        why="d of esx 1",
        client="esx 1 > a b",
        commands=("esxcli x 'a b' d", "set a b", "# a b", "govc y 'esx 1'"),
        expected="not the previous value",
        verify=("nvidia-smi d",),
        undo=("esxcli x 'the previous value'",),
    )
    assert found.govc == ["govc y 'esx 1'"]
    assert found.shell == ["esxcli x 'a b' d", "set a b", "# a b"]
    assert [as_typed(line) for line in found.commands[:3]] == ["esxcli x 'a b' d", "# set a b", "# a b"]
    assert [Part(rows=rows).has_before for rows in ((), (("a", "", "b"),), (("a", "c", "b"),))] == [0, 0, 1]


def test_a_digest_covers_what_a_plan_does() -> None:
    changes: tuple[Any, ...] = PLAN.changes
    reconfigure, delete, cordon = changes
    spec = {"spec": reconfigure.spec.model_copy(update={"change_version": "9"})}
    same: list[dict[str, Any]] = [
        {"changes": (renewed(reconfigure, **spec), renewed(delete, disks=("x",)), cordon)},
        {"placements": (PLAN.placements[0].model_copy(update={"choice": "y", "nic_pci_ids": ("z",)}),)},
        {"name": "other", "in_sync": ("a",)},
    ]
    others: list[dict[str, Any]] = [
        {"changes": (reconfigure, renewed(delete, others=("x",)), cordon)},
        {"changes": PLAN.changes[1:]},
        {"placements": ()},
        {
            "desired": DesiredPlan.model_validate(
                {"name": "p", "vcenter": "vc.example.com", "secrets": {"s": {"kind": "env", "value": "S"}}}
            )
        },
    ]
    assert [PLAN.model_copy(update=one).digest == PLAN.digest for one in same] == [True] * 3
    assert len({PLAN.digest, *(PLAN.model_copy(update=one).digest for one in others)}) == 5
    assert PLAN.as_saved() == {"digest": PLAN.digest, **PLAN.model_dump(mode="json")}
    assert len(PLAN.digest) == 8


def test_a_plan_in_other_words_makes_the_same() -> None:
    enter, step = change_of("enter maintenance"), change_of("do it manually")
    before = PLAN.model_copy(update={"changes": (enter, step)})
    edits = tuple(edit.model_copy(update={"note": "new words"}) for edit in step.edits)
    worded = renewed(enter, reason="new"), renewed(step, text="new", edits=edits)
    assert before.makes_the_same(before.model_copy(update={"changes": worded}))
    assert not before.makes_the_same(
        before.model_copy(update={"changes": (renewed(enter, max_down=3), step)})
    )
    wordless: list[Any] = list(before.wordless.changes)
    assert (wordless[0].reason, wordless[1].text, {edit.note for edit in wordless[1].edits}) == ("", "", {""})


def test_a_plan_counts_whom_it_leaves_alone() -> None:
    changes = change_of("take an uplink away"), change_of("power off another VM")
    disturbed = all_disturbed(changes, OBSERVED, OWN)
    assert [one.change for one in disturbed] == ["do esx-01"] * 2 + ["do web on"]
    found = reckoned(PLAN, OBSERVED, disturbed, vms=OWN, hosts={"host-2"})
    assert found.disturbed == disturbed
    assert (found.untouched_vms, found.untouched_hosts) == (11, 1)
    assert [len(list(lacking(disturbed, given))) for given in ((), (Approval.NETWORK,))] == [2, 0]


def test_findings_say_what_hinders() -> None:
    found = Diagnostic(code="VG1", severity=Severity.ERROR, subject=HVD, message="no room")
    rows = [("esx-01", "full"), ("esx-02", "off"), ("esx-01", "cordoned")]
    hindered = tuple(Hindrance(subject=subject, reason=reason) for subject, reason in rows)
    whole = found.model_copy(update={"hindrances": hindered})
    assert found.text == "no room"
    assert whole.text == "no room: esx-01: full; cordoned | esx-02: off"
    warning = found.model_copy(update={"severity": Severity.WARNING})
    assert PLAN.model_copy(update={"diagnostics": (warning, whole)}).errors == (whole,)
    words = "add `allow: [network]` to the plan file, or use --allow network"
    assert how_to_approve(Approval.NETWORK) == words


def outcome(name: str, status: str, **more: Any) -> Outcome:
    return Outcome(change_id=name, subject=HVD, status=OutcomeStatus(status), **more)


def test_reports_count() -> None:
    failed = outcome("b", "failed", tasks=("3",))
    done = outcome("a", "done", tasks=("1", "2"))
    outcomes = done, failed, outcome("c", "not_needed"), outcome("d", "skipped")
    report = Report(plan="p", digest="d", outcomes=outcomes)
    assert (report.tasks, report.failed, report.has_failed) == (3, (failed,), True)
    assert in_place(outcomes) == {"a", "c"}
    good = report.model_copy(update={"outcomes": outcomes[:1]})
    canaries = [CanaryResult(names=("a",), others=(), problems=words) for words in ((), ("slow",))]
    assert [good.model_copy(update={"canaries": (one,)}).has_failed for one in canaries] == [False, True]


def test_a_rollback_knows_what_is_gone() -> None:
    changes = change_of("delete"), change_of("delete a new VM"), change_of("rename")
    ids = [one.id for one in changes[:2]]
    half = Rollback(changes=changes, outcomes=(outcome(ids[0], "done"),))
    assert (half.gone, half.not_gone, half.is_whole) == (("hvd-01",), ("new-01",), False)
    whole = half.model_copy(update={"outcomes": tuple(outcome(one, "done") for one in ids)})
    assert (whole.gone, whole.not_gone, whole.is_whole) == (("hvd-01", "new-01"), (), True)
    for broken in ({"why_not": "no"}, {"is_interrupted": True}):
        assert not whole.model_copy(update=broken).is_whole


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("esx-01", LeftBehind(name="esx-01")),
        ("esx-01: down", LeftBehind(name="esx-01", state="down")),
        ("esx-01: down: a: b", LeftBehind(name="esx-01", state="down", why="a: b")),
    ],
)
def test_what_is_left_behind_is_a_sentence(text: str, left: LeftBehind) -> None:
    assert LeftBehind.model_validate(text) == left
    assert [left.model_dump(), str(left)] == [text, text]


@pytest.mark.parametrize(
    ("fate", "host", "loses", "weight", "is_stranded", "says"),
    [
        ("moved", "b", (), 0, False, "a runs on b"),
        ("moved", "b", ("loses its disk",), 1, False, "a runs on b; loses its disk"),
        ("moved", "", (), 2, True, "a cannot be placed: full"),
        ("away", "b", ("x",), 1, False, "a runs on b while the change is in progress; x"),
        ("away", "", (), 2, True, "a cannot be placed: full"),
        ("evacuated", "", (), 2, True, "a cannot be placed: full"),
        ("stopped", "b", (), 1, False, "a is powered off and can be restarted on b"),
        ("stopped", "b", ("x",), 3, False, "a is powered off and can be restarted on b; x"),
        (
            "stopped",
            "",
            (),
            2,
            False,
            "a is powered off and cannot be restarted alongside the plan's VMs: full",
        ),
        ("off", "", (), 2, False, "a, which is currently powered off, can no longer be started: full"),
    ],
)
def test_a_fix_says_what_becomes_of_others(
    fate: str, host: str, loses: tuple[str, ...], weight: int, is_stranded: bool, says: str
) -> None:
    other = OtherVm(vm="a", moid="vm-1", fate=Fate(fate), host=host, why="full", loses=loses)
    assert (other.weight, other.is_stranded, other.says) == (weight, is_stranded, says)


@pytest.mark.parametrize(
    ("kind", "needs_leave", "is_outside"),
    [("file", False, False), ("leave", True, False), ("flag", True, False), ("outside", False, True)],
)
def test_a_fix_says_what_it_needs(kind: str, needs_leave: bool, is_outside: bool) -> None:
    parts = [FixPart(kind=FixKind(one), says="x") for one in ("file", kind)]
    fix = Fix(parts=tuple(parts))
    assert (fix.needs_leave, fix.is_outside) == (needs_leave, is_outside)
    commands = FixPart(kind=FixKind.FLAG, says="x", command="a", then=("b", "c"))
    assert (parts[0].lines, commands.lines) == ((), ("a", "b", "c"))
