"""Plan files with networks, applied on the lab by the library and planned again: nothing is left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.contract.vcenters import Desk, VCenter, lab_vcenter
from tests.fakes.fake_locks import undisputed
from tests.unit.planning.privileges.needed import needed_privileges
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.report import Report
from vgpu_cfg.cli.compose import Estate
from vgpu_cfg.cli.flows.preparing.host_facts import host_tools, with_facts
from vgpu_cfg.cli.labs import LabRunClock
from vgpu_cfg.execution import Run, exit_code_of
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.plan_loading import load_plan
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.planner import make_plan
from vgpu_cfg.settings.secrets import SecretStore
from vgpu_cfg.vsphere.writing.alarms import VCenterLocks
from vgpu_cfg.vsphere.writing.host_writer import VCenterHostWriter
from vgpu_cfg.vsphere.writing.run_log import VCenterRunLog

HEAD = "version: 1\nname: rack-12\nvcenter: lab:bare\nallow: [network]\n"
NETWORK = "networks: [{name: roce-111, switch: {name: dvs-roce, make: true}, vlan: 111, mtu: 9000}]\n"
HOSTS = """\
hosts:
- names: [esx-r12-01.lab, esx-r12-02.lab]
  nics: [{match: {vmnic: vmnic2}, use: host, switch: dvs-roce}]
"""
VMKNICS = """\
  vmknics:
  - network: roce-111
    addresses: {esx-r12-01.lab: 10.111.0.21/24, esx-r12-02.lab: 10.111.0.22/24}
    mtu: 9000
"""
ROCE = HEAD + NETWORK + HOSTS + VMKNICS


@dataclass(frozen=True, slots=True)
class Site:
    """A login to a lab, with what a run needs."""

    vcenter: VCenter
    desk: Desk
    estate: Estate
    folder: Path

    def desired(self, text: str) -> DesiredPlan:
        path = self.folder / "plan.yaml"
        path.write_text(text, encoding="utf-8")
        return load_plan(path).desired

    def read(self, desired: DesiredPlan) -> Inventory:
        return with_facts(desired, self.desk.inventory(), self.desk.reader, PlanOptions())

    def plan(self, text: str) -> Plan:
        desired = self.desired(text)
        return make_plan(desired, self.read(desired), load_catalog(), PlanOptions())

    def apply(self, text: str) -> tuple[Plan, Report]:
        desired = self.desired(text)
        observed = self.read(desired)
        plan = make_plan(desired, observed, load_catalog(), PlanOptions())
        assert not plan.errors, plan.errors
        missing = self.desk.reader.read_missing_privileges(needed_privileges(plan, observed))
        assert not any(missing.values()), missing
        locks, secrets = undisputed(), SecretStore({}, self.folder)
        with host_tools(desired, observed, self.estate, PlanOptions(), locks, secrets) as tools:
            report = Run(
                plan, self.desk.reader, self.desk.writer, self.estate.clock, locks=locks, hosts=tools
            ).carry_out()
        assert exit_code_of(report) == 0, report
        return plan, report


@contextmanager
def open_site(folder: Path) -> Iterator[Site]:
    vcenter = lab_vcenter("bare")
    assert vcenter.lab is not None
    with vcenter.desk() as desk:
        estate = Estate(
            desk.reader,
            desk.writer,
            VCenterHostWriter(desk.session),
            LabRunClock(vcenter.lab),
            lambda _secrets: _NoShells(),
            VCenterRunLog(desk.session),
            VCenterLocks(desk.session),
            is_lab=True,
        )
        yield Site(vcenter, desk, estate, folder)


class _NoShells:
    """Logs in nowhere: a network needs no shell."""

    def connect(self, host_name: str, access: Any) -> Any:
        raise AssertionError(f"{host_name} was logged in to: {access}")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with open_site(tmp_path) as opened:
        yield opened


def test_a_switch_its_members_a_portgroup_and_vmknics_are_made_and_stay(site: Site) -> None:
    plan, report = site.apply(ROCE)
    assert [change.kind for change in plan.changes] == ["change_network"] * 3 + ["change_host"] * 2
    assert not report.failed
    facts = site.read(site.desired(ROCE)).facts
    (switch,) = facts.switches
    assert (switch.name, switch.mtu) == ("dvs-roce", 9000)
    assert sorted(switch.members.values()) == [("vmnic2",), ("vmnic2",)]
    assert 111 in switch.portgroup_vlans.values()
    addresses = {
        nic.address: (nic.network, nic.mtu) for host in facts.hosts.values() for nic in host.vmknics[1:]
    }
    assert addresses == {"10.111.0.21/24": ("roce-111", 9000), "10.111.0.22/24": ("roce-111", 9000)}
    again = site.plan(ROCE)
    assert (list(again.changes), list(again.errors)) == ([], [])


def test_a_network_grows_vlan_mtu_member_and_address(site: Site) -> None:
    small = ROCE.replace("9000", "1500").replace(", esx-r12-02.lab]", "]")
    small = small.replace(", esx-r12-02.lab: 10.111.0.22/24", "")
    site.apply(small)
    assert not site.plan(small).changes
    grown = ROCE.replace("vlan: 111", "vlan: 222").replace("10.111.0.21", "10.111.0.31")
    plan, _ = site.apply(grown)
    assert {change.kind for change in plan.changes} == {"change_network", "change_host"}
    assert not site.plan(grown).changes
    (switch,) = site.read(site.desired(grown)).facts.switches
    assert (switch.mtu, len(switch.members)) == (9000, 2)
    assert 222 in switch.portgroup_vlans.values()


def test_a_second_uplink_joins_the_first(site: Site) -> None:
    site.apply(ROCE)
    both = ROCE.replace(
        "[{match: {vmnic: vmnic2}, use: host, switch: dvs-roce}]",
        "[{match: {vmnic: vmnic2}, use: host, switch: dvs-roce}, "
        "{match: {vmnic: vmnic3}, use: host, switch: dvs-roce}]",
    )
    site.apply(both)
    (switch,) = site.read(site.desired(both)).facts.switches
    assert {frozenset(nics) for nics in switch.members.values()} == {frozenset(("vmnic2", "vmnic3"))}
    assert not site.plan(both).changes


def test_a_vmknic_is_made_on_a_portgroup_that_is_there_already(site: Site) -> None:
    site.apply(HEAD + NETWORK + HOSTS)
    plan, _ = site.apply(ROCE)
    assert [change.kind for change in plan.changes] == ["change_host"] * 2
    assert not site.plan(ROCE).changes


def test_networks_alone_are_made_without_any_host(site: Site) -> None:
    plan, _ = site.apply(HEAD + NETWORK)
    assert [change.kind for change in plan.changes] == ["change_network"] * 2
    assert not site.plan(HEAD + NETWORK).changes


def test_a_nic_that_another_switch_uses_is_found_before_anything_is_done(site: Site) -> None:
    plan = site.plan(ROCE.replace("vmnic2", "vmnic0"))
    assert plan.errors
    assert not site.plan(ROCE).errors
