"""Times that others wrote: whatever stands there can be compared, shown, or is none."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from vgpu_cfg.model.frozen import moment_of
from vgpu_cfg.model.observed.cordon import Cordon
from vgpu_cfg.model.observed.host_facts import HostMark
from vgpu_cfg.model.observed.vm import OwnerMark
from vgpu_cfg.model.runs import HEAD, parse_entry

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
NO_TIMES = ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "yesterday", "")
ID = "3f0c9a7e-52d1-4b86-9e24-000000000001"


@pytest.mark.parametrize("text", ["2026-03-02T12:00:00", "2026-03-02T12:00:00Z", "2026-03-02T14:00:00+02:00"])
def test_a_time_is_of_utc_where_it_names_no_zone(text: str) -> None:
    assert moment_of(text) == NOON
    assert OwnerMark.parse(f"team id={ID} uuid=u at={text}", "vm").made_at == NOON
    assert Cordon.parse("a", json.dumps({"reason": "x", "since": text})).since == NOON
    mark = HostMark.parse(json.dumps({"plan": "team", "since": text}))
    assert mark is not None
    assert mark.since == NOON


@pytest.mark.parametrize("text", NO_TIMES)
def test_what_no_zone_could_show_is_no_time(text: str) -> None:
    assert moment_of(text) is None
    mark = OwnerMark.parse(f"team id={ID} uuid=u at={text} by=x", "vm")
    assert mark.text == f"team id={ID} uuid=u by=x"
    assert Cordon.parse("a", json.dumps({"reason": "x", "since": text})).words == "x"
    assert HostMark.parse(json.dumps({"plan": "team", "since": text})) is None
    with pytest.raises(ValueError, match="is not readable"):
        parse_entry(f'{HEAD}apply of team began {{"run":"1","at":"{text}"}}')
