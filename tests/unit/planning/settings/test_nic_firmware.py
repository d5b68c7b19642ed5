"""NIC firmware: one command per NIC, only while the host owns it; a cold boot only after a reboot in vain."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.planning.settings.situations import Case, Situation, wish_of
from tests.unit.planning.settings.views import NIC, NIC_2, hosts, nic, view
from vgpu_cfg.changes.kinds.change_host import ShellWrite
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.model.desired import DesiredHosts
from vgpu_cfg.model.observed.host_facts import FactGroup, HostMark
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.host_settings.entry import HostView
from vgpu_cfg.planning.host_settings.nics.nic_firmware import MLXCONFIG, firmware_word, is_same_word
from vgpu_cfg.planning.host_settings.table import setting

FIRMWARE = setting("nic_firmware")
ATS = f"{NIC} ATS_ENABLED"
BOOT = datetime(2026, 11, 20, 8, 0, tzinfo=UTC)
REBOOT = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)


def value(current: str | None, next_boot: str | None, default: str | None = None) -> dict[str, Any]:
    return {"default": default, "current": current, "next_boot": next_boot}


def told(rows: Mapping[str, Any], **facts: Any) -> HostView:
    """Observe the host with what mlxconfig tells of its NIC."""
    return view(facts={"shell": {"firmware": {NIC: rows}}, **facts})


def asks(**firmware: str) -> DesiredHosts:
    return hosts(nics={"firmware": firmware})


def command(*words: str, pci_id: str = NIC) -> tuple[str, ...]:
    return (MLXCONFIG, "-d", pci_id, "-y", "set", *words)


ON = value("True", "True", "False")
OFF = value("False", "False", "False")
WAITING = value("False", "True", "False")

CASES = (
    Case("nic_firmware", Situation.RIGHT, told({"ATS_ENABLED": ON}), asks(ATS_ENABLED="True"), "True", ATS),
    Case(
        "nic_firmware",
        Situation.RIGHT,
        told({"ATS_ENABLED": value(None, "True")}),
        asks(ATS_ENABLED="True"),
        "True",
        ATS,
    ),
    Case(
        "nic_firmware",
        Situation.RIGHT,
        told({"LINK_TYPE_P1": value("ETH", "ETH", "IB")}),
        asks(LINK_TYPE_P1="2"),
        "2",
        f"{NIC} LINK_TYPE_P1",
    ),
    Case(
        "nic_firmware",
        Situation.WRONG,
        told({"ATS_ENABLED": OFF}),
        asks(ATS_ENABLED="True"),
        "True",
        ATS,
        found="False",
        writes=(ShellWrite(commands=(command("ATS_ENABLED=1"),)),),
    ),
    Case(
        "nic_firmware",
        Situation.WRONG,
        told({"LINK_TYPE_P2": value("IB", "IB")}),
        asks(LINK_TYPE_P2="eth"),
        "ETH",
        f"{NIC} LINK_TYPE_P2",
        writes=(ShellWrite(commands=(command("LINK_TYPE_P2=2"),)),),
    ),
    Case(
        "nic_firmware",
        Situation.WRONG,
        told({"NUM_OF_VFS": value("0", "0")}),
        asks(NUM_OF_VFS="8"),
        "8",
        f"{NIC} NUM_OF_VFS",
        writes=(ShellWrite(commands=(command("NUM_OF_VFS=8"),)),),
    ),
    Case(
        "nic_firmware",
        Situation.OFF,
        told({"ATS_ENABLED": ON}),
        asks(ATS_ENABLED="False"),
        "False",
        ATS,
        writes=(ShellWrite(commands=(command("ATS_ENABLED=0"),)),),
    ),
    Case(
        "nic_firmware",
        Situation.PENDING,
        told({"ATS_ENABLED": WAITING}),
        asks(ATS_ENABLED="True"),
        "True",
        ATS,
    ),
    Case(
        "nic_firmware",
        Situation.NOT_OFFERED,
        told({"ATS_ENABLED": OFF}),
        asks(ATS_ENABLED="True"),
        "True",
        ATS,
        by_hand=f"set ATS_ENABLED of {NIC} to True",
    ),
    Case(
        "nic_firmware",
        Situation.UNREAD,
        view(facts={"unread": {FactGroup.SHELL_NICS: "ssh refused the key"}}),
        asks(ATS_ENABLED="True"),
        "True",
        ATS,
        unread="ssh refused the key",
    ),
    Case(
        "nic_firmware", Situation.UNREAD, view(), asks(ATS_ENABLED="True"), "True", ATS, unread="not queried"
    ),
    Case(
        "nic_firmware",
        Situation.UNREAD,
        view(facts={"shell": {"unread": {NIC: "mlxconfig is not on this host"}}}),
        asks(ATS_ENABLED="True"),
        "True",
        ATS,
        unread="mlxconfig is not on this host",
    ),
    Case(
        "nic_firmware",
        Situation.UNREAD,
        view(facts={"shell": {"firmware": {NIC: {}}, "unread": {NIC: "could not read all"}}}),
        asks(ATS_ENABLED="True"),
        "True",
        ATS,
        unread="could not read all",
    ),
)


def test_all_parameters_of_a_nic_go_into_one_command_and_each_nic_has_its_own() -> None:
    seen = view(nics=(nic(), nic("vmnic3", NIC_2)))
    entry = asks(SRIOV_EN="True", NUM_OF_VFS="8")
    desired_settings = list(FIRMWARE.desired_settings(entry, seen))
    (write,) = FIRMWARE.write(seen, desired_settings)
    words = ("SRIOV_EN=1", "NUM_OF_VFS=8")
    assert write == ShellWrite(commands=(command(*words), command(*words, pci_id=NIC_2)))


def test_a_parameter_that_the_plan_does_not_name_is_no_wish() -> None:
    assert list(FIRMWARE.desired_settings(hosts(nics={"use": "passthrough"}), view())) == []


@pytest.mark.parametrize(
    ("waiting", "boot_time", "row", "impact"),
    [
        ({f"nic_firmware {ATS}": BOOT}, REBOOT, WAITING, Impact.HOST_COLD_BOOT),
        ({f"nic_firmware {ATS}": BOOT}, BOOT, WAITING, Impact.HOST_REBOOT),
        ({f"nic_firmware {ATS}": BOOT}, BOOT.replace(second=3), WAITING, Impact.HOST_REBOOT),
        ({f"nic_firmware {ATS}": BOOT}, REBOOT, OFF, Impact.HOST_REBOOT),
        ({f"nic_firmware {ATS}": None}, REBOOT, WAITING, Impact.HOST_REBOOT),
        ({f"nic_firmware {ATS}": BOOT}, None, WAITING, Impact.HOST_REBOOT),
        ({f"nic_firmware {NIC_2} ATS_ENABLED": BOOT}, REBOOT, WAITING, Impact.HOST_REBOOT),
        (None, REBOOT, WAITING, Impact.HOST_REBOOT),
    ],
)
def test_a_cold_boot_is_asked_for_only_after_a_reboot_in_vain(
    waiting: Mapping[str, datetime | None] | None,
    boot_time: datetime | None,
    row: Mapping[str, Any],
    impact: Impact,
) -> None:
    mark = HostMark(plan="demo", since=BOOT, waiting=waiting) if waiting is not None else None
    seen = told({"ATS_ENABLED": row}, mark=mark, boot_time=boot_time)
    assert FIRMWARE.impact(seen, wish_of(FIRMWARE, asks(ATS_ENABLED="True"), seen, ATS)) is impact


def test_what_is_not_read_is_supposed_to_take_a_reboot() -> None:
    desired = wish_of(FIRMWARE, asks(ATS_ENABLED="True"), view(), ATS)
    assert FIRMWARE.impact(view(), desired) is Impact.HOST_REBOOT
    assert FIRMWARE.by_hand(view(), desired) == ""


@pytest.mark.parametrize(
    ("vmnics", "code"), [({}, Code.FIRMWARE_IN_GUEST), ({NIC: "vmnic2"}, Code.FIRMWARE_UNPROVEN)]
)
def test_the_firmware_of_a_nic_that_is_passed_through_is_its_guests(
    vmnics: dict[str, str], code: Code
) -> None:
    passed = nic(pci={"passthrough_enabled": True, "passthrough_active": True}).pci
    assert passed is not None
    seen = view(nics=(), devices=(passed,), facts={"vmnics": vmnics})
    desired = wish_of(FIRMWARE, asks(ATS_ENABLED="True"), seen, ATS)
    assert FIRMWARE.read(seen, ATS).is_absent
    objection = FIRMWARE.objects(seen, desired)
    assert objection is not None
    assert objection.code is code
    assert "guest" in objection.remedy


def test_a_nic_that_is_only_to_be_passed_through_is_still_the_hosts() -> None:
    seen = view(
        nics=(nic(pci={"passthrough_enabled": True}),),
        facts={"shell": {"firmware": {NIC: {"ATS_ENABLED": OFF}}}},
    )
    assert FIRMWARE.read(seen, ATS).configured == "False"
    assert FIRMWARE.objects(seen, wish_of(FIRMWARE, asks(ATS_ENABLED="True"), seen, ATS)) is None


def test_a_parameter_that_the_query_lacks_means_old_firmware() -> None:
    seen = told({"SRIOV_EN": ON})
    objection = FIRMWARE.objects(seen, wish_of(FIRMWARE, asks(ATS_ENABLED="True"), seen, ATS))
    assert FIRMWARE.read(seen, ATS).is_absent
    assert objection is not None
    assert objection.code is Code.NOT_SUPPORTED
    assert "update the NIC's firmware" in objection.remedy


@pytest.mark.parametrize(
    ("wanted", "found", "is_same"),
    [
        ("True", "True", True),
        ("true", "True", True),
        ("1", "True", True),
        ("0", "True", False),
        ("2", "ETH", True),
        ("1", "IB", True),
        ("1", "ETH", False),
        ("8", "8", True),
        ("1", "1", True),
        ("8", "16", False),
        ("DEVICE_DEFAULT", "DEVICE_DEFAULT", True),
    ],
)
def test_words_and_their_numbers_are_one(wanted: str, found: str, is_same: bool) -> None:
    assert is_same_word(wanted, found) is is_same


def test_a_word_is_spelled_as_mlxconfig_prints_it() -> None:
    assert [firmware_word(text) for text in ("TRUE", "false", "eth", "8", "PXE")] == [
        "True",
        "False",
        "ETH",
        "8",
        "PXE",
    ]


def test_the_runbook_names_the_value_before() -> None:
    seen = told({"ATS_ENABLED": OFF})
    how = FIRMWARE.how(seen, wish_of(FIRMWARE, asks(ATS_ENABLED="True"), seen, ATS))
    assert how.commands == (f"/opt/mellanox/bin/mlxconfig -d {NIC} -y set ATS_ENABLED=1",)
    assert how.undo == (f"/opt/mellanox/bin/mlxconfig -d {NIC} -y set ATS_ENABLED=0",)
