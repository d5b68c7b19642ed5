"""cloud-init in a guest: when it runs, what it does, and what leaves it in error."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from pyVmomi import vim

from tests.unit.lab.guest.guest_rig import (
    KEY,
    REPORT,
    STAGE,
    GuestRig,
    bundle,
    guestinfo,
    module,
    packed,
    user_data,
)
from vgpu_cfg.lab.guest.login import host_key_of, open_guest_shell
from vgpu_cfg.lab.guest.system.creation import grow_root, guest_of
from vgpu_cfg.lab.guest.system.nics import nics_of_guest

NAME = module("host-name", host_name="hvd-01", domain="")


@pytest.fixture
def rig() -> GuestRig:
    return GuestRig()


def test_it_sets_up_what_the_document_says(rig: GuestRig) -> None:
    document = user_data(
        bundle(NAME),
        users=["default", {"name": "anna", "ssh_authorized_keys": [KEY], "sudo": ["ALL=(ALL) NOPASSWD:ALL"]}],
        ssh_keys={"ed25519_private": "PRIVATE\n", "ed25519_public": "ssh-ed25519 AAAA host"},
    )
    nic = {"match": {"macaddress": rig.mac()}, "mtu": 9000, "addresses": ["192.168.10.11/24"], "dhcp4": False}
    network = {"version": 2, "ethernets": {"a": nic}}
    vm = rig.up("a", guestinfo(document, network=network))
    guest = guest_of(vm)
    assert (guest.cloud_state, guest.host_name) == ("done", "hvd-01")
    assert set(guest.accounts) == {"root", "ubuntu", "anna"}
    assert guest.files["/etc/ssh/ssh_host_ed25519_key"].mode == 0o600
    assert host_key_of(rig.lab, vm.moid) == "ssh-ed25519 AAAA"
    assert guest.files[STAGE].mode == 0o755
    whole = next(nic for nic in nics_of_guest(rig.lab.state, vm) if nic.is_whole)
    assert (whole.addresses, whole.mtu) == (("192.168.10.11/24",), 9000)
    assert (
        open_guest_shell(rig.lab, vm.moid, "anna", public_key=f"{KEY} anna@home").execute("id -un")[1]
        == "anna\n"
    )
    assert rig.report()["run"] == "first"


def test_it_redacts_what_it_was_told_to_and_tells_its_address(rig: GuestRig) -> None:
    vm = rig.up("a", guestinfo(user_data(bundle(NAME))))
    assert (vm.extra_config["guestinfo.userdata"], vm.extra_config["guestinfo.userdata.encoding"]) == (
        "---",
        " ",
    )
    assert vm.extra_config["guestinfo.metadata"] != "---"
    assert vm.extra_config["guestinfo.local-ipv4"].startswith("10.0.")


def test_it_makes_a_host_key_of_its_own_and_tells_it(rig: GuestRig) -> None:
    one = rig.up("a", guestinfo(user_data(bundle(NAME))))
    shown = host_key_of(rig.lab, one.moid)
    assert shown.startswith("ssh-ed25519 AAAA")
    assert json.loads(one.extra_config["guestinfo.vgpu_cfg.report"])["host_key"] == shown
    assert "PRIVATE KEY" in guest_of(one).files["/etc/ssh/ssh_host_ed25519_key"].content
    # A copy is another instance: it has another key.
    one.extra_config |= guestinfo(user_data(bundle(NAME)), **{"instance-id": "i-2"})
    rig.done(one, "ResetVM_Task")
    rig.booted(one)
    assert host_key_of(rig.lab, one.moid) not in ("", shown)


def test_its_copies_of_user_data_are_emptied_when_the_first_staging_ends(rig: GuestRig) -> None:
    document = user_data(bundle(NAME), users=["default", {"name": "anna", "plain_text_passwd": "a secret"}])
    vm = rig.up("a", guestinfo(document))
    rig.report()
    kept = [path for path in guest_of(vm).files if "/cloud" in path]
    assert "/run/cloud-init/combined-cloud-config.json" in kept
    assert not [path for path in kept if "a secret" in guest_of(vm).files[path].content]


def test_an_instance_runs_once_and_a_new_one_again(rig: GuestRig) -> None:
    vm = rig.up("a", guestinfo(user_data(bundle(NAME))))
    guest_of(vm).host_name = "changed"
    rig.done(vm, "ResetVM_Task")
    assert rig.booted(vm).host_name == "changed"
    vm.extra_config |= guestinfo(user_data(bundle(NAME)), **{"instance-id": "i-2"})
    rig.done(vm, "ResetVM_Task")
    assert rig.booted(vm).host_name == "hvd-01"


@pytest.mark.parametrize("encoding", ["base64", "b64", "gzip+base64", "gz+b64"])
def test_every_encoding_is_read(rig: GuestRig, encoding: str) -> None:
    import base64

    text = user_data(bundle(NAME))
    value = packed(text) if "gz" in encoding else base64.b64encode(text.encode()).decode()
    extra = guestinfo(text) | {"guestinfo.userdata": value, "guestinfo.userdata.encoding": encoding}
    rig.up("a", extra)
    assert rig.states() == {"host-name": "present"}


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ("#cloud-config\nusers: [", "user data"),
        ("#cloud-config\nwrite_file: []\n", "unknown key 'write_file'"),
        ("#!/bin/sh\nid\n", "does not begin with #cloud-config"),
        ("#cloud-config\nwrite_files:\n- {path: /a, content: x, permissions: 644}\n", "permissions"),
        ("#cloud-config\nwrite_files:\n- {path: a, content: x}\n", "not an absolute path"),
        ("#cloud-config\nusers:\n- {name: a, ssh_keys: []}\n", "unknown key 'ssh_keys'"),
    ],
)
def test_a_broken_document_leaves_it_in_error_and_no_report(
    rig: GuestRig, document: str, reason: str
) -> None:
    vm = rig.up("a", guestinfo(document))
    guest = guest_of(vm)
    assert guest.cloud_state == "error"
    assert reason in guest.cloud_why
    assert REPORT not in vm.extra_config


def test_a_wrong_encoding_and_a_broken_network_are_errors(rig: GuestRig) -> None:
    extra = guestinfo(user_data(bundle(NAME))) | {"guestinfo.userdata.encoding": "zip"}
    assert "unknown encoding" in guest_of(rig.up("a", extra)).cloud_why
    network: dict[str, Any] = {"version": 2, "ethernets": {"a": {"adresses": []}}}
    other = rig.up("b", guestinfo(user_data(bundle(NAME)), network=network), number=2)
    assert "unknown key 'adresses'" in guest_of(other).cloud_why


def test_a_template_without_cloud_init_does_nothing(rig: GuestRig) -> None:
    vm = rig.up("a", guestinfo(user_data(bundle(NAME))), source="no-cloud-init")
    assert REPORT not in vm.extra_config
    assert vm.extra_config["guestinfo.userdata"] != "---"
    assert STAGE not in guest_of(vm).files


def test_other_commands_are_noted_and_not_run(rig: GuestRig) -> None:
    vm = rig.up("a", guestinfo(user_data(bundle(NAME), runcmd=["touch /x", [STAGE]])))
    assert "/x" not in guest_of(vm).files
    assert "not run by the lab" in guest_of(vm).files["/var/log/cloud-init-output.log"].content
    assert rig.states() == {"host-name": "present"}


def test_a_disk_that_has_grown_gives_its_room_at_the_next_boot(rig: GuestRig) -> None:
    vm = rig.up("a", guestinfo(user_data(bundle(NAME))))
    guest = guest_of(vm)
    before = guest.free_mib
    key, disk = next(
        (key, one) for key, one in vm.devices.items() if isinstance(one, vim.vm.device.VirtualDisk)
    )
    grown = copy.copy(disk)
    grown.capacityInKB = disk.capacityInKB + 10 * 1024 * 1024
    vm.devices[key] = grown
    assert guest.free_mib == before
    grow_root(vm)
    grow_root(vm)
    assert guest.free_mib == before + 10 * 1024
