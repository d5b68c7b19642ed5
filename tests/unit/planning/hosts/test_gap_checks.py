"""A BIOS to see to, a restart in vain, a match for nothing; and the same hosts without these."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.planning.desired_plans import codes, planned
from tests.unit.planning.hosts.plans import GPU, MARK, NIC, SHELL, change, estate, host, kinds, plan, wanted
from vgpu_cfg.changes.change import ExitMaintenance, ManualStep

BEFORE, NOW = "2026-10-01T06:00:00Z", "2026-11-01T06:00:00Z"
COLD = {"allow": ["maintenance", "reboot", "cold_boot"]}


@pytest.mark.parametrize(("mode", "found"), [("Non SR-IOV", ["VG521"]), ("SR-IOV", [])])
def test_a_bios_is_told_of_where_it_shows_another_value(mode: str, found: list[str]) -> None:
    observed = estate(host(gpus=[GPU | {"vgpu_host_mode": mode}]))
    assert codes(plan(observed, bios={"sriov": True}, access=SHELL, disruption=COLD)) == found


def test_a_bios_of_which_nothing_shows_is_told_of() -> None:
    observed = estate(host(driver=False, gpus=[GPU | {"type": "basic"}]))
    (found,) = plan(observed, bios={"above_4g": True}, disruption=COLD).diagnostics
    assert found.code == "VG521"
    assert "cannot be confirmed to be enabled" in found.message


@pytest.mark.parametrize(("written", "found"), [(BEFORE, ["VG531", "VG536"]), (NOW, ["VG531"])])
def test_a_restart_in_vain_is_one_after_the_write(written: str, found: list[str]) -> None:
    waits = {"default": "False", "current": "False", "next_boot": "True"}
    mark = MARK | {"maintenance": True, "waiting": {"nic_firmware 0000:24:00.0 ATS_ENABLED": written}}
    nic = NIC | {"firmware": {"ATS_ENABLED": waits}}
    observed = estate(host(nics=[nic], maintenance=True, facts={"mark": mark}))
    rule = {"firmware": {"ATS_ENABLED": "True"}}
    assert codes(plan(observed, nics=[rule], access=SHELL, disruption=COLD)) == found


@pytest.mark.parametrize(
    ("rules", "found"),
    [
        ({"gpus": [{"match": {"model": "L40S"}, "use": "vgpu"}]}, ["VG527"]),
        ({"gpus": [{"match": {"model": "A100"}, "use": "vgpu"}]}, []),
        ({"gpus": [{"match": {"pci_id": "0000:99:00.0"}, "use": "vgpu"}]}, ["VG527"]),
        ({"gpus": [{"use": "vgpu"}]}, []),
        ({"nics": [{"match": {"numa": 1}, "use": "host"}]}, ["VG527"]),
        ({"nics": [{"match": {"numa": 0}, "use": "host"}]}, []),
        ({"nics": [{"match": {"vmnic": "vmnic7"}, "use": "host"}]}, ["VG527"]),
    ],
)
def test_a_match_fits_a_device_or_is_told_of(rules: dict[str, Any], found: list[str]) -> None:
    assert codes(plan(estate(host()), **rules)) == found


def test_a_match_needs_to_fit_on_one_of_the_hosts_only() -> None:
    observed = estate(host(), host(gpus=[GPU | {"board": "L40S"}]))
    rules = [{"match": {"model": name}, "use": "vgpu"} for name in ("A100", "L40S")]
    assert codes(plan(observed, gpus=rules)) == []


def test_a_part_of_the_hosts_says_nothing_of_a_match() -> None:
    observed = estate(host(), host(gpus=[GPU | {"board": "L40S"}]))
    rules = [{"match": {"model": name}, "use": "vgpu"} for name in ("A100", "L40S")]
    assert codes(planned(wanted(gpus=rules), observed, only=("host:esx-01",))) == []


def test_a_nic_of_the_host_itself_is_named_with_the_match_that_it_alone_fits() -> None:
    observed = estate(host(facts={"switches": [{"name": "vSwitch0", "uplinks": ["vmnic2"]}]}))
    by_model = plan(observed, nics=[{"match": {"model": "ConnectX"}, "use": "passthrough"}])
    assert codes(by_model) == ["VG527"]
    assert "vmnic2" in by_model.diagnostics[0].remedy
    by_name = plan(observed, nics=[{"match": {"vmnic": "vmnic2"}, "use": "passthrough"}])
    assert codes(by_name) == ["VG517"]


def test_a_rule_that_makes_uplinks_fits_those_that_are_some() -> None:
    observed = estate(host(facts={"switches": [{"name": "vSwitch1", "uplinks": ["vmnic2"]}]}))
    assert codes(plan(observed, nics=[{"match": {"model": "ConnectX"}, "switch": "vSwitch1"}])) == []


SERVED = GPU | {"vgpu_host_mode": None}


@pytest.mark.parametrize(
    ("row", "entry", "expected"),
    [
        ({"gpus": [SERVED]}, {"bios": {"sriov": True}}, ["manual_step"]),
        (
            {"gpus": [SERVED]},
            {"bios": {"sriov": True}, "ats": False},
            ["manual_step", "enter_maintenance", "change_host", "reboot_host", "exit_maintenance"],
        ),
        (
            {"gpus": [GPU | {"type": "basic"}], "driver": False},
            {"bios": {"above_4g": True}},
            ["enter_maintenance", "shut_down_host", "manual_step", "exit_maintenance"],
        ),
        ({"gpus": [SERVED], "facts": {"done": {"bios_sriov": "enabled"}}}, {"bios": {"sriov": True}}, []),
        ({"gpus": [SERVED], "facts": {"shell": False}}, {"bios": {"sriov": True}}, []),
    ],
)
def test_a_host_is_not_taken_down_to_look_into_its_bios(
    row: dict[str, Any], entry: dict[str, Any], expected: list[str]
) -> None:
    found = plan(estate(host(**row)), access=SHELL, disruption=COLD, **entry)
    assert kinds(found) == expected


def test_what_is_to_be_seen_in_the_bios_is_seen_at_a_cold_boot_that_comes_anyway() -> None:
    waits = {"default": "False", "current": "False", "next_boot": "True"}
    mark = MARK | {"maintenance": True, "waiting": {"nic_firmware 0000:24:00.0 ATS_ENABLED": BEFORE}}
    nic = NIC | {"firmware": {"ATS_ENABLED": waits}}
    row = host(gpus=[SERVED], nics=[nic], maintenance=True, facts={"mark": mark})
    rule = {"match": {"vmnic": "vmnic2"}, "firmware": {"ATS_ENABLED": "True"}}
    found = plan(estate(row), bios={"sriov": True}, nics=[rule], access=SHELL, disruption=COLD)
    steps = [one for one in found.changes if isinstance(one, ManualStep)]
    assert [step.id for step in steps] == ["cold boot esx-01"]
    assert "is enabled in esx-01's BIOS" in steps[0].text


def test_nobody_is_asked_to_read_back_what_somebody_gave_their_word_for() -> None:
    row = host(gpus=[SERVED], facts={"done": {"bios_sriov": "enabled"}})
    found = plan(estate(row), bios={"sriov": True}, ats=False, access=SHELL)
    left = change(found, "exit_maintenance")
    assert isinstance(left, ExitMaintenance)
    assert [target.setting for target in left.settles] == ["ats"]
