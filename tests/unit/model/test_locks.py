"""What is read from a lock's text, which whoever may edit alarms can write."""

from __future__ import annotations

import pytest

from vgpu_cfg.model.locks import HEAD, parse_lock

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
