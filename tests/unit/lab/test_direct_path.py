"""DirectPath profiles of a vCenter 9, as an estate says them and this tool's reader counts them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyVmomi import vim

from tests.contract.vcenters import FixedClock
from tests.unit.lab.rig import Rig, estate_of
from tests.unit.lab.wire.client import connect
from vgpu_cfg.lab.simulation.sessions import LAB_CREDENTIALS
from vgpu_cfg.lab.state.host import VgpuUse
from vgpu_cfg.model.observed.inventory import DirectPathCapacity
from vgpu_cfg.vsphere.reading.reader import VCenterReader
from vgpu_cfg.vsphere.wire.session import Session

ESTATE = """
about: DirectPath profiles
vcenter:
  release: "{release}"
  direct_path:
  - {{name: half, vgpu: grid_a100-20c, reserved: {{esx-1: 1}}}}
  - {{name: whole, vgpu: grid_a100-40c}}
clusters:
- name: gpu
  hosts:
  - {{name: esx-1, esxi: "{release}", gpus: [{{board: A100, count: 2}}]}}
  - {{name: esx-2, esxi: "{release}", gpus: [{{board: A100}}]}}
"""


def rig_of(tmp_path: Path, release: str = "9.0") -> Rig:
    return Rig(estate_of(ESTATE.format(release=release), tmp_path))


def capacity(rig: Rig, target: Any, *names: str) -> dict[str, tuple[int, int, int, int]]:
    manager = connect(rig.lab).content.directPathProfileManager
    specs = [vim.DirectPathProfileManager.CapacityQueryByName(name=name) for name in names]
    found = manager.QueryDirectPathProfileCapacity(target, specs)
    return {one.profile.name: (one.consumed, one.remaining, one.max, one.unusedReservation) for one in found}


def on_host(rig: Rig, name: str) -> Any:
    return vim.DirectPathProfileManager.TargetHost(host=vim.HostSystem(rig.host(name).moid))


def test_a_host_counts_what_it_could_give_and_what_is_promised(tmp_path: Path) -> None:
    rig = rig_of(tmp_path)
    assert capacity(rig, on_host(rig, "esx-1")) == {"half": (0, 4, 4, 1), "whole": (0, 2, 2, 0)}
    rig.host("esx-1").gpus[0].uses.append(VgpuUse(vm="vm-1", device_key=13000, profile="grid_a100-20c"))
    assert capacity(rig, on_host(rig, "esx-1"), "whole", "half") == {
        "whole": (0, 1, 2, 0),
        "half": (1, 3, 4, 1),
    }


def test_a_profile_that_there_is_not_is_unknown(tmp_path: Path) -> None:
    rig = rig_of(tmp_path)
    manager = connect(rig.lab).content.directPathProfileManager
    spec = vim.DirectPathProfileManager.CapacityQueryByName(name="none")
    (found,) = manager.QueryDirectPathProfileCapacity(on_host(rig, "esx-2"), [spec])
    assert isinstance(found, vim.DirectPathProfileManager.CapacityUnknown)


def test_profiles_are_listed(tmp_path: Path) -> None:
    manager = connect(rig_of(tmp_path).lab).content.directPathProfileManager
    listed = manager.ListDirectPathProfiles(vim.DirectPathProfileManager.FilterSpec())
    assert [(one.name, one.deviceConfig.vgpuProfile) for one in listed] == [
        ("half", "grid_a100-20c"),
        ("whole", "grid_a100-40c"),
    ]


@pytest.mark.parametrize(("release", "has_it"), [("9.0", True), ("8.0 U3", False)])
def test_a_vcenter_before_9_has_no_manager(tmp_path: Path, release: str, *, has_it: bool) -> None:
    content = connect(rig_of(tmp_path, release).lab).content
    assert (content.directPathProfileManager is not None) == has_it


def hosts_of(rig: Rig) -> dict[str, tuple[DirectPathCapacity, ...] | None]:
    with Session(rig.lab, "lab", LAB_CREDENTIALS.user, LAB_CREDENTIALS.password) as session:
        inventory, _ = VCenterReader(session, FixedClock()).read_everything()
    return {host.name: host.direct_path for host in inventory.hosts}


def test_the_reader_keeps_each_hosts_capacity(tmp_path: Path) -> None:
    half = next(one for one in hosts_of(rig_of(tmp_path))["esx-1"] or () if one.name == "half")
    assert (half.vgpu_profile, half.remaining, half.unused_reservation) == ("grid_a100-20c", 4, 1)


def test_the_reader_does_not_know_before_9(tmp_path: Path) -> None:
    assert hosts_of(rig_of(tmp_path, "8.0 U3")) == {"esx-1": None, "esx-2": None}
