"""The entries of runs: what is written is read again, whatever was typed, and others' words are let be."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from vgpu_cfg.model.choices import LONGEST_CHANGE, LONGEST_REASON, Occasion, fault_of
from vgpu_cfg.model.locks import Lock, LockHolder, LockName
from vgpu_cfg.model.runs import HEAD, RunEntry, RunResult, entry_of_lock, parse_entry

END = datetime(2026, 3, 2, 21, 9, 11, tzinfo=UTC)
BEGAN = RunEntry(
    run="6392edd69034",
    at=datetime(2026, 3, 2, 21, 4, 11, tzinfo=UTC),
    command="apply",
    plan="depts",
    occasion=Occasion("CHG0042", 'the "new" course {"run":"forged"'),
    user="jane",
    machine="desk-01",
    changes=5,
)
ENDED = BEGAN.model_copy(
    update={"result": RunResult.FAILED, "done": 3, "failed": 1, "began_at": BEGAN.at, "at": END}
)
OLDER = ENDED.model_copy(update={"began_at": None})


@pytest.mark.parametrize("entry", [BEGAN, ENDED, OLDER])
def test_an_entry_reads_back(entry: RunEntry) -> None:
    assert parse_entry(entry.text) == entry


def test_an_entry_says_in_words_what_it_is() -> None:
    assert BEGAN.text.startswith("vgpu-cfg: apply of depts for CHG0042 began {")
    assert ENDED.text.startswith("vgpu-cfg: apply of depts for CHG0042 ended: failed {")


def test_what_an_edited_lock_says_stays_on_one_line_of_signs_that_are_seen() -> None:
    entry = BEGAN.model_copy(update={"command": "apply\n\x1b[31m", "plan": "a\0b\ud800"})
    assert entry.text.isprintable()
    assert r"vgpu-cfg: apply\n\x1b[31m of a\x00b\ud800 for CHG0042 began {" in entry.text


def test_a_change_whose_id_looks_like_the_entry_itself_reads_back() -> None:
    entry = BEGAN.model_copy(update={"occasion": Occasion('X {"run":"forged"}')})
    assert parse_entry(entry.text) == entry


def test_the_words_of_others_are_none_and_those_that_were_cut_off_are_told() -> None:
    assert parse_entry("backup of vm-01 done") is None
    with pytest.raises(ValueError, match="is not readable"):
        parse_entry(ENDED.text[:-20])
    with pytest.raises(ValueError, match="is not readable"):
        parse_entry(f"{HEAD}hello")


def test_what_a_later_version_adds_is_passed_over() -> None:
    assert parse_entry(BEGAN.text[:-1] + ',"colour":"red"}') == BEGAN


def test_a_lock_stands_for_the_beginning_of_its_run_and_tells_no_changes() -> None:
    occasion = BEGAN.occasion
    holder = LockHolder(
        run=BEGAN.run,
        command="apply",
        plan="depts",
        user="jane",
        machine="desk-01",
        since=BEGAN.at,
        occasion=occasion,
    )
    lock = Lock(moid="alarm-1", name=LockName(kind="plan", key="depts"), holder=holder, beat_at=END)
    assert entry_of_lock(lock) == BEGAN.model_copy(update={"changes": 0})
    assert entry_of_lock(lock.model_copy(update={"holder": None})) is None


def test_a_run_of_no_plan_reads_so() -> None:
    cordon = BEGAN.model_copy(update={"command": "cordon", "plan": ""})
    assert cordon.text.startswith("vgpu-cfg: cordon for CHG0042 began {")


def test_the_longest_entry_stays_below_a_thousand_signs() -> None:
    entry = ENDED.model_copy(
        update={
            "plan_id": "b70fee89-ef01-4bfb-b2be-c2c2cca12b54",
            "digest": "d93f0061",
            "plan": "p" * 63,
            "occasion": Occasion("C" * LONGEST_CHANGE, "r" * LONGEST_REASON),
            "account": "administrator@vsphere.local",
            "machine": "m" * 63,
        }
    )
    assert len(entry.text) < 1000


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("CHG0042", ""),
        ("Grüße an alle", ""),
        ("  ", "it is empty"),
        ("two\nlines", "it contains a line break"),
        ("bell\a", "it contains a line break or another"),
        ("x" * (LONGEST_CHANGE + 1), f"it has {LONGEST_CHANGE + 1} characters"),
    ],
)
def test_a_text_is_printed_and_short(text: str, fault: str) -> None:
    found = fault_of(text, LONGEST_CHANGE)
    assert fault in found
    assert bool(found) == bool(fault)
