"""PVRDMA: the VMkernel NIC by name or by network, and the ruleset of the firewall."""

from __future__ import annotations

from typing import Any

from tests.unit.planning.settings.situations import Case, Situation, wish_of
from tests.unit.planning.settings.views import hosts, view
from vgpu_cfg.changes.kinds.change_host import EsxcliWrite, OptionWrite, RulesetWrite
from vgpu_cfg.model.desired import DesiredHosts
from vgpu_cfg.model.observed.host_facts import FactGroup
from vgpu_cfg.planning.host_settings.entry import HostView
from vgpu_cfg.planning.host_settings.table import setting

PVRDMA, FIREWALL = setting("pvrdma"), setting("pvrdma_firewall")
OPTION = "Net.PVRDMAVmknic"
ROCE = "roce-111"


def chosen(vmknic: str | None, *, is_open: bool | None = True, **facts: Any) -> HostView:
    """Observe vmk0, vmk1 on roce-111, the option and the ruleset."""
    vmknics = [{"device": "vmk0", "network": "Management"}, {"device": "vmk1", "network": ROCE}]
    options = {OPTION: vmknic} if vmknic is not None else {}
    rulesets = {"pvrdma": is_open} if is_open is not None else {}
    return view(facts={"vmknics": vmknics, "options": options, "rulesets": rulesets, **facts})


def asks(**keys: Any) -> DesiredHosts:
    return hosts(pvrdma=keys)


def ruleset(enabled: str) -> EsxcliWrite:
    arguments = (("ruleset-id", "pvrdma"), ("enabled", enabled))
    return EsxcliWrite(command="network.firewall.ruleset.set", arguments=arguments)


CASES = (
    Case("pvrdma", Situation.RIGHT, chosen("vmk1"), asks(vmknic="vmk1"), "vmk1"),
    Case("pvrdma", Situation.RIGHT, chosen("vmk1"), asks(network=ROCE), ROCE, ROCE, found=ROCE),
    Case("pvrdma", Situation.RIGHT, chosen(""), hosts(pvrdma=False), ""),
    Case(
        "pvrdma",
        Situation.WRONG,
        chosen(""),
        asks(vmknic="vmk1"),
        "vmk1",
        writes=(OptionWrite(options={OPTION: "vmk1"}),),
    ),
    Case(
        "pvrdma",
        Situation.WRONG,
        chosen("vmk0"),
        asks(network=ROCE),
        ROCE,
        ROCE,
        found="Management",
        writes=(OptionWrite(options={OPTION: "vmk1"}),),
    ),
    Case(
        "pvrdma",
        Situation.WRONG,
        chosen(""),
        asks(network="roce-222"),
        "roce-222",
        "roce-222",
        writes=(OptionWrite(options={OPTION: "vmk2"}),),
    ),
    Case(
        "pvrdma",
        Situation.OFF,
        chosen("vmk1"),
        hosts(pvrdma=False),
        "",
        writes=(OptionWrite(options={OPTION: ""}),),
    ),
    Case("pvrdma", Situation.PENDING, chosen("vmk1"), asks(vmknic="vmk1"), "vmk1", has_one_value=True),
    Case(
        "pvrdma",
        Situation.NOT_OFFERED,
        chosen(""),
        asks(vmknic="vmk1"),
        "vmk1",
        other=EsxcliWrite(
            command="system.settings.advanced.set",
            arguments=(("option", "/Net/PVRDMAVmknic"), ("string-value", "vmk1")),
        ),
    ),
    Case(
        "pvrdma",
        Situation.UNREAD,
        view(facts={"unread": {FactGroup.OPTIONS: "no privilege"}}),
        asks(vmknic="vmk1"),
        "vmk1",
        unread="no privilege",
    ),
    Case(
        "pvrdma",
        Situation.UNREAD,
        chosen("vmk1", unread={FactGroup.BASE: "silent"}, groups={FactGroup.OPTIONS}),
        asks(network=ROCE),
        ROCE,
        ROCE,
        unread="silent",
    ),
    Case("pvrdma_firewall", Situation.RIGHT, chosen(""), asks(vmknic="vmk1"), "open"),
    Case("pvrdma_firewall", Situation.RIGHT, chosen("", is_open=False), hosts(pvrdma=False), "closed"),
    Case(
        "pvrdma_firewall",
        Situation.WRONG,
        chosen("", is_open=False),
        asks(vmknic="vmk1"),
        "open",
        writes=(RulesetWrite(ruleset="pvrdma", is_enabled=True),),
    ),
    Case(
        "pvrdma_firewall",
        Situation.OFF,
        chosen("vmk1"),
        hosts(pvrdma=False),
        "closed",
        writes=(RulesetWrite(ruleset="pvrdma", is_enabled=False),),
    ),
    Case("pvrdma_firewall", Situation.PENDING, chosen(""), asks(vmknic="vmk1"), "open", has_one_value=True),
    Case(
        "pvrdma_firewall",
        Situation.NOT_OFFERED,
        chosen("", is_open=False),
        asks(vmknic="vmk1"),
        "open",
        other=ruleset("true"),
    ),
    Case(
        "pvrdma_firewall",
        Situation.NOT_OFFERED,
        chosen(""),
        hosts(pvrdma=False),
        "closed",
        other=ruleset("false"),
    ),
    Case(
        "pvrdma_firewall",
        Situation.UNREAD,
        view(facts={"unread": {FactGroup.BASE: "silent"}}),
        asks(vmknic="vmk1"),
        "open",
        unread="silent",
    ),
)


def test_what_the_host_does_not_have_is_absent() -> None:
    seen = chosen(None, is_open=None)
    assert PVRDMA.read(seen, "").is_absent
    assert FIREWALL.read(seen, "").is_absent


def test_without_a_word_about_pvrdma_there_is_no_wish() -> None:
    for entry in (PVRDMA, FIREWALL):
        assert list(entry.desired_settings(hosts(), chosen("vmk1"))) == []


def test_a_choice_that_is_on_no_known_network_is_shown_by_its_name() -> None:
    assert PVRDMA.read(chosen("vmk9"), ROCE).configured == "vmk9"


def test_the_runbook_can_put_the_choice_back() -> None:
    how = PVRDMA.how(chosen("vmk0"), wish_of(PVRDMA, asks(network=ROCE), chosen("vmk0"), ROCE))
    assert how.commands[0] == "govc host.option.set -host {host} Net.PVRDMAVmknic 'vmk1'"
    assert how.undo == ("govc host.option.set -host {host} Net.PVRDMAVmknic 'vmk0'",)
    closed = FIREWALL.how(chosen(""), wish_of(FIREWALL, hosts(pvrdma=False), chosen("")))
    assert closed.undo == ("esxcli network firewall ruleset set --ruleset-id=pvrdma --enabled=true",)
