"""nvidia-smi's reports of a host's GPUs: the summary, all fields (-q), and the topology (topo -m).

Values that the lab's state lacks are decoration. The summary has the layout of driver 525. Temperatures and
watts are made up, and no process is ever listed.

Columns of the topology are parted by tabs, as nvidia-smi does it. ESXi's own matrix is recorded nowhere: that
it has NICs, and by the names of their RDMA devices, is unproven. How many NVLinks a pair has is by generation
(12 for Ampere, 18 from Hopper on, 6 before), which is wrong for bridged boards with fewer. The legend is
shortened.

The fields that each driver prints are those of `smi_fields.txt`. Between 580.105.08 and 580.119.02 the colons
moved to the right, except those of processes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from vgpu_cfg.lab.nvidia.gpus import (
    Reply,
    board_of,
    bus_id,
    mig_words,
    number_of,
    on_or_off,
    say,
    used_mib,
    uuid_of,
    visible,
)
from vgpu_cfg.lab.rules.gpu_load import ESXI_8_0_3, WITHOUT_SRIOV, serves_vgpus
from vgpu_cfg.lab.simulation.clock import as_datetime
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state import pcie
from vgpu_cfg.lab.state.host import POWER_LIMIT_WATTS, Gpu, Host, Nic
from vgpu_cfg.lab.state.host_defaults import release_of
from vgpu_cfg.lab.state.switch_members import visible_nics

WIDTH, WIDE = 42, 55
"""Columns of the colon."""
WIDE_SINCE = (580, 119)

Version = tuple[int, ...]

_FIELD = re.compile(r"(?P<name>.+?)(?: : (?P<value>.*?))?(?: \[(?P<since>[\d.]*)-(?P<until>[\d.]*)\])?")


@dataclass(frozen=True, slots=True)
class Field:
    """A field or section: its path, its value in a sound GPU, and the versions that print it."""

    path: tuple[str, ...]
    value: str | None
    since: Version
    until: Version

    def is_of(self, version: Version) -> bool:
        """Whether a version prints it."""
        return self.since <= version and (not self.until or version < self.until)


def version_of(driver: str) -> Version:
    """Return a version's numbers; none if it is unknown."""
    return tuple(int(part) for part in driver.split(".") if part.isdigit())


@cache
def fields() -> tuple[Field, ...]:
    """Read the description."""
    found: list[Field] = []
    above: tuple[str, ...] = ()
    for line in Path(__file__).with_name("smi_fields.txt").read_text(encoding="utf-8").splitlines():
        depth = (len(line) - len(line.lstrip())) // 4
        for text in line.strip().split(" | ") if not line.startswith("#") else ():
            match = _FIELD.fullmatch(text)
            if match is None:
                raise ValueError(f"not a field: {text}")
            above = (*above[:depth], match["name"])
            since, until = (version_of(match[name] or "") for name in ("since", "until"))
            found.append(Field(above, match["value"], since, until))
    return tuple(found)


def block_of(driver: str, values: Mapping[str, str | None], silent: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the lines of a GPU.

    `values` are by path, as `ECC Mode/Current`; a section's own replaces its fields, None leaves it out.
    Sections in `silent` print N/A.
    """
    version = version_of(driver)
    sections = {field.path[:-1] for field in fields()}
    closed: tuple[str, ...] = ("",)
    for field in fields():
        path = "/".join(field.path)
        if field.path[: len(closed)] == closed and len(field.path) > len(closed):
            continue
        is_section = field.value is None and field.path in sections
        if not field.is_of(version) or (path in values and (is_section or values[path] is None)):
            closed = field.path if field.path in sections else closed
            if not field.is_of(version) or values[path] is None:
                continue
        blanks = "    " * len(field.path)
        if is_section and path not in values:
            yield f"{blanks}{field.path[-1]}"
            continue
        default = None if path.startswith(silent) else field.value
        value = values.get(path) or default or "N/A"
        is_of_process = field.path[0] == "Processes" and len(field.path) > 1
        yield line_of(f"{blanks}{field.path[-1]}", value, "" if is_of_process else driver)


def line_of(name: str, value: str, driver: str) -> str:
    """Return one line of a version's report."""
    width = WIDE if version_of(driver) >= WIDE_SINCE else WIDTH
    return f"{name:<{width}}: {value}"


NAMES = {"Ada": "Ada Lovelace"}

WHOLE = "+" + "-" * 77 + "+"
PARTS = "+" + "-" * 31 + "+" + "-" * 22 + "+" + "-" * 22 + "+"
HEAD = (
    "|" + PARTS[1:],
    "| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |",
    "| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |",
    "|                               |                      |               MIG M. |",
    "|" + "=" * 31 + "+" + "=" * 22 + "+" + "=" * 22 + "|",
)
NAME_WIDTH = 18


Row = tuple[int, str, str, str, str]
"""Number, name, address, memory, MIG mode of a GPU; the state of ECC is that of a GPU with it on."""

LINKS = {"Volta": 6, "Turing": 6, "Ampere": 12, "Hopper": 18, "Blackwell": 18}
LEGEND = (
    "Legend:",
    "",
    "  X    = Self",
    "  SYS  = between NUMA nodes",
    "  NODE = within a NUMA node, between host bridges",
    "  PHB  = over a host bridge",
    "  PXB  = over several PCIe bridges",
    "  PIX  = over one PCIe bridge at most",
    "  NV#  = number of NVLinks",
)


def report(lab: Simulation, host: Host, gpus: Sequence[Gpu]) -> Reply:
    """Return the report of some of the host's GPUs."""
    driver = host.driver.version if host.driver is not None else "N/A"
    return say(
        "",
        "==============NVSMI LOG==============",
        "",
        line_of("Timestamp", f"{as_datetime(lab.clock.now()):%a %b %e %H:%M:%S %Y}", driver),
        line_of("Driver Version", driver, driver),
        line_of("CUDA Version", "Not Found", driver),
        "vGPU Driver Capability",
        line_of("        Heterogenous Multi-vGPU", "Supported", driver),
        "",
        line_of("Attached GPUs", str(len(visible(host))), driver),
        *(
            line
            for gpu in gpus
            for line in [f"GPU {bus_id(gpu)}", *block_of(driver, _values(host, gpu) | gpu.health), ""]
        ),
    )


def _values(host: Host, gpu: Gpu) -> dict[str, str | None]:
    board = board_of(gpu)
    mig_now, mig_next = mig_words(gpu)
    has_sizes = board.mixed_placement is not None and release_of(host) >= ESXI_8_0_3
    return {
        "Product Name": gpu.name,
        "Product Architecture": NAMES.get(board.architecture, board.architecture),
        "vGPU Device Capability/Heterogeneous Time-Slice Sizes": "Supported"
        if has_sizes
        else "Not Supported",
        "MIG Mode/Current": mig_now,
        "MIG Mode/Pending": mig_next,
        "GPU UUID": uuid_of(host, gpu),
        "Minor Number": str(number_of(host, gpu)),
        "MultiGPU Board": "Yes" if board.gpus_per_board > 1 else "No",
        "Board ID": f"0x{gpu.pci.bus << 8:x}",
        "Module ID": str(gpu.module_id or 1),
        "Platform Info/Module Id": str(gpu.module_id or 1),
        "GPU Virtualization Mode/Virtualization Mode": "Host VGPU" if serves_vgpus(host, gpu) else "None",
        "GPU Virtualization Mode/Host VGPU Mode": _host_mode(host, gpu),
        "vGPU Software Licensed Product": None,
        "Processes": "None",
        **device_values(gpu, bus_id(gpu), used_mib(gpu), gpu.memory_mib),
    }


def device_values(gpu: Gpu, address: str, used: int, memory: int) -> dict[str, str | None]:
    """Return the values that are the same on a host and in a guest."""
    pci = gpu.pci
    domain, bus, slot = address.split(":")
    fabric = {"State": "Completed", "Status": "Success"} if gpu.nvswitch else {}
    limits = ("Current Power Limit", "Requested Power Limit", "Default Power Limit", "Max Power Limit")
    watts = (gpu.power_limit_watts, gpu.power_limit_watts, POWER_LIMIT_WATTS, POWER_LIMIT_WATTS)
    return {
        "PCI/Bus": f"0x{bus}",
        "PCI/Device": f"0x{slot[:2]}",
        "PCI/Domain": f"0x{domain[-4:]}",
        "PCI/Bus Id": address,
        "PCI/Device Id": f"0x{pci.device_id:04X}{pci.vendor_id:04X}",
        "PCI/Sub System Id": f"0x{pci.subdevice_id:04X}{pci.subvendor_id:04X}",
        "FB Memory Usage/Total": f"{memory} MiB",
        "FB Memory Usage/Used": f"{used} MiB",
        "FB Memory Usage/Free": f"{memory - used} MiB",
        "ECC Mode/Current": on_or_off(is_on=gpu.ecc_enabled),
        "ECC Mode/Pending": on_or_off(is_on=gpu.ecc_pending),
        **{f"GPU Power Readings/{name}": f"{limit:.2f} W" for name, limit in zip(limits, watts, strict=True)},
        **{f"Fabric/{name}": value for name, value in fabric.items()},
    }


def _host_mode(host: Host, gpu: Gpu) -> str:
    if not serves_vgpus(host, gpu):
        return "N/A"
    uses_sriov = host.bios.sriov and board_of(gpu).architecture not in WITHOUT_SRIOV
    return "SR-IOV" if uses_sriov else "Non SR-IOV"


def summary(lab: Simulation, host: Host, gpus: Sequence[Gpu]) -> Reply:
    """Return the table of some GPUs."""
    version = host.driver.version if host.driver is not None else "N/A"
    rows = [
        (
            number_of(host, gpu),
            gpu.name,
            bus_id(gpu),
            f"{used_mib(gpu)}MiB / {gpu.memory_mib}MiB",
            mig_words(gpu)[0],
        )
        for gpu in gpus
    ]
    without = {number_of(host, gpu) for gpu in gpus if not gpu.ecc_enabled}
    return say(*table(lab.clock.now(), version, "N/A", rows, without_ecc=without))


def table(
    now: float,
    driver: str,
    cuda: str,
    rows: Sequence[Row],
    *,
    without_ecc: Collection[int] = (),
    modes: Mapping[int, str] | None = None,
    processes: Sequence[tuple[int, int, str, int]] = (),
) -> list[str]:
    """Return the lines of the summary, of a host's GPUs or a guest's.

    `modes` are compute modes by GPU, `processes` (GPU, pid, name, MiB).
    """
    title = f" NVIDIA-SMI {driver:<13}Driver Version: {driver:<13}CUDA Version: {cuda}"
    return [
        f"{as_datetime(now):%a %b %e %H:%M:%S %Y}",
        WHOLE,
        f"|{title:<77}|",
        *HEAD,
        *(
            line
            for row in rows
            for line in _lines(
                row, "Off" if row[0] in without_ecc else "0", (modes or {}).get(row[0], "Default")
            )
        ),
        "",
        WHOLE,
        f"|{' Processes:':<77}|",
        "|" + "=" * 77 + "|",
        *(
            f"|{gpu:>5}   N/A  N/A{pid:>12}      C   {name:<28}{used:>8}MiB |"
            for gpu, pid, name, used in processes
        ),
        *(() if processes else (f"|{'  No running processes found':<77}|",)),
        WHOLE,
    ]


def _lines(row: Row, ecc: str, mode: str) -> list[str]:
    number, full_name, address, memory, mig = row
    name = full_name if len(full_name) <= NAME_WIDTH else f"{full_name[: NAME_WIDTH - 3]}..."
    return [
        f"|{number:>4}  {name:<20}On   | {address} Off |{ecc:>21} |",
        f"| N/A   30C    P0    50W / 300W |{memory:>21} |      0%{mode:>13} |",
        f"|{'':31}|{'':22}|{mig:>21} |",
        PARTS,
    ]


def matrix(lab: Simulation, host: Host, gpus: Sequence[Gpu]) -> Reply:
    """Return the whole matrix; a selection of GPUs does not narrow it."""
    seen = visible(host)
    nics = [nic for nic in visible_nics(host) if nic.rdma_device]
    devices: list[Gpu | Nic] = [*seen, *nics]
    names = [f"GPU{number}" for number in range(len(seen))] + [f"NIC{number}" for number in range(len(nics))]
    head = ["", *names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"]
    rows = [
        [name, *(_link(host, device, other) for other in devices), *_affinity(host, device)]
        for name, device in zip(names, devices, strict=True)
    ]
    named = [f"  NIC{number}: {nic.rdma_device}" for number, nic in enumerate(nics)]
    tail = ["", "NIC Legend:", "", *named] if named else []
    return say(*("\t".join(row) for row in [head, *rows]), "", *LEGEND, *tail)


def _link(host: Host, one: Gpu | Nic, other: Gpu | Nic) -> str:
    if one is other:
        return " X "
    if isinstance(one, Gpu) and isinstance(other, Gpu) and _is_joined(one, other):
        return f"NV{LINKS.get(board_of(one).architecture, 4)}"
    return pcie.link(host, one.pci, other.pci)


def _is_joined(gpu: Gpu, other: Gpu) -> bool:
    return (gpu.nvswitch and other.nvswitch) or other.pci_id in gpu.nvlink_peers


def _affinity(host: Host, device: Gpu | Nic) -> list[str]:
    if not isinstance(device, Gpu):
        return ["", "", ""]
    return [_threads(host, device), "N/A" if device.numa_node is None else str(device.numa_node), "N/A"]


def _threads(host: Host, gpu: Gpu) -> str:
    """Return the hardware threads of a GPU's node, as the API numbers them."""
    per_core = 2 if host.hyperthreading else 1
    first = 0
    for node in host.numa_nodes:
        count = node.cores * per_core
        if node.node_id == gpu.numa_node:
            return f"{first}-{first + count - 1}"
        first += count
    return "N/A"
