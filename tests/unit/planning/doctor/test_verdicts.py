"""Verdicts of several trials in one file: which of them counts, and since when it has been so."""

from __future__ import annotations

import typing
from datetime import UTC, date, datetime

import pytest

from vgpu_cfg.changes.change import Change
from vgpu_cfg.errors import VCenterError
from vgpu_cfg.knowledge.beliefs import load_beliefs
from vgpu_cfg.model.observed.inventory import Inventory, VCenter
from vgpu_cfg.model.verdicts import TriedVCenter, Verdict, VerdictFile, VerdictRow
from vgpu_cfg.planning.doctor.tried import merged, verdicts_of

MONDAY, TUESDAY = date(2026, 11, 2), date(2026, 11, 3)
NOW = datetime(2026, 11, 3, 2, tzinfo=UTC)
UUID = "00000000-0000-4000-8000-000000000001"


def file(verdict: Verdict, by: str, since: date | None) -> VerdictFile:
    row = VerdictRow.model_validate({"verdict": verdict, "by": by, "since": since})
    vcenter = TriedVCenter(instance_uuid=UUID, build="1", tried_at=NOW)
    return VerdictFile(vcenter=vcenter, program="0", beliefs={"a-b": row})


HOLDS, FAILS, OPEN = Verdict


@pytest.mark.parametrize(
    ("old", "new", "verdict", "since"),
    [
        ((HOLDS, "reading"), (HOLDS, "reading"), HOLDS, MONDAY),
        ((HOLDS, "reading"), (FAILS, "reading"), FAILS, TUESDAY),
        ((HOLDS, "reading"), (OPEN, "reading"), HOLDS, MONDAY),
        ((OPEN, "reading"), (HOLDS, "vm"), HOLDS, TUESDAY),
        ((FAILS, "vm"), (HOLDS, "reading"), FAILS, MONDAY),
        ((FAILS, "reading"), (HOLDS, "vm"), HOLDS, TUESDAY),
        ((FAILS, "vm"), (HOLDS, "vm"), HOLDS, TUESDAY),
        ((HOLDS, "vm"), (FAILS, "reading"), FAILS, TUESDAY),
    ],
)
def test_the_later_verdict_counts_unless_it_is_weaker(
    old: tuple[Verdict, str], new: tuple[Verdict, str], verdict: Verdict, since: date
) -> None:
    row = merged(file(*old, MONDAY), file(*new, TUESDAY)).beliefs["a-b"]
    assert (row.verdict, row.since) == (verdict, since)


@pytest.mark.parametrize(
    ("uuid", "build"), [("", "1"), (UUID, ""), ("../x", "1"), (UUID, "../../etc/cron"), (f"{UUID}\n", "1")]
)
def test_a_vcenter_that_does_not_identify_itself_names_no_file(uuid: str, build: str) -> None:
    seen = Inventory(vcenter=VCenter(address="vc", instance_uuid=uuid, build=build), read_at=NOW)
    with pytest.raises(VCenterError, match="instance UUID"):
        verdicts_of(seen, ())


def test_only_beliefs_of_irreversible_steps_stop_a_plan() -> None:
    kinds = {one.model_fields["kind"].default for one in typing.get_args(typing.get_args(Change)[0])}
    stopping = [one for one in load_beliefs().values() if one.steps]
    assert stopping
    assert [one.id for one in stopping if not one.irreversible or not one.if_wrong] == []
    assert {kind for one in stopping for kind in one.steps} <= kinds
