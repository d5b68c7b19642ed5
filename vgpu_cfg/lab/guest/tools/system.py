"""A guest's own state: addresses, disks, devices, services, packages, its name, VMware's tools, time.

Layouts of clocks, services and exporters are chrony's, systemd's and Prometheus'; unused numbers are the
lab's own.

lspci's lines about the ATS capability are pciutils' own; other capabilities are left out. With `-Dnn` an
entry is one line, with the class and ids in brackets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vgpu_cfg.lab.guest.shell import Result, Session, why_not
from vgpu_cfg.lab.guest.system import files, guestinfo
from vgpu_cfg.lab.guest.system.creation import guest_of
from vgpu_cfg.lab.guest.system.gpus import driven_gpus, gpus_of_guest, is_unbuilt, newer_library
from vgpu_cfg.lab.guest.system.nics import PVRDMA, VMXNET3, SeenNic, is_down, nics_of_guest, reach
from vgpu_cfg.lab.guest.system.rdma import has_ats_capability, is_ats_on
from vgpu_cfg.lab.guest.tools.base import WRONG_USE, fail, options, out
from vgpu_cfg.lab.simulation.clock import as_datetime
from vgpu_cfg.lab.state.devices import disks_of
from vgpu_cfg.lab.state.guest import ROOT, fault_of

INACTIVE = 3
FIRST_PID = 4711
FIRST = "first"
"""The word of the run that cloud-init starts: it goes on as long as that."""
ALWAYS = frozenset({"ssh", "sshd", "systemd-networkd", "cloud-init", "open-vm-tools", "vmtoolsd"})
KIB_A_MIB = 1024
SHM = "/dev/shm"  # noqa: S108 - of a simulated guest

NODE_PORT, DCGM_PORT, PROMETHEUS_PORT = 9100, 9400, 9090
REFUSED = 7


def _link(session: Session, index: int, nic: SeenNic) -> dict[str, Any]:
    return {
        "ifindex": index,
        "ifname": nic.name,
        "flags": ["NO-CARRIER", "BROADCAST", "MULTICAST", "UP"]
        if is_down(session.vm, nic)
        else ["BROADCAST", "MULTICAST", "UP", "LOWER_UP"],
        "mtu": nic.mtu,
        "qdisc": "mq",
        "operstate": "DOWN" if is_down(session.vm, nic) else "UP",
        "group": "default",
        "txqlen": 1000,
        "link_type": "ether",
        "address": nic.mac,
        "broadcast": "ff:ff:ff:ff:ff:ff",
    }


def ip(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    """Answer `ip [-j] addr` and `ip [-j] link`."""
    words = [word for word in arguments if not word.startswith("-")]
    is_json = any(word in ("-j", "-json") or (word.startswith("-") and "j" in word) for word in arguments)
    nics = nics_of_guest(session.lab.state, session.vm)
    if len(words) > 1 and words[-1] not in ("show", "list", "addr", "address", "link", "a"):
        nics = [nic for nic in nics if nic.name == words[-1]]
        if not nics:
            return fail(f'Device "{words[-1]}" does not exist.')
    kind = words[0] if words else ""
    entries = [_link(session, index, nic) for index, nic in enumerate(nics, start=2)]
    if kind in ("addr", "address", "a"):
        for entry, nic in zip(entries, nics, strict=True):
            entry["addr_info"] = [
                {
                    "family": "inet",
                    "local": address.partition("/")[0],
                    "prefixlen": int(address.partition("/")[2] or 32),
                    "scope": "global",
                    "label": nic.name,
                }
                for address in nic.addresses
            ]
    elif kind not in ("link", "l"):
        return fail(f'Object "{kind}" is unknown, try "ip help".')
    if is_json:
        return out(json.dumps(entries, separators=(",", ":")))
    return out(*(line for entry in entries for line in _plain(entry)))


def _plain(entry: dict[str, Any]) -> list[str]:
    name, flags = f"{entry['ifindex']}: {entry['ifname']}", ",".join(entry["flags"])
    return [
        f"{name}: <{flags}> mtu {entry['mtu']} qdisc mq state {entry['operstate']} group default qlen 1000",
        f"    link/ether {entry['address']} brd ff:ff:ff:ff:ff:ff",
        *(
            f"    inet {one['local']}/{one['prefixlen']} scope global {one['label']}"
            for one in entry.get("addr_info", ())
        ),
    ]


def find(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    """Find what holds a file open, the only search that clients make: `find /proc … -lname FILE`."""
    if "-lname" not in arguments or session.user != ROOT:
        return fail("find: the lab's guests search /proc for open files, as root", status=WRONG_USE)
    users = [one for one in session.guest.workloads if one.uses_gpu]
    return out(*(f"/proc/{FIRST_PID + place}/fd/9" for place, _ in enumerate(users)))


def df(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    """Show the use of the disk, in KiB blocks, or in the unit of `-BM`, `-BG`, `-m`."""
    if "-Pi" in arguments:
        paths = [word for word in arguments if not word.startswith("-")] or ["/"]
        head = "Filesystem      Inodes  IUsed   IFree IUse% Mounted on"
        return out(head, *["/dev/sda1     8388608 104857 8283751    2% /"] * len(paths))
    unit = 1
    for word in arguments:
        unit = {"-BM": 1024, "-m": 1024, "-BG": 1024 * 1024, "-B1": 0}.get(word, unit)
    disks = sum(disk.capacityInKB or 0 for disk in disks_of(session.vm.devices))
    size = max(disks, (session.guest.free_mib + 1) * KIB_A_MIB)
    free = session.guest.free_mib * KIB_A_MIB
    used = size - free
    suffix = (
        {1024: "M", 1024 * 1024: "G"}.get(unit, "")
        if any(word.startswith("-B") for word in arguments)
        else ""
    )
    numbers = [value * 1024 if unit == 0 else value // unit for value in (size, used, free)]
    if "--output=avail" in arguments:
        return out("Avail", f"{numbers[2]}{suffix}")
    paths = [word for word in arguments if not word.startswith("-")]
    head = "Filesystem     1K-blocks     Used Available Use% Mounted on"
    if "-P" in arguments or "-Pk" in arguments or "-kP" in arguments:
        head = "Filesystem     1024-blocks     Used Available Capacity Mounted on"
    share = -(-used * 100 // size) if size else 0
    row = f"/dev/sda1      {numbers[0]}{suffix} {numbers[1]}{suffix} {numbers[2]}{suffix} {share}% /"
    return out(head, *(_shm_row(session) if path == SHM else row for path in paths or ("/",)))


def _shm_row(session: Session) -> str:
    """Show /dev/shm: half of the memory, unless it was given a size."""
    own = int(fault_of(session.guest, "shm") or 0) or session.guest.shm_mib or session.vm.memory_mib // 2
    return f"tmpfs          {own * KIB_A_MIB} 0 {own * KIB_A_MIB} 0% {SHM}"


def systemctl(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    """Answer about units; a restart of an existing one has no other effect."""
    words = [word for word in arguments if not word.startswith("-")]
    if not words:
        return out("")
    verb, units = words[0], [word.removesuffix(".service") for word in words[1:]]
    for unit in units if verb == "stop" else ():
        _stop_transient(session, unit)
    states = ["active" if _is_active(session, unit) else "inactive" for unit in units]
    match verb:
        case "is-active":
            shown = [] if "-q" in arguments or "--quiet" in arguments else states
            return out(*shown, status=0 if all(state == "active" for state in states) else INACTIVE)
        case "is-enabled":
            off = fault_of(session.guest, "boot").split()
            shown = [
                "disabled" if state != "active" or unit in off else "enabled"
                for unit, state in zip(units, states, strict=True)
            ]
            return out(*shown, status=int("enabled" not in shown))
        case "start" | "restart" | "enable" | "reload" | "stop" | "disable":
            for unit, state in zip(units, states, strict=True):
                if verb == "stop":
                    session.guest.services[unit] = False
                elif state == "inactive" and not _is_known(session, unit):
                    return fail(f"Failed to {verb} {unit}.service: Unit {unit}.service not found.", status=5)
                if unit in session.guest.services:
                    session.guest.services[unit] = verb not in ("stop", "disable")
            session.lab.state.touch(session.vm)
            return Result()
        case "daemon-reload":
            return Result()
        case "is-system-running":
            return out("running")
        case "show" | "status":
            return out(*(f"ActiveState={state}" for state in states))
        case _:
            return fail(f"Unknown command verb {verb}.")


def _stop_transient(session: Session, unit: str) -> None:
    """End what systemd-run started under this name."""
    guest = session.guest
    guest.listening = {port: text for port, text in guest.listening.items() if not text.endswith(f"#{unit}")}
    guest.services.pop(unit, None)


def _is_active(session: Session, unit: str) -> bool:
    guest = session.guest
    if unit in guest.services:
        return guest.services[unit]
    if unit in ("docker", "containerd"):
        return unit in guest.runtimes or (unit == "containerd" and "docker" in guest.runtimes)
    if unit == "nvidia-gridd":
        return bool(guest.driver)
    if unit in ("open-vm-tools", "vmtoolsd"):
        return session.vm.tools_installed
    return unit in ALWAYS


def _is_known(session: Session, unit: str) -> bool:
    return unit in session.guest.services or any(
        path.endswith(f"/{unit}.service") for path in session.guest.files
    )


def cloud_init(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    """Show the progress of cloud-init: `done`, or `error`, or `disabled` if it found no data."""
    guest = session.guest
    if not guest.cloud_init:
        return Result(127, err=b"sh: 1: cloud-init: not found\n")
    if list(arguments) == ["--version"]:
        return out("/usr/bin/cloud-init 24.1.3-0ubuntu1~22.04.1")
    if list(arguments[:1]) != ["status"]:
        return fail("usage: cloud-init [-h] status")
    state = guest.cloud_state or "disabled"
    staged = guest.staging
    if state == "done" and staged is not None and not staged.is_over and staged.run == FIRST:
        state = "running"
    return out(f"status: {state}", status=1 if state == "error" else 0)


def host_name(session: Session, _arguments: Sequence[str], _stdin: bytes) -> Result:
    return out(session.guest.host_name)


def uname(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    return out(session.guest.kernel if list(arguments) == ["-r"] else "Linux")


def user_id(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    number = "0" if session.user == "root" else "1000"
    if list(arguments) == ["-u"]:
        return out(number)
    if list(arguments) == ["-un"]:
        return out(session.user)
    return out(f"uid={number}({session.user}) gid={number}({session.user}) groups={number}({session.user})")


def date(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    off = float(fault_of(session.guest, "clock") or 0)
    now = as_datetime(session.lab.clock.now() + off)
    forms = {
        "+%s": str(int(now.timestamp())),
        "+%s.%N": f"{now.timestamp():.9f}",
        "-Is": f"{now:%Y-%m-%dT%H:%M:%S}+00:00",
    }
    form = next((word for word in arguments if word in forms), "")
    return out(forms.get(form, f"{now:%a %b %e %H:%M:%S UTC %Y}"))


def sleep(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    seconds = float(arguments[0].rstrip("s")) if arguments else 0.0
    session.lab.clock.wait(session.lab.clock.now() + session.lab.clock.scaled(seconds), session.lab.changed)
    return Result()


def modinfo(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    """Show the version of NVIDIA's module, `modinfo -F version nvidia`."""
    guest = session.guest
    if list(arguments) == ["-F", "version", "nvidia"] and guest.driver and not is_unbuilt(guest):
        return out(newer_library(guest) or guest.driver)
    return fail(f"modinfo: ERROR: Module {arguments[-1] if arguments else ''} not found.")


def vmtoolsd(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    """Read and write guestinfo: `vmtoolsd --cmd "info-get guestinfo.x"`."""
    if not session.vm.tools_installed:
        return Result(127, err=b"sh: 1: vmtoolsd: not found\n")
    words = list(arguments)
    if words == ["-v"]:
        return out("VMware Tools daemon, version 12.3.5.46049 (build-22544099)")
    if len(words) != 2 or words[0] != "--cmd":
        return fail("vmtoolsd: unknown option")
    verb, _, rest = words[1].partition(" ")
    name, _, value = rest.strip().partition(" ")
    name = name.removeprefix(guestinfo.PREFIX)
    if verb == "info-get":
        found = session.vm.extra_config.get(f"{guestinfo.PREFIX}{name}")
        return out(found) if found else fail("No value found")
    if verb == "info-set":
        guestinfo.write(session.vm, name, value)
        session.lab.state.touch(session.vm)
        return out("")
    return fail("Unknown command")


def grep(session: Session, arguments: Sequence[str], stdin: bytes) -> Result:
    """Search files, or piped input; of several files each line names its own."""
    letters, words = options(arguments)
    if not words:
        return fail("Usage: grep [OPTION]... PATTERNS [FILE]...", status=WRONG_USE)
    pattern = re.compile(
        re.escape(words[0]) if "F" in letters else words[0], re.IGNORECASE if "i" in letters else 0
    )
    found: list[str] = []
    missing = False
    for name in words[1:] or ["-"]:
        try:
            content = stdin if name == "-" else session.read(session.path(name))
        except (files.NoSuchPathError, PermissionError):
            missing = True
            continue
        prefix = f"{name}:" if len(words) > 2 and "h" not in letters else ""
        lines = content.decode("utf-8", "replace").splitlines()
        found += [f"{prefix}{line}" for line in lines if bool(pattern.search(line)) is not ("v" in letters)]
    status = 0 if found else 2 if missing else 1
    if "q" in letters:
        return Result(status)
    if "c" in letters:
        return out(str(len(found)), status=status)
    return out(*found, status=status)


def head(_session: Session, arguments: Sequence[str], stdin: bytes) -> Result:
    number = next((int(word.lstrip("-nc") or 0) for word in arguments if word.lstrip("-nc").isdigit()), 10)
    if any(word.startswith("-c") for word in arguments):
        return Result(0, stdin[:number])
    return Result(0, b"".join(stdin.splitlines(keepends=True)[:number]))


def tee(session: Session, arguments: Sequence[str], stdin: bytes) -> Result:
    letters, words = options(arguments)
    for word in words:
        try:
            session.write(session.path(word), stdin, append="a" in letters)
        except PermissionError as error:
            return Result(1, stdin, f"tee: {word}: {why_not(error)}\n".encode())
        except (files.NoSuchPathError, files.PathTakenError):
            return Result(1, stdin, f"tee: {word}: No such file or directory\n".encode())
    return Result(0, stdin)


def wc(_session: Session, arguments: Sequence[str], stdin: bytes) -> Result:
    """Count the bytes or lines of piped input."""
    return out(str(stdin.count(b"\n") if "-l" in arguments else len(stdin)))


def chronyc(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    """Show chronyd's source."""
    if not session.guest.services.get("chrony"):
        return Result(127, err=b"sh: 1: chronyc: not found\n")
    if list(arguments) not in (["tracking"], ["-n", "tracking"]):
        return fail("Unrecognized command")
    follows = not fault_of(session.guest, "clock")
    return out(
        f"Reference ID    : {'0A000001 (10.0.0.1)' if follows else '00000000 ()'}",
        f"Stratum         : {3 if follows else 0}",
        "System time     : 0.000001140 seconds fast of NTP time",
        f"Leap status     : {'Normal' if follows else 'Not synchronised'}",
    )


def timedatectl(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    """Show whether the clock is synchronised."""
    if list(arguments) != ["show"]:
        return fail("Unknown command verb.")
    follows = not fault_of(session.guest, "clock")
    return out("Timezone=Etc/UTC", "CanNTP=yes", "NTP=yes", f"NTPSynchronized={'yes' if follows else 'no'}")


def dmesg(session: Session, _arguments: Sequence[str], _stdin: bytes) -> Result:
    """Print the relevant lines of the kernel log."""
    if session.user != "root":
        return fail("dmesg: read kernel buffer failed: Operation not permitted")
    said = fault_of(session.guest, "log")
    return out(
        f"[    0.000000] Linux version {session.guest.kernel} (lab@lab) #1 SMP",
        *([f"[ 5021.114422] {said}"] if said else []),
    )


def findmnt(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    """Show the file system of a path: `findmnt -n -o FSTYPE,SOURCE -T PATH`."""
    path = arguments[-1].rstrip("/") if arguments else "/"
    server = session.guest.mounts.get(path, "") if not fault_of(session.guest, "mount") else ""
    own = f"{fault_of(session.guest, 'root') or 'rw'},relatime"
    shown = {
        "FSTYPE": "nfs4" if server else "ext4",
        "SOURCE": f"{server}:{path}" if server else "/dev/sda1",
        "TARGET": path if server else "/",
        "OPTIONS": "rw,relatime,vers=4.2" if server else own,
    }
    asked = arguments[arguments.index("-o") + 1].split(",") if "-o" in arguments else ["FSTYPE"]
    return out(" ".join(shown[name] for name in asked if name in shown))


def _is_scraped(session: Session, target: str) -> bool:
    """Whether Prometheus gets an answer of a target, an address with its port."""
    end = reach(session.lab.state, session.vm, target.partition(":")[0])
    if end is None:
        return False
    guest = guest_of(end[0])
    is_open = end[0] is session.vm or not fault_of(guest, "firewall")
    return is_open and guest.services.get("vgpu-cfg-exporter", False) and not fault_of(guest, "metrics")


def curl(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    """Answer for what listens in the guest itself: exporters and Prometheus."""
    address = arguments[-1] if arguments else ""
    port = int(address.partition("127.0.0.1:")[2].partition("/")[0] or 0)
    services = session.guest.services
    serves = {
        NODE_PORT: services.get("vgpu-cfg-exporter"),
        DCGM_PORT: services.get("vgpu-cfg-exporter"),
        PROMETHEUS_PORT: services.get("vgpu-cfg-server"),
    }
    if not serves.get(port) or fault_of(session.guest, "metrics"):
        return fail(
            f"curl: (7) Failed to connect to 127.0.0.1 port {port}: Connection refused", status=REFUSED
        )
    if port == PROMETHEUS_PORT:
        rows = [
            {"metric": {"instance": one}, "value": [0, str(int(_is_scraped(session, one)))]}
            for one in session.guest.targets
        ]
        return out(json.dumps({"status": "success", "data": {"resultType": "vector", "result": rows}}))
    gpus = driven_gpus(session.lab.state, session.vm)
    samples = [
        f'DCGM_FI_DEV_GPU_UTIL{{gpu="{number}",UUID="{gpu.uuid}"}} 0' for number, gpu in enumerate(gpus)
    ]
    own = [f'node_uname_info{{nodename="{session.guest.host_name}"}} 1'] if port == NODE_PORT else []
    return out(*own, *samples)


VMWARE, MELLANOX, NVIDIA = 0x15AD, 0x15B3, 0x10DE
VMXNET3_ID, PVRDMA_ID, MLX5_FUNCTION = 0x07B0, 0x0820, 0x101E


@dataclass(frozen=True, slots=True)
class Function:
    """One function on the guest's bus."""

    address: str
    class_id: int
    class_name: str
    vendor_id: int
    device_id: int
    name: str
    driver: str = ""
    ats: bool | None = None
    """Whether the capability's switch is on; None without the capability."""


def _functions(session: Session) -> list[Function]:
    state, vm = session.lab.state, session.vm
    found = [_nic(session, nic) for nic in nics_of_guest(state, vm)]
    for gpu in gpus_of_guest(state, vm):
        pci = gpu.gpu.pci
        driver = "nvidia" if session.guest.driver else "nouveau" if session.guest.has_nouveau else ""
        name = f"NVIDIA Corporation {gpu.gpu.name.removeprefix('NVIDIA ')}"
        found.append(
            Function(gpu.pci_id, 0x0302, "3D controller", NVIDIA, pci.device_id, name, driver, ats=None)
        )
    return sorted(found, key=lambda one: one.address)


def _nic(session: Session, nic: SeenNic) -> Function:
    kind = (0x0200, "Ethernet controller")
    if nic.driver in (VMXNET3, PVRDMA):
        return Function(nic.pci_id, *kind, VMWARE, VMXNET3_ID, "VMware VMXNET3 Ethernet Controller", VMXNET3)
    if nic.is_whole and nic.nic is not None:
        ats = is_ats_on(session.lab.state, session.vm, nic) if has_ats_capability(nic) else None
        pci = nic.nic.pci
        return Function(
            nic.pci_id,
            *kind,
            MELLANOX,
            pci.device_id,
            f"{pci.vendor_name} {pci.device_name}",
            nic.driver,
            ats,
        )
    name = "Mellanox Technologies ConnectX Family mlx5Gen Virtual Function"
    return Function(nic.pci_id, *kind, MELLANOX, MLX5_FUNCTION, name, nic.driver)


def lspci(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    """List the bus, or a part of it: `-s` an address, `-d` ids, `-nn` with numbers, `-D` with the domain."""
    words, slot, ids, letters = list(arguments), "", "", ""
    while words:
        word = words.pop(0)
        if word == "-s" and words:
            slot = words.pop(0)
        elif word == "-d" and words:
            ids = words.pop(0)
        elif word.startswith("-s"):
            slot = word[2:]
        elif word.startswith("-d"):
            ids = word[2:]
        else:
            letters += word.lstrip("-")
    found = [one for one in _functions(session) if _is_meant(one, slot, ids)]
    lines: list[str] = []
    for one in found:
        lines.append(
            _heading(
                one, with_domain="D" in letters, with_ids="nn" in letters, only_ids=letters.count("n") == 1
            )
        )
        if "v" in letters:
            lines += [*_details(one, very="vv" in letters, is_root=session.user == "root"), ""]
        elif "k" in letters and one.driver:
            lines.append(f"\tKernel driver in use: {one.driver}")
    return out(*lines)


def _is_meant(one: Function, slot: str, ids: str) -> bool:
    if slot and slot not in (one.address, one.address.removeprefix("0000:")):
        return False
    vendor, _, device = ids.partition(":")
    if vendor and int(vendor, 16) != one.vendor_id:
        return False
    return not device or int(device, 16) == one.device_id


def _heading(one: Function, *, with_domain: bool, with_ids: bool, only_ids: bool) -> str:
    address = one.address if with_domain else one.address.removeprefix("0000:")
    ids = f"{one.vendor_id:04x}:{one.device_id:04x}"
    if with_ids:
        return f"{address} {one.class_name} [{one.class_id:04x}]: {one.name} [{ids}]"
    if only_ids:
        return f"{address} {one.class_id:04x}: {ids}"
    return f"{address} {one.class_name}: {one.name}"


def _details(one: Function, *, very: bool, is_root: bool) -> list[str]:
    lines = ["\tControl: I/O- Mem+ BusMaster+ SpecCycle- MemWINV- VGASnoop- ParErr- Stepping- SERR- DisINTx+"]
    if not is_root:
        lines.append("\tCapabilities: <access denied>")
    elif one.ats is not None:
        lines.append("\tCapabilities: [1c0 v1] Address Translation Service (ATS)")
        if very:
            switch = "+" if one.ats else "-"
            lines.append("\t\tATSCap:\tInvalidate Queue Depth: 00")
            lines.append(f"\t\tATSCtl:\tEnable{switch}, Smallest Translation Unit: 00")
    if one.driver:
        lines.append(f"\tKernel driver in use: {one.driver}")
    return lines
