"""Which property paths an API version has."""

from __future__ import annotations

import pytest

from vgpu_cfg.vsphere import reader_paths
from vgpu_cfg.vsphere.collector import Item, Paths, is_known

V65 = "vim.version.version11"
V803 = "vim.version.v8_0_3_0"


@pytest.mark.parametrize(
    ("type_name", "path", "version", "expected"),
    [
        ("vim.HostSystem", "config.graphicsInfo", V65, True),
        ("vim.HostSystem", "configManager.assignableHardwareManager", V65, False),
        ("vim.HostSystem", "configManager.assignableHardwareManager", V803, True),
        ("vim.VirtualMachine", 'config.extraConfig["vgpu_cfg.plan"]', V65, True),
        ("vim.VirtualMachine", "config.deviceGroups", V65, False),
    ],
)
def test_a_path_newer_than_the_api_is_not_asked_for(
    type_name: str, path: str, version: str, *, expected: bool
) -> None:
    assert is_known(type_name, path, version) is expected


def test_a_path_that_no_version_has_is_a_bug() -> None:
    with pytest.raises(AttributeError):
        is_known("vim.HostSystem", "config.nosuch", V803)


@pytest.mark.parametrize(
    "paths",
    [
        *reader_paths.FIRST_PASS,
        *reader_paths.HOST_PASS,
        *reader_paths.VM_PASS,
        *reader_paths.VM_AGAIN,
        *reader_paths.HOLDERS,
    ],
    ids=lambda paths: paths.type_name,
)
def test_every_path_that_is_read_exists(paths: Paths) -> None:
    assert all(is_known(paths.type_name, path, V803) for path in paths.paths)


def test_what_was_not_answered_is_absent() -> None:
    item = Item("VirtualMachine", "vm-1", {})
    assert item.get("name") is None
    assert item.get("name", "x") == "x"
    assert item.moid_of("parent") is None
    assert item.moids_of("datastore") == ()
