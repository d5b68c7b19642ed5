"""Output of small tools of a Linux guest: modules, interfaces, services, clock, work, disks, kernel log, PCI.

Work that runs in a guest is read from its processes and containers, by one line of shell. A process that uses
CUDA holds /dev/nvidia-uvm open, NVIDIA's daemons do not. Processes started by `train` have its variables.
Containers of this tool are known by their names, and are no work by themselves.

A guest's clock has a time, and a service that keeps it right or not. Of file systems the free room is read,
in POSIX' form, and whether the root is read-only. The kernel's log shows failing hardware: GPUs by Xid, PCIe,
NICs, disks. `lspci -vvv` shows a function's link, its read requests, and whether it uses ATS; without root's
rights it prints `Capabilities: <access denied>`.

Sources: kmod `lsmod(8)`; iproute2 `ip -json address show`; ethtool; `systemctl(1)`, is-active; Horovod's list
of its parts: horovod/horovod, `horovod/runner/launch.py`, `--check-build`. Clock: coreutils `date +%s.%N`;
chrony, `chronyc tracking` ("Leap status : Not synchronised"); systemd, `timedatectl show`
("NTPSynchronized=yes"). File systems: POSIX, df, `df -Pk`; GNU coreutils, `df -Pi`, whose columns are of
inodes; proc(5), /proc/mounts. Kernel's log: NVIDIA's Xid catalogue; PCIe: kernel, `drivers/pci/pcie/aer.c`
("PCIe Bus Error: severity=Corrected") and `drivers/pci/setup-res.c` ("BAR 1 [mem 0x…]: assigned"). lspci:
pciutils, `ls-caps.c` and `ls-ecaps.c` (`ATSCtl: Enable+, Smallest Translation Unit: 00`, `LnkSta: Speed
16GT/s (ok), Width x16 (ok)`, `MaxPayload 256 bytes, MaxReadReq 512 bytes`).

Belief: guest-tool-output.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import Field

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.verification import OF_PROGRAMS, RESETS
from vgpu_cfg.parsers.text import Line, ToolFailed, UnreadableOutput, lines_with_content, pci_id_of

LSMOD = "lsmod"
IP_ADDRESS = "ip -json address show"
IS_ACTIVE = "systemctl is-active"
CHECK_BUILD = "horovodrun --check-build"

_STATES = frozenset(
    {"active", "reloading", "inactive", "failed", "activating", "deactivating", "maintenance", "unknown"}
)
_BUS = re.compile(r"^bus-info: *(\S+)", re.MULTILINE)
_VERSION = re.compile(r"Horovod v(?P<version>[0-9][^\s:]*):?")
_PART = re.compile(r"\[(?P<mark>[X ])\] (?P<name>\S.*)")

DATE = "date +%s.%N"
TRACKING = "chronyc tracking"
TIMEDATECTL = "timedatectl show"

_TIME = re.compile(r"\d{9,11}(?:\.\d{1,9})?")
_FIELD = re.compile(r"(?P<key>[A-Z][\w .]*?)\s*: (?P<value>.*)")
_NO_REFERENCE = ("00000000 ()", "7F7F0101 ()")
"""chronyd's source if it has none, and if it follows the machine's own clock."""

_FORMAT = "'container {{.Names}} {{.Image}}'"
# Belief: cuda-holds-uvm-open, daemons-leave-uvm-closed.
QUESTION = (
    "find /proc -mindepth 3 -maxdepth 3 -path '/proc/[0-9]*/fd/*' -lname /dev/nvidia-uvm 2>/dev/null; "
    "grep -lsaE 'VGPU_CFG_(TRAIN|JOB)=' /proc/[0-9]*/environ; "
    f"docker ps --no-trunc --format {_FORMAT} 2>/dev/null; "
    f"nerdctl ps --no-trunc --format {_FORMAT} 2>/dev/null; "
    "command -v find"
)
"""Ends with the path of `find`, without which the output is incomplete. Root's rights see all processes."""

_PROCESS = re.compile(r"/proc/(\d+)/(fd/\d+|environ)")
_OWN = "vgpu-cfg-"

DF = "df -Pk"
_OPTIONS = 3
"""The place of a mount's options in its line."""

_ROW = re.compile(
    r"\S.*?\s+(?P<size>\d{1,18})\s+\d{1,18}\s+(?P<free>-?\d{1,18})\s+(?:\d{1,4}%|-)\s+(?P<path>/.*)"
)
KIB_A_GIB = 1024 * 1024

DMESG = "dmesg"
MOST_CORRECTED = 10
"""From this number of corrected PCIe errors since the boot they are not chance; a number of this tool's own.
"""

_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?(?P<gpu>[0-9a-f:.]+)(?: GPU-C?I:\d+)*\): (?P<number>\d{1,4})\b", re.IGNORECASE
)
_NONFATAL = re.compile(r"\b14[4-9], \S+ Nonfatal\b|\b150, \S+ Nonfatal\b", re.IGNORECASE)
"""NVLink Xids that the driver reports as nonfatal (NVIDIA's Xid catalog: 144 to 150)."""
RECOVERY = 154
_RECOVERED = re.compile(r"changed from .* to 0x0\b", re.IGNORECASE)
_CORRECTED = re.compile(r"PCIe Bus Error: severity=Corrected", re.IGNORECASE)
_BAR = re.compile(r"(?P<bar>pci [0-9a-fA-F:.]+: BAR \d)(?:: assigned \[| \[.*\]: assigned$)")
"""A BAR that got its address, in the words of kernels before and since 6.8."""
_STAMP = re.compile(r"^\[[^\]]{1,40}\]\s*")


class Interface(Frozen):
    """A network interface of the guest. `addresses` are IPv4 ones in CIDR, `driver` is "" where not asked.

    `has_ipv6` is whether it has an IPv6 address beyond the link-local one.
    """

    name: str
    mac: str = ""
    mtu: int | None = None
    is_up: bool = False
    addresses: tuple[str, ...] = ()
    has_ipv6: bool = False
    driver: str = ""


class HorovodBuild(Frozen):
    """The features of a Horovod build, in its own words, by their heading."""

    version: str
    frameworks: tuple[str, ...] = ()
    controllers: tuple[str, ...] = ()
    operations: tuple[str, ...] = Field(default=())


def parse_modules(text: str) -> frozenset[str]:
    """Read the names that `lsmod` lists. Raises UnreadableOutput where its header is missing."""
    lines = lines_with_content(text)
    if not lines or lines[0].text.split()[:1] != ["Module"]:
        raise UnreadableOutput(LSMOD, "no header", line=lines[0].text if lines else "")
    return frozenset(line.text.split()[0] for line in lines[1:])


def bus_of(text: str) -> str | None:
    """Read an interface's PCI address from `ethtool -i`, None where it is no PCI function."""
    found = _BUS.search(text)
    return pci_id_of(found[1]) if found is not None else None


def parse_interfaces(text: str) -> tuple[Interface, ...]:
    """Read `ip -json address show`. Raises UnreadableOutput for any other JSON."""
    try:
        listed: Any = json.loads(text)
        return tuple(_interface(one) for one in listed if one)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UnreadableOutput(IP_ADDRESS, "no JSON list of interfaces", line=text.strip()[:200]) from error


def _interface(one: Mapping[str, Any]) -> Interface:
    addresses = tuple(
        f"{part['local']}/{part['prefixlen']}"
        for part in one.get("addr_info", ())
        if part.get("family") == "inet"
    )
    others = [part for part in one.get("addr_info", ()) if part.get("family") == "inet6"]
    has_ipv6 = any(not part["local"].lower().startswith("fe80:") for part in others)
    # A virtual function may be "UNKNOWN" and carry traffic; the flag tells what the link does.
    is_up = one.get("operstate") == "UP" or "LOWER_UP" in one.get("flags", ())
    mac, mtu = one.get("address", ""), one.get("mtu")
    known = {"name": one["ifname"], "mac": str(mac).lower(), "mtu": mtu, "is_up": is_up}
    return Interface(addresses=addresses, has_ipv6=has_ipv6, **known)


def parse_active(text: str) -> str:
    """Read the state of one unit. Raises UnreadableOutput where it is none that systemd has."""
    state = text.strip()
    if state not in _STATES:
        raise UnreadableOutput(IS_ACTIVE, "unknown state", line=state[:200])
    return state


def parse_check_build(text: str) -> HorovodBuild:
    """Read what Horovod says it was built with. Raises UnreadableOutput where it does not say its version."""
    version = ""
    parts: dict[str, list[str]] = {}
    heading = ""
    for line in lines_with_content(text):
        words = line.text.strip()
        if (reported := _VERSION.fullmatch(words)) is not None:
            version = reported["version"]
        elif words.startswith("Available ") and words.endswith(":"):
            heading = words.removeprefix("Available ").removesuffix(":")
        elif heading and (part := _PART.fullmatch(words)) is not None and part["mark"] == "X":
            parts.setdefault(heading, []).append(part["name"])
    if not version:
        raise UnreadableOutput(CHECK_BUILD, "no version", line=text.strip()[-200:])
    return HorovodBuild(
        version=version,
        frameworks=tuple(parts.get("Frameworks", ())),
        controllers=tuple(parts.get("Controllers", ())),
        operations=tuple(parts.get("Tensor Operations", ())),
    )


class Tracking(Frozen):
    """Whether a clock is kept right, and by which source ("" if unknown)."""

    is_synchronised: bool
    source: str = ""


def parse_time(text: str) -> float:
    """Return the seconds since 1970 that `date` printed. Raises UnreadableOutput."""
    words = text.strip()
    if _TIME.fullmatch(words) is None:
        raise UnreadableOutput(DATE, "not a time", line=words[:200])
    return float(words)


def parse_tracking(text: str) -> Tracking:
    """Read `chronyc tracking`. Raises ToolFailed where chronyd does not answer, UnreadableOutput."""
    lines = lines_with_content(text)
    found = [match for line in lines if (match := _FIELD.fullmatch(line.text.strip())) is not None]
    values = {match["key"]: match["value"].strip() for match in found}
    if "Leap status" not in values:
        if lines and lines[0].text[:3].isdigit():  # "506 Cannot talk to daemon"
            raise ToolFailed(TRACKING, line=lines[0].text)
        raise UnreadableOutput(TRACKING, "no leap status", line=lines[0].text if lines else "")
    source = values.get("Reference ID", "")
    is_own = source in _NO_REFERENCE
    return Tracking(
        is_synchronised=values["Leap status"] != "Not synchronised" and not is_own,
        source="" if is_own else source.partition("(")[2].rstrip(")"),
    )


def parse_timedatectl(text: str) -> Tracking:
    """Read `timedatectl show`. Raises UnreadableOutput if the value is missing."""
    for line in lines_with_content(text):
        name, sign, value = line.text.strip().partition("=")
        if name == "NTPSynchronized" and sign:
            return Tracking(is_synchronised=value == "yes")
    raise UnreadableOutput(TIMEDATECTL, "no NTPSynchronized", line=text.strip()[:200])


def parse_guest_work(text: str) -> tuple[str, ...] | None:
    """Return what works in a guest, in words; None if the answer is not whole."""
    lines = text.split("\n")
    if not any(line.strip().endswith("/find") for line in lines):
        return None
    found: dict[str, None] = {}
    for line in lines:
        process = _PROCESS.fullmatch(line.strip())
        words = line.split()
        if process is not None:
            what = "on the GPU" if process[2].startswith("fd") else "of `train`"
            found[f"process {process[1]} {what}"] = None
        elif words[:1] == ["container"] and len(words) > 2 and not words[1].startswith(_OWN):
            found[f"container {words[1]} ({words[2]})"] = None
    return tuple(found)


class Room(Frozen):
    """A file system: its mount point, its size and its free room, in KiB."""

    path: str
    size_kib: int
    free_kib: int

    @property
    def free_share(self) -> float:
        """The share that is free."""
        return max(0, self.free_kib) / self.size_kib if self.size_kib else 1.0

    @property
    def words(self) -> str:
        """Say how much is free of how much."""
        return (
            f"{self.path} {max(0, self.free_kib) / KIB_A_GIB:.1f} of {self.size_kib / KIB_A_GIB:.1f} GiB free"
        )


def parse_room(text: str) -> tuple[Room, ...]:
    """Read `df -Pk`; lines of paths that are not there are left out. Raises UnreadableOutput for no row."""
    rows = [found for line in lines_with_content(text) if (found := _ROW.fullmatch(line.text)) is not None]
    if not rows:
        raise UnreadableOutput(DF, "no file systems listed", line=text.strip()[:200])
    made = (Room(path=row["path"], size_kib=int(row["size"]), free_kib=int(row["free"])) for row in rows)
    return tuple(dict.fromkeys(made))


def is_read_only(text: str) -> bool:
    """Return whether the last mount at the root, as /proc/mounts has it, is read-only."""
    mounts = [line.text.split() for line in lines_with_content(text)]
    options = [words[_OPTIONS].split(",") for words in mounts if len(words) > _OPTIONS and words[1] == "/"]
    return bool(options) and "ro" in options[-1]


class Xid(Frozen):
    """A line of NVIDIA's driver with an Xid; `gpu` is the PCI address."""

    number: int
    gpu: str
    line: str


class KernelLog(Frozen):
    """The findings. `troubles` are whole lines, `of_programs` Xids that prove nothing of the GPU.

    `xids` are those of both kinds, the last of each number and GPU.
    """

    troubles: tuple[str, ...] = ()
    of_programs: tuple[int, ...] = ()
    xids: tuple[Xid, ...] = ()


def parse_kernel_log(text: str, is_fault: Callable[[str], bool]) -> KernelLog:
    """Read `dmesg`; `is_fault` decides on lines that are neither Xids nor corrected PCIe errors.

    Raises ToolFailed where it may not be read, UnreadableOutput where it is empty.
    """
    lines = lines_with_content(text)
    if not lines:
        raise UnreadableOutput(DMESG, "printed nothing")
    if lines[0].text.startswith("dmesg:"):
        raise ToolFailed(DMESG, line=lines[0].text)
    troubles: dict[str, None] = {}
    programs: list[int] = []
    corrected: list[str] = []
    for line in lines:
        words = _STAMP.sub("", line.text.strip())
        if (xid := _XID.search(words)) is not None:
            number = int(xid["number"])
            if number in OF_PROGRAMS:
                programs.append(number)
            elif _NONFATAL.search(words):
                continue
            elif number == RECOVERY and _RECOVERED.search(words):
                mark = f"{xid['gpu']}): {RECOVERY}"
                troubles = {one: None for one in troubles if mark not in one}
            else:
                troubles[words] = None
        elif is_fault(words):
            troubles[words] = None
        elif _CORRECTED.search(words):
            corrected.append(words)
        elif (bar := _BAR.match(words)) is not None:
            # The first attempt to place a BAR failed, a later one did not.
            troubles = {one: None for one in troubles if not one.startswith(bar["bar"])}
    if len(corrected) > MOST_CORRECTED:
        troubles[f"{len(corrected)} times {corrected[-1]}"] = None
    return KernelLog(
        troubles=tuple(troubles), of_programs=tuple(dict.fromkeys(programs)), xids=parse_xids(text)
    )


def parse_xids(text: str) -> tuple[Xid, ...]:
    """Read the Xids of a kernel log, of a guest or a host, the last of each number and GPU.

    Nonfatal ones are left out, and those that demand a reset once the driver no longer asks for a recovery.
    """
    found: dict[tuple[int, str], Xid] = {}
    for line in text.splitlines():
        seen = _XID.search(line)
        if seen is None or _NONFATAL.search(line):
            continue
        number, gpu = int(seen["number"]), pci_id_of(seen["gpu"]) or pci_id_of(f"{seen['gpu']}.0") or ""
        found.pop((number, gpu), None)
        if number == RECOVERY and _RECOVERED.search(line):
            found = {key: one for key, one in found.items() if one.gpu != gpu or one.number not in RESETS}
        else:
            found[number, gpu] = Xid(number=number, gpu=gpu, line=line[seen.start() :].strip())
    return tuple(found.values())


def xids_of(text: str, pci_id: str) -> str:
    """Return the lines of a kernel log with an Xid of the GPU at an address; NVRM omits its function."""
    device = pci_id.rpartition(".")[0]
    lines = [line for line in text.splitlines() if (xid := _XID.search(line)) and _same(xid["gpu"], device)]
    return "".join(f"{line}\n" for line in lines)


def _same(gpu: str, device: str) -> bool:
    """Whether NVRM's address of a GPU, with or without domain and function, is that of a device."""
    plain = gpu.lower().partition(".")[0].removesuffix(":")
    return device in (plain, f"0000:{plain}")


LSPCI = "lspci -vvv"

_HEAD = re.compile(
    r"(?P<address>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) (?P<kind>[^:]+): (?P<name>.+)",
    re.IGNORECASE,
)
_ATS_CONTROL = re.compile(r"ATSCtl:\s+Enable(?P<sign>[+-])")
_FAILURES = ("lspci:", "pcilib:")


class PciFunction(Frozen):
    """A function as the guest sees it.

    `ats` is None where the function has no such capability, else whether it is enabled. `is_readable` is
    False if the user may not read the capabilities.
    """

    pci_id: str
    kind: str = ""
    name: str = ""
    ats: bool | None = None
    driver: str | None = None
    is_readable: bool = True


def parse_lspci(text: str) -> tuple[PciFunction, ...]:
    """Read `lspci -vvv`, with or without `-s`, `-d` and `-D`; nothing printed means that nothing matched.

    Raises ToolFailed for its own errors, UnreadableOutput for a function whose address is none.
    """
    functions: list[dict[str, object]] = []
    for line in lines_with_content(text):
        if line.text.startswith(_FAILURES):
            raise ToolFailed(LSPCI, line=line.text, number=line.number)
        if line.indent == 0:
            functions.append(_head(line))
        elif functions:
            functions[-1].update(_fields(line.text.strip()))
        else:
            raise UnreadableOutput(LSPCI, "not a PCI function", line=line.text, number=line.number)
    return tuple(PciFunction.model_validate(found) for found in functions)


def _head(line: Line) -> dict[str, object]:
    found = _HEAD.fullmatch(line.text.strip())
    pci_id = pci_id_of(found["address"]) if found is not None else None
    if found is None or pci_id is None:
        raise UnreadableOutput(LSPCI, "not a PCI function", line=line.text, number=line.number)
    return {"pci_id": pci_id, "kind": found["kind"], "name": found["name"]}


def _fields(text: str) -> dict[str, object]:
    if (found := _ATS_CONTROL.match(text)) is not None:
        return {"ats": found["sign"] == "+"}
    if text.startswith("Kernel driver in use:"):
        return {"driver": text.partition(":")[2].strip() or None}
    if text.startswith("Capabilities: <access denied>"):
        return {"is_readable": False}
    return {}
