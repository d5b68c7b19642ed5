"""A NIC's firmware by `mlxconfig -d <device> [-e] query`, and its device name by `mst status -vv`.

Sources: NVIDIA Firmware Tools (MFT) documentation, "mlxconfig" and "mst Synopsis - VMware"; Mellanox/mstflint
`mlxconfig/mlxcfg_ui.cpp` (the same tool in the open) for the columns, the marks and the errors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pydantic import Field

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.observed.host_facts import FirmwareValue
from vgpu_cfg.parsers.text import (
    Line,
    ToolFailed,
    UnreadableOutput,
    lines_with_content,
    pci_id_of,
    value_or_none,
)

MLXCONFIG = "mlxconfig query"
MST = "mst status -vv"

_DEVICE_HEAD = re.compile(r"Device #\d+:")
_ABOUT = re.compile(r"(Device type|Name|Description|Device|PCI device):\s*(.*)")
_HEADER = re.compile(r"Configurations:\s*(?P<columns>.*)")
_COLUMNS = re.compile(r"Default|Current|Next Boot|New")
# A star marks a next value that differs, RO a parameter that cannot be written.
_ROW = re.compile(
    r"\*?\s*(?:RO\s+)?(?P<name>[A-Za-z][A-Za-z0-9_]*(?:\[\d+(?:\.\.\d+)?\])?)\s+(?P<values>\S.*)"
)
_NUMBERED = re.compile(r"(?P<word>.+)\((?:0x)?[0-9A-Fa-f]+\)")
_REMARKS = (
    "The '*' shows",
    "The 'RO' shows",
    "Device Firmware does not support reading",
    "Failed to query the",
)
_RULE = re.compile(r"-{3,}")
_ERROR = "-E-"
_MST_ROW = re.compile(
    r"(?P<type>\S+(?:\([^)]*\))?)\s+(?P<mst>\S*mt\d+_\S+)\s+(?P<pci>[0-9A-Fa-f:]+\.[0-7])(?:\s+(?P<rest>.*))?"
)


class FirmwareQuery(Frozen):
    """One device's answer.

    `device` is the tool's name for it, `parameters` are by name, each without the number in brackets; an
    array shows its range, `Array[0..7]`, never its values.

    A parameter that is not in it is one that this firmware does not have, unless `is_partial`: then
    the tool could not read all.
    """

    device: str = ""
    name: str = ""
    description: str = ""
    parameters: Mapping[str, FirmwareValue] = Field(default_factory=dict)
    is_partial: bool = False


class MstDevice(Frozen):
    """A device that mst lists.

    `name` is what mlxconfig takes on ESXi: mt4125_pciconf0, for the second port mt4125_pciconf0.1.
    """

    name: str
    pci_id: str


def parse_firmware(text: str) -> FirmwareQuery:
    """Read a query of one device.

    Raises ToolFailed where the tool says -E- before any parameter, UnreadableOutput for a line that is not
    understood and where several devices answered.
    """
    queries = parse_all_firmware(text)
    if len(queries) != 1:
        raise UnreadableOutput(MLXCONFIG, f"{len(queries)} devices responded, but only one was queried")
    return queries[0]


def parse_all_firmware(text: str) -> tuple[FirmwareQuery, ...]:
    """Read a query of one device or of all, one answer each.

    Raises as `parse_firmware`.
    """
    lines = lines_with_content(text)
    if not lines:
        raise UnreadableOutput(MLXCONFIG, "printed nothing")
    parts: list[list[Line]] = [[]]
    for line in lines:
        if _DEVICE_HEAD.fullmatch(line.text.strip()) and parts[-1]:
            parts.append([])
        parts[-1].append(line)
    return tuple(_query(part) for part in parts)


def parse_mst_status(text: str) -> tuple[MstDevice, ...]:
    """Read `mst status -vv`: devices with their PCI addresses; empty where it lists none.

    Raises ToolFailed where mst says -E-, UnreadableOutput for a row that is not understood. A device
    that has two names, as ConnectX-3, is listed once, by its configuration cycles (pciconf).
    """
    lines = lines_with_content(text)
    header = next(
        (at for at, line in enumerate(lines) if line.text.split()[:3] == ["DEVICE_TYPE", "MST", "PCI"]), None
    )
    for line in lines[: header if header is not None else len(lines)]:
        if line.text.strip().startswith(_ERROR):
            raise ToolFailed(MST, line=line.text, number=line.number)
    if header is None:
        if any(line.text.strip().rstrip(":") in ("PCI devices", "MST devices") for line in lines):
            return ()
        shown = lines[0] if lines else None
        raise UnreadableOutput(
            MST, "no device table", line=shown.text if shown else "", number=shown.number if shown else 0
        )
    found: dict[str, MstDevice] = {}
    for line in lines[header + 1 :]:
        if _RULE.fullmatch(line.text.strip()):
            continue
        row = _MST_ROW.fullmatch(line.text.strip())
        pci_id = pci_id_of(row["pci"]) if row is not None else None
        if row is None or pci_id is None:
            raise UnreadableOutput(MST, "not a device", line=line.text, number=line.number)
        if pci_id in found and "pciconf" not in row["mst"]:
            continue
        found[pci_id] = MstDevice(
            name=row["mst"],
            pci_id=pci_id,
        )
    return tuple(found.values())


def _query(lines: Sequence[Line]) -> FirmwareQuery:
    about: dict[str, str] = {}
    columns: tuple[str, ...] = ()
    parameters: dict[str, FirmwareValue] = {}
    is_partial = False
    for line in lines:
        said = line.text.strip()
        if said.startswith(_ERROR):
            if not parameters:
                raise ToolFailed(MLXCONFIG, line=said, number=line.number)
            is_partial = True
        elif found := _HEADER.fullmatch(said):
            columns = _columns(found["columns"], line)
        elif not columns:
            _read_about(about, said, line)
        elif is_partial or said.startswith(_REMARKS):
            continue
        else:
            name, value = _parameter(said, columns, line)
            if name in parameters:
                raise UnreadableOutput(MLXCONFIG, "duplicate parameter", line=line.text, number=line.number)
            parameters[name] = value
    if not parameters:
        raise UnreadableOutput(MLXCONFIG, "no parameters", line=lines[0].text, number=lines[0].number)
    return FirmwareQuery(
        device=about.get("Device") or about.get("PCI device", ""),
        name=value_or_none(about.get("Name", "")) or "",
        description=value_or_none(about.get("Description", "")) or "",
        parameters=parameters,
        is_partial=is_partial,
    )


def _read_about(about: dict[str, str], said: str, line: Line) -> None:
    if _DEVICE_HEAD.fullmatch(said) or _RULE.fullmatch(said):
        return
    found = _ABOUT.fullmatch(said)
    if found is None:
        raise UnreadableOutput(MLXCONFIG, "unknown format", line=line.text, number=line.number)
    about[found[1]] = found[2].strip()


def _columns(text: str, line: Line) -> tuple[str, ...]:
    columns = tuple(_COLUMNS.findall(text))
    if not columns or len(set(columns)) != len(columns) or _COLUMNS.sub("", text).strip():
        raise UnreadableOutput(MLXCONFIG, "unknown columns", line=line.text, number=line.number)
    return columns


def _parameter(said: str, columns: Sequence[str], line: Line) -> tuple[str, FirmwareValue]:
    found = _ROW.fullmatch(said)
    values = found["values"].split() if found is not None else []
    if found is None or len(values) != len(columns):
        why = f"not a parameter with {len(columns)} value{'s' if len(columns) > 1 else ''}"
        raise UnreadableOutput(MLXCONFIG, why, line=line.text, number=line.number)
    reported = {column: _word(value) for column, value in zip(columns, values, strict=True)}
    value = FirmwareValue(
        default=reported.get("Default"), current=reported.get("Current"), next_boot=reported.get("Next Boot")
    )
    return found["name"], value


def _word(value: str) -> str | None:
    """Drop the number in brackets: `True(1)` is True, `_256KB(1)` is _256KB, and 8 is 8."""
    reported = value_or_none(value)
    if reported is None:
        return None
    found = _NUMBERED.fullmatch(reported)
    return found["word"] if found is not None else reported
