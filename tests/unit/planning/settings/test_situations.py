"""Every setting of the table in every situation; a setting that lacks one of them fails here."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.unit.planning.settings.situations import Case, Situation, all_cases, check
from vgpu_cfg.planning.host_settings.table import SETTINGS, setting

ALL = all_cases()


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.id)
def test_situation(case: Case) -> None:
    check(case, setting(case.setting))


@pytest.mark.parametrize("key", [entry.key for entry in SETTINGS])
def test_every_situation_is_tried(key: str) -> None:
    tried = Counter(case.situation for case in ALL if case.setting == key)
    lacking = [situation.value for situation in Situation if not tried[situation]]
    assert not lacking, f"{key} has no case for: {', '.join(lacking)}"


def test_no_case_is_of_an_unknown_setting() -> None:
    assert {case.setting for case in ALL} <= {entry.key for entry in SETTINGS}
