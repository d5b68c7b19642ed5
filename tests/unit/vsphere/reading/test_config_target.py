"""Which lists of a host's config target name its system id."""

from __future__ import annotations

from typing import Any

import pytest
from pyVmomi import vim

from vgpu_cfg.vsphere.reading.host_kinds import system_id_of

ID = "5d3a1c6e-7e1f-4b34-a6cd-001b21aa10f0"
FUNCTION = vim.host.PciDevice(id="0000:24:00.0")


def handed_out(system_id: str) -> Any:
    return vim.vm.PciPassthroughInfo(name="gpu", pciDevice=FUNCTION, systemId=system_id)


def nic(system_id: str) -> Any:
    return vim.vm.SriovInfo(
        name="nic", pciDevice=FUNCTION, systemId=system_id, virtualFunction=False, pnic="vmnic2"
    )


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (vim.vm.ConfigTarget(pciPassthrough=[handed_out(ID)]), ID),
        (vim.vm.ConfigTarget(sriov=[nic(ID)]), ID),
        (vim.vm.ConfigTarget(pciPassthrough=[handed_out("")], sriov=[nic(""), nic(ID)]), ID),
        (vim.vm.ConfigTarget(pciPassthrough=[], sriov=[]), ""),
        (vim.vm.ConfigTarget(), ""),
        (None, ""),
    ],
)
def test_either_list_names_the_system_id(target: Any, expected: str) -> None:
    assert system_id_of(target) == expected
