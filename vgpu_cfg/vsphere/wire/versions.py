"""Which API version a server and this client both speak.

A field newer than the negotiated version is dropped on the wire without a word,
so the version is settled before anything else and asked about ever after. A server
lists exact version ids (`8.0.3.0`); a spelling that pyvmomi does not know (`8.0.3`)
counts for nothing, and an older one on the list is taken.
"""

from __future__ import annotations

import re
from xml.parsers import expat

from pyVmomi import VmomiSupport

from vgpu_cfg.errors import Unreachable, VersionTooOld

VERSIONS_PATH = "/sdk/vimServiceVersions.xml"
OLDEST = "6.5"


def negotiate(document: bytes, address: str) -> str:
    """Return the newest vmodl version (`vim.version.v8_0_3_0`) that the server's list names.

    Raises Unreachable where the document is no such list, VersionTooOld where all is older than 6.5.
    """
    offered = _version_ids(document)
    if not offered:
        raise Unreachable(
            "this server offers no vSphere API", subject=address, remedy="check that it is a vCenter"
        )
    for version in VmomiSupport.GetServiceVersions("vim25"):
        if VmomiSupport.versionIdMap[version] in offered:
            if _numbers(dotted(version)) < _numbers(OLDEST):
                break
            return str(version)
    listed = ", ".join(sorted(offered))
    raise VersionTooOld(
        f"the server offers API {listed}: none that is known here is {OLDEST} or later",
        subject=address,
        remedy="vSphere 6.5 or later is needed",
    )


def dotted(version: str) -> str:
    """Return a vmodl version as numbers: `vim.version.v8_0_3_0` is "8.0.3.0", `…version11` is "6.5"."""
    numbered = re.search(r"\.v(\d+(?:_\d+)+)$", version)
    if numbered:
        return numbered.group(1).replace("_", ".")
    return str(VmomiSupport.versionIdMap[version])


def is_at_least(have: str, wanted: str) -> bool:
    """Whether a dotted version is another or newer: "8.0.3.0" is at least "8.0.3"."""
    return _numbers(have) >= _numbers(wanted)


def _numbers(version: str) -> tuple[int, ...]:
    parts = [int(number) for number in re.findall(r"\d+", version)]
    while parts and parts[-1] == 0:
        parts.pop()
    return tuple(parts)


def _version_ids(document: bytes) -> frozenset[str]:
    """Collect the text of every `version` element inside the `urn:vim25` namespace entry."""
    namespaces: list[tuple[str, set[str]]] = []
    text: list[str] = []

    def start(name: str, _attributes: object) -> None:
        text.clear()
        if name == "namespace":
            namespaces.append(("", set()))

    def end(name: str) -> None:
        value = "".join(text).strip()
        text.clear()
        if not namespaces:
            return
        if name == "name":
            namespaces[-1] = (value, namespaces[-1][1])
        elif name == "version":
            namespaces[-1][1].add(value)

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = text.append
    try:
        parser.Parse(document, True)
    except expat.ExpatError:
        return frozenset()
    return frozenset(found for name, ids in namespaces if name == "urn:vim25" for found in ids)
