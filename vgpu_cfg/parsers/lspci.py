"""`lspci -vvv` of a function: its link, its read requests, and whether it uses ATS.

Source: pciutils, `ls-caps.c` and `ls-ecaps.c` (`ATSCtl: Enable+, Smallest Translation Unit: 00`, `LnkSta:
Speed 16GT/s (ok), Width x16 (ok)`, `MaxPayload 256 bytes, MaxReadReq 512 bytes`). Without root's rights it
prints `Capabilities: <access denied>`.
"""

from __future__ import annotations

import re

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.parsers.text import Line, ToolFailed, UnreadableOutput, lines_with_content, pci_id_of

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
