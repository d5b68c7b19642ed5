"""esxcli through vCenter, called as the program's own client calls it, with types that it declared."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from typing import Any
from xml.sax.saxutils import escape

import pytest
from pyVmomi import vim, vmodl

from tests.unit.lab.host_rig import A100_HOST, BUNDLE_8, CX6_0, L40S_HOST, HostRig
from vgpu_cfg.lab.esxcli import COMMANDS, OPTIONS
from vgpu_cfg.lab.managers.executer import namespace_info
from vgpu_cfg.vsphere.wire.esxcli import retrieve_executer, soap_argument

XSI = "{http://www.w3.org/2001/XMLSchema-instance}type"
SPACE = "{urn:vim25}"


def result_of(rig: HostRig, command: str, name: str = A100_HOST, **options: str) -> Any:
    executer = retrieve_executer(rig.host(name))
    return executer.ExecuteSoap(
        moid="ha-cli-handler-" + command.rpartition(".")[0].replace(".", "-"),
        version="urn:vim25/5.0",
        method=f"vim.EsxCLI.{command}",
        argument=[soap_argument(key, f"<{key}>{escape(value)}</{key}>") for key, value in options.items()],
    )


def answer(rig: HostRig, command: str, name: str = A100_HOST, **options: str) -> ET.Element:
    found = result_of(rig, command, name, **options)
    assert found.fault is None, found.fault
    return ET.fromstring(found.response)  # noqa: S314 - the lab's own text


def rows(rig: HostRig, command: str, name: str = A100_HOST, **options: str) -> list[dict[str, str]]:
    root = answer(rig, command, name, **options)
    assert root.get(XSI) == "ArrayOfDataObject"
    return [{field.tag.removeprefix(SPACE): field.text or "" for field in row} for row in root]


def refused(rig: HostRig, command: str, name: str = A100_HOST, **options: str) -> str:
    found = result_of(rig, command, name, **options)
    assert found.response is None
    assert found.fault.faultMsg == "EsxCLI.CLIFault.summary"
    assert "VimEsxCLICLIFault" in found.fault.faultDetail
    return str(found.fault.faultDetail)


def test_kernel_settings_are_listed_set_and_in_force_after_a_reboot() -> None:
    rig = HostRig()

    def ats() -> tuple[str, str, str]:
        (row,) = rows(rig, "system.settings.kernel.list", L40S_HOST, option="atsSupport")
        assert row["Type"] == "Bool"
        return row["Configured"], row["Runtime"], row["Default"]

    assert ats() == ("FALSE", "FALSE", "FALSE")
    done = answer(rig, "system.settings.kernel.set", L40S_HOST, setting="atsSupport", value="true")
    assert (done.get(XSI), done.text) == ("xsd:boolean", "true")
    assert ats() == ("TRUE", "FALSE", "FALSE")
    rig.rest(L40S_HOST)
    rig.reboot(L40S_HOST)
    assert ats() == ("TRUE", "TRUE", "FALSE")
    names = {row["Name"] for row in rows(rig, "system.settings.kernel.list", L40S_HOST)}
    assert {"atsSupport", "enablePCIEHotplug"} <= names


def test_kernel_settings_that_cannot_be_are_refused() -> None:
    rig = HostRig()
    assert "nothing" in refused(rig, "system.settings.kernel.list", option="nothing")
    refused(rig, "system.settings.kernel.set", setting="nothing", value="TRUE")
    refused(rig, "system.settings.kernel.set", setting="atsSupport", value="perhaps")
    refused(rig, "system.settings.kernel.set", setting="atsSupport")


def test_module_parameters_are_replaced_or_appended() -> None:
    rig = HostRig()

    def values() -> dict[str, str]:
        found = rows(rig, "system.module.parameters.list", module="nmlx5_core")
        return {row["Name"]: row["Value"] for row in found if row["Value"]}

    assert values() == {}
    command = "system.module.parameters.set"
    answer(rig, command, module="nmlx5_core", parameterstring="dcbx=1 max_vfs=8")
    answer(rig, command, module="nmlx5_core", parameterstring="pfctx=0x08 max_vfs=4", append="true")
    assert values() == {"dcbx": "1", "max_vfs": "4", "pfctx": "0x08"}
    answer(rig, command, module="nmlx5_core", parameterstring="pfctx=0x08")
    assert values() == {"pfctx": "0x08"}
    modules = rig.host().configManager.kernelModuleSystem
    assert modules.QueryConfiguredModuleOptionString("nmlx5_core") == "pfctx=0x08"
    refused(rig, command, module="nvidia", parameterstring="a=b")


def test_a_driver_is_installed_for_the_next_boot() -> None:
    rig = HostRig()
    assert "MaintenanceMode" in refused(rig, "software.vib.install", depot=BUNDLE_8)
    rig.rest()
    dry = answer(rig, "software.vib.install", depot=BUNDLE_8, dryrun="true")
    assert dry.findtext(f"{SPACE}RebootRequired") == "true"
    assert not rig.state().staged
    done = answer(rig, "software.vib.install", depot=BUNDLE_8)
    assert done.get(XSI) == "VimEsxCLIsoftwarevibinstallInstallationResult"
    assert done.findtext(f"{SPACE}RebootRequired") == "true"
    assert [each.text for each in done.findall(f"{SPACE}VIBsInstalled")] == [
        "NVD_bootbank_NVD-AIE_ESXi_8.0.0_Driver_580.95.02-1OEM.800.1.0.20613240",
    ]
    repeated = answer(rig, "software.vib.install", depot=BUNDLE_8)
    assert not repeated.findall(f"{SPACE}VIBsInstalled")
    assert repeated.findtext(f"{SPACE}RebootRequired") == "true", "it waits still"

    def names(**options: str) -> set[str]:
        return {row["Name"] for row in rows(rig, "software.vib.list", **options)}

    driver = "NVD-AIE_ESXi_8.0.0_Driver"
    assert driver not in names()
    assert driver in names(rebootingimage="true")
    rig.reboot()
    assert driver in names()
    assert not names(rebootingimage="true")
    again = answer(rig, "software.vib.install", depot=BUNDLE_8)
    assert again.findtext(f"{SPACE}RebootRequired") == "false"
    assert len(again.findall(f"{SPACE}VIBsSkipped")) == 1


def test_a_bundle_that_is_not_there_is_refused() -> None:
    rig = HostRig()
    rig.rest()
    assert "MetadataDownloadError" in refused(rig, "software.vib.install", depot="/vmfs/volumes/vsan/no.zip")


def test_the_graphics_of_a_host_are_one_thing() -> None:
    root = answer(HostRig(), "graphics.host.get")
    assert {field.tag.removeprefix(SPACE): field.text for field in root} == {
        "DefaultGraphicsType": "Shared",
        "SharedPassthruAssignmentPolicy": "Performance",
    }
    root = answer(HostRig("two-a100"), "graphics.host.get", "esx-a100-01.lab")
    assert root.findtext(f"{SPACE}DefaultGraphicsType") == "SharedPassthru"


def test_the_clock_and_the_firewall_are_told() -> None:
    rig = HostRig()
    told = answer(rig, "hardware.clock.get").text or ""
    assert told == f"{rig.instance.CurrentTime():%Y-%m-%dT%H:%M:%SZ}"
    assert answer(rig, "network.firewall.get").findtext(f"{SPACE}Enabled") == "true"


def test_pci_functions_show_who_owns_them() -> None:
    rig = HostRig()

    def nic() -> dict[str, str]:
        return next(row for row in rows(rig, "hardware.pci.list") if row["Address"] == CX6_0)

    assert (nic()["VMkernelName"], nic()["ModuleName"], nic()["NUMANode"]) == ("vmnic2", "nmlx5_core", "0")
    assert (nic()["ConfiguredOwner"], nic()["CurrentOwner"]) == ("VMkernel", "VMkernel")
    given = vim.host.PciPassthruConfig(id=CX6_0, passthruEnabled=True, applyNow=False)
    rig.host().configManager.pciPassthruSystem.UpdatePassthruConfig([given])
    assert (nic()["ConfiguredOwner"], nic()["CurrentOwner"]) == ("VM Passthru", "VMkernel")
    rig.rest()
    rig.reboot()
    assert (nic()["VMkernelName"], nic()["ModuleName"]) == ("", "pciPassthru")
    assert nic()["CurrentOwner"] == "VM Passthru"


@pytest.mark.parametrize("command", ["graphics.vm.list", "nothing.such.list"])
def test_a_command_that_there_is_not_is_not_found(command: str) -> None:
    found = result_of(HostRig(), command)
    assert found.fault.faultMsg == "The object or item referred to could not be found."
    assert 'xsi:type="NotFound"' in found.fault.faultDetail


def test_a_handler_that_does_not_fit_its_command_is_not_found() -> None:
    rig = HostRig()
    executer = retrieve_executer(rig.host())
    found = executer.ExecuteSoap(
        moid="ha-cli-handler-storage", version="urn:vim25/5.0", method="vim.EsxCLI.hardware.pci.list"
    )
    assert found.fault is not None


def test_case_does_not_matter_in_a_command() -> None:
    assert rows(HostRig(), "hardware.pci.List")


def test_values_are_escaped_both_ways() -> None:
    rig = HostRig()
    text = 'NVreg_RegistryDwords=a<b>&"c"'
    answer(rig, "system.module.parameters.set", module="nmlx5_rdma", parameterstring=text)
    assert rig.state().modules["nmlx5_rdma"].configured == text


def test_a_host_that_does_not_answer_has_no_executer() -> None:
    rig = HostRig()
    executer = retrieve_executer(rig.host())
    rig.state().connection = "notResponding"
    with pytest.raises(vmodl.fault.HostNotConnected):
        retrieve_executer(rig.host())
    with pytest.raises(vmodl.fault.HostNotConnected):
        executer.ExecuteSoap(
            moid="ha-cli-handler-hardware-pci", version="urn:vim25/5.0", method="vim.EsxCLI.hardware.pci.list"
        )


def test_a_fault_can_be_scripted() -> None:
    rig = HostRig()
    rig.lab.faults.add("ExecuteSoap", kind="call", fault="NoPermission")
    with pytest.raises(vim.fault.NoPermission):
        result_of(rig, "hardware.pci.list")
    assert rows(rig, "hardware.pci.list")


LAB, CLIENT = "vgpu_cfg.lab.api.references", "vgpu_cfg.vsphere.wire.esxcli"


@pytest.mark.parametrize("order", [(LAB, CLIENT), (CLIENT, LAB), (LAB,), (CLIENT,)])
def test_lab_and_client_declare_the_same_types_in_any_order(order: tuple[str, ...]) -> None:
    code = (
        "".join(f"import {module}\n" for module in order)
        + "from pyVmomi import VmomiSupport as v\n"
        + "print(v.GuessWsdlType('ReflectManagedMethodExecuterSoapArgument')(name='a', val='b').val)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stdout.strip()) == (0, "b"), done.stderr


def test_a_name_space_is_told_with_the_options_of_its_commands() -> None:
    text = namespace_info("system.settings.kernel")
    assert text is not None
    told = ET.fromstring(text)  # noqa: S314 - the lab's own text
    spaces = {"v": "urn:vim25"}
    methods = {one.findtext("v:name", namespaces=spaces): one for one in told.iterfind("v:method", spaces)}
    assert set(methods) == {"list", "set"}
    options = [
        (one.findtext("v:name", namespaces=spaces), [each.text for each in one.iterfind("v:aliases", spaces)])
        for one in methods["set"].iterfind("v:param", spaces)
    ]
    assert options == [("setting", ["-s", "--setting"]), ("value", ["-v", "--value"])]
    assert namespace_info("system.settings") is None
    assert set(COMMANDS) == set(OPTIONS)
