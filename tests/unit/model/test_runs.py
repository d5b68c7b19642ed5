"""The entries of runs: what is written is read again, whatever was typed, and others' words are let be."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from vgpu_cfg.model.occasion import LONGEST_CHANGE, LONGEST_REASON, Occasion, fault_of
from vgpu_cfg.model.runs import HEAD, RunEntry, RunResult, parse_entry

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
ENDED = BEGAN.model_copy(update={"result": RunResult.FAILED, "done": 3, "failed": 1})


@pytest.mark.parametrize("entry", [BEGAN, ENDED])
def test_an_entry_reads_back(entry: RunEntry) -> None:
    assert parse_entry(entry.text) == entry


def test_an_entry_says_in_words_what_it_is() -> None:
    assert BEGAN.text.startswith("vgpu-cfg: apply of depts for CHG0042 began {")
    assert ENDED.text.startswith("vgpu-cfg: apply of depts for CHG0042 ended: failed {")


def test_a_change_whose_id_looks_like_the_entry_itself_reads_back() -> None:
    entry = BEGAN.model_copy(update={"occasion": Occasion('X {"run":"forged"}')})
    assert parse_entry(entry.text) == entry


def test_the_words_of_others_are_none_and_those_that_were_cut_off_are_told() -> None:
    assert parse_entry("backup of vm-01 done") is None
    with pytest.raises(ValueError, match="cannot be read"):
        parse_entry(ENDED.text[:-20])
    with pytest.raises(ValueError, match="cannot be read"):
        parse_entry(f"{HEAD}hello")


def test_what_a_later_version_adds_is_passed_over() -> None:
    assert parse_entry(BEGAN.text[:-1] + ',"colour":"red"}') == BEGAN


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
        ("two\nlines", "it holds a line break"),
        ("bell\a", "it holds a line break or another sign"),
        ("x" * (LONGEST_CHANGE + 1), f"it has {LONGEST_CHANGE + 1} characters"),
    ],
)
def test_a_text_is_printed_and_short(text: str, fault: str) -> None:
    found = fault_of(text, LONGEST_CHANGE)
    assert fault in found
    assert bool(found) == bool(fault)
