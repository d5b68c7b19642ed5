"""NVIDIA's firmware tools on a host: mlxconfig with a NIC's parameters, and mst with the NICs it reaches.

A firmware parameter has a value by default, one now, and one from the next boot on. mlxconfig's tables are
those that MFT 4.26 to 4.30 print (recorded runs; mstflint prints the same). Recalled are the texts of
refusals, but for the unsupported parameter's. That ESXi's build accepts a PCI address as well as mst's name,
as Linux's does, is unproven; the lab accepts both.

mst's names are `mt`, the device id in decimal, `_pciconf` and a number; further functions of one NIC add
`.1`. Both forms of `status` are those of the MFT documentation, "mst Synopsis - VMware"; the width of their
columns, and the output of `start`, are unproven. A NIC that is passed through is not reached.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from vgpu_cfg.lab.estates.stock import MELLANOX
from vgpu_cfg.lab.nvidia.gpus import Reply, complain, say
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.host import FirmwareParameter, Host, Nic

FAILED = 3
QUERIES = frozenset({"q", "query"})
SETS = frozenset({"s", "set"})
LINK_TYPES = {"IB": "IB(1)", "ETH": "ETH(2)", "1": "IB(1)", "2": "ETH(2)"}
FLAGS = {"FALSE": "False(0)", "TRUE": "True(1)", "0": "False(0)", "1": "True(1)"}

DEVICE_TYPES = {
    0x1017: "ConnectX5",
    0x1019: "ConnectX5",
    0x101B: "ConnectX6",
    0x101D: "ConnectX6DX",
    0x101F: "ConnectX6LX",
    0x1021: "ConnectX7",
    0x1023: "ConnectX8",
    0xA2D6: "BlueField2",
    0xA2DC: "BlueField3",
}


@dataclass(slots=True)
class Order:
    """A command line, taken apart."""

    device: str = ""
    verb: str = ""
    words: list[str] = field(default_factory=list)
    shows_all: bool = False
    is_sure: bool = False


def run_mlxconfig(lab: Simulation, host: Host, arguments: Sequence[str]) -> Reply:
    """Query or set firmware parameters of one NIC."""
    order, names = read_order(list(arguments)), devices(host)
    nic = None
    if order is not None:
        nic = names.get(order.device.rpartition("/")[2]) or _by_address(names, order.device)
    return answer(lab, host, order, nic)


def answer(lab: Simulation, host: Host, order: Order | None, nic: Nic | None) -> Reply:
    """Carry an order out on a NIC of a host; both are None where they were not understood or not found."""
    if order is None:
        return _failed("Invalid command line. Run mlxconfig -h for help")
    if nic is None:
        return _failed(f"Failed to open device: {order.device}. No such file or directory")
    if order.verb in QUERIES:
        return _query(order, nic)
    return _set(lab, host, order, nic)


def _by_address(names: dict[str, Nic], address: str) -> Nic | None:
    return next((nic for nic in names.values() if nic.pci.pci_id in (address, f"0000:{address}")), None)


def read_order(words: list[str]) -> Order | None:
    """Take a command line apart; None where it makes no sense."""
    order, rest = Order(), iter(words)
    for word in rest:
        match word:
            case "-d" | "--dev":
                order.device = next(rest, "")
            case "-e" | "--enable_verbosity":
                order.shows_all = True
            case "-y" | "--yes":
                order.is_sure = True
            case _ if word.startswith("-"):
                return None
            case _ if order.verb:
                order.words.append(word)
            case _:
                order.verb = word
    is_known = order.verb in QUERIES or (order.verb in SETS and bool(order.words))
    return order if order.device and is_known else None


def _failed(message: str, *before: str) -> Reply:
    return say(*before, f"-E- {message}", status=FAILED)


def _heading(order: Order, nic: Nic, *columns: str) -> tuple[str, ...]:
    return (
        "",
        "Device #1:",
        "----------",
        "",
        f"{'Device type:':<20}{device_type(nic):<20}",
        f"{'Name:':<20}{'N/A':<20}",
        f"{'Description:':<20}{'N/A':<20}",
        f"{'Device:':<20}{order.device:<20}",
        "",
        f"{'Configurations:':<57}" + "".join(f"{column:<16}" for column in columns),
    )


def _row(name: str, values: Sequence[str], *, differs: bool = False) -> str:
    return f"{'*' if differs else ' '}       {name:<44}" + " ".join(f"{value:<20}" for value in values)


def _query(order: Order, nic: Nic) -> Reply:
    columns = ("Default", "Current", "Next Boot") if order.shows_all else ("Next Boot",)
    lines = list(_heading(order, nic, *columns))
    unknown = next((name for name in order.words if name not in nic.firmware), None)
    if unknown is not None:
        return _failed(_unsupported(unknown), *lines)
    is_marked = False
    is_marked = False
    for name in order.words or nic.firmware:
        known = nic.firmware[name]
        differs = order.shows_all and {known.default, known.current} != {known.next_boot}
        is_marked = is_marked or differs
        values = (known.default, known.current, known.next_boot) if order.shows_all else (known.next_boot,)
        lines.append(_row(name, values, differs=differs))
    if is_marked:
        lines.append("The '*' shows parameters with next value different from default/current value.")
    return say(*lines)


def _set(lab: Simulation, host: Host, order: Order, nic: Nic) -> Reply:
    """Take over all assignments or none; they hold from the next boot on."""
    lines = list(_heading(order, nic, "Next Boot", "New"))
    wanted: dict[str, str] = {}
    for word in order.words:
        name, _, text = word.partition("=")
        if name not in nic.firmware:
            return _failed(_unsupported(name), *lines)
        value = canonical(nic.firmware[name], text)
        if value is None:
            return _failed(f"Failed to parse {name}={text}: invalid value")
        wanted[name] = value
        lines.append(_row(name, (nic.firmware[name].next_boot, value)))
    if not order.is_sure:
        # Nobody sits at the keyboard: the question's own answer is no.
        return _failed("Aborted by user.", *lines, "", " Apply new Configuration? (y/n) [n] : n")
    is_at_once = lab.state.denies("settings-change-at-boot-only")
    for name, value in wanted.items():
        known = nic.firmware[name]
        known.next_boot, known.current = value, value if is_at_once else known.current
    lab.state.touch(host)
    return say(
        *lines,
        "",
        " Apply new Configuration? (y/n) [n] : y",
        "Applying... Done!",
        "-I- Please reboot machine to load new configurations.",
    )


def canonical(known: FirmwareParameter, text: str) -> str | None:
    """Return a value as mlxconfig shows it (`True(1)`, `ETH(2)`, `8`), None for one it does not take."""
    if known.default in FLAGS.values():
        return FLAGS.get(text.upper())
    if known.default in LINK_TYPES.values():
        return LINK_TYPES.get(text.upper())
    return str(int(text)) if text.isdecimal() else None


def _unsupported(name: str) -> str:
    return f"The Device doesn't support {name} parameter"


def devices(host: Host) -> dict[str, Nic]:
    """Return the NICs that the firmware tools reach, by mst's name, in the order of their addresses."""
    found: dict[str, Nic] = {}
    boards: dict[int, list[str]] = {}
    for nic in sorted(host.nics, key=lambda nic: nic.pci.pci_id):
        if nic.pci.vendor_id != MELLANOX or host.is_passed_through(nic.pci.pci_id):
            continue
        slots = boards.setdefault(nic.pci.device_id, [])
        slot = nic.pci.pci_id.rpartition(".")[0]
        if slot not in slots:
            slots.append(slot)
        suffix = f".{nic.pci.function}" if nic.pci.function else ""
        found[f"mt{nic.pci.device_id}_pciconf{slots.index(slot)}{suffix}"] = nic
    return found


def device_type(nic: Nic) -> str:
    """Return the firmware tools' name of a NIC's chip."""
    return DEVICE_TYPES.get(nic.pci.device_id, "N/A")


def run_mst(lab: Simulation, host: Host, arguments: Sequence[str]) -> Reply:
    """Start mst, or list its devices."""
    match list(arguments):
        case ["start"] | ["restart"]:
            return say("Loading MST modules - Success")
        case ["status"]:
            return say("MST devices:", "------------", *devices(host))
        case ["status", "-v" | "-vv"]:
            return _table(host)
        case _:
            return complain("Usage: mst {start|stop|status|restart|version}")


def _table(host: Host) -> Reply:
    rows = [
        (
            f"{device_type(nic)}(rev:0)",
            name,
            nic.pci.pci_id.removeprefix("0000:"),
            "",
            "" if nic.is_infiniband else f"net-{nic.device}",
            "" if nic.pci.numa_node is None else str(nic.pci.numa_node),
        )
        for name, nic in devices(host).items()
    ]
    head = ("DEVICE_TYPE", "MST", "PCI", "RDMA", "NET", "NUMA")
    return say("PCI devices:", *(_mst_row(row) for row in [head, *rows]))


def _mst_row(cells: tuple[str, ...]) -> str:
    return "".join(
        f"{cell:<{width}}" for cell, width in zip(cells, (24, 23, 11, 8, 30, 0), strict=True)
    ).rstrip()
