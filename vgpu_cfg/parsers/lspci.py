"""What `lspci -vvv` tells of a function: its link, its read requests, and whether it uses ATS.

Source: pciutils, `ls-caps.c` and `ls-ecaps.c` (`ATSCtl: Enable+, Smallest Translation Unit: 00`, `LnkSta:
Speed 16GT/s (ok), Width x16 (ok)`, `MaxPayload 256 bytes, MaxReadReq 512 bytes`). Without root's rights it
prints `Capabilities: <access denied>`.
"""

from __future__ import annotations

import re

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.parsers.errors import ToolFailed, UnreadableOutput
from vgpu_cfg.parsers.text import Line, lines_with_content, pci_id_of

LSPCI = "lspci -vvv"

_HEAD = re.compile(
    r"(?P<address>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) (?P<kind>[^:]+): (?P<name>.+)",
    re.IGNORECASE,
)
_ATS_CONTROL = re.compile(r"ATSCtl:\s+Enable(?P<sign>[+-])")
_LINK = re.compile(r"LnkSta:\s+Speed (?P<speed>[0-9.]+)GT/s(?: \([^)]*\))?, Width x(?P<width>\d+)")
_READ = re.compile(r"MaxReadReq (?P<bytes>\d+) bytes")
_FAILURES = ("lspci:", "pcilib:")


class PciFunction(Frozen):
    """A function as the guest sees it.

    `ats` is None where the function has no such capability, else whether it is enabled. `link_speed` is in
    GT/s. `is_readable` is False where the capabilities were kept from whoever asked. A link that a
    hypervisor makes up tells nothing of the physical one.
    """

    pci_id: str
    kind: str = ""
    name: str = ""
    ats: bool | None = None
    link_speed: float | None = None
    link_width: int | None = None
    max_read_request: int | None = None
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
            functions[-1].update(_told(line.text.strip()))
        else:
            raise UnreadableOutput(LSPCI, "no function", line=line.text, number=line.number)
    return tuple(PciFunction.model_validate(found) for found in functions)


def _head(line: Line) -> dict[str, object]:
    found = _HEAD.fullmatch(line.text.strip())
    pci_id = pci_id_of(found["address"]) if found is not None else None
    if found is None or pci_id is None:
        raise UnreadableOutput(LSPCI, "no function", line=line.text, number=line.number)
    return {"pci_id": pci_id, "kind": found["kind"], "name": found["name"]}


def _told(text: str) -> dict[str, object]:
    if (found := _ATS_CONTROL.match(text)) is not None:
        return {"ats": found["sign"] == "+"}
    if (found := _LINK.match(text)) is not None:
        return {"link_speed": float(found["speed"][:12]), "link_width": int(found["width"][:6])}
    if (found := _READ.search(text)) is not None:
        return {"max_read_request": int(found["bytes"][:9])}
    if text.startswith("Kernel driver in use:"):
        return {"driver": text.partition(":")[2].strip() or None}
    if text.startswith("Capabilities: <access denied>"):
        return {"is_readable": False}
    return {}
