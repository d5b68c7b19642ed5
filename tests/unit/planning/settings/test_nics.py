"""Passthrough, labels and virtual functions of NICs: what is asked, what is written, what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.planning.settings.situations import Case, Situation, wish_of
from tests.unit.planning.settings.views import GPU, NIC, NIC_2, hosts, nic, view
from vgpu_cfg.changes.kinds.change_host import PassthroughDevice, PassthroughWrite, ShellWrite
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.model.desired import DesiredHosts
from vgpu_cfg.model.observed.host_facts import FactGroup
from vgpu_cfg.model.observed.inventory import PciDevice
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.host_settings.entry import DesiredSetting, HostView
from vgpu_cfg.planning.host_settings.nics.handed_out import BY_FIRMWARE, nic_names, write_passthrough
from vgpu_cfg.planning.host_settings.table import setting

PASSTHROUGH, LABEL, SRIOV = setting("nic_passthrough"), setting("nic_label"), setting("nic_sriov")

OUT = {"passthrough_enabled": True, "passthrough_active": True}
CUT = {"is_capable": True, "is_active": True, "functions": 8, "requested": 8, "most": 8}
WHOLE = {"is_capable": True, "most": 8}


def own(**pci: Any) -> HostView:
    """Observe a NIC that the host owns."""
    return view(nics=(nic(pci=pci),))


def handed_out(**pci: Any) -> HostView:
    """Observe a NIC that the host has handed out, and so lists no more."""
    return view(nics=(), devices=(function(**OUT, **pci),))


def function(**pci: Any) -> PciDevice:
    found = nic(pci=pci).pci
    assert found is not None
    return found


def rule(**keys: Any) -> DesiredHosts:
    return hosts(nics=keys)


def writes(**device: Any) -> tuple[PassthroughWrite, ...]:
    return (PassthroughWrite(devices=(PassthroughDevice(pci_id=NIC, **device),)),)


def toggled(value: str, *now: str) -> ShellWrite:
    words = ("esxcli", "hardware", "pci", "pcipassthru", "set", "-d", NIC, "-e", value, *now)
    return ShellWrite(commands=(words,))


def unlisted(**nic_keys: Any) -> HostView:
    """Observe a NIC whose PCI function the host does not list."""
    seen = view(nics=(nic(**nic_keys).model_copy(update={"pci": None}),))
    return HostView(host=seen.host.model_copy(update={"pci_devices": ()}), facts=seen.facts)


CASES = (
    Case("nic_passthrough", Situation.RIGHT, handed_out(), rule(use="passthrough"), "passthrough", NIC),
    Case("nic_passthrough", Situation.RIGHT, own(), rule(use="host"), "host", NIC),
    Case("nic_passthrough", Situation.RIGHT, own(sriov=WHOLE), rule(use="sriov", vfs=8), "host", NIC),
    Case(
        "nic_passthrough",
        Situation.WRONG,
        own(),
        rule(use="passthrough"),
        "passthrough",
        NIC,
        found="host",
        writes=writes(is_passthrough=True),
    ),
    Case(
        "nic_passthrough",
        Situation.OFF,
        handed_out(),
        rule(use="host"),
        "host",
        NIC,
        writes=writes(is_passthrough=False),
    ),
    Case(
        "nic_passthrough",
        Situation.PENDING,
        own(passthrough_enabled=True),
        rule(use="passthrough"),
        "passthrough",
        NIC,
    ),
    Case(
        "nic_passthrough",
        Situation.NOT_OFFERED,
        own(),
        rule(use="passthrough"),
        "passthrough",
        NIC,
        other=toggled("true"),
    ),
    Case(
        "nic_passthrough",
        Situation.UNREAD,
        unlisted(),
        rule(use="passthrough"),
        "passthrough",
        NIC,
        unread="does not list the PCI function",
    ),
    Case("nic_label", Situation.RIGHT, own(hardware_label="roce"), rule(label="roce"), "roce", NIC),
    Case("nic_label", Situation.RIGHT, own(), rule(label=""), "", NIC),
    Case(
        "nic_label",
        Situation.WRONG,
        own(hardware_label="old"),
        rule(label="roce"),
        "roce",
        NIC,
        found="old",
        writes=writes(label="roce"),
    ),
    Case(
        "nic_label",
        Situation.OFF,
        own(hardware_label="roce"),
        rule(label=""),
        "",
        NIC,
        writes=writes(label=""),
    ),
    Case(
        "nic_label",
        Situation.PENDING,
        own(hardware_label="roce"),
        rule(label="roce"),
        "roce",
        NIC,
        has_one_value=True,
    ),
    Case(
        "nic_label",
        Situation.NOT_OFFERED,
        own(),
        rule(label="roce"),
        "roce",
        NIC,
        by_hand="set the label of 0000:24:00.0 to 'roce'",
    ),
    Case(
        "nic_label",
        Situation.UNREAD,
        unlisted(),
        rule(label="roce"),
        "roce",
        NIC,
        unread="does not list the PCI function",
    ),
    Case("nic_sriov", Situation.RIGHT, own(sriov=CUT), rule(use="sriov", vfs=8), "8", NIC),
    Case("nic_sriov", Situation.RIGHT, own(sriov=WHOLE), rule(use="host"), "0", NIC),
    Case(
        "nic_sriov",
        Situation.WRONG,
        own(sriov=WHOLE),
        rule(use="sriov", vfs=4),
        "4",
        NIC,
        found="0",
        writes=writes(virtual_functions=4),
    ),
    Case(
        "nic_sriov",
        Situation.OFF,
        own(sriov=CUT),
        rule(use="host"),
        "0",
        NIC,
        writes=writes(virtual_functions=0),
    ),
    Case(
        "nic_sriov",
        Situation.PENDING,
        own(sriov={**WHOLE, "requested": 8}),
        rule(use="sriov", vfs=8),
        "8",
        NIC,
    ),
    Case(
        "nic_sriov",
        Situation.NOT_OFFERED,
        own(sriov=WHOLE),
        rule(use="sriov", vfs=8),
        "8",
        NIC,
        by_hand="8 virtual functions",
    ),
    Case(
        "nic_sriov",
        Situation.UNREAD,
        unlisted(),
        rule(use="sriov", vfs=8),
        "8",
        NIC,
        unread="does not list the PCI function",
    ),
)


# ------------------------------------------------------------ passthrough


def test_rebinding_at_once_takes_no_reboot_and_esxcli_is_told_so() -> None:
    seen = view(facts={"rebind_without_reboot": True})
    desired = wish_of(PASSTHROUGH, rule(use="passthrough"), seen, NIC)
    assert PASSTHROUGH.impact(seen, desired) is Impact.HOST_MAINTENANCE
    assert PASSTHROUGH.other_way(seen, [desired]) == toggled("true", "-a")
    assert PASSTHROUGH.impact(view(), desired) is Impact.HOST_REBOOT


def test_firmware_must_be_in_force_before_the_host_loses_sight_of_it() -> None:
    assert "nic_firmware" in PASSTHROUGH.needs_in_force
    assert {"nic_firmware", "bios_sriov"} <= set(SRIOV.needs_in_force)


def with_uplink(**more: Any) -> HostView:
    switches = [{"name": "vSwitch0", "uplinks": ["vmnic2"]}]
    vmknics = [{"device": "vmk0", "services": ["management"]}]
    return view(facts={"switches": switches, "vmknics": vmknics}, **more)


def test_a_nic_in_use_is_no_wish_until_it_is_named() -> None:
    seen = with_uplink()
    assert list(PASSTHROUGH.desired_settings(rule(use="passthrough"), seen)) == []
    named = rule(match={"vmnic": "vmnic2"}, use="passthrough")
    desired = wish_of(PASSTHROUGH, named, seen, NIC)
    assert desired.cuts_off == "vmnic2 is the only uplink of vSwitch0, with vmk0 (management)"
    assert PASSTHROUGH.objects(seen, desired) is None


def test_a_nic_in_use_that_nobody_named_is_refused() -> None:
    objection = PASSTHROUGH.objects(with_uplink(), DesiredSetting("nic_passthrough", "passthrough", NIC))
    assert objection is not None
    assert objection.code is Code.NIC_IN_USE
    assert "match: {vmnic: vmnic2}" in objection.remedy
    assert PASSTHROUGH.objects(with_uplink(), DesiredSetting("nic_passthrough", "host", NIC)) is None


def test_without_knowing_what_the_host_uses_no_nic_is_taken() -> None:
    seen = view(facts={"unread": {FactGroup.BASE: "vCenter tells only what it knew last"}})
    objection = PASSTHROUGH.objects(seen, wish_of(PASSTHROUGH, rule(use="passthrough"), seen, NIC))
    assert objection is not None
    assert objection.code is Code.SETTING_UNREAD


def test_a_function_that_cannot_be_passed_through_is_refused_unless_the_bios_comes_first() -> None:
    seen = own(passthrough_capable=False)
    objection = PASSTHROUGH.objects(seen, wish_of(PASSTHROUGH, rule(use="passthrough"), seen, NIC))
    assert objection is not None
    assert objection.code is Code.NOT_SUPPORTED
    first = hosts(nics={"use": "passthrough"}, bios={"iommu": True})
    assert PASSTHROUGH.objects(seen, wish_of(PASSTHROUGH, first, seen, NIC)) is None
    assert "bios_iommu" in PASSTHROUGH.needs_in_force


def test_a_nic_that_is_handed_out_is_none_of_the_hosts() -> None:
    seen = own()
    shown = PASSTHROUGH.show(seen.host, DesiredSetting("nic_passthrough", "passthrough", NIC))
    assert shown.nics == ()
    passed = shown.device(NIC)
    assert passed is not None
    assert passed.passthrough_active
    back = PASSTHROUGH.show(handed_out().host, DesiredSetting("nic_passthrough", "host", NIC)).device(NIC)
    assert back is not None
    assert not back.passthrough_active


def test_once_it_is_handed_out_its_firmware_cannot_be_read() -> None:
    firmware = setting("nic_firmware")
    seen = view(
        facts={"shell": {"firmware": {NIC: {"ATS_ENABLED": {"current": "True", "next_boot": "True"}}}}}
    )
    device = f"{NIC} ATS_ENABLED"
    assert firmware.read(seen, device).configured == "True"
    shown = replace(
        seen, host=PASSTHROUGH.show(seen.host, DesiredSetting("nic_passthrough", "passthrough", NIC))
    )
    assert firmware.read(shown, device).is_absent


def test_what_the_plan_does_not_say_is_no_wish() -> None:
    for entry in (PASSTHROUGH, LABEL, SRIOV):
        assert list(entry.desired_settings(rule(firmware={"ATS_ENABLED": "True"}), own(sriov=CUT))) == []


# ------------------------------------------------------------------ label


def test_labels_came_with_7_0_u2() -> None:
    seen = view(version="7.0.1")
    objection = LABEL.objects(seen, wish_of(LABEL, rule(label="roce"), seen, NIC))
    assert objection is not None
    assert objection.code is Code.NOT_SUPPORTED
    assert LABEL.objects(seen, wish_of(LABEL, rule(label=""), seen, NIC)) is None


def test_a_label_disturbs_nothing_and_is_shown() -> None:
    desired = wish_of(LABEL, rule(label="roce"), own(), NIC)
    assert LABEL.impact(own(), desired) is Impact.NONE
    shown = LABEL.show(own().host, desired).device(NIC)
    assert shown is not None
    assert shown.hardware_label == "roce"


# ------------------------------------------------------ virtual functions


@pytest.mark.parametrize(
    ("sriov", "firmware", "is_refused"),
    [
        (WHOLE, {}, False),
        ({**WHOLE, "most": 4}, {}, True),
        ({"is_capable": False}, {}, True),
        ({"is_capable": False}, {"SRIOV_EN": "True", "NUM_OF_VFS": "8"}, False),
        ({**WHOLE, "most": 4}, {"NUM_OF_VFS": "8"}, False),
        ({**WHOLE, "most": 4}, {"NUM_OF_VFS": "6"}, True),
    ],
)
def test_more_functions_than_there_are_need_the_firmware(
    sriov: dict[str, Any], firmware: dict[str, str], is_refused: bool
) -> None:
    seen = own(sriov=sriov)
    desired = wish_of(SRIOV, rule(use="sriov", vfs=8, firmware=firmware), seen, NIC)
    objection = SRIOV.objects(seen, desired)
    assert (objection is not None) is is_refused
    assert objection is None or objection.code is Code.NOT_SUPPORTED


def test_a_nic_without_the_capability_is_absent_and_keeps_whole_without_a_word() -> None:
    seen = own()
    assert SRIOV.read(seen, NIC).is_absent
    assert list(SRIOV.desired_settings(rule(use="host"), seen)) == []
    objection = SRIOV.objects(seen, wish_of(SRIOV, rule(use="sriov", vfs=8), seen, NIC))
    assert objection is not None
    assert "NUM_OF_VFS: 8" in objection.remedy


def test_virtual_functions_are_shown() -> None:
    seen = own(sriov=WHOLE)
    shown = SRIOV.show(seen.host, DesiredSetting("nic_sriov", "4", NIC)).device(NIC)
    assert shown is not None
    assert shown.sriov is not None
    assert (shown.sriov.is_active, shown.sriov.functions) == (True, 4)
    assert SRIOV.show(own().host, DesiredSetting("nic_sriov", "4", NIC)) == own().host


# ------------------------------------------------------------------ write


def test_one_call_sets_everything_of_gpus_and_nics() -> None:
    desired_settings = [
        DesiredSetting("gpu_passthrough", "passthrough", GPU),
        DesiredSetting("gpu_label", "a100", GPU),
        DesiredSetting("nic_passthrough", "host", NIC),
        DesiredSetting("nic_sriov", "8", NIC),
        DesiredSetting("nic_label", "", NIC_2),
    ]
    (write,) = write_passthrough(view(), desired_settings)
    assert write.devices == (
        PassthroughDevice(pci_id=GPU, is_passthrough=True, label="a100"),
        PassthroughDevice(pci_id=NIC, is_passthrough=False, virtual_functions=8),
        PassthroughDevice(pci_id=NIC_2, label=""),
    )
    assert PASSTHROUGH.other_way(view(), desired_settings) is None


def test_the_note_of_firmware_is_shown_with_the_wish() -> None:
    entry = rule(use="sriov", vfs=8, firmware={"NUM_OF_VFS": "16"})
    assert wish_of(SRIOV, entry, own(sriov=WHOLE), NIC).note == BY_FIRMWARE


def test_the_catalogue_names_nics_also_those_that_are_handed_out() -> None:
    assert nic_names(own().host)[NIC][0] == "ConnectX-6 Dx"
    assert nic_names(handed_out().host)[NIC][0] == "ConnectX-6 Dx"
    assert nic_names(view(nics=()).host) == {}


def test_the_runbook_says_how_to_go_back() -> None:
    seen = view(facts={"rebind_without_reboot": True})
    how = PASSTHROUGH.how(seen, wish_of(PASSTHROUGH, rule(use="passthrough"), seen, NIC))
    assert how.commands == (f"esxcli hardware pci pcipassthru set -d {NIC} -e true -a",)
    assert how.undo == (f"esxcli hardware pci pcipassthru set -d {NIC} -e false -a",)
    assert LABEL.how(seen, wish_of(LABEL, rule(label=""), seen, NIC)).client.endswith("(empty)")
    assert "vmnic2" in SRIOV.how(seen, wish_of(SRIOV, rule(use="sriov", vfs=2), seen, NIC)).client
