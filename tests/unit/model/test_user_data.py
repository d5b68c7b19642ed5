"""Guests: a user's own #cloud-config beside vgpu-cfg's."""

from __future__ import annotations

from typing import Any

import pytest

from vgpu_cfg.model.guests.guest import clashes

OURS: dict[str, Any] = {
    "timezone": "UTC",
    "users": [{"name": "vgpu"}, "default"],
    "write_files": [{"path": "/etc/a"}],
    "runcmd": ["true"],
    "ssh_keys": {},
}


@pytest.mark.parametrize(
    ("theirs", "places"),
    [
        ({}, []),
        ({"timezone": "UTC", "packages": ["vim"]}, []),
        ({"timezone": "CET"}, [("timezone",)]),
        ({"runcmd": ["false"]}, []),
        ({"runcmd": "false"}, [("runcmd",)]),
        ({"users": "anna"}, [("users",)]),
        ({"users": ["anna", {"name": "ben"}, {"name": "vgpu"}]}, [("users", 2)]),
        ({"users": [7, {"uid": 7}]}, []),
        ({"write_files": [{"path": "/etc/b"}, {"path": "/etc/a"}]}, [("write_files", 1)]),
        ({"write_files": [{"path": "/etc/vgpu-cfg/own"}]}, [("write_files", 0)]),
        ({"ssh_keys": {"rsa_private": "x"}}, [("ssh_keys",)]),
    ],
)
def test_own_user_data_may_not_contradict(
    theirs: dict[str, Any], places: list[tuple[str | int, ...]]
) -> None:
    found = list(clashes(theirs, OURS))
    assert [one.loc for one in found] == places
    for one in found:
        assert one.message.startswith("it")
        assert str(one.loc[0]) in f"{one.message} {one.remedy}"
