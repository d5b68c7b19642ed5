"""JUnit XML holds whatever a name or a message holds, and no two cases of one name."""

from __future__ import annotations

from datetime import UTC, datetime

from junitparser import JUnitXml

from vgpu_cfg.model.wording import shown
from vgpu_cfg.render.junit import Case, render_junit

HOSTILE = "a<b>&\"'\x00\x1b[31m\x0b\ud800]]> café\nline two"


def test_any_text_survives_and_what_is_obeyed_is_written_out() -> None:
    text = render_junit(
        HOSTILE, [Case("vm", HOSTILE, (HOSTILE, HOSTILE, (HOSTILE, "end"))), Case("vm", "b", told=(HOSTILE,))]
    )
    (suite,) = JUnitXml.fromstring(text.encode())
    first, second = suite
    clean = shown(HOSTILE)
    assert first.name == clean
    assert (first.result[0].message, first.result[0].text) == (clean, f"{clean}\nend")
    assert second.system_out == clean


def test_cases_of_one_name_are_told_apart() -> None:
    text = render_junit("plan x", [Case("vm", "a"), Case("vm", "a"), Case("host", "a")])
    (suite,) = JUnitXml.fromstring(text.encode())
    assert [(case.classname, case.name) for case in suite] == [
        ("plan x.vm", "a"),
        ("plan x.vm", "a (2)"),
        ("plan x.host", "a"),
    ]


def test_the_time_is_that_of_the_reading_in_utc() -> None:
    text = render_junit("plan x", [], at=datetime(2026, 3, 1, 12, 30, tzinfo=UTC))
    assert 'timestamp="2026-03-01T12:30:00"' in text
