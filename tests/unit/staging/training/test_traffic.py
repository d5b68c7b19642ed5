"""Traffic classes: the kernel takes them in a network namespace of its own, and a fault is seen."""

from __future__ import annotations

import re
import shutil
import subprocess
import uuid
from collections.abc import Iterator

import pytest

from tests.unit.staging.training.sandbox import SYSTEM_PATH, Sandbox, context_for
from tests.unit.staging.training.test_worker import verify
from vgpu_cfg.errors import GuestError
from vgpu_cfg.model.guests.base import GuestNic
from vgpu_cfg.model.guests.modules import TrafficModule

MAC = "00:50:56:00:00:15"
TRAFFIC = "/opt/vgpu-cfg/traffic"


def traffic(**more: object) -> TrafficModule:
    base = {"nic": GuestNic(mac=MAC), "link_mbps": 10000, "control_mbps": 500}
    return TrafficModule.model_validate({**base, **more})


@pytest.fixture
def namespace(guest: Sandbox) -> Iterator[str]:
    """A namespace with one interface, which the guest's sysfs tells of as its management NIC."""
    name = f"vgpu-cfg-{uuid.uuid4().hex[:8]}"
    make(["ip", "netns", "add", name])
    try:
        make(["ip", "-n", name, "link", "add", "ens192", "type", "veth", "peer", "name", "peer0"])
        make(["tc", "-n", name, "qdisc", "add", "dev", "peer0", "root", "htb"])
        furnish(guest)
        yield name
    finally:
        subprocess.run([tool("ip"), "netns", "del", name], check=True, timeout=120)


def tool(name: str) -> str:
    path = shutil.which(name, path=SYSTEM_PATH)
    if path is None:
        pytest.skip(f"{name} is not here: apt-get install iproute2")
    return path


def make(words: list[str]) -> None:
    """Do what wants rights and a kernel that knows it; where either is missing, the test is skipped."""
    line = [tool(words[0]), *words[1:]]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode:
        pytest.skip(f"this machine does not let {' '.join(words)}: {done.stderr.strip()}")


def furnish(guest: Sandbox) -> None:
    guest.write("/sys/class/net/ens192/address", f"{MAC}\n")
    guest.write("/sys/class/net/ens192/device/vendor", "0x15ad\n")
    guest.write("/sys/class/net/br0/address", f"{MAC}\n")


def inside(guest: Sandbox, namespace: str, *words: str) -> subprocess.CompletedProcess[str]:
    return guest.command(["ip", "netns", "exec", namespace, *words])


def test_the_kernel_takes_the_classes(guest: Sandbox, namespace: str) -> None:
    guest.stand_in("systemctl")
    module = traffic()
    assert guest.apply(module, context_for(module)) == 0, guest.output
    script = f"{guest.root}{TRAFFIC}"
    assert inside(guest, namespace, script, "check").returncode != 0
    for _ in range(2):
        done = inside(guest, namespace, script, "start")
        assert done.returncode == 0, done.stderr
        assert done.stderr in ("", "traffic: this kernel has no fq_codel\n" * 2)
    assert inside(guest, namespace, script, "check").returncode == 0
    lines = inside(guest, namespace, "tc", "class", "show", "dev", "ens192").stdout
    assert lines.count("class htb ") == 3
    assert re.search(r"htb 1:10 parent 1:1 (leaf 10: )?prio 0 rate 500Mbit ceil 10Gbit", lines), lines
    assert re.search(r"htb 1:20 parent 1:1 (leaf 20: )?prio 1 rate 9500Mbit ceil 10Gbit", lines), lines
    assert "default 0x20" in inside(guest, namespace, "tc", "qdisc", "show", "dev", "ens192").stdout
    filters = inside(guest, namespace, "tc", "filter", "show", "dev", "ens192").stdout
    # Two ports, from and to, in IPv4 and IPv6; started twice, there is one set.
    assert filters.count("flowid 1:10") == 8
    for match in ("match 00160000/ffff0000", "match 00000016/0000ffff", "match 08ae0000/ffff0000"):
        assert match in filters
    assert inside(guest, namespace, script, "stop").returncode == 0
    assert "htb" not in inside(guest, namespace, "tc", "qdisc", "show", "dev", "ens192").stdout


def test_a_fault_in_it_is_seen(guest: Sandbox, namespace: str) -> None:
    guest.stand_in("systemctl")
    module = traffic()
    assert guest.apply(module, context_for(module)) == 0
    text = guest.read(TRAFFIC).replace("ceil 10000mbit quantum", "ceiling 10000mbit quantum")
    script = guest.write("/faulty", text, 0o755)
    done = inside(guest, namespace, str(script), "start")
    assert done.returncode != 0
    assert "ceiling" in done.stderr


def test_systemd_takes_the_unit(guest: Sandbox) -> None:
    guest.stand_in("systemctl")
    module = traffic()
    assert guest.apply(module, context_for(module)) == 0
    assert "systemctl restart vgpu-cfg-traffic.service" in guest.calls
    assert verify(guest, "/etc/systemd/system/vgpu-cfg-traffic.service") == ""


def test_the_check_looks_at_the_nic(guest: Sandbox) -> None:
    guest.stand_in("systemctl")
    guest.stand_in("tc", 'echo "class htb 1:10 parent 1:1 leaf 10:"')
    guest.write("/sys/class/net/ens192/address", f"{MAC}\n")
    guest.write("/sys/class/net/ens192/device/vendor", "0x15ad\n")
    module = traffic()
    guest.bring(module, context_for(module))
    assert guest.run("traffic", "check") != 0
    assert guest.run("traffic", "apply") == 0
    assert guest.run("traffic", "check") == 0
    guest.stand_in("tc")
    assert guest.run("traffic", "check") != 0


@pytest.mark.parametrize(
    ("nic", "found"),
    [
        (GuestNic(mac=MAC), "ens192"),
        (GuestNic(mac=MAC, name="mgmt0"), "ens192"),
        (GuestNic(driver="vmxnet3"), "ens192"),
        (GuestNic(name="mgmt0"), "mgmt0"),
        (GuestNic(mac="00:50:56:ff:ff:ff"), ""),
    ],
)
def test_the_nic_is_found(guest: Sandbox, nic: GuestNic, found: str) -> None:
    guest.stand_in("systemctl")
    module = traffic(nic=nic)
    assert guest.apply(module, context_for(module)) == 0
    guest.write("/sys/class/net/ens192/address", f"{MAC}\n")
    (guest.root / "drivers/vmxnet3").mkdir(parents=True)
    (guest.root / "sys/class/net/ens192/device").mkdir()
    (guest.root / "sys/class/net/ens192/device/driver").symlink_to(guest.root / "drivers/vmxnet3")
    done = guest.command([f"{guest.root}{TRAFFIC}", "name"])
    assert done.stdout.strip() == found
    assert (done.returncode == 0) == bool(found)


@pytest.mark.parametrize(
    "more",
    [
        {"control_mbps": 0},
        {"control_mbps": 10000},
        {"control_ports": (0,)},
        {"nic": GuestNic(name="a; reboot")},
        {"nic": GuestNic(mac="$(reboot)")},
    ],
)
def test_what_cannot_be_is_refused(guest: Sandbox, more: dict[str, object]) -> None:
    with pytest.raises(GuestError):
        guest.bring(traffic(**more), context_for(traffic(**more)))
