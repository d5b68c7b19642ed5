"""The table as a whole: keys, references between entries, and one write for each group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.sections import section
from tests.unit.planning.settings.situations import all_cases
from vgpu_cfg.planning.host_settings.entry import HostSetting, InFile, Part
from vgpu_cfg.planning.host_settings.table import SETTINGS, setting

TOLD = Path(__file__).with_name("told.txt")
KEYS = [entry.key for entry in SETTINGS]


def test_keys_and_titles_are_unique() -> None:
    assert len(set(KEYS)) == len(KEYS)
    titles = [entry.title for entry in SETTINGS]
    assert len(set(titles)) == len(titles)


def test_an_entry_is_found_by_its_key_and_no_other() -> None:
    assert setting("ats").key == "ats"
    with pytest.raises(KeyError, match="no host setting 'atss'; the table contains bios_sriov,"):
        setting("atss")


@pytest.mark.parametrize("entry", SETTINGS, ids=KEYS)
def test_what_an_entry_refers_to_is_in_the_table(entry: HostSetting) -> None:
    assert set(entry.needs_in_force) <= set(KEYS)
    assert set(entry.after) <= set(KEYS)
    assert entry.key not in (*entry.needs_in_force, *entry.after)
    assert entry.source
    assert entry.title


@pytest.mark.parametrize("entry", SETTINGS, ids=KEYS)
def test_an_entry_says_how_a_plan_file_states_what_a_host_shows_or_why_none_does(entry: HostSetting) -> None:
    """What a case asks for, and its host shows once it holds, is said again; else there is a reason."""
    if not isinstance(entry.in_file, InFile):
        assert entry.in_file
        return
    for case in all_cases():
        for desired in entry.desired_settings(case.entry, case.view) if case.setting == entry.key else ():
            said = entry.in_file.says(desired.value)
            rules: Any = getattr(case.entry, entry.in_file.part, ())
            asked = [case.entry] if entry.in_file.part is Part.HOST else list(rules)
            assert (
                any(all(getattr(one, key) == value for key, value in said.items()) for one in asked)
                or entry.key == "gpu_graphics_type"
            ), said


def test_nothing_waits_for_itself_in_a_circle() -> None:
    waits = {entry.key: {*entry.needs_in_force, *entry.after} for entry in SETTINGS}
    # Firmware comes before a NIC is handed out, and after it is taken back: no wish has both needs.
    waits["nic_firmware"].remove("nic_passthrough")
    while waits:
        ready = {key for key, others in waits.items() if not others & waits.keys()}
        assert ready, f"these wait for each other: {sorted(waits)}"
        waits = {key: others for key, others in waits.items() if key not in ready}


def test_a_group_has_one_way_to_write() -> None:
    writers: dict[str, set[Callable[..., Any]]] = {}
    for entry in SETTINGS:
        writers.setdefault(entry.group, set()).add(entry.write)
    assert {group: len(found) for group, found in writers.items() if len(found) > 1} == {}


@pytest.mark.parametrize("entry", SETTINGS, ids=KEYS)
def test_every_runbook_paragraph_is_whole(entry: HostSetting) -> None:
    """Why, a way, what to see, how to verify and how to undo; no place is left that nobody fills."""
    names: Mapping[str, str] = {"host": "esx-01", "device": "0000:21:00.0", "value": "new", "before": "old"}
    for case in all_cases():
        if case.setting != entry.key:
            continue
        for desired in entry.desired_settings(case.entry, case.view):
            how = entry.how(case.view, desired)
            assert how.why
            assert how.client or how.commands
            assert how.expected
            assert how.verify
            assert how.undo
            for text in (how.why, how.client, how.expected, *how.commands, *how.verify, *how.undo):
                text.format(**names)


def told(entry: HostSetting) -> Iterator[str]:
    """Yield each line that a person reads of a setting, in all of its cases."""
    yield f"source: {entry.source}"
    yield f"stays: {entry.stays('old')}"
    for case in all_cases():
        for desired in entry.desired_settings(case.entry, case.view) if case.setting == entry.key else ():
            how = entry.how(case.view, desired)
            yield from (f"{name}: {getattr(how, name)}" for name in ("why", "client", "expected"))
            for name in ("commands", "verify", "undo"):
                yield from (f"{name}: {line}" for line in getattr(how, name))
            yield f"by hand: {entry.by_hand(case.view, desired)}"
            yield f"unread: {entry.read(case.view, desired.device).unread}"
            found = entry.objects(case.view, desired)
            if found is not None:
                yield f"{found.code}: {found.message}; {found.remedy}"


@pytest.mark.parametrize("entry", SETTINGS, ids=KEYS)
def test_what_a_person_reads_of_a_setting_is_as_it_is_stored(entry: HostSetting) -> None:
    text = "\n".join(dict.fromkeys(line for line in told(entry) if not line.endswith(": ")))
    assert text == section(TOLD, entry.key, text)
