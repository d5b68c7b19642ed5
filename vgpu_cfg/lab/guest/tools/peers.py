"""Other guests as seen from one guest (ping, names, ssh in the mesh), and its NICs in ethtool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vgpu_cfg.lab.guest.shell import Result, Session
from vgpu_cfg.lab.guest.system import sysfs
from vgpu_cfg.lab.guest.system.creation import guest_of
from vgpu_cfg.lab.guest.system.nics import (
    IP_HEADERS,
    carried,
    find_nic,
    is_down,
    nic_towards,
    nics_of_guest,
    reach,
)
from vgpu_cfg.lab.guest.system.rdma import gbps_of, statistics
from vgpu_cfg.lab.guest.system.sysfs import firmware_of
from vgpu_cfg.lab.guest.tools.base import GONE, fail, out
from vgpu_cfg.lab.state.guest import File, fault_of
from vgpu_cfg.lab.state.inventory import VirtualMachine

MESH = "/etc/vgpu-cfg/mesh"
VALUED = frozenset({"-F", "-o", "-p", "-i", "-l", "-c", "-W", "-s", "-M", "-I", "-w"})


def _words(arguments: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    found: dict[str, str] = {}
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        found[word] = rest.pop(0) if word in VALUED and rest else ""
    return found, rest


def ping(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    """Send packets to another guest; with `-M do` none is cut."""
    options, words = _words(arguments)
    address = words[0] if words else ""
    state = session.lab.state
    own, end = nic_towards(state, session.vm, address), reach(state, session.vm, address)
    size = int(options.get("-s", "56") or 56)
    count = int(options.get("-c", "3") or 3)
    head = f"PING {address} ({address}) {size}({size + IP_HEADERS}) bytes of data."
    if own is not None and size + IP_HEADERS > own.mtu and options.get("-M") == "do":
        return Result(
            1, f"{head}\n".encode(), f"ping: local error: message too long, mtu={own.mtu}\n".encode()
        )
    takes = [carried(*end)] if end is not None else [0]
    takes += [carried(session.vm, own)] if own is not None else []
    is_lost = size + IP_HEADERS > min(takes)
    got, lost = (0, 100) if is_lost else (count, 0)
    tail = f"{count} packets transmitted, {got} received, {lost}% packet loss"
    if is_lost:
        return out(head, "", f"--- {address} ping statistics ---", f"{tail}, time 2050ms", status=1)
    replies = [
        f"{size + 8} bytes from {address}: icmp_seq={number} ttl=64 time=0.100 ms"
        for number in range(1, count + 1)
    ]
    return out(head, *replies, "", f"--- {address} ping statistics ---", f"{tail}, time 2050ms")


def getent(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    """Resolve a name, `getent ahosts NAME`: /etc/hosts goes first, and the lab has no DNS."""
    if len(arguments) != 2 or arguments[0] != "ahosts":
        return fail("Usage: getent [OPTION...] database [key ...]", status=1)
    hosts = session.guest.files.get("/etc/hosts")
    rows = [line.split("#")[0].split() for line in (hosts.content.splitlines() if hosts is not None else ())]
    found = [row[0] for row in rows if arguments[1] in row[1:]]
    kinds = ("STREAM", "DGRAM ", "RAW   ")
    lines = [
        f"{one:<15} {kind} {arguments[1] if kind == 'STREAM' else ''}" for one in found for kind in kinds
    ]
    return out(*lines, status=0 if lines else 2)


def worker_of(session: Session, name: str) -> VirtualMachine | None:
    """Return the running VM whose guest goes by a name, in this guest's /etc/hosts or by itself."""
    hosts = session.guest.files.get("/etc/hosts")
    for line in hosts.content.splitlines() if hosts is not None else ():
        address, *names = line.split("#")[0].split() or [""]
        if name in names:
            end = reach(session.lab.state, session.vm, address)
            return end[0] if end is not None else None
    running = (vm for vm in session.lab.state.all(VirtualMachine) if vm.is_on)
    return next((vm for vm in running if guest_of(vm).is_up and name == guest_of(vm).host_name), None)


def why_no_ssh(session: Session, name: str) -> str | None:
    """Return why the mesh's ssh does not get to a host, None where it does."""
    vm = worker_of(session, name)
    if vm is None:
        return f"ssh: connect to host {name} port 2222: No route to host"
    own, other = session.guest, guest_of(vm)
    if not other.services.get("vgpu-cfg-worker") and not other.services.get("vgpu-cfg-mesh"):
        return f"ssh: connect to host {name} port 2222: Connection refused"
    if f"{MESH}/id" not in own.files:
        return f"no such identity: {MESH}/id: No such file or directory"
    shown, known = _text(other.files, "host_key.pub"), _text(own.files, "known_hosts")
    if shown and " ".join(shown.split()[:2]) not in known:
        return "Host key verification failed."
    key, let_in = _text(own.files, "id.pub"), _text(other.files, "authorized_keys")
    if key and " ".join(key.split()[:2]) not in let_in:
        return f"root@{name}: Permission denied (publickey)."
    return None


def _text(known: Mapping[str, File], name: str) -> str:
    found = known.get(f"{MESH}/{name}")
    return found.content if found is not None else ""


def ssh(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    """Log in to another worker by the mesh; its commands print nothing."""
    options, words = _words(arguments)
    if not words or options.get("-F", f"{MESH}/ssh_config") != f"{MESH}/ssh_config":
        return fail("usage: ssh [-F configfile] destination [command]", status=GONE)
    refusal = why_no_ssh(session, words[0])
    if refusal is not None:
        return fail(refusal, status=GONE)
    vm = worker_of(session, words[0])
    if vm is not None and words[1:] == ["cat", sysfs.BOOT_ID]:
        return out(
            (sysfs.read(session.lab.state, vm, sysfs.BOOT_ID) or "").strip() + fault_of(guest_of(vm), "other")
        )
    return Result()


def _port(session: Session, name: str) -> Result:
    nic = find_nic(nics_of_guest(session.lab.state, session.vm), name=name)
    if nic is None:
        return fail("Cannot get device settings: No such device", "No data available", status=75)
    most = round(sysfs.made_for_gbps(nic) * 1000)
    return out(
        f"Settings for {name}:",
        "\tSupported ports: [ FIBRE ]",
        "\tSupported link modes:   10000baseKR/Full",
        f"\t                        {most}baseCR4/Full",
        "\tSupports auto-negotiation: Yes",
        *(
            ("\tSpeed: Unknown!", "\tDuplex: Unknown! (255)", "\tLink detected: no")
            if is_down(session.vm, nic)
            else (f"\tSpeed: {round(gbps_of(nic) * 1000)}Mb/s", "\tDuplex: Full", "\tLink detected: yes")
        ),
    )


def ethtool(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    """Show an interface's driver and place, its counters, or its port's current and maximum rate."""
    if len(arguments) == 2 and arguments[0] == "-S":
        return _statistics(session, arguments[1])
    if len(arguments) == 1:
        return _port(session, arguments[0])
    if len(arguments) != 2 or arguments[0] != "-i":
        return fail("ethtool: bad command line argument(s)")
    nic = find_nic(nics_of_guest(session.lab.state, session.vm), name=arguments[1])
    if nic is None:
        return fail("Cannot get driver information: No such device", status=71)
    return out(
        f"driver: {nic.driver}",
        f"version: {session.guest.kernel}",
        f"firmware-version: {firmware_of(session.guest) if nic.nic is not None else ''}",
        "expansion-rom-version: ",
        f"bus-info: {nic.pci_id}",
        "supports-statistics: yes",
    )


def _statistics(session: Session, name: str) -> Result:
    nic = find_nic(nics_of_guest(session.lab.state, session.vm), name=name)
    if nic is None:
        return fail("Cannot get stats strings information: No such device", status=94)
    counted = statistics(session.guest, nic) if nic.nic is not None else {}
    if not counted:
        return fail("no stats available", status=94)
    return out("NIC statistics:", *(f"     {key}: {value}" for key, value in counted.items()))
