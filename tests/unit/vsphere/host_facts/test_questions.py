"""What is asked of one host: answers, what is merely absent, what is refused, and how many calls it takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pyVmomi import VmomiSupport, vim, vmodl

from tests.unit.vsphere.facts_vcenter import (
    MANAGERS,
    AnsweringTransport,
    executed,
    executer,
    listed,
    options,
    refused,
    rows,
    session_on,
)
from tests.unit.vsphere.soap_answers import Answer, fault, soap
from vgpu_cfg.errors import NotOffered, NotRecorded, ReachError, Unreachable, VCenterError
from vgpu_cfg.model.observed.host_facts import FactGroup, KernelSetting, SoftwarePackage
from vgpu_cfg.vsphere.host_facts.questions import QUESTIONS, HostQuestions, HostSilent
from vgpu_cfg.vsphere.wire.collector import Item

INVALID = fault(vim.fault.InvalidName(name="x"))
SILENT = fault(vmodl.fault.HostNotConnected())
LACKING = fault(vim.fault.NoPermission(object=vim.HostSystem("host-12"), privilegeId="Host.Config.Image"))
NO_MODULE = fault(vim.fault.NotFound())
BROKEN = refused("EsxCLI.CLIFault.summary", "<L><errMsg>Unable to find setting</errMsg></L>")
KNOWN_MANAGERS = {
    "configManager.advancedOption": vim.option.OptionManager("EsxHostAdvSettings-12"),
    "configManager.kernelModuleSystem": vim.host.KernelModuleSystem("kernelModuleSystem-12"),
    "configManager.imageConfigManager": vim.host.ImageConfigManager("imageConfigManager-12"),
}


def ask(
    group: FactGroup,
    answers: Mapping[str, Any],
    *,
    version: str = "8.0.3",
    managers: Mapping[str, Any] = MANAGERS,
    has_managers: bool = True,
) -> tuple[dict[str, Any], list[str]]:
    """Ask a host one group; return the answer and the calls that it took."""
    transport = AnsweringTransport(answers, managers)
    with session_on(transport) as session:
        known = {path: type(manager)(manager._moId, session.stub) for path, manager in KNOWN_MANAGERS.items()}
        values = {"summary.config.product.version": version, **(known if has_managers else {})}
        licences = vim.LicenseAssignmentManager("LicenseAssignmentManager", session.stub)
        questions = HostQuestions(
            session, Item("HostSystem", "host-12", values), licences if has_managers else None, "esx-01"
        )
        return dict(QUESTIONS[group](questions)), transport.calls


def test_options_are_two_calls_and_one_more_from_esxi_9_on() -> None:
    answers = {"QueryOptions": [options(VMkernel__Boot__atsSupport=True), options(Net__PVRDMAVmknic="vmk1")]}
    found, calls = ask(FactGroup.OPTIONS, answers)
    assert found == {"options": {"VMkernel.Boot.atsSupport": True, "Net.PVRDMAVmknic": "vmk1"}}
    assert calls == ["QueryOptions"] * 2
    nine = {
        "QueryOptions": [INVALID, INVALID, options(Numa__DeviceAffinity=VmomiSupport.vmodlTypes["long"](1))]
    }
    found, calls = ask(FactGroup.OPTIONS, nine, version="9.0.1")
    assert found == {"options": {"Numa.DeviceAffinity": 1}}
    assert calls == ["QueryOptions"] * 3


def test_options_of_a_host_of_unknown_version_are_all_asked_for() -> None:
    found, calls = ask(FactGroup.OPTIONS, {"QueryOptions": INVALID}, version="")
    assert (found, len(calls)) == ({"options": {}}, 3)


def test_modules_are_three_calls_and_one_that_is_not_known_is_absent() -> None:
    answers = {
        "QueryConfiguredModuleOptionString": [
            NO_MODULE,
            soap("QueryConfiguredModuleOptionString", "pfctx=0x08 pfcrx=0x08"),
            soap("QueryConfiguredModuleOptionString", ""),
        ]
    }
    found, calls = ask(FactGroup.MODULES, answers)
    assert found == {"modules": {"nmlx5_core": "pfctx=0x08 pfcrx=0x08", "nmlx5_rdma": ""}}
    assert len(calls) == 3


ATS = {"Name": "atsSupport", "Type": "Bool", "Configured": "TRUE", "Runtime": "FALSE", "Default": "TRUE"}
NONE = executed(rows())


def test_kernel_settings_are_two_calls() -> None:
    answers = {"RetrieveManagedMethodExecuter": executer(), "ExecuteSoap": executed(rows(ATS))}
    found, calls = ask(FactGroup.KERNEL, answers)
    assert found == {
        "kernel": {"atsSupport": KernelSetting(configured="TRUE", runtime="FALSE", default="TRUE")}
    }
    assert calls == ["RetrieveManagedMethodExecuter", "ExecuteSoap"]


@pytest.mark.parametrize("unknown", [NONE, BROKEN], ids=["empty", "failure"])
def test_an_older_host_has_the_setting_under_its_older_name(unknown: Answer) -> None:
    old = executed(rows({**ATS, "Name": "vtdAtsSupport"}))
    answers = {"RetrieveManagedMethodExecuter": executer(), "ExecuteSoap": [unknown, old]}
    found, calls = ask(FactGroup.KERNEL, answers)
    assert list(found["kernel"]) == ["vtdAtsSupport"]
    assert len(calls) == 3


@pytest.mark.parametrize("answers", [[NONE, NONE], [BROKEN, NONE], [NONE, BROKEN]])
def test_a_setting_that_no_name_finds_is_absent(answers: list[Answer]) -> None:
    found, _ = ask(FactGroup.KERNEL, {"RetrieveManagedMethodExecuter": executer(), "ExecuteSoap": answers})
    assert found == {"kernel": {}}


@pytest.mark.parametrize(
    ("answer", "kind", "says"),
    [
        (BROKEN, VCenterError, "kernel list: Unable to find setting"),
        (SILENT, HostSilent, "HostNotConnected"),
        (LACKING, VCenterError, "kernel list: the account does not have Host.Config.Image"),
        (executed("no xml"), ReachError, "kernel list: not XML"),
    ],
)
def test_kernel_settings_that_cannot_be_read_are_no_absent_ones(
    answer: Answer, kind: type[ReachError], says: str
) -> None:
    answers = {"RetrieveManagedMethodExecuter": executer(), "ExecuteSoap": answer}
    with pytest.raises(kind, match=says):
        ask(FactGroup.KERNEL, answers)


def package(name: str) -> Any:
    return vim.host.SoftwarePackage(
        name=name,
        version="550.54.16",
        type="bootbank",
        vendor="NVIDIA",
        acceptanceLevel="vmware_accepted",
        summary="",
        description="",
        capability=vim.host.SoftwarePackage.Capability(),
    )


DRIVER = SoftwarePackage(name="NVD-AIE", version="550.54.16", vendor="NVIDIA")
VIB = {"Name": "NVD-AIE", "Version": "550.54.16", "Vendor": "NVIDIA", "ID": "x"}


def test_software_is_one_call() -> None:
    answer = listed("fetchSoftwarePackages", "vim.host.SoftwarePackage", [package("NVD-AIE")])
    found, calls = ask(FactGroup.SOFTWARE, {"fetchSoftwarePackages": answer})
    assert found == {"software": (DRIVER,)}
    assert calls == ["fetchSoftwarePackages"]


@pytest.mark.parametrize("refusal", [LACKING, fault(vmodl.fault.NotSupported())])
def test_software_that_the_api_refuses_is_read_through_esxcli(refusal: Answer) -> None:
    answers = {
        "fetchSoftwarePackages": refusal,
        "RetrieveManagedMethodExecuter": executer(),
        "ExecuteSoap": executed(rows(VIB)),
    }
    found, calls = ask(FactGroup.SOFTWARE, answers)
    assert found == {"software": (DRIVER,)}
    assert len(calls) == 3


def test_software_that_neither_way_tells_gives_both_reasons() -> None:
    answers = {
        "fetchSoftwarePackages": LACKING,
        "RetrieveManagedMethodExecuter": executer(),
        "ExecuteSoap": BROKEN,
    }
    with pytest.raises(
        VCenterError, match=r"does not have Host\.Config\.Image.*; esxcli software vib list: Unable"
    ):
        ask(FactGroup.SOFTWARE, answers)


@pytest.mark.parametrize("first", [SILENT, LACKING])
def test_software_of_a_silent_host_is_not_asked_for_twice(first: Answer) -> None:
    answers = {"fetchSoftwarePackages": first, "RetrieveManagedMethodExecuter": SILENT}
    with pytest.raises(HostSilent):
        ask(FactGroup.SOFTWARE, answers)


def test_owners_are_the_profiles_attached_to_the_host() -> None:
    profile = vim.profile.host.HostProfile("hostprofile-7")
    answer = listed("FindAssociatedProfile", "vim.profile.Profile", [profile])
    found, calls = ask(FactGroup.OWNERS, {"FindAssociatedProfile": answer})
    assert found == {"owners": ("hostprofile-7",)}
    assert len(calls) == 1
    found, _ = ask(FactGroup.OWNERS, {"FindAssociatedProfile": soap("FindAssociatedProfile")})
    assert found == {"owners": ()}


def assignment(entity: str, name: str) -> Any:
    licence = vim.LicenseManager.LicenseInfo(
        licenseKey="AAAAA-BBBBB-CCCCC-DDDDD-EEEEE",
        editionKey="esx.enterprisePlus.cpuPackage",
        name=name,
        total=4,
        costUnit="cpuPackage",
    )
    return vim.LicenseAssignmentManager.LicenseAssignment(entityId=entity, assignedLicense=licence)


def test_a_licence_is_told_by_its_name_and_never_by_its_key() -> None:
    answer = listed(
        "QueryAssignedLicenses",
        "vim.LicenseAssignmentManager.LicenseAssignment",
        [assignment("host-9", "Other"), assignment("host-12", "vSphere 8 Enterprise Plus")],
    )
    found, calls = ask(FactGroup.LICENCE, {"QueryAssignedLicenses": answer})
    assert found == {"licence": "vSphere 8 Enterprise Plus"}
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("group", "says"),
    [
        (FactGroup.OPTIONS, "the host does not provide its advanced options"),
        (FactGroup.MODULES, "the host does not provide its kernel modules"),
        (FactGroup.OWNERS, "does not report host profiles"),
        (FactGroup.LICENCE, "does not report licenses"),
    ],
)
def test_what_has_no_manager_is_not_offered(group: FactGroup, says: str) -> None:
    managers = {name: manager for name, manager in MANAGERS.items() if name != "hostProfileManager"}
    with pytest.raises(NotOffered, match=says):
        ask(group, {}, managers=managers, has_managers=False)


@pytest.mark.parametrize("group", QUESTIONS)
@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (SILENT, HostSilent),
        (fault(vmodl.fault.NotSupported()), VCenterError),
        (fault(vmodl.fault.SystemError(reason="x")), VCenterError),
        (Unreachable("gone"), Unreachable),
        (NotRecorded("no answer"), NotRecorded),
    ],
    ids=["silent", "not offered", "broken", "lost", "not recorded"],
)
def test_no_fault_leaves_as_pyvmomis_own(
    group: FactGroup, answer: Answer | Exception, kind: type[VCenterError]
) -> None:
    methods = (
        "QueryOptions",
        "QueryConfiguredModuleOptionString",
        "RetrieveManagedMethodExecuter",
        "fetchSoftwarePackages",
        "FindAssociatedProfile",
        "QueryAssignedLicenses",
    )
    with pytest.raises(kind):
        ask(group, dict.fromkeys(methods, answer))
