"""What both vCenters tell of hosts for their preparation, over the wire, and what stays unread and why."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import chain, combinations
from pathlib import Path

import pytest
from pyVmomi import vim

from tests.contract.vcenters import Desk, FixedClock, VCenter, lab_vcenter
from vgpu_cfg.errors import NotFound, NotOffered, NotRecorded, Unreachable, VCenterError
from vgpu_cfg.lab.state.host import OpaqueSwitch, Vmknic
from vgpu_cfg.lab.state.inventory import Cluster, Host, VirtualMachine, VmOverride
from vgpu_cfg.model.observed.host_facts import EstateFacts, FactGroup, HostAttribute, HostFacts, HostMark
from vgpu_cfg.model.observed.inventory import Connection, Inventory
from vgpu_cfg.parsers.esxcli_xml import parse_records
from vgpu_cfg.ports import ReadScope
from vgpu_cfg.recording import PlayingTransport, RecordingTransport
from vgpu_cfg.vsphere.host_facts.reader import ALL_FACTS, ALL_GROUPS
from vgpu_cfg.vsphere.reading.reader import EVERYTHING, RecordedReader, VCenterReader
from vgpu_cfg.vsphere.wire.esxcli import Esxcli
from vgpu_cfg.vsphere.wire.session import Session
from vgpu_cfg.vsphere.writing.attributes import set_host_attribute

ESTATES = Path(__file__).resolve().parents[2] / "recorded" / "estates"
NOT_OFFERED_BY_VCSIM = frozenset({FactGroup.MODULES, FactGroup.KERNEL, FactGroup.OWNERS})
OF_ONE_HOST = {"7.0": 10, "8.0": 10, "9.0": 11}
"""Round trips of all groups, by ESXi version."""


def read(desk: Desk, groups: frozenset[FactGroup] = ALL_GROUPS) -> tuple[Inventory, EstateFacts]:
    """Read everything of every host."""
    inventory = desk.inventory()
    return inventory, desk.reader.read_facts([host.moid for host in inventory.hosts], groups)


def test_every_host_tells_its_base(vcenter: VCenter) -> None:
    with vcenter.desk() as desk:
        inventory, found = read(desk, frozenset())
    networks = {network.moid: network.name for network in inventory.networks}
    assert found.hosts.keys() == {host.moid for host in inventory.hosts}
    for host in inventory.hosts:
        facts = found.hosts[host.moid]
        assert facts.groups == {FactGroup.BASE}
        assert facts.unread == {}
        assert facts.boot_time is not None
        assert facts.boot_time.tzinfo is UTC
        assert facts.lockdown == "lockdownDisabled"
        assert facts.services["TSM-SSH"].policy == "off"
        assert facts.services["xorg"].policy == "on"
        assert facts.rulesets["pvrdma"] is False
        assert facts.mark is None
        management = next(nic for nic in facts.vmknics if nic.device == "vmk0")
        assert "management" in management.services
        assert "/" in management.address
        assert any(switch.name == "vSwitch0" for switch in facts.switches)
        assert {switch.switch_uuid for switch in facts.switches if switch.switch_uuid} <= {
            switch.uuid for switch in found.switches
        }
        uplinks = set(chain.from_iterable(switch.uplinks for switch in facts.switches))
        for nic in facts.vmknics:
            # A portgroup that only VMkernel NICs use may be no network of the inventory.
            assert not nic.network_moid or networks[nic.network_moid] == nic.network
        if vcenter.kind == "lab":
            assert uplinks <= {nic.device for nic in host.nics}


def test_clusters_and_switches_are_told(vcenter: VCenter) -> None:
    with vcenter.desk() as desk:
        inventory, found = read(desk, frozenset())
    assert found.clusters.keys() == {host.compute_moid for host in inventory.hosts}
    assert found.switches
    portgroups = {network.moid for network in inventory.networks if network.switch_uuid}
    for switch in found.switches:
        assert switch.portgroup_vlans.keys() <= portgroups
        assert switch.portgroup_vlans.keys() == {
            network.moid for network in inventory.networks if network.switch_uuid == switch.uuid
        }


def test_nothing_raises_and_what_is_not_offered_says_so(vcenter: VCenter) -> None:
    with vcenter.desk() as desk:
        _, found = read(desk)
    expected = NOT_OFFERED_BY_VCSIM if vcenter.kind == "vcsim" else frozenset()
    for facts in found.hosts.values():
        assert facts.unread.keys() == expected
        assert facts.groups == ALL_GROUPS - expected
        assert all("not available" in why for why in facts.unread.values())
        assert facts.licence == "Evaluation Mode"
        assert facts.software
        assert all(package.name and package.version for package in facts.software)


def test_a_host_that_is_not_there_is_no_error(vcenter: VCenter) -> None:
    with vcenter.desk() as desk:
        found = desk.reader.read_facts(["host-90001"], ALL_GROUPS)
    assert found.hosts["host-90001"] == HostFacts(
        unread=dict.fromkeys(ALL_GROUPS, "the host is not in vCenter's inventory")
    )


@pytest.mark.parametrize("estate", ["two-a100", "bare", "mixed-fleet", str(ESTATES / "old-api.yaml")])
def test_the_round_trips_are_ten_for_each_host(estate: str) -> None:
    with lab_vcenter(estate).desk() as desk:
        inventory = desk.inventory()
        hosts = inventory.hosts
        before = desk.session.round_trips
        desk.reader.read_facts([], ALL_GROUPS)
        without = desk.session.round_trips - before
        before = desk.session.round_trips
        found = desk.reader.read_facts([host.moid for host in hosts], ALL_GROUPS)
        spent = desk.session.round_trips - before
    asked = [host for host in hosts if host.connection is Connection.CONNECTED]
    assert asked
    assert all(not found.hosts[host.moid].unread for host in asked)
    clusters = sum(not cluster.is_standalone for cluster in inventory.clusters)
    assert without <= 5
    assert spent <= without + clusters + 1 + sum(OF_ONE_HOST[host.version[:3]] for host in asked)


def test_a_new_host_has_its_modules_options_and_boot_settings() -> None:
    with lab_vcenter("bare").desk() as desk:
        inventory, found = read(desk)
    for host in inventory.hosts:
        facts = found.hosts[host.moid]
        on = "TRUE" if host.version.startswith("8.") else "FALSE"
        assert facts.kernel["atsSupport"].runtime == on
        assert ("VMkernel.Boot.atsSupport" in facts.options) is (on == "TRUE")
        assert facts.options["Net.PVRDMAVmknic"] == ""
        assert facts.modules == {"nmlx5_core": "", "nmlx5_rdma": ""}, "no driver, so no module of that name"
        assert facts.owners == ()
        assert [gpu.graphics_type and gpu.graphics_type.value for gpu in host.gpus] == ["basic"] * len(
            host.gpus
        )
        assert {gpu.memory_mib for gpu in host.gpus} == {0}


REFUSALS = {
    FactGroup.OPTIONS: "QueryOptions",
    FactGroup.MODULES: "QueryConfiguredModuleOptionString",
    FactGroup.KERNEL: "ExecuteSoap",
    FactGroup.SOFTWARE: "fetchSoftwarePackages",
    FactGroup.OWNERS: "FindAssociatedProfile",
    FactGroup.LICENCE: "QueryAssignedLicenses",
}


@pytest.mark.parametrize("group", [group for group in REFUSALS if group is not FactGroup.SOFTWARE])
def test_what_the_account_may_not_read_is_named_and_concerns_no_other_group(group: FactGroup) -> None:
    vcenter = lab_vcenter("two-a100")
    assert vcenter.lab is not None
    vcenter.lab.faults.add(REFUSALS[group], kind="call", fault="NoPermission", nth=0)
    with vcenter.desk() as desk:
        _, found = read(desk)
    (facts,) = found.hosts.values()
    assert set(facts.unread) == {group}
    assert "the account does not have" in facts.unread[group]


def test_software_that_the_api_refuses_is_read_through_esxcli() -> None:
    vcenter = lab_vcenter("two-a100")
    assert vcenter.lab is not None
    with vcenter.desk() as desk:
        _, before = read(desk)
        vcenter.lab.faults.add("fetchSoftwarePackages", kind="call", fault="NoPermission", nth=0)
        _, after = read(desk)
    assert before == after


@pytest.mark.parametrize("group", REFUSALS)
def test_a_host_that_does_not_answer_is_no_error(group: FactGroup) -> None:
    vcenter = lab_vcenter("two-a100")
    assert vcenter.lab is not None
    vcenter.lab.faults.add(REFUSALS[group], kind="call", fault="HostNotConnected", nth=0)
    with vcenter.desk() as desk:
        _, found = read(desk)
    (facts,) = found.hosts.values()
    assert "HostNotConnected" in facts.unread[group]
    assert FactGroup.BASE in facts.groups


@pytest.mark.parametrize("method", REFUSALS.values())
def test_a_connection_that_breaks_is_an_error(method: str) -> None:
    vcenter = lab_vcenter("two-a100")
    assert vcenter.lab is not None
    vcenter.lab.faults.add(method, kind="drop_before", nth=0)
    with vcenter.desk() as desk:
        inventory = desk.inventory()
        with pytest.raises(Unreachable):
            desk.reader.read_facts([host.moid for host in inventory.hosts], ALL_GROUPS)


@pytest.mark.parametrize("method", ["QueryOptions", "ExecuteSoap", "FindAssociatedProfile"])
def test_a_session_that_ends_meanwhile_breaks_nothing(method: str) -> None:
    vcenter = lab_vcenter("two-a100")
    assert vcenter.lab is not None
    with vcenter.desk() as desk:
        _, before = read(desk)
        vcenter.lab.faults.add(method, kind="session_expired")
        _, after = read(desk)
        assert desk.session.renewals == 1
    assert after == before


def test_who_else_owns_a_hosts_settings_is_told(tmp_path: Path) -> None:
    estate = tmp_path / "owned.yaml"
    estate.write_text(OWNED, encoding="utf-8")
    with lab_vcenter(str(estate)).desk() as desk:
        inventory, found = read(desk)
    by_name = {host.name: found.hosts[host.moid] for host in inventory.hosts}
    assert by_name["esx-01.lab"].owners == ("host profile Gold",)
    assert by_name["esx-02.lab"].owners == ()
    (cluster,) = found.clusters.values()
    assert (cluster.image_managed, cluster.config_managed) == (True, False)


OWNED = """
about: Two servers, one under a host profile.
clusters:
- name: gpu
  image_managed: true
  hosts:
  - {name: esx-01.lab, memory: 128GiB, host_profile: Gold}
  - {name: esx-02.lab, memory: 128GiB}
"""


@pytest.mark.parametrize("is_opaque", [True, False])
def test_a_nic_of_somebody_elses_switch_is_not_free(*, is_opaque: bool) -> None:
    vcenter = lab_vcenter("bare")
    assert vcenter.lab is not None
    host = next(one for one in vcenter.lab.state.all(Host) if len(one.nics) > 2)
    nic = host.nics[1]
    if is_opaque:
        tunnel = Vmknic("vmk10", "00:50:56:60:00:10", ip="172.16.0.7", netmask="255.255.255.0", mtu=1700)
        host.opaque_switches = [OpaqueSwitch("nsx-overlay", [tunnel])]
        nic.uplink_of = "nsx-overlay"
    with vcenter.desk() as desk:
        facts = desk.reader.read_facts([host.moid], frozenset()).hosts[host.moid]
    assert facts.uplink_of(nic.device) == ("nsx-overlay" if is_opaque else None)
    tunnels = [(found.address, found.mtu) for found in facts.vmknics if found.device == "vmk10"]
    assert tunnels == ([("172.16.0.7/24", 1700)] if is_opaque else [])


def test_what_drs_does_with_single_vms_is_told_over_the_wire() -> None:
    vcenter = lab_vcenter("two-a100")
    assert vcenter.lab is not None
    (cluster,) = vcenter.lab.state.all(Cluster)
    (host,) = vcenter.lab.state.all(Host)
    vm, *others = vcenter.lab.state.all(VirtualMachine)
    with vcenter.desk() as desk:
        assert desk.reader.read_facts([host.moid], frozenset()).clusters[cluster.moid].drs_overrides == {}
        cluster.overrides = {
            vm.moid: VmOverride(drs_enabled=False),
            **{other.moid: VmOverride(drs_behavior="manual") for other in others},
        }
        found = desk.reader.read_facts([host.moid], frozenset()).clusters[cluster.moid]
    assert found.drs_overrides == {vm.moid: "disabled", **{other.moid: "manual" for other in others}}


def test_hosts_that_vcenter_has_lost_are_told_as_far_as_it_knows() -> None:
    with lab_vcenter(str(ESTATES / "hosts-lost.yaml")).desk() as desk:
        inventory, found = read(desk)
        again = desk.reader.read_hosts([host.moid for host in inventory.hosts])
    assert again == inventory.hosts
    for host in inventory.hosts:
        facts = found.hosts[host.moid]
        if host.connection is Connection.CONNECTED:
            assert facts.unread == {}
        else:
            assert facts.unread.keys() == ALL_GROUPS
            assert facts.options == {}


def test_a_mark_is_read_back_as_it_was_kept(vcenter: VCenter) -> None:
    noon = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
    mark = HostMark(plan="train", since=noon, maintenance=True, waiting={"ats": noon})
    with vcenter.desk() as desk:
        inventory = desk.inventory()
        marked, *others = [host.moid for host in inventory.hosts]
        try:
            set_host_attribute(desk.session, marked, HostAttribute.MARK, mark.text)
            set_host_attribute(desk.session, marked, HostAttribute.DONE, '{"step": "abc"}')
            found = desk.reader.read_facts([marked, *others], frozenset()).hosts
        finally:
            set_host_attribute(desk.session, marked, HostAttribute.MARK, None)
            set_host_attribute(desk.session, marked, HostAttribute.DONE, None)
        cleared = desk.reader.read_facts([marked], frozenset()).hosts[marked]
    assert found[marked].mark == mark
    assert found[marked].done == {"step": "abc"}
    assert [found[moid].mark for moid in others] == [None] * len(others)
    assert (cleared.mark, cleared.done) == (None, {})


def test_hosts_read_again_are_the_same_in_one_round_trip(vcenter: VCenter) -> None:
    with vcenter.desk() as desk:
        inventory = desk.inventory()
        before = desk.session.round_trips
        found = desk.reader.read_hosts(["host-90001", *(host.moid for host in inventory.hosts), "host-90001"])
        assert desk.session.round_trips - before <= 2
        assert desk.reader.read_hosts([]) == ()
    assert found == inventory.hosts


@pytest.mark.parametrize("estate", ["mig-a100", "hgx-h100", "mixed-fleet", str(ESTATES / "old-api.yaml")])
def test_hosts_with_all_kinds_of_gpus_are_the_same_when_read_again(estate: str) -> None:
    with lab_vcenter(estate).desk() as desk:
        inventory = desk.inventory(ReadScope(system_ids=True))
        assert desk.reader.read_hosts([host.moid for host in inventory.hosts]) == inventory.hosts


def test_a_host_read_again_shows_what_has_changed() -> None:
    with lab_vcenter("two-a100").desk() as desk:
        (host,) = desk.inventory().hosts
        subject = vim.HostSystem(host.moid, desk.session.stub)
        desk.done(str(subject.EnterMaintenanceMode_Task(timeout=0)._moId))
        (again,) = desk.reader.read_hosts([host.moid])
    assert again == host.model_copy(update={"is_in_maintenance_mode": True})


def test_esxcli_answers_through_vcenter(vcenter: VCenter) -> None:
    with vcenter.desk() as desk:
        moid = desk.inventory().hosts[0].moid
        packages = parse_records(
            "esxcli software vib list", Esxcli(desk.session, moid).call("software.vib.list")
        )
        with pytest.raises(NotOffered, match="esxcli graphics nosuch get"):
            Esxcli(desk.session, moid).call("graphics.nosuch.get")
        with pytest.raises(NotFound, match="host-90001"):
            Esxcli(desk.session, "host-90001").call("software.vib.list")
    assert all(package["Name"] and package["Version"] for package in packages)


def test_a_command_that_fails_says_what_it_said() -> None:
    with lab_vcenter("two-a100").desk() as desk:
        moid = desk.inventory().hosts[0].moid
        with pytest.raises(VCenterError, match=r"^esxcli system settings kernel list: .*nosuch"):
            Esxcli(desk.session, moid).call("system.settings.kernel.list", [("option", "nosuch")])


def recorded(vcenter: VCenter) -> tuple[Inventory, EstateFacts, PlayingTransport]:
    """Record all that a recording holds; return what was read, and a player."""
    transport = RecordingTransport(vcenter.connect(), vcenter.kind)
    clock = FixedClock()
    with Session(transport, vcenter.kind, vcenter.user, vcenter.password) as session:
        inventory, facts = VCenterReader(session, clock).read_everything()
        return inventory, facts, PlayingTransport(transport.recording(clock.now()))


def subsets(groups: frozenset[FactGroup]) -> list[frozenset[FactGroup]]:
    """List no group, each alone, and all but each."""
    ordered = sorted(groups)
    return [frozenset(), groups, *(frozenset(some) for some in combinations(ordered, 1))]


@pytest.mark.parametrize("estate", ["two-a100", "bare", str(ESTATES / "hosts-lost.yaml")])
def test_a_recording_tells_what_the_vcenter_told(estate: str) -> None:
    vcenter = lab_vcenter(estate)
    inventory, facts, player = recorded(vcenter)
    moids = [host.moid for host in inventory.hosts]
    assert facts.hosts.keys() == set(moids)
    with vcenter.desk() as desk, Session(player, vcenter.kind, vcenter.user, "") as session:
        offline = RecordedReader(session, player)
        assert offline.read_facts(moids, ALL_FACTS) == facts
        spent = session.round_trips
        for groups in subsets(ALL_FACTS):
            assert offline.read_facts(moids, groups) == desk.reader.read_facts(moids, groups)
        assert offline.read_hosts(["host-90001", *moids]) == inventory.hosts
        assert session.round_trips == spent


def test_a_recording_says_of_which_hosts_it_holds_nothing(vcenter: VCenter) -> None:
    inventory, facts, player = recorded(vcenter)
    moids = [host.moid for host in inventory.hosts]
    with Session(player, vcenter.kind, vcenter.user, "") as session:
        found = RecordedReader(session, player).read_facts([*moids, "host-90001"], ALL_GROUPS)
    left_out = set(moids) - facts.hosts.keys() | {"host-90001"}
    for moid in left_out:
        assert set(found.hosts[moid].unread.values()) == {"the recording contains no data about this host"}
    assert {moid: found.hosts[moid] for moid in facts.hosts} == facts.hosts
    assert found.switches == facts.switches


def test_a_recording_without_facts_asks_for_a_new_one(vcenter: VCenter) -> None:
    transport = RecordingTransport(vcenter.connect(), vcenter.kind)
    clock = FixedClock()
    with Session(transport, vcenter.kind, vcenter.user, vcenter.password) as session:
        inventory = VCenterReader(session, clock).read_inventory(EVERYTHING)
        player = PlayingTransport(transport.recording(clock.now()))
    with Session(player, vcenter.kind, vcenter.user, "") as session:
        offline = RecordedReader(session, player)
        assert offline.read_inventory(ReadScope()) == inventory
        with pytest.raises(NotRecorded):
            offline.read_facts([host.moid for host in inventory.hosts], ALL_GROUPS)
