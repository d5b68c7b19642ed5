"""The guest's NICs: one configuration, for cloud-init at the first boot and in netplan's file ever after."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.staging.sandbox import Sandbox, context, spec_of
from vgpu_cfg.documents.foreign import read_foreign
from vgpu_cfg.errors import GuestError
from vgpu_cfg.model.guests.base import GuestNic
from vgpu_cfg.model.guests.modules import NetworkModule
from vgpu_cfg.staging import cloud_init
from vgpu_cfg.staging.bundle import stage_module
from vgpu_cfg.staging.netplan import keyfile, link_file, network_config

MANAGEMENT = GuestNic(mac="00:50:56:00:00:01", dhcp=True)
RDMA = GuestNic(
    mac="B8:3F:D2:00:00:01", name="roce0", addresses=("10.111.0.11/24", "fd00::11/64"), mtu=9000,
    gateway="10.111.0.1", dns=("10.0.0.53",), optional=True,
)  # fmt: skip
BY_DRIVER = GuestNic(driver="mlx5_core", addresses=("10.111.0.11/24",), mtu=9000)
MODULE = NetworkModule(nics=(MANAGEMENT, RDMA))

PLAN_FILE = "/etc/netplan/60-vgpu-cfg.yaml"
OLD_FILE = "/etc/netplan/50-cloud-init.yaml"
NO_CLOUD_INIT = "/etc/cloud/cloud.cfg.d/99-vgpu-cfg-network.cfg"


def test_netplans_words() -> None:
    assert network_config(MODULE.nics) == {
        "version": 2,
        "ethernets": {
            "00-vgpu-cfg-0": {
                "match": {"macaddress": "00:50:56:00:00:01"},
                "dhcp4": True,
                "dhcp-identifier": "mac",
            },
            "00-vgpu-cfg-1": {
                "match": {"macaddress": "b8:3f:d2:00:00:01"},
                "set-name": "roce0",
                "dhcp4": False,
                "dhcp6": False,
                "addresses": ["10.111.0.11/24", "fd00::11/64"],
                "routes": [{"to": "0.0.0.0/0", "via": "10.111.0.1"}],
                "nameservers": {"addresses": ["10.0.0.53"]},
                "mtu": 9000,
                "optional": True,
            },
        },
    }
    assert network_config([BY_DRIVER])["ethernets"]["00-vgpu-cfg-0"]["match"] == {"driver": "mlx5_core"}


def test_the_first_boot_has_the_same() -> None:
    metadata = read_foreign(cloud_init.metadata(spec_of(MODULE)), "metadata")
    assert metadata["network"] == network_config(MODULE.nics)


@pytest.mark.parametrize(
    "nic",
    [
        {},
        {"mac": "00:50:56"},
        {"mac": "$(reboot)"},
        {"driver": "mlx5 core"},
        {"driver": "vmxnet3", "name": "a b"},
        {"driver": "vmxnet3", "name": "sixteen-letters-x"},
        {"driver": "vmxnet3", "addresses": ("10.0.0.1",)},
        {"driver": "vmxnet3", "addresses": ("10.0.0.1/33",)},
        {"driver": "vmxnet3", "gateway": "10.0.0.1/24"},
        {"driver": "vmxnet3", "dns": ("dns\nx: 1",)},
    ],
)
def test_what_no_nic_can_have_is_refused(nic: dict[str, Any]) -> None:
    module = NetworkModule(nics=(GuestNic.model_validate(nic),))
    with pytest.raises(GuestError):
        stage_module(module, context(spec_of(module)))


@pytest.fixture
def wired(guest: Sandbox) -> Sandbox:
    guest.nic("ens160", "00:50:56:00:00:01", driver="vmxnet3", pci="0000:0b:00.0")
    guest.nic("ens192", "b8:3f:d2:00:00:01", rdma="mlx5_0")
    # A bond has the address of its NIC, and is none.
    guest.write("/sys/class/net/bond0/address", "b8:3f:d2:00:00:01\n")
    guest.stand_in("ip", 'cat "$ROOT/addresses" 2>/dev/null; exit 0')
    guest.stand_in("sleep")
    return guest


UP = """echo 9000 >"$ROOT/sys/class/net/ens192/mtu"
echo '3: ens192 inet 10.111.0.11/24 brd x' >"$ROOT/addresses"
echo '3: ens192 inet6 fd00::11/64 scope global' >>"$ROOT/addresses"
"""


def with_netplan(guest: Sandbox, up: str = UP) -> None:
    """Give the guest the real `netplan generate`; only `netplan apply` is played."""
    guest.real("netplan")
    guest.bin.joinpath("netplan").rename(guest.bin / "netplan.real")
    guest.stand_in(
        "netplan", f'case "$1" in generate) exec "{guest.bin}/netplan.real" "$@" ;; apply) {up} ;; esac'
    )


def test_netplan_is_written_and_applied(wired: Sandbox) -> None:
    with_netplan(wired)
    wired.write("/etc/cloud/cloud.cfg", "")
    wired.bring(wired.stage(MODULE))
    assert wired.mode(PLAN_FILE) == 0o600
    assert read_foreign(wired.read(PLAN_FILE), PLAN_FILE) == {"network": network_config(MODULE.nics)}
    assert read_foreign(wired.read(NO_CLOUD_INIT), "") == {"network": {"config": "disabled"}}
    assert [line.split()[1] for line in wired.calls("netplan")] == ["generate", "apply"]


def test_a_network_that_the_first_boot_made_is_taken_over_without_a_break(wired: Sandbox) -> None:
    with_netplan(wired, "exit 9")
    (wired.root.parent / "up").write_text(f'ROOT="{wired.root}"\n{UP}')
    wired.run((wired.root.parent / "up").read_text())
    wired.write("/etc/cloud/cloud.cfg", "")
    first = cloud_init.metadata(spec_of(MODULE)).partition('"network":')[2]
    wired.write(OLD_FILE, f'"network":{first}', 0o600)
    wired.bring(wired.stage(MODULE))
    assert not wired.path(OLD_FILE).exists()


def test_a_netplan_file_of_the_templates_own_stays(wired: Sandbox) -> None:
    with_netplan(wired)
    own = "network:\n  version: 2\n  ethernets:\n    ens224:\n      dhcp4: true\n"
    wired.write(OLD_FILE, own, 0o600)
    wired.bring(wired.stage(MODULE))
    assert wired.read(OLD_FILE) == own


def test_another_address_replaces_the_old_one(wired: Sandbox) -> None:
    with_netplan(wired)
    wired.bring(wired.stage(MODULE))
    other = GuestNic(mac=RDMA.mac, addresses=("10.111.0.12/24",), mtu=9000)
    wired.stand_in(
        "netplan", 'case "$1" in apply) echo "3: ens192 inet 10.111.0.12/24 x" >"$ROOT/addresses" ;; esac'
    )
    wired.bring(wired.stage(NetworkModule(nics=(MANAGEMENT, other))))
    assert "10.111.0.11" not in wired.read(PLAN_FILE)


def test_what_netplan_refuses_leaves_the_network_as_it_was(wired: Sandbox) -> None:
    with_netplan(wired)
    wired.bring(wired.stage(MODULE))
    before = wired.read(PLAN_FILE)
    script = wired.stage(MODULE)
    broken = wired.read("/var/lib/vgpu-cfg/files/network.yaml").replace('"addresses"', '"adresses"', 1)
    wired.write("/var/lib/vgpu-cfg/files/network.yaml", broken)
    ran = wired.run(script, "apply")
    assert ran.status == 1
    assert "netplan rejects the guest's network configuration, which was left unchanged" in ran.why
    assert "adresses" in ran.why
    assert wired.read(PLAN_FILE) == before


def test_a_nic_that_is_not_there_is_named(guest: Sandbox) -> None:
    guest.stand_in("netplan")
    guest.stand_in("sleep")
    ran = guest.run(guest.stage(MODULE), "apply")
    assert (ran.status, ran.why) == (1, "the guest has no NIC 00:50:56:00:00:01")


def test_addresses_that_do_not_come_are_named(wired: Sandbox) -> None:
    with_netplan(wired, ":")
    ran = wired.run(wired.stage(MODULE), "apply")
    assert (ran.status, ran.why) == (1, "the MTU on ens192 is not 9000")


def test_a_guest_with_neither_is_told(wired: Sandbox) -> None:
    ran = wired.run(wired.stage(MODULE), "apply")
    assert ran.why.startswith("neither netplan nor NetworkManager is installed in the guest")


def test_network_manager_has_profiles(wired: Sandbox) -> None:
    wired.stand_in("nmcli", f'case "$*" in *"up vgpu-cfg-1") {UP} ;; esac')
    gone = "/etc/NetworkManager/system-connections/vgpu-cfg-7.nmconnection"
    wired.write(gone, "", 0o600)
    wired.bring(wired.stage(MODULE))
    assert wired.mode("/etc/NetworkManager/system-connections/vgpu-cfg-1.nmconnection") == 0o600
    assert not wired.path(gone).exists()
    assert wired.calls("nmcli")[0] == "nmcli connection reload"


def test_a_profile_in_full() -> None:
    lines = keyfile(RDMA, 1).splitlines()
    assert [line for line in lines if not line.startswith("uuid=")] == [
        "[connection]", "id=vgpu-cfg-1", "type=ethernet", "autoconnect-priority=100", "",
        "[ethernet]", "mac-address=B8:3F:D2:00:00:01", "mtu=9000", "",
        "[ipv4]", "method=manual", "address1=10.111.0.11/24", "gateway=10.111.0.1", "dns=10.0.0.53;",
        "may-fail=true", "",
        "[ipv6]", "method=manual", "address1=fd00::11/64", "may-fail=true",
    ]  # fmt: skip
    assert "[match]\ndriver=mlx5_core;\n" in keyfile(BY_DRIVER, 0)
    assert "method=auto\ndhcp-client-id=mac" in keyfile(MANAGEMENT, 0)
    assert link_file(RDMA) == "[Match]\nMACAddress=b8:3f:d2:00:00:01\n\n[Link]\nName=roce0\n"
