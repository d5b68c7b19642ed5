"""What becomes of VMs in the lab when a host loses its power or its network, and when it comes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.lab.host_rig import HostRig, rig_of

ESTATE = """
about: two hosts
clusters:
- name: gpu
  ha: {ha}
  hosts:
  - names: [esx-01, esx-02]
    memory: 512GiB
    gpus: [{{board: A100, numa: 0}}]
datastores: [{{name: vsan}}]
networks: [{{name: vm-network}}]
vms:
- {{name: one, host: esx-01, memory: 16GiB, gpus: [grid_a100-20c], extra_config: {{{window}}}}}
- {{name: two, host: esx-01, memory: 16GiB, gpus: [grid_a100-20c], extra_config: {{{window}}}, {two}}}
- {{name: other, host: esx-02, memory: 16GiB, gpus: [grid_a100-20c], extra_config: {{{window}}}}}
"""
WINDOW = 'pciPassthru.use64bitMMIO: "TRUE", pciPassthru.64bitMMIOSizeGB: "128"'


def rig(tmp_path: Path, *, ha: bool, two: str = "power: 'on'") -> HostRig:
    return rig_of(ESTATE.format(ha=str(ha).lower(), window=WINDOW, two=two), tmp_path)


def places(lab: HostRig) -> dict[str, tuple[str, str]]:
    return {vm: (lab.host_of(vm), lab.vm(vm).power_state) for vm in ("one", "two", "other")}


def test_without_ha_vms_are_shown_as_they_were_last(tmp_path: Path) -> None:
    lab = rig(tmp_path, ha=False)
    before = places(lab)
    lab.lab.at_server("esx-01", "fail")
    assert places(lab) == before
    assert lab.host("esx-01").runtime.connectionState == "notResponding"
    (vm, *_) = lab.host("esx-01").vm
    assert (vm.runtime.connectionState, vm.runtime.powerState) == ("disconnected", "poweredOn")
    assert lab.end(vm.PowerOffVM_Task()).state == "error"


def test_what_ran_on_a_dead_host_is_off_once_it_is_back(tmp_path: Path) -> None:
    lab = rig(tmp_path, ha=False)
    lab.lab.at_server("esx-01", "fail")
    lab.lab.at_server("esx-01", "power_on")
    lab.settle()
    assert lab.host("esx-01").runtime.connectionState == "connected"
    assert places(lab)["one"] == ("esx-01", "poweredOff")
    assert not [use for gpu in lab.state("esx-01").gpus for use in gpu.uses]


def test_what_was_cut_off_runs_on(tmp_path: Path) -> None:
    lab = rig(tmp_path, ha=True)
    before = places(lab)
    lab.lab.at_server("esx-01", "cut_off")
    lab.lab.at_server("esx-01", "reconnect")
    assert places(lab) == before
    assert lab.host("esx-01").runtime.connectionState == "connected"


def test_ha_starts_elsewhere_what_has_a_gpu_there(tmp_path: Path) -> None:
    lab = rig(tmp_path, ha=True)
    lab.lab.at_server("esx-01", "fail")
    assert places(lab) == {
        "one": ("esx-02", "poweredOn"),
        "two": ("esx-01", "poweredOn"),
        "other": ("esx-02", "poweredOn"),
    }
    assert [use.vm for use in lab.state("esx-01").gpus[0].uses] == [lab.vm("two").moid]


def test_ha_leaves_what_is_not_to_be_restarted(tmp_path: Path) -> None:
    lab = rig(tmp_path, ha=True, two="restart_priority: disabled")
    lab.lab.at_server("esx-01", "fail")
    assert (places(lab)["one"][0], places(lab)["two"][0]) == ("esx-02", "esx-01")


@pytest.mark.parametrize(
    ("first", "then", "says"),
    [
        ("fail", "cut_off", "notResponding already"),
        ("fail", "reconnect", "is off"),
        ("cut_off", "power_on", "is on"),
        (None, "reconnect", "is connected"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, first: str | None, then: str, says: str) -> None:
    lab = rig(tmp_path, ha=False)
    if first is not None:
        lab.lab.at_server("esx-01", first)  # type: ignore[arg-type]  # one of the words
    with pytest.raises(ValueError, match=says):
        lab.lab.at_server("esx-01", then)  # type: ignore[arg-type]  # one of the words
    with pytest.raises(ValueError, match="BIOS has"):
        lab.lab.at_server("esx-02", "fail", sriov=True)
