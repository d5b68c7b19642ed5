"""How facts of several hosts come together: whom a refusal concerns, and what is asked once for all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pyVmomi import VmomiSupport, vim, vmodl

from tests.unit.vsphere.facts_vcenter import AnsweringTransport, executed, executer, listed, rows, session_on
from tests.unit.vsphere.soap_answers import Answer, fault, soap
from vgpu_cfg.errors import LoginFailed, Unreachable
from vgpu_cfg.model.observed.host_facts import EstateFacts, FactGroup
from vgpu_cfg.vsphere.host_facts.reader import ALL_GROUPS, read_facts

SILENT = fault(vmodl.fault.HostNotConnected())
_COLLECTOR = vmodl.query.PropertyCollector


def array(type_name: str, values: list[Any]) -> Any:
    return VmomiSupport.GetVmodlType(f"{type_name}[]")(values)


def thing(reference: Any, values: Mapping[str, Any]) -> Any:
    found = [vmodl.DynamicProperty(name=name, val=value) for name, value in values.items()]
    return _COLLECTOR.ObjectContent(obj=reference, propSet=found)


def host(moid: str, *, state: str = "connected", version: str = "8.0.3") -> Any:
    service = vim.host.Service(
        key="xorg", label="X.Org", required=False, uninstallable=False, running=True, policy="on"
    )
    rule = vim.host.Ruleset.Rule(port=28250, direction="inbound", portType="dst", protocol="tcp")
    ruleset = vim.host.Ruleset(key="pvrdma", label="pvrdma", required=False, rule=[rule], enabled=False)
    nic = vim.host.VirtualNic(device="vmk0", key="k", portgroup="", spec=vim.host.VirtualNic.Specification())
    number = moid.partition("-")[2]
    return thing(
        vim.HostSystem(moid),
        {
            "name": f"esx-{number}",
            "parent": vim.ClusterComputeResource("domain-c9"),
            "runtime.connectionState": state,
            "summary.config.product.version": version,
            "config.service.service": array("vim.host.Service", [service]),
            "config.firewall.ruleset": array("vim.host.Ruleset", [ruleset]),
            "config.network.vnic": array("vim.host.VirtualNic", [nic]),
            "configManager.advancedOption": vim.option.OptionManager(f"EsxHostAdvSettings-{number}"),
            "configManager.kernelModuleSystem": vim.host.KernelModuleSystem(f"kernelModuleSystem-{number}"),
            "configManager.imageConfigManager": vim.host.ImageConfigManager(f"imageConfigManager-{number}"),
        },
    )


CLUSTER = thing(vim.ClusterComputeResource("domain-c9"), {"lifecycleManaged": True})
FIELDS = thing(
    vim.CustomFieldsManager("CustomFieldsManager"),
    {
        "field": array(
            "vim.CustomFieldsManager.FieldDef",
            [vim.CustomFieldsManager.FieldDef(key=101, name="vgpu_cfg.host", type=str)],
        )
    },
)
LICENCES = thing(
    vim.LicenseManager("LicenseManager"),
    {"licenseAssignmentManager": vim.LicenseAssignmentManager("LicenseAssignmentManager")},
)
GOLD = vim.profile.host.HostProfile("hostprofile-1")
NAMES = thing(GOLD, {"name": "Gold"})
ATS = {"Name": "atsSupport", "Configured": "TRUE", "Runtime": "TRUE", "Default": "TRUE"}


def pages(*bulk: Any, names: tuple[Any, ...] = (NAMES,)) -> list[Answer]:
    """Answer the three collections: networks, hosts with all else, names of profiles."""
    return [
        soap("RetrievePropertiesEx", _COLLECTOR.RetrieveResult(objects=list(objects)) if objects else None)
        for objects in ((), bulk, names)
    ]


def read(
    moids: list[str], answers: Mapping[str, Any], groups: frozenset[FactGroup] = ALL_GROUPS
) -> tuple[EstateFacts, list[str]]:
    """Read facts from a vCenter that answers all but what `answers` overrides; return the calls too."""
    told: dict[str, Any] = {
        "CreateContainerView": soap("CreateContainerView", vim.view.ContainerView("view-1")),
        "RetrievePropertiesEx": pages(*(host(moid) for moid in moids), CLUSTER, FIELDS, LICENCES),
        "QueryOptions": fault(vim.fault.InvalidName(name="x")),
        "QueryConfiguredModuleOptionString": soap("QueryConfiguredModuleOptionString", ""),
        "RetrieveManagedMethodExecuter": executer(),
        "ExecuteSoap": executed(rows(ATS)),
        "fetchSoftwarePackages": soap("fetchSoftwarePackages"),
        "FindAssociatedProfile": soap("FindAssociatedProfile"),
        "QueryAssignedLicenses": soap("QueryAssignedLicenses"),
        **answers,
    }
    transport = AnsweringTransport(told)
    with session_on(transport) as session:
        return read_facts(session, moids, groups), transport.calls


def test_a_host_that_tells_all_has_nothing_unread() -> None:
    found, _ = read(["host-1"], {})
    assert found.hosts["host-1"].groups == ALL_GROUPS
    assert found.hosts["host-1"].unread == {}
    assert found.hosts["host-1"].services["xorg"].running
    assert found.clusters["domain-c9"].image_managed is True
    assert found.vcenter_options == {}


@pytest.mark.parametrize(("version", "most"), [("7.0.3", 10), ("8.0.3", 10), ("9.0.0", 11)])
def test_a_host_takes_ten_round_trips_and_the_estate_five(version: str, most: int) -> None:
    counts = []
    for moids in (["host-1"], ["host-1", "host-2", "host-3"]):
        bulk = pages(*(host(moid, version=version) for moid in moids), CLUSTER, FIELDS, LICENCES)
        _, calls = read(moids, {"RetrievePropertiesEx": bulk})
        counts.append(len(calls))
    assert (counts[1] - counts[0]) / 2 == most
    # The view and its networks, the bulk, one option of vCenter, the profiles of one cluster.
    assert counts[0] - most == 2 + 1 + 1 + 1


@pytest.mark.parametrize(
    ("group", "trips"),
    [
        (FactGroup.BASE, 0),
        (FactGroup.OPTIONS, 2),
        (FactGroup.MODULES, 3),
        (FactGroup.KERNEL, 2),
        (FactGroup.SOFTWARE, 1),
        (FactGroup.OWNERS, 1),
        (FactGroup.LICENCE, 1),
    ],
)
def test_each_group_takes_its_own_round_trips(group: FactGroup, trips: int) -> None:
    one, two = (read(moids, {}, frozenset({group})) for moids in (["host-1"], ["host-1", "host-2"]))
    assert len(two[1]) - len(one[1]) == trips
    assert one[0].hosts["host-1"].groups == {FactGroup.BASE, group}


def test_groups_of_the_shell_are_not_read() -> None:
    found, _ = read(["host-1"], {}, frozenset({FactGroup.SHELL_GPUS}))
    assert found.hosts["host-1"].groups == {FactGroup.BASE}
    assert found.hosts["host-1"].unread == {}


@pytest.mark.parametrize("state", ["disconnected", "notResponding"])
def test_a_host_that_vcenter_has_lost_is_not_asked(state: str) -> None:
    bulk = pages(host("host-1", state=state), host("host-2"), CLUSTER, FIELDS, LICENCES)
    found, calls = read(["host-1", "host-2"], {"RetrievePropertiesEx": bulk})
    assert found.hosts["host-1"].unread.keys() == ALL_GROUPS
    assert found.hosts["host-1"].groups == frozenset()
    assert found.hosts["host-1"].services, "what vCenter knew last is still told"
    assert found.hosts["host-2"].unread == {}
    assert calls.count("fetchSoftwarePackages") == 1


def test_a_host_that_falls_silent_is_asked_no_more() -> None:
    modules = [SILENT, soap("QueryConfiguredModuleOptionString", "")]
    found, calls = read(["host-1", "host-2"], {"QueryConfiguredModuleOptionString": modules})
    first = found.hosts["host-1"]
    assert first.groups == {FactGroup.BASE, FactGroup.OPTIONS}
    assert {first.unread[group] for group in ALL_GROUPS - first.groups} == {
        "reading kernel module options: the host is not responding (HostNotConnected)"
    }
    assert found.hosts["host-2"].groups == ALL_GROUPS
    assert calls.count("fetchSoftwarePackages") == 1


def test_a_refusal_concerns_one_group() -> None:
    lacking = fault(
        vim.fault.NoPermission(object=vim.HostSystem("host-1"), privilegeId="Host.Config.Settings")
    )
    found, _ = read(["host-1"], {"QueryConfiguredModuleOptionString": lacking})
    assert found.hosts["host-1"].unread == {
        FactGroup.MODULES: "reading kernel module options: "
        "the account does not have Host.Config.Settings on host-1"
    }
    assert found.hosts["host-1"].groups == ALL_GROUPS - {FactGroup.MODULES}


def test_a_host_that_has_gone_has_only_reasons() -> None:
    bulk = pages(host("host-1"), CLUSTER, FIELDS, LICENCES)
    found, _ = read(["host-1", "host-9"], {"RetrievePropertiesEx": bulk})
    assert set(found.hosts["host-9"].unread.values()) == {"the host is not in vCenter's inventory"}
    assert found.hosts["host-1"].unread == {}


def test_without_custom_fields_nobody_knows_whether_a_host_is_marked() -> None:
    found, _ = read(["host-1"], {"RetrievePropertiesEx": pages(host("host-1"), CLUSTER)})
    assert (
        found.hosts["host-1"].unread[FactGroup.BASE] == "this vCenter does not report its custom attributes"
    )
    assert "licenses" in found.hosts["host-1"].unread[FactGroup.LICENCE]


def profiles(*found: Any) -> Answer:
    method = "FindAssociatedProfile"
    return listed(method, "vim.profile.Profile", found) if found else soap(method)


def test_a_profile_of_the_cluster_owns_its_hosts_once() -> None:
    nothing, gold = profiles(), profiles(GOLD)
    found, calls = read(["host-1", "host-2"], {"FindAssociatedProfile": [nothing, gold, gold]})
    assert found.hosts["host-1"].owners == ("host profile Gold",)
    assert found.hosts["host-2"].owners == ("host profile Gold",)
    assert calls.count("FindAssociatedProfile") == 3
    assert calls.count("RetrievePropertiesEx") == 3


def test_a_profile_whose_name_is_not_told_is_named_by_its_id() -> None:
    bulk = pages(host("host-1"), CLUSTER, FIELDS, LICENCES, names=())
    answers = {"FindAssociatedProfile": profiles(GOLD), "RetrievePropertiesEx": bulk}
    found, _ = read(["host-1"], answers)
    assert found.hosts["host-1"].owners == ("host profile hostprofile-1",)


def test_a_cluster_that_does_not_tell_its_profile_leaves_its_hosts_owners_open() -> None:
    broken = fault(vmodl.fault.SystemError(reason="Odd."))
    found, _ = read(["host-1"], {"FindAssociatedProfile": [profiles(GOLD), broken]})
    assert found.hosts["host-1"].owners == ()
    assert FactGroup.OWNERS not in found.hosts["host-1"].groups
    assert "Odd." in found.hosts["host-1"].unread[FactGroup.OWNERS]


def test_options_of_vcenter_are_texts() -> None:
    answer = listed(
        "QueryOptions",
        "vim.option.OptionValue",
        [vim.option.OptionValue(key="vgpu.hotmigrate.enabled", value=True)],
    )
    found, _ = read([], {"QueryOptions": answer, "RetrievePropertiesEx": pages(FIELDS)}, frozenset())
    assert found.vcenter_options == {"vgpu.hotmigrate.enabled": "true"}
    assert found.hosts == {}


@pytest.mark.parametrize(
    "method",
    ["QueryOptions", "QueryConfiguredModuleOptionString", "ExecuteSoap", "FindAssociatedProfile"],
)
def test_a_lost_connection_ends_the_reading(method: str) -> None:
    with pytest.raises(Unreachable):
        read(["host-1"], {method: Unreachable("gone")})


def test_a_session_that_cannot_be_renewed_ends_the_reading() -> None:
    over = fault(vim.fault.NotAuthenticated(object=vim.HostSystem("host-1"), privilegeId="System.View"))
    with pytest.raises(LoginFailed):
        read(["host-1"], {"QueryOptions": over})
