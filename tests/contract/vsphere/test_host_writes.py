"""Hosts, clusters and networks changed, as both vCenters do it: vcsim where it can, the lab where it must."""

from __future__ import annotations

from functools import partial

import pytest

from tests.contract.vcenters import fresh
from tests.contract.vsphere.host_writing import (
    MARK,
    Workshop,
    alarm_names,
    datacenter,
    make,
    option_change,
    vcenter_option,
    vlan_of,
)
from vgpu_cfg.changes.change import ChangeNetwork
from vgpu_cfg.changes.kinds.change_host import (
    EsxcliWrite,
    GraphicsWrite,
    HostWrite,
    LicenceWrite,
    ModuleWrite,
    OptionWrite,
    PassthroughDevice,
    PassthroughWrite,
    RulesetWrite,
    SwitchWrite,
    VmknicWrite,
)
from vgpu_cfg.changes.kinds.change_network import EditSwitch, MakeSwitch, SetPortgroup
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.errors import NotFound, NotOffered, VCenterError
from vgpu_cfg.model.observed.gpu_use import GraphicsType
from vgpu_cfg.model.observed.host_facts import HostAttribute
from vgpu_cfg.ports import TaskState


def test_a_mark_is_kept_on_the_host_and_cleared(workshop: Workshop) -> None:
    keep, moid = workshop.writer.set_host_attribute, workshop.host.moid
    assert workshop.trips(lambda: keep(moid, MARK, '{"plan":"demo"}')) <= 3
    assert workshop.mark() == '{"plan":"demo"}'
    assert workshop.trips(lambda: keep(moid, MARK, '{"plan":"other"}')) == 2
    assert workshop.mark() == '{"plan":"other"}'
    keep(moid, MARK, None)
    assert workshop.mark() == ""


def test_an_attribute_of_another_kind_does_not_disturb(workshop: Workshop) -> None:
    workshop.writer.set_host_attribute(workshop.host.moid, HostAttribute.DONE, "{}")
    workshop.writer.set_host_attribute(workshop.host.moid, MARK, "x")
    workshop.writer.set_host_attribute(workshop.host.moid, HostAttribute.DONE, "")
    assert workshop.mark() == "x"
    workshop.writer.set_host_attribute(workshop.host.moid, MARK, "")


def test_a_host_enters_and_leaves_maintenance_mode(workshop: Workshop) -> None:
    moid = workshop.host.moid
    workshop.succeeds(workshop.writer.enter_maintenance(moid, None, 600))
    assert workshop.in_maintenance()
    workshop.succeeds(workshop.writer.exit_maintenance(moid, 600))
    assert not workshop.in_maintenance()


def test_a_host_that_is_not_there_is_said_so(workshop: Workshop) -> None:
    write = RulesetWrite(ruleset="pvrdma", is_enabled=True)
    with pytest.raises(NotFound):
        workshop.writer.enter_maintenance("host-99999", None, 60)
    with pytest.raises(NotFound):
        workshop.writer.write_host("host-99999", write, {})


def test_an_alarm_says_why_on_vcsim(on_vcsim: Workshop) -> None:
    moid, name = on_vcsim.host.moid, f"vgpu-cfg demo: {on_vcsim.host.name}"
    on_vcsim.writer.raise_alarm(moid, "demo", "the first reason")
    assert f"{name} (the first reason)" in alarm_names(on_vcsim)
    # Where one of the name exists, vcsim's DuplicateName refers to an object of no type.
    with pytest.raises(VCenterError, match="cannot read the response to CreateAlarm"):
        on_vcsim.writer.raise_alarm(moid, "demo", "the second reason")
    # It does not list the alarms of one host either, so none is found to be removed.
    on_vcsim.writer.clear_alarm(moid, "demo")


def test_a_cluster_takes_the_change_of_an_option(workshop: Workshop) -> None:
    cluster = workshop.host.cluster_moid
    workshop.succeeds(workshop.writer.set_cluster_option(option_change(workshop, "-1")))
    found = workshop.desk.inventory().cluster_by_moid[str(cluster)]
    assert found.drs_enabled
    workshop.succeeds(workshop.writer.set_cluster_option(option_change(workshop, None)))


def test_a_setting_of_vcenter_is_set_in_its_type(on_vcsim: Workshop) -> None:
    manager = on_vcsim.desk.session.service_content.setting
    for value, kept in ((True, True), (False, False)):
        on_vcsim.writer.set_vcenter_option(vcenter_option("config.vgpu.hotmigrate.enabled", value=value))
        (option,) = manager.QueryOptions("config.vgpu.hotmigrate.enabled")
        assert option.value is kept
    with pytest.raises(NotOffered, match=r"ENOENT\.x"):
        on_vcsim.writer.set_vcenter_option(vcenter_option("ENOENT.x", value=True))


def test_a_switch_with_a_portgroup_is_made_and_changed(workshop: Workshop) -> None:
    name = fresh("roce")
    switch = make(workshop, MakeSwitch(datacenter_moid=datacenter(workshop), name=name, mtu=9000))
    assert switch is not None
    facts = workshop.desk.reader.read_facts([workshop.host.moid], frozenset())
    assert [found.mtu for found in facts.switches if found.name == name] == [9000]
    make(
        workshop,
        EditSwitch(switch_name=name, switch_moid=switch, members={workshop.host.moid: ("vmnic2",)}),
    )
    members = workshop.read("vim.DistributedVirtualSwitch", switch, "summary.hostMember")
    assert [member._moId for member in members["summary.hostMember"]] == [workshop.host.moid]
    make(workshop, SetPortgroup(switch_name=name, switch_moid=switch, name=f"{name}-100", vlan=100))
    portgroup = next(net for net in workshop.desk.inventory().networks if net.name == f"{name}-100")
    assert vlan_of(workshop, portgroup.moid) == 100
    make(
        workshop,
        SetPortgroup(switch_name=name, portgroup_moid=portgroup.moid, name=f"{name}-100", vlan=200),
    )
    assert vlan_of(workshop, portgroup.moid) == 200


def test_a_switch_by_a_name_that_is_taken_fails(workshop: Workshop) -> None:
    network = MakeSwitch(datacenter_moid=datacenter(workshop), name=fresh("taken"))
    make(workshop, network)
    change = ChangeNetwork(id="n", subject=Subject(kind="network", name="roce"), network=network)
    try:
        update = workshop.desk.done(workshop.writer.change_network(change))
    except VCenterError:
        return
    assert update.state is TaskState.ERROR


def test_a_ruleset_is_opened_and_closed(workshop: Workshop) -> None:
    def is_open(key: str) -> bool:
        firewall = workshop.read("vim.HostSystem", workshop.host.moid, "config.firewall")["config.firewall"]
        return next(bool(entry.enabled) for entry in firewall.ruleset if entry.key == key)

    key = "sshClient" if workshop.kind == "vcsim" else "pvrdma"

    def turn(*, is_enabled: bool) -> None:
        write = RulesetWrite(ruleset=key, is_enabled=is_enabled)
        workshop.writer.write_host(workshop.host.moid, write, {})

    for is_enabled in (True, False):
        assert workshop.trips(partial(turn, is_enabled=is_enabled)) == 2
        if workshop.kind == "lab":
            assert is_open(key) is is_enabled
    with pytest.raises(NotOffered, match="nosuch"):
        workshop.writer.write_host(workshop.host.moid, RulesetWrite(ruleset="nosuch", is_enabled=True), {})


@pytest.mark.parametrize(
    "write",
    [
        GraphicsWrite(default_type=GraphicsType.SHARED_DIRECT),
        ModuleWrite(module="nmlx5_core", options="pfctx=0x08"),
        OptionWrite(options={"ENOENT.x": True}),
        VmknicWrite(network_moid="network-7", network_name="VM Network"),
        SwitchWrite(switch="vSwitch0", mtu=9000),
        EsxcliWrite(command="system.settings.kernel.set", arguments=(("setting", "atsSupport"),)),
    ],
    ids=lambda write: write.kind,
)
def test_what_vcsim_lacks_is_not_offered(on_vcsim: Workshop, write: HostWrite) -> None:
    with pytest.raises(NotOffered) as caught:
        on_vcsim.writer.write_host(on_vcsim.host.moid, write, {})
    assert caught.value.subject
    assert caught.value.remedy


def test_vcsim_lists_no_function_to_hand_through(on_vcsim: Workshop) -> None:
    write = PassthroughWrite(devices=(PassthroughDevice(pci_id="0000:af:00.0", is_passthrough=True),))
    with pytest.raises(NotFound, match="0000:af"):
        on_vcsim.writer.write_host(on_vcsim.host.moid, write, {})


def test_power_and_services_are_not_offered_by_vcsim(on_vcsim: Workshop) -> None:
    moid = on_vcsim.host.moid
    for call in (
        lambda: on_vcsim.writer.reboot_host(moid),
        lambda: on_vcsim.writer.shut_down_host(moid),
        lambda: on_vcsim.writer.control_service(moid, "xorg", "restart"),
    ):
        with pytest.raises(NotOffered):
            call()


def test_a_licence_is_assigned_on_vcsim(on_vcsim: Workshop) -> None:
    """Vcsim knows one key, that of evaluation."""
    key = "00000-00000-00000-00000-00000"
    on_vcsim.writer.write_host(on_vcsim.host.moid, LicenceWrite(secret="esxi"), {"esxi": key})
    with pytest.raises(VCenterError) as caught:
        on_vcsim.writer.write_host(on_vcsim.host.moid, LicenceWrite(secret="esxi"), {"esxi": "11111"})
    assert "11111" not in str(caught.value)
