"""What was read of a shell stays known until something that the row names has changed, and no longer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, timedelta
from typing import Any

import pytest

from tests.unit.planning.desired_plans import codes
from tests.unit.planning.hosts.plans import GPU, MARK, NIC, SHELL, estate, host, wanted
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.model.observed.host_facts import (
    SHELL_GROUPS,
    FactGroup,
    HostFacts,
    HostMark,
    Remembered,
    SoftwarePackage,
    not_expired,
    parse_remembered,
)
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.host_settings.table import SETTINGS
from vgpu_cfg.planning.hosts.assess import to_keep
from vgpu_cfg.planning.planner import make_plan

CATALOG = load_catalog()
ECC = {"gpus": [{"ecc": True}], "access": SHELL}
FIRMWARE = {"nics": [{"firmware": {"ATS_ENABLED": "True"}}], "access": SHELL}
SEEN = host(nics=[NIC | {"firmware": {"ATS_ENABLED": "True"}}])


def changed(observed: Inventory, *, host_update: Mapping[str, Any] | None = None, **facts: Any) -> Inventory:
    """Return the estate with its one host otherwise, its shell closed."""
    (seen,) = observed.hosts
    found = observed.facts.hosts[seen.moid].model_copy(update={"shell": None, **facts})
    hosts = (seen.model_copy(update=dict(host_update or {})),)
    estate_facts = observed.facts.model_copy(update={"hosts": {seen.moid: found}})
    return observed.model_copy(update={"hosts": hosts, "facts": estate_facts})


def facts_of(observed: Inventory) -> HostFacts:
    (facts,) = observed.facts.hosts.values()
    return facts


def kept(observed: Inventory, **entry: Any) -> dict[str, str]:
    """Return what one host is to keep once its shell was read."""
    (texts,) = to_keep(wanted(**entry), observed, CATALOG, PlanOptions()).values()
    return dict(texts)


def kept_of(observed: Inventory, **entry: Any) -> Remembered:
    return parse_remembered(observed.hosts[0].moid, kept(observed, **entry))


def planned(observed: Inventory, **entry: Any) -> Plan:
    return make_plan(wanted(**entry), observed, CATALOG, PlanOptions())


def is_known(observed: Inventory, **entry: Any) -> bool:
    found = planned(observed, **entry)
    assert not found.changes
    assert bool(found.unknown) != (found.hosts_in_sync == ("esx-01",))
    return not found.unknown


# ------------------------------------------------------------- the table


def test_every_row_that_only_a_shell_tells_says_how_long_it_is_remembered() -> None:
    of_shell = {row.key for row in SETTINGS if row.facts & SHELL_GROUPS}
    assert of_shell == {row.key for row in SETTINGS if row.remembered is not None}
    assert all(row.remembered.invalidated_by for row in SETTINGS if row.remembered is not None)
    assert "." not in "".join(of_shell)  # a dot parts a row from a number in an attribute's name


# ------------------------------------------------------------- what holds


@pytest.mark.parametrize("entry", [ECC, FIRMWARE])
def test_what_was_read_is_known_while_the_shell_is_closed(entry: dict[str, Any]) -> None:
    observed = estate(SEEN)
    assert not is_known(changed(observed), **entry)
    assert is_known(changed(observed, remembered=kept_of(observed, **entry)), **entry)


def test_another_wish_is_compared_with_what_was_read() -> None:
    observed = estate(SEEN)
    without = planned(
        changed(observed, remembered=kept_of(observed, **ECC)), gpus=[{"ecc": False}], access=SHELL
    )
    with_shell = planned(observed, gpus=[{"ecc": False}], access=SHELL)
    assert without.changes == with_shell.changes
    assert without.digest == with_shell.digest
    (edit,) = [edit for change in without.changes for edit in change.edits]
    assert (edit.before, edit.after) == ("enabled", "disabled")


def test_a_value_of_no_known_word_is_unknown_where_it_is_not_the_wanted_one() -> None:
    odd = {"nics": [{"firmware": {"ODD": "Device_Default"}}], "access": SHELL}
    observed = estate(host(nics=[NIC | {"firmware": {"ODD": "Device_Default"}}]))
    after = changed(observed, remembered=kept_of(observed, **odd))
    assert is_known(after, **odd)
    assert not is_known(after, nics=[{"firmware": {"ODD": "Other"}}], access=SHELL)


def test_a_shell_that_is_open_is_believed_and_nothing_else() -> None:
    observed = estate(SEEN)
    texts = kept_of(observed, **ECC)
    off = estate(host(gpus=[GPU | {"ecc": False}]))
    facts = off.facts.hosts[off.hosts[0].moid].model_copy(update={"remembered": texts})
    now = off.model_copy(update={"facts": off.facts.model_copy(update={"hosts": {off.hosts[0].moid: facts}})})
    assert [change.kind for change in planned(now, **ECC).changes].count("change_host") == 1


# ------------------------------------------------------------- what makes it void


def rebooted(observed: Inventory) -> dict[str, Any]:
    booted = facts_of(observed).boot_time
    assert booted is not None
    return {"boot_time": booted + timedelta(minutes=5)}


def same_boot(observed: Inventory) -> dict[str, Any]:
    booted = facts_of(observed).boot_time
    assert booted is not None
    return {"boot_time": booted + timedelta(seconds=6)}


def other_driver(observed: Inventory) -> dict[str, Any]:
    return {"software": (SoftwarePackage(name="NVD-AIE_ESXi_8.0.0_Driver", version="595.1"),)}


def waits(observed: Inventory) -> dict[str, Any]:
    waiting = {"ecc 0000:21:00.0": facts_of(observed).boot_time}
    return {"mark": HostMark.model_validate(MARK | {"waiting": waiting})}


@pytest.mark.parametrize(
    ("what", "of_ecc", "of_firmware"),
    [
        (lambda _: {}, True, True),
        (same_boot, True, True),
        (rebooted, False, False),
        (lambda _: {"boot_time": None}, False, False),
        (lambda _: {"host_update": {"build": "99999999"}}, False, False),
        (lambda _: {"host_update": {"version": "8.0.9"}}, False, False),
        (other_driver, False, True),
        (lambda _: {"groups": frozenset({FactGroup.BASE})}, False, True),
    ],
)
def test_memory_is_void_with_what_the_row_names(
    what: Callable[[Inventory], dict[str, Any]], *, of_ecc: bool, of_firmware: bool
) -> None:
    observed = estate(SEEN)
    for entry, expected in ((ECC, of_ecc), (FIRMWARE, of_firmware)):
        now = changed(observed, remembered=kept_of(observed, **entry), **what(observed))
        assert is_known(now, **entry) is expected


def test_what_waits_for_a_restart_is_neither_kept_nor_recalled() -> None:
    pending = estate(host(gpus=[GPU | {"ecc": False, "ecc_pending": True}]))
    assert to_keep(wanted(**ECC), pending, CATALOG, PlanOptions()) == {}
    observed = estate(SEEN)
    now = changed(observed, remembered=kept_of(observed, **ECC), **waits(observed))
    assert [one.settings[0].setting for one in planned(now, **ECC).unknown] == ["ecc"]


def test_what_was_kept_and_waits_now_is_cleared() -> None:
    observed = estate(SEEN)
    pending = estate(host(gpus=[GPU | {"ecc_pending": False}]))
    facts = facts_of(pending).model_copy(update={"remembered": kept_of(observed, **ECC)})
    hosts = {pending.hosts[0].moid: facts}
    now = pending.model_copy(update={"facts": pending.facts.model_copy(update={"hosts": hosts})})
    assert kept(now, **ECC) == {"vgpu_cfg.read.ecc": ""}


@pytest.mark.parametrize(("board", "is_kept"), [("A100", True), ("H100", False)])
def test_a_mode_that_changes_without_a_reboot_is_not_remembered(board: str, *, is_kept: bool) -> None:
    entry = {"gpus": [{"sharing": "time_sliced"}], "access": SHELL}
    observed = estate(host(version="8.0.2", gpus=[GPU | {"board": board}]))
    assert bool(to_keep(wanted(**entry), observed, CATALOG, PlanOptions())) is is_kept


@pytest.mark.parametrize(
    ("days", "ago", "expected"),
    [(30, 0, True), (30, 29, True), (30, 30, False), (0, 0, False), (30, -2, False)],
)
def test_memory_grows_old(days: int, ago: int, *, expected: bool) -> None:
    observed = estate(SEEN)
    today = observed.read_at.date() + timedelta(days=ago)
    found = not_expired(kept_of(observed, **ECC), today, days)
    assert is_known(changed(observed, remembered=found), **ECC) is expected


# ------------------------------------------------------------- what nobody believes


def cut_off(name: str, text: str) -> dict[str, str]:
    return {name: text[:-3]}


def edited(name: str, text: str) -> dict[str, str]:
    return {name: text[:-1] + ("0" if text[-1] != "0" else "1")}


def of_another_row(name: str, text: str) -> dict[str, str]:
    return {name.replace("ecc", "mig"): text}


@pytest.mark.parametrize(
    "spoilt",
    [
        cut_off,
        edited,
        of_another_row,
        lambda name, _: {name: "enabled"},
        lambda name, _: {name: "1"},
        lambda name, _: {name: "{}"},
        lambda name, text: {name: f"2{text[1:]}"},
        lambda name, text: {name: f"{text} {text}"},
    ],
)
def test_a_text_that_is_not_whole_is_no_kept_of(spoilt: Callable[[str, str], dict[str, str]]) -> None:
    observed = estate(SEEN)
    ((name, text),) = kept(observed, **ECC).items()
    moid = observed.hosts[0].moid
    assert is_known(changed(observed, remembered=parse_remembered(moid, {name: text})), **ECC)
    assert not is_known(changed(observed, remembered=parse_remembered(moid, spoilt(name, text))), **ECC)


def test_a_text_of_another_host_is_no_kept_of() -> None:
    observed = estate(SEEN)
    texts = kept(observed, **ECC)
    assert parse_remembered("host-99", texts) == {"vgpu_cfg.read.ecc": ()}


def test_before_something_is_written_memory_does_not_do_where_the_shell_cannot_be_asked() -> None:
    observed = estate(SEEN)
    now = changed(observed, remembered=kept_of(observed, **ECC), lockdown="lockdownNormal")
    assert is_known(now, **ECC)
    writing = planned(now, ats=False, **ECC)
    assert codes(writing) == ["VG523"]
    assert [one.settings[0].setting for one in writing.unknown] == ["ecc"]


# ------------------------------------------------------------- how it is kept


def eight_gpus(count: int = 8) -> Inventory:
    gpus = [GPU | {"pci": f"0000:{number + 16:02x}:00.0"} for number in range(count)]
    return estate(host(gpus=gpus, nics=[]))


@pytest.mark.parametrize(("count", "names"), [(8, 1), (9, 1), (10, 2), (16, 2)])
def test_no_text_is_longer_than_an_attribute_can_be(count: int, names: int) -> None:
    observed = eight_gpus(count)
    texts = kept(observed, **ECC)
    assert sorted(texts) == ["vgpu_cfg.read.ecc", "vgpu_cfg.read.ecc.2"][:names]
    assert all(len(text) <= 255 for text in texts.values())
    assert is_known(changed(observed, remembered=kept_of(observed, **ECC)), **ECC)


def test_texts_tell_no_value_and_no_device() -> None:
    (text,) = kept(estate(SEEN), **ECC).values()
    assert "enabled" not in text
    assert "21:00" not in text
    other = estate(SEEN, host())
    told = to_keep(wanted(**ECC), other, CATALOG, PlanOptions())
    assert len({each for texts in told.values() for each in texts.values()}) == 2


def test_what_another_plan_keeps_stays_and_what_is_kept_already_is_not_written_again() -> None:
    observed = eight_gpus()
    half = {"gpus": [{"match": {"pci_id": "0000:10:00.0"}, "ecc": True}], "access": SHELL}
    rest = {"gpus": [{"match": {"pci_id": "0000:11:00.0"}, "ecc": True}], "access": SHELL}
    first = with_kept(observed, kept_of(observed, **half))
    both = with_kept(observed, kept_of(first, **rest))
    for entry in (half, rest):
        assert is_known(changed(both), **entry)
        assert to_keep(wanted(**entry), both, CATALOG, PlanOptions()) == {}


def with_kept(observed: Inventory, found: Remembered) -> Inventory:
    (seen,) = observed.hosts
    facts = facts_of(observed).model_copy(update={"remembered": found})
    return observed.model_copy(
        update={"facts": observed.facts.model_copy(update={"hosts": {seen.moid: facts}})}
    )


def test_the_day_is_kept_with_each_value() -> None:
    observed = estate(SEEN)
    ((_, values),) = kept_of(observed, **ECC).items()
    assert [one.read_on for one in values] == [observed.read_at.date()]
    assert isinstance(values[0].read_on, date)
