"""What is read from a lock's text, which whoever may edit alarms can write."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from vgpu_cfg.model.choices import LONGEST_CHANGE, LONGEST_REASON, Occasion
from vgpu_cfg.model.locks import HEAD, MOST_SIGNS, LockHolder, LockName, lock_text, parse_lock

NAME = f"{HEAD}plan demo"
TEXT = 'held {"run":"%s","since":"2026-01-05T08:00:00Z"}'


def test_a_lock_tells_its_run() -> None:
    parsed = parse_lock(NAME, TEXT % "a11a00000001")
    assert parsed is not None
    assert parsed[1] is not None
    assert parsed[1].run == "a11a00000001"


@pytest.mark.parametrize("run", ["", "../../poetry", "/srv/etc/other/uv", "--force", "a b", "a\\n", "a" * 65])
def test_a_run_that_is_no_id_is_none(run: str) -> None:
    """A file of this machine is locked, emptied and removed by this name."""
    parsed = parse_lock(NAME, TEXT % run)
    assert parsed is not None
    assert parsed[1] is None


def test_a_text_that_is_nested_deeply_tells_no_run() -> None:
    parsed = parse_lock(NAME, '{"run":' * 50_000)
    assert parsed is not None
    assert parsed[1] is None


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (Occasion(), Occasion()),
        (Occasion("CHG0042", "the new course"), Occasion("CHG0042", "the new course")),
        (Occasion("CHG0042", "r" * LONGEST_REASON), Occasion("CHG0042")),
        (Occasion("", "r" * LONGEST_REASON), Occasion()),
        (Occasion("ä" * LONGEST_CHANGE), Occasion()),
    ],
)
def test_a_lock_tells_as_much_of_what_its_run_is_for_as_has_room(given: Occasion, kept: Occasion) -> None:
    name = LockName(kind="id", key="3f0c9a7e-52d1-4b86-9e24-000000000001", label="demo")
    holder = LockHolder(
        run="6392edd69034",
        command="apply",
        plan="demo",
        plan_id="3f0c9a7e-52d1-4b86-9e24-000000000001",
        user="jane",
        machine="desk-01",
        since=datetime(2026, 1, 5, 8, tzinfo=UTC),
        occasion=given,
    )
    text = lock_text(name, holder)
    assert len(text) <= MOST_SIGNS
    assert parse_lock(name.text, text) == (name, holder.model_copy(update={"occasion": kept}))


@pytest.mark.parametrize(("signs", "kept"), [(200, 200), (100_000, 200)])
def test_a_text_that_somebody_put_into_a_lock_is_shortened(signs: int, kept: int) -> None:
    told = {"run": "a11a", "user": "u" * signs, "since": "2026-01-05T08:00:00Z", "label": "l" * signs}
    parsed = parse_lock("vgpu-cfg lock: plan demo", f"held {json.dumps(told)}")
    assert parsed is not None
    name, holder = parsed
    assert holder is not None
    assert (len(holder.user), len(name.label)) == (kept, kept)
    assert holder.user.endswith("…") == (signs > kept)
