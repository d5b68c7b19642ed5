"""Customising guests: govc before the lab and vcsim, and what this tool asks before both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyVmomi import vim

from tests.contract.conftest import Govc, running_vcsim
from tests.contract.test_govc import MakeGovc, served
from tests.contract.vcenters import Desk, VCenter, lab_vcenter, location_on
from vgpu_cfg.changes.change import CreateVm
from vgpu_cfg.changes.kinds.create_vm import CloneFrom
from vgpu_cfg.changes.kinds.guest import Customization, NicCustomization
from vgpu_cfg.changes.kinds.vm_spec import VmSpec
from vgpu_cfg.changes.values import Subject, VmRef
from vgpu_cfg.errors import StalePlan
from vgpu_cfg.model.observed.own_items import CustomizationSpec, SpecNic
from vgpu_cfg.ports import ReadScope
from vgpu_cfg.vsphere.writing.specs import filled_spec

ESTATE = """
about: specifications that guests are customised by
vcenter:
  customization_specs:
  - {name: vcsim-linux}
  - {name: vcsim-linux-static, nics: [ask]}
  - {name: vcsim-windows-static, type: Windows, nics: [ask]}
clusters:
- {name: gpu, hosts: [{name: esx-1}]}
templates:
- {name: ubuntu-22.04-efi, guest: {cloud_init: false}}
- {name: broken, guest: {cloud_init: false, faults: {customization: network}}}
vms:
- {name: DC0_C0_RP0_VM0, power: "off", guest: {cloud_init: false}}
"""
VM = "DC0_C0_RP0_VM0"


@pytest.fixture
def estate(tmp_path: Path) -> str:
    path = tmp_path / "estate.yaml"
    path.write_text(ESTATE, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("kind", ["lab", "vcsim"])
def test_a_guest_is_customised_at_its_next_start(govc: MakeGovc, estate: str, kind: str) -> None:
    with running_vcsim() if kind == "vcsim" else served(estate) as server:
        run = govc(server)
        if kind == "vcsim":
            run("vm.power", "-off", VM)
        address = ("-ip", "10.0.0.42", "-netmask", "255.255.255.0", "-gateway", "10.0.0.1")
        run("vm.customize", "-vm", VM, "-name", "trains", *address, "vcsim-linux-static")
        pending = _seen(run, VM)["config"]["tools"]["pendingCustomization"]
        assert pending
        run("vm.power", "-on", VM)
        assert run("vm.ip", VM).strip() == "10.0.0.42"
        seen = _seen(run, VM)
        assert seen["guest"]["hostName"] == "trains"
        assert seen["guest"]["ipAddress"] == "10.0.0.42"
        assert not seen["config"]["tools"].get("pendingCustomization")


@pytest.mark.parametrize("kind", ["lab", "vcsim"])
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("nowhere",), {"lab": "does not exist", "vcsim": "does not exist"}),
        (
            ("-ip", "10.0.0.4", "-ip", "10.0.0.5"),
            {"lab": "(2) and in the virtual machine (1) do not match", "vcsim": "NicSettingMismatch"},
        ),
    ],
)
def test_what_cannot_be_customised(
    govc: MakeGovc, estate: str, kind: str, words: tuple[str, ...], expected: dict[str, str]
) -> None:
    with running_vcsim() if kind == "vcsim" else served(estate) as server:
        run = govc(server)
        if kind == "vcsim":
            run("vm.power", "-off", VM)
        with pytest.raises(AssertionError) as refused:
            run("vm.customize", "-vm", VM, *words)
        assert expected[kind] in str(refused.value)


def test_a_clone_is_customised_and_the_lab_tells(govc: MakeGovc, estate: str) -> None:
    with served(estate) as server:
        run = govc(server)
        words = ("vm.clone", "-on=true", "-customization", "vcsim-linux", "-waitip=true")
        run(*words, "-vm", "ubuntu-22.04-efi", "a")
        assert _seen(run, "a")["guest"]["hostName"] == "a"
        told = [line.partition("] [] ")[2].partition(". ")[0] for line in run("events", "vm/a").splitlines()]
        assert [text for text in told if text] == [
            "Started customization of VM a",
            "Customization of VM a succeeded",
        ]
        run(*words, "-vm", "broken", "b")
        assert _seen(run, "b")["guest"]["hostName"] == "ubuntu"
        assert "An error occurred while customizing VM b" in run("events", "vm/b")


def _seen(run: Govc, vm: str) -> Any:
    return json.loads(run("vm.info", "-json", vm))["virtualMachines"][0]


# ----------------------------------------------------------- this tool's own requests


@pytest.fixture(params=["lab", "vcsim"])
def vcenter(request: pytest.FixtureRequest, estate: str) -> VCenter:
    """Yield the lab on this file's estate, and a vcsim of the test's own."""
    if request.param == "lab":
        return lab_vcenter(estate)
    found: VCenter = request.getfixturevalue("own_vcsim")
    return found


def _specs(desk: Desk, *names: str) -> dict[str, CustomizationSpec]:
    found = desk.inventory(ReadScope(customization_specs=frozenset(names))).customization_specs
    return {one.name: one for one in found or ()}


def _asked(spec: CustomizationSpec, **fields: Any) -> Customization:
    nic = NicCustomization(network="vm-network", ip="10.0.0.42/24", gateway="10.0.0.1")
    asked = Customization(
        spec=spec.name,
        change_version=spec.change_version,
        kind="linux",
        host_name="trains",
        domain="lab.example",
        sets_domain=True,
        dns=("10.0.0.53",),
        nics=(nic,),
    )
    return asked.model_copy(update=fields)


def test_specifications_are_read_as_vcenter_tells_them(vcenter: VCenter) -> None:
    with vcenter.desk() as desk:
        assert desk.inventory().customization_specs is None
        found = _specs(desk, "vcsim-linux", "vcsim-linux-static", "vcsim-windows-static", "nowhere")
        assert {name: one.kind for name, one in found.items() if one.is_there} == {
            "vcsim-linux": "linux",
            "vcsim-linux-static": "linux",
            "vcsim-windows-static": "windows",
        }
        assert not found["nowhere"].is_there
        assert found["vcsim-linux"].nics == (SpecNic(kind="dhcp"),)
        assert found["vcsim-linux-static"].nics == (SpecNic(kind="ask"),)
        assert found["vcsim-linux"].change_version
        assert not any(one.is_foreign for one in found.values())


def _boot(vcenter: VCenter) -> None:
    """Let the lab's guests boot; vcsim's have no time of their own."""
    if vcenter.lab is not None:
        with vcenter.lab.changed:
            vcenter.lab.clock.wait(vcenter.lab.clock.now() + 60, vcenter.lab.changed)


def test_what_is_filled_in_reaches_the_guest_and_its_end_is_told(vcenter: VCenter) -> None:
    """vcsim takes a specification of a VM that is off, and ignores that of a clone."""
    with vcenter.desk() as desk:
        vm = next(vm for vm in desk.inventory().vms if vm.name == VM)
        if vm.is_on:
            desk.done(desk.writer.power_off_vm(vm.moid))
        assert desk.reader.read_customization(vm.moid).state == "waiting"
        spec = filled_spec(desk.session, _asked(_specs(desk, "vcsim-linux-static")["vcsim-linux-static"]), VM)
        task = vim.VirtualMachine(vm.moid, desk.session.stub).CustomizeVM_Task(spec)
        assert desk.done(task._moId).state == "success"
        desk.done(desk.writer.power_on_vm(vm.moid))
        _boot(vcenter)
        assert desk.reader.read_customization(vm.moid).state == "succeeded"
        guest: Any = vim.VirtualMachine(vm.moid, desk.session.stub).guest
        assert (guest.hostName, guest.ipAddress) == ("trains", "10.0.0.42")


def test_another_version_of_a_specification_is_refused(vcenter: VCenter) -> None:
    with vcenter.desk() as desk:
        asked = _asked(_specs(desk, "vcsim-linux")["vcsim-linux"])
        with pytest.raises(StalePlan, match="was changed after planning"):
            filled_spec(desk.session, asked.model_copy(update={"change_version": "0"}), VM)
        with pytest.raises(StalePlan, match="was deleted after planning"):
            filled_spec(desk.session, asked.model_copy(update={"spec": "nowhere"}), VM)


@pytest.mark.parametrize(
    ("template", "ends"),
    [("ubuntu-22.04-efi", "CustomizationSucceeded"), ("broken", "CustomizationNetworkSetupFailed")],
)
def test_a_clone_carries_it(estate: str, template: str, ends: str) -> None:
    vcenter = lab_vcenter(estate)
    with vcenter.desk() as desk:
        scope = ReadScope(
            template_names=frozenset({template}), customization_specs=frozenset({"vcsim-linux-static"})
        )
        observed = desk.inventory(scope)
        host, (spec,) = observed.hosts[0], observed.customization_specs or ()
        source = next(vm for vm in observed.vms if vm.name == template)
        moid = desk.made(
            desk.writer.create_vm(
                CreateVm(
                    id="create a",
                    subject=Subject(kind="vm", name="a"),
                    host_moid=host.moid,
                    vm=VmRef(name="a"),
                    source=CloneFrom(template=VmRef(name=template, moid=source.moid)),
                    location=location_on(observed, host),
                    spec=VmSpec(),
                    customization=_asked(spec),
                )
            )
        )
        desk.done(desk.writer.power_on_vm(moid))
        _boot(vcenter)
        seen = desk.reader.read_customization(moid)
        assert seen.event == ends
        assert seen.log in seen.message
