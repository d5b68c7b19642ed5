"""Windows of time: days, midnight, the end of a week, and the two nights on which clocks are moved."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.execution.host_makers import enter
from vgpu_cfg.planning.hosts.window import forecast, parse_window, windows_of

BERLIN = ZoneInfo("Europe/Berlin")
UTC = ZoneInfo("UTC")


@pytest.mark.parametrize(
    ("text", "moment", "expected"),
    [
        # Saturday is 2026-11-21.
        ("Sat 22:00-04:00 Europe/Berlin", "2026-11-21T21:59:59", False),
        ("Sat 22:00-04:00 Europe/Berlin", "2026-11-21T22:00:00", True),
        ("Sat 22:00-04:00 Europe/Berlin", "2026-11-22T03:59:59", True),
        ("Sat 22:00-04:00 Europe/Berlin", "2026-11-22T04:00:00", False),
        ("Sat 22:00-04:00 Europe/Berlin", "2026-11-22T22:00:00", False),
        ("Sat 22:00-04:00 Europe/Berlin", "2026-11-21T03:00:00", False),
        ("Sun 22:00-04:00 Europe/Berlin", "2026-11-23T03:00:00", True),
        ("Sat,Sun 22:00-04:00 Europe/Berlin", "2026-11-22T22:00:00", True),
        ("Sat, Sun 22:00-04:00 Europe/Berlin", "2026-11-23T03:00:00", True),
        ("Sat,Sun 22:00-04:00 Europe/Berlin", "2026-11-23T22:00:00", False),
        ("Mon 02:00-06:00 Europe/Berlin", "2026-11-23T02:00:00", True),
        ("Mon 02:00-06:00 Europe/Berlin", "2026-11-24T02:00:00", False),
        ("daily 02:00-06:00 Europe/Berlin", "2026-11-24T05:00:00", True),
        ("daily 02:00-06:00 Europe/Berlin", "2026-11-24T06:00:00", False),
        ("Sat 00:00-24:00 Europe/Berlin", "2026-11-21T00:00:00", True),
        ("Sat 00:00-24:00 Europe/Berlin", "2026-11-21T23:59:59", True),
        ("Sat 00:00-24:00 Europe/Berlin", "2026-11-22T00:00:00", False),
        ("Sat 22:00-00:00 Europe/Berlin", "2026-11-21T23:59:59", True),
        ("Sat 22:00-00:00 Europe/Berlin", "2026-11-22T00:00:00", False),
        ("daily 00:01-00:00 Europe/Berlin", "2026-11-21T00:00:30", False),
    ],
)
def test_by_the_wall_clock(text: str, moment: str, expected: bool) -> None:
    assert parse_window(text).is_open(datetime.fromisoformat(moment).replace(tzinfo=BERLIN)) is expected


@pytest.mark.parametrize(
    ("text", "moment", "minutes"),
    [
        ("Sat 22:00-04:00 Europe/Berlin", "2026-11-21T21:59:59", None),
        ("Sat 22:00-04:00 Europe/Berlin", "2026-11-21T22:00:00", 360),
        ("Sat 22:00-04:00 Europe/Berlin", "2026-11-22T03:30:00", 30),
        # 02:00 becomes 03:00 in the night, and 03:00 becomes 02:00.
        ("Sat 22:00-04:00 Europe/Berlin", "2026-03-28T22:00:00", 300),
        ("Sat 22:00-04:00 Europe/Berlin", "2026-10-24T22:00:00", 420),
        # A window that ends as the next one opens goes on.
        ("Sat,Sun 00:00-24:00 Europe/Berlin", "2026-11-21T12:00:00", 36 * 60),
        ("daily 00:00-24:00 Europe/Berlin", "2026-11-21T00:00:00", 7 * 24 * 60),
    ],
)
def test_how_long_it_stays_open(text: str, moment: str, minutes: int | None) -> None:
    left = parse_window(text).seconds_left(datetime.fromisoformat(moment).replace(tzinfo=BERLIN))
    assert left == (None if minutes is None else minutes * 60)


@pytest.mark.parametrize(
    ("text", "moment", "expected"),
    [
        # Winter and summer: the wall clock stays, the moment moves.
        ("daily 22:00-23:00 Europe/Berlin", "2026-01-10T21:30:00", True),
        ("daily 22:00-23:00 Europe/Berlin", "2026-07-10T21:30:00", False),
        ("daily 22:00-23:00 Europe/Berlin", "2026-07-10T20:30:00", True),
        # 2026-03-29: 02:00 becomes 03:00 in Berlin, at 01:00 UTC; from 22:00 to 04:00 are five hours.
        ("Sat 22:00-04:00 Europe/Berlin", "2026-03-28T21:00:00", True),
        ("Sat 22:00-04:00 Europe/Berlin", "2026-03-29T01:59:00", True),
        ("Sat 22:00-04:00 Europe/Berlin", "2026-03-29T02:00:00", False),
        ("Sun 02:00-03:00 Europe/Berlin", "2026-03-29T00:59:00", False),
        ("Sun 02:00-03:00 Europe/Berlin", "2026-03-29T01:00:00", False),
        # 2026-10-25: 03:00 becomes 02:00 in Berlin, at 01:00 UTC; from 22:00 to 04:00 are seven hours.
        ("Sat 22:00-04:00 Europe/Berlin", "2026-10-24T20:00:00", True),
        ("Sat 22:00-04:00 Europe/Berlin", "2026-10-25T02:59:00", True),
        ("Sat 22:00-04:00 Europe/Berlin", "2026-10-25T03:00:00", False),
        ("Sun 02:00-03:00 Europe/Berlin", "2026-10-25T00:00:00", True),
        ("Sun 02:00-03:00 Europe/Berlin", "2026-10-25T01:59:00", True),
        ("Sun 02:00-03:00 Europe/Berlin", "2026-10-25T02:00:00", False),
        # The day is that of the window's zone.
        ("Sat 00:00-02:00 Pacific/Auckland", "2026-11-20T11:30:00", True),
        ("Sat 00:00-02:00 Pacific/Auckland", "2026-11-21T11:30:00", False),
        ("Sat 22:00-23:00 UTC", "2026-11-21T22:30:00", True),
    ],
)
def test_in_any_zone(text: str, moment: str, expected: bool) -> None:
    assert parse_window(text).is_open(datetime.fromisoformat(moment).replace(tzinfo=UTC)) is expected


@given(
    st.datetimes(min_value=datetime(2020, 1, 1), max_value=datetime(2030, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - the zone is the other parameter
    st.integers(0, 23),
    st.integers(1, 24),
)
def test_the_zone_in_which_a_moment_is_told_does_not_matter(now: datetime, start: int, end: int) -> None:
    if start == end:
        end = 24 if start != 24 else 1
    window = parse_window(f"daily {start:02}:00-{end:02}:00 Europe/Berlin")
    assert window.is_open(now) == window.is_open(now.astimezone(ZoneInfo("Asia/Tokyo")))
    opens = [now + timedelta(hours=hour) for hour in range(26)]
    assert any(window.is_open(moment) for moment in opens), "a daily window opens every day"


def test_a_moment_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="a time requires a time zone"):
        parse_window("daily 01:00-02:00 UTC").is_open(datetime(2026, 11, 21))  # noqa: DTZ001 - the point of the test


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is not a valid maintenance window"),
        ("Sat", "'Sat' is not a valid maintenance window"),
        ("Sat 22:00 Europe/Berlin", "'Sat 22:00 Europe/Berlin' is not a valid maintenance window"),
        ("Sat 22:00-04:00", "'Sat 22:00-04:00' has no time zone"),
        ("Saturday 22:00-04:00 UTC", "'Saturday' is not a day of the week\nuse Sat"),
        ("sat 22:00-04:00 UTC", "'sat' is not a day of the week\nuse Sat"),
        ("Daily 22:00-04:00 UTC", "'Daily' is not a day of the week\nuse daily"),
        ("Mon-Fri 22:00-04:00 UTC", "'Mon-Fri' is not a day of the week\nlist the days, for example Sat,Sun"),
        (
            "Sat,Xyz 22:00-04:00 UTC",
            "'Xyz' is not a day of the week\nuse Mon, Tue, Wed, Thu, Fri, Sat, Sun or daily",
        ),
        ("Sat 22-04:00 UTC", "'22' is not a valid time of day\nuse hours and minutes from 00:00 to 24:00"),
        ("Sat 22:00-04:60 UTC", "'04:60' is not a valid time of day"),
        ("Sat 22:00-24:01 UTC", "'24:01' is not a valid time of day"),
        ("Sat 24:00-04:00 UTC", "a window cannot begin at 24:00"),
        (
            "Sat 22:00-22:00 UTC",
            "a window cannot begin and end at the same time\nuse 00:00-24:00 for an entire day",
        ),
        (
            "Sat 22:00-04:00 Berlin",
            "this machine does not recognize the time zone 'Berlin'\ndid you mean Europe/Berlin?",
        ),
        ("Sat 22:00-04:00 Europe/Berlni", "did you mean Europe/Berlin?"),
        ("Sat 22:00-04:00 Europe", "this machine does not recognize the time zone 'Europe'"),
        (
            "Sat 22:00-04:00 ../../etc/passwd",
            "this machine does not recognize the time zone '../../etc/passwd'",
        ),
        ("Sat 22:00-04:00 Qqqq/Zzzz", "example: Europe/Berlin or UTC"),
    ],
)
def test_what_is_wrong_is_named(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is compared below
        parse_window(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "text", ["Sat 22:00-04:00 Europe/Berlin", "Mon,Thu 02:00-02:30 UTC", "daily 23:00-22:30 UTC"]
)
@given(minutes=st.integers(0, 300 * 24 * 60))
def test_it_opens_at_the_first_moment_at_which_it_is_open(text: str, minutes: int) -> None:
    window, moment = parse_window(text), datetime(2026, 3, 1, tzinfo=UTC) + timedelta(minutes=minutes)
    opens = window.opens_at(moment)
    assert window.is_open(opens)
    if opens == moment:
        return
    assert not window.is_open(opens - timedelta(seconds=1))
    halves = (moment + (opens - moment) * part / 40 for part in range(40))
    assert not any(window.is_open(one) for one in halves)
    assert opens - moment < timedelta(days=7)


def test_it_says_when_it_opens_in_its_own_zone() -> None:
    window = parse_window("Sat 22:00-04:00 Europe/Berlin")
    said = window.when(datetime(2026, 11, 29, 15, tzinfo=UTC))
    assert said == "opens on Sat 2026-12-05 at 22:00 Europe/Berlin"


@pytest.mark.parametrize(
    ("hosts", "down", "openings", "ends"),
    [
        (1, 1, 1, "Sat 23:00"),
        (6, 1, 1, "Sun 04:00"),
        (7, 1, 2, "Sat 23:00"),
        (12, 2, 1, "Sun 04:00"),
        (50, 2, 5, "Sat 23:00"),
        (18, 1, 3, "Sun 04:00"),
    ],
)
def test_the_hours_of_hosts_are_spread_over_openings(hosts: int, down: int, openings: int, ends: str) -> None:
    text = "Sat 22:00-04:00 UTC"
    changes = [enter(f"esx-{n}", window=text, max_down=down, takes_seconds=3600) for n in range(hosts)]
    (found,) = forecast(changes, datetime(2026, 11, 29, 15, tzinfo=UTC))
    assert (found.openings, f"{found.ends:%a %H:%M}") == (openings, ends)
    assert found.ends - datetime(2026, 12, 5, 22, tzinfo=UTC) < openings * timedelta(days=7)


def test_waves_go_on_beside_each_other() -> None:
    text = "Sat 22:00-04:00 UTC"
    changes = [
        enter(f"{wave}-{n}", window=text, wave=wave, takes_seconds=3600) for wave in "ab" for n in range(9)
    ]
    assert [one.openings for one in forecast(changes, datetime(2026, 11, 29, tzinfo=UTC))] == [2]


@pytest.mark.parametrize("text", ["daily 00:00-24:00 UTC", "Sat 22:00-22:30 UTC", ""])
def test_no_forecast_is_made_without_an_end_or_a_beginning(text: str) -> None:
    assert forecast([enter(window=text, takes_seconds=3600)], datetime(2026, 11, 29, tzinfo=UTC)) == ()


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (29, "closed; it opens on Sat 2026-12-05 at 22:00 UTC; about 2 windows, done by Sat 12-12 23:00"),
        (28, "open until Sun 2026-11-29 04:00; about 2 windows, done by Sat 12-05 23:00"),
    ],
)
def test_each_window_is_told_with_its_next_opening_and_how_many_are_needed(now: int, said: str) -> None:
    text = "Sat 22:00-04:00 UTC"
    changes = [enter(f"esx-{n}", window=text, takes_seconds=3600) for n in range(7)]
    moment = datetime(2026, 11, now, 22, tzinfo=UTC)
    (found,) = windows_of([*changes, enter()], moment)
    assert found.replace("done by Sat 2026-", "done by Sat ") == f"{text}: {said}"
    assert windows_of([enter(window=text, is_held=True)], moment) == ()
