"""What a runbook says of the physical switch, and the lines that it proposes."""

from __future__ import annotations

import pytest

from vgpu_cfg.planning.networks.network_users import SwitchNeeds, SwitchPort
from vgpu_cfg.render.markdown.switches import nvue_lines, nxos_lines, port_words, switch_view


def needs(
    dscp: int = 26, priority: int = 3, vlan: int | None = 111, *, is_tagged: bool = False
) -> SwitchNeeds:
    port = SwitchPort("esx-01", "0000:24:00.0", "a", is_tagged=is_tagged)
    return SwitchNeeds("roce-111", vlan, 9000, dscp, priority, (port,))


def nvue(wanted: SwitchNeeds) -> list[str]:
    return [line.text for line in nvue_lines(wanted)]


def nxos(wanted: SwitchNeeds) -> list[str]:
    return [line.text.strip() for line in nxos_lines(wanted)]


def test_what_the_profile_protects_is_left_to_it() -> None:
    assert not [line for line in nvue(needs()) if "mapping" in line or " pfc " in line]


def test_another_priority_is_moved_as_the_document_shows() -> None:
    lines = nvue(needs(dscp=18, priority=2))
    assert "nv set qos pfc default-global switch-priority 2" in lines
    assert "nv set qos egress-queue-mapping default-global switch-priority 3 traffic-class 0" in lines
    assert "nv set qos mapping default-global dscp 18 switch-priority 2" in lines


def test_another_dscp_of_the_same_priority_is_only_mapped() -> None:
    lines = nvue(needs(dscp=24))
    assert "nv set qos mapping default-global dscp 24 switch-priority 3" in lines
    assert not [line for line in lines if " pfc " in line]


def test_nx_os_has_one_number_for_group_queue_and_pause() -> None:
    lines = nxos(needs(dscp=34, priority=4))
    for line in ("match dscp 34", "set qos-group 4", "class type network-qos c-8q-nq4", "pause pfc-cos 4"):
        assert line in lines
    assert "class type queuing c-out-8q-q4" in lines


@pytest.mark.parametrize(
    ("wanted", "there", "absent"),
    [
        (needs(), ["access 111", "switchport access vlan 111"], ["trunk"]),
        (needs(is_tagged=True), ["br_default vlan 111", "switchport trunk allowed vlan add 111"], ["access"]),
        (needs(vlan=0), [], ["vlan", "switchport"]),
        (needs(vlan=None), [], ["vlan", "switchport"]),
    ],
    ids=["untagged", "tagged", "none", "not said"],
)
def test_the_vlan_is_on_the_port_as_the_nic_sends_it(
    wanted: SwitchNeeds, there: list[str], absent: list[str]
) -> None:
    text = "\n".join([*nvue(wanted), *nxos(wanted)])
    assert all(words in text for words in there)
    assert not [words for words in absent if words in text]


@pytest.mark.parametrize("priority", [0, 6, 7])
def test_a_priority_that_others_use_gets_no_lines(priority: int) -> None:
    view = switch_view(needs(priority=priority))
    assert view.proposals == ()
    assert "1 to 5" in view.why_not


def test_every_line_stands_under_the_number_of_its_document() -> None:
    for proposal in switch_view(needs()).proposals:
        numbers = [line.split()[1] for line in proposal.lines if line[:2] in ("# ", "! ")]
        assert {int(number) for number in numbers} == set(range(1, len(proposal.documents) + 1))
        assert proposal.lines[0][0] in "#!"


def test_what_a_port_needs_names_the_plans_own_values() -> None:
    told = dict(port_words(needs(dscp=18, priority=2)))
    assert told["RDMA packets"] == "map DSCP 18 to priority 2"
    assert "9000" in told["MTU"]
