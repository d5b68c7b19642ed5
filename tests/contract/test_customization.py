"""Customising guests: govc before the lab and vcsim."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.contract.conftest import Govc, running_vcsim
from tests.contract.test_govc import MakeGovc, served

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
