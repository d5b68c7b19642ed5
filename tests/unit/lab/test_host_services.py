"""Services, firewall, lockdown, packages, licences, profiles and attributes of hosts, over the wire."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyVmomi import vim, vmodl

from tests.unit.lab.host_rig import A100_HOST, OTHER_A100_HOST, HostRig, rig_of
from vgpu_cfg.lab.state.host_defaults import bundle_vibs
from vgpu_cfg.lab.state.inventory import Host, HostDriver

SSH = "TSM-SSH"
KEY = "AB0C1-DE2F3-GH4I5-JK6L7-MN8O9"


def service(rig: HostRig, key: str = SSH) -> Any:
    return next(each for each in rig.host().config.service.service if each.key == key)


def test_ssh_is_opened_and_closed() -> None:
    rig = HostRig()
    system = rig.host().configManager.serviceSystem
    assert (service(rig).running, service(rig).policy) == (False, "off")
    with pytest.raises(vim.fault.InvalidState):
        system.StopService(SSH)
    system.StartService(SSH)
    assert service(rig).running
    assert next(each for each in system.serviceInfo.service if each.key == SSH).running
    with pytest.raises(vim.fault.InvalidState):
        system.StartService(SSH)
    system.StopService(SSH)
    assert not service(rig).running


def test_a_reboot_closes_what_does_not_start_with_the_host() -> None:
    rig = HostRig()
    system = rig.host().configManager.serviceSystem
    system.StartService(SSH)
    rig.rest()
    rig.reboot()
    assert not service(rig).running
    system.UpdateServicePolicy(SSH, "on")
    rig.reboot()
    assert service(rig).running


def test_services_and_rulesets_that_there_are_not() -> None:
    rig = HostRig()
    manager = rig.host().configManager
    for call in (
        manager.serviceSystem.StartService,
        manager.serviceSystem.StopService,
        manager.serviceSystem.RestartService,
        manager.firewallSystem.EnableRuleset,
        manager.firewallSystem.DisableRuleset,
    ):
        with pytest.raises(vim.fault.NotFound):
            call("nothing")


def test_the_firewall_opens_for_pvrdma() -> None:
    rig = HostRig()
    firewall = rig.host().configManager.firewallSystem

    def ruleset() -> Any:
        return next(each for each in rig.host().config.firewall.ruleset if each.key == "pvrdma")

    assert not ruleset().enabled
    assert (ruleset().rule[0].port, ruleset().rule[0].endPort) == (28250, 28761)
    firewall.EnableRuleset("pvrdma")
    firewall.EnableRuleset("pvrdma")
    assert ruleset().enabled
    firewall.DisableRuleset("pvrdma")
    assert not ruleset().enabled
    assert len(firewall.firewallInfo.ruleset) == len(rig.host().config.firewall.ruleset)


def test_services_and_firewall_take_a_privilege() -> None:
    rig = HostRig()
    manager = rig.host().configManager
    rig.lab.faults.lacking.add("Host.Config.NetService")
    with pytest.raises(vim.fault.NoPermission):
        manager.serviceSystem.RestartService("xorg")
    with pytest.raises(vim.fault.NoPermission):
        manager.firewallSystem.EnableRuleset("pvrdma")


def test_the_lockdown_mode_shows() -> None:
    rig = HostRig()
    assert rig.host().config.lockdownMode == "lockdownDisabled"
    rig.host().configManager.hostAccessManager.ChangeLockdownMode("lockdownNormal")
    assert rig.host().config.lockdownMode == "lockdownNormal"


def packages(rig: HostRig) -> dict[str, Any]:
    return {each.name: each for each in rig.host().configManager.imageConfigManager.fetchSoftwarePackages()}


def test_packages_that_wait_for_a_reboot_are_not_installed_yet() -> None:
    rig = HostRig()
    name = "NVD-AIE_ESXi_8.0.0_Driver"
    assert name not in packages(rig)
    rig.rest()
    rig.state().staged = {vib.name: vib for bundle in rig.state().bundles.values() for vib in bundle}
    assert name not in packages(rig)
    assert rig.host().summary.rebootRequired
    assert rig.state().driver is None
    rig.reboot()
    assert packages(rig)[name].version.startswith("580.95.02-1OEM.800")
    assert packages(rig)[name].vendor == "NVD"
    assert "nvdgpumgmtdaemon" in packages(rig)
    assert not rig.host().summary.rebootRequired
    driver = rig.state().driver
    assert driver is not None
    assert (driver.kind, driver.version, driver.gpu_daemon) == ("nvd-aie", "580.95.02", True)


def test_one_driver_replaces_another() -> None:
    rig = HostRig("two-a100")
    (host,) = rig.lab.state.all(Host)
    old = set(host.software)
    host.staged = {vib.name: vib for vib in bundle_vibs(HostDriver("vgpu", "535.1"), 8)}
    rig.rest(host.name)
    rig.reboot(host.name)
    assert host.driver == HostDriver("vgpu", "535.1")
    assert "NVD-AIE_ESXi_8.0.0_Driver" in old - set(host.software)


def test_a_host_is_given_a_licence() -> None:
    rig = HostRig()
    licences = rig.content.licenseManager.licenseAssignmentManager
    moid = rig.state().moid

    def key(entity: str | None = moid) -> str:
        return str(licences.QueryAssignedLicenses(entity)[0].assignedLicense.licenseKey)

    assert key() == "00000-00000-00000-00000-00000"
    assert KEY in {each.licenseKey for each in rig.content.licenseManager.licenses}
    assert licences.UpdateAssignedLicense(moid, KEY).licenseKey == KEY
    assert key() == KEY
    assert key(rig.state(OTHER_A100_HOST).moid) != KEY
    assert len(licences.QueryAssignedLicenses(None)) == 4
    with pytest.raises(vim.fault.LicenseEntityNotFound):
        licences.UpdateAssignedLicense("host-999", KEY)
    with pytest.raises(Exception, match="licenseKey"):
        licences.UpdateAssignedLicense(moid, "no key")
    rig.lab.faults.lacking.add("Global.Licenses")
    with pytest.raises(vim.fault.NoPermission):
        licences.UpdateAssignedLicense(moid, KEY)


OWNED = """
about: One host whose settings belong to others.
clusters:
- name: gpu
  image_managed: true
  config_managed: true
  hosts:
  - {name: one.lab, host_profile: Gold, lockdown: lockdownStrict}
  - {name: two.lab}
"""


def test_owners_of_a_host_are_found(tmp_path: Path) -> None:
    rig = rig_of(OWNED, tmp_path)
    manager = rig.content.hostProfileManager
    (profile,) = manager.FindAssociatedProfile(rig.host("one.lab"))
    assert profile.name == "Gold"
    assert [host.name for host in profile.entity] == ["one.lab"]
    assert list(manager.profile) == [profile]
    assert not manager.FindAssociatedProfile(rig.host("two.lab"))
    cluster = rig.host("one.lab").parent
    assert (cluster.lifecycleManaged, cluster.configManagerEnabled) == (True, True)
    assert rig.host("one.lab").config.lockdownMode == "lockdownStrict"


def test_nobody_owns_a_bare_host() -> None:
    rig = HostRig()
    assert not rig.content.hostProfileManager.FindAssociatedProfile(rig.host())
    cluster = rig.host().parent
    assert (cluster.lifecycleManaged, cluster.configManagerEnabled) == (False, False)


def test_an_attribute_of_a_host_is_kept_and_cleared() -> None:
    rig = HostRig()
    fields = rig.content.customFieldsManager
    key = fields.AddCustomFieldDef("vgpu_cfg.host", vim.HostSystem, None, None).key
    fields.SetField(rig.host(), key, '{"plan": "ml"}')
    assert [(each.key, each.value) for each in rig.host().customValue] == [(key, '{"plan": "ml"}')]
    fields.SetField(rig.host(), key, "")
    assert not rig.host().customValue
    assert not rig.host(OTHER_A100_HOST).customValue


def test_options_of_drs_are_set_and_removed() -> None:
    rig = HostRig()
    cluster = rig.host().parent

    def write(value: str) -> None:
        drs = vim.cluster.DrsConfigInfo(
            option=[vim.option.OptionValue(key="VgpuMMAutomationTimeoutSecs", value=value)]
        )
        rig.done(
            cluster.ReconfigureComputeResource_Task(vim.cluster.ConfigSpecEx(drsConfig=drs), modify=True)
        )

    write("-1")
    drs = cluster.configurationEx.drsConfig
    assert [(each.key, each.value) for each in drs.option] == [("VgpuMMAutomationTimeoutSecs", "-1")]
    assert (drs.enabled, drs.defaultVmBehavior) == (True, "fullyAutomated")
    write("")
    assert not cluster.configurationEx.drsConfig.option


def test_the_management_network_shows() -> None:
    rig = HostRig()
    network = rig.host().config.network
    assert [(switch.name, switch.pnic) for switch in network.vswitch] == [
        ("vSwitch0", ["key-vim.host.PhysicalNic-vmnic0"])
    ]
    (vmk0,) = network.vnic
    assert (vmk0.device, vmk0.portgroup, vmk0.spec.mtu) == ("vmk0", "Management Network", 1500)
    assert "Management Network" in {group.spec.name for group in network.portgroup}
    selected = {
        each.nicType: list(each.selectedVnic) for each in rig.host().config.virtualNicManagerInfo.netConfig
    }
    assert selected["management"] == [vmk0.key]
    assert not selected["vsan"]
    assert len({rig.host(name).config.network.vnic[0].spec.mac for name in (A100_HOST, OTHER_A100_HOST)}) == 2


def test_who_gets_in_through_a_ruleset_is_set() -> None:
    rig = HostRig()
    firewall = rig.host().configManager.firewallSystem
    network = vim.host.Ruleset.IpNetwork(network="192.0.2.0", prefixLength=24)

    def allowed() -> Any:
        return next(one for one in firewall.firewallInfo.ruleset if one.key == "sshServer").allowedHosts

    def update(key: str = "sshServer", **fields: Any) -> None:
        firewall.UpdateRuleset(
            key, vim.host.Ruleset.RulesetSpec(allowedHosts=vim.host.Ruleset.IpList(**fields))
        )

    assert allowed().allIp
    update(allIp=False, ipAddress=["198.51.100.7"], ipNetwork=[network])
    shown = allowed()
    assert (shown.allIp, list(shown.ipAddress)) == (False, ["198.51.100.7"])
    assert [(one.network, one.prefixLength) for one in shown.ipNetwork] == [("192.0.2.0", 24)]
    with pytest.raises(vmodl.fault.InvalidArgument):
        update(allIp=False, ipAddress=["nobody"])
    with pytest.raises(vim.fault.NotFound):
        update("nothing", allIp=True)
    update(allIp=True)
    assert allowed().allIp
