"""The API versions of a simulated vCenter, and their announcement to a client.

A vCenter answers `GET /sdk/vimServiceVersions.xml` with its newest version and the
ones before it; the client picks one and sends it as SOAPAction with every call. The
order of versions is pyvmomi's own; the oldest one offered is 6.5.
"""

from __future__ import annotations

from functools import lru_cache

from pyVmomi import VmomiSupport

NAMESPACE = "urn:vim25"
"""The XML namespace of the vSphere API."""
STORAGE = "urn:pbm"
"""That of Storage Policy Based Management."""
STORAGE_VERSION = "pbm.version.v8_0_3_0"
"""The newest version of it that the lab answers at, by pyvmomi's name."""

OLDEST = (6, 5)


def _numbers(version_id: str) -> tuple[int, ...]:
    """Return the numbers of a version id, empty for one that is no release ("2.5u2", a hash)."""
    parts = version_id.split(".")
    return tuple(int(part) for part in parts) if all(part.isdigit() for part in parts) else ()


@lru_cache(maxsize=1)
def _releases() -> tuple[tuple[tuple[int, ...], str, str], ...]:
    """Return every released version from 6.5 on, oldest first: its numbers, its id, pyvmomi's name for it."""
    found = (
        (_numbers(version_id), version_id, name)
        for name, version_id in VmomiSupport.versionIdMap.items()
        if VmomiSupport.serviceNsMap[name] == "vim25" and name.startswith("vim.version.")
    )
    return tuple(sorted(entry for entry in found if entry[0] >= OLDEST))


def version_ids(newest: str) -> tuple[str, ...]:
    """Return the versions of a vCenter that speaks `newest`, newest first."""
    limit = _numbers(newest)
    return tuple(version_id for numbers, version_id, _ in reversed(_releases()) if numbers <= limit)


def version_name(version_id: str) -> str | None:
    """Return pyvmomi's name of a version id, None for one that it does not know."""
    name = VmomiSupport.versionMap.get(f"vim25/{version_id}")
    return str(name) if name else None


def is_at_least(version: str, wanted: str) -> bool:
    """Whether one version (pyvmomi's name) holds everything of another."""
    return bool(VmomiSupport.IsChildVersion(version, wanted))  # type: ignore[attr-defined,no-untyped-call]  # pyvmomi is untyped


def requested_version_id(soap_action: str) -> str | None:
    """Return the version id in a SOAPAction ("urn:vim25/8.0.3.0", quoted or not), None without one."""
    namespace, slash, version_id = soap_action.strip().strip('"').partition("/")
    return version_id if slash and namespace == NAMESPACE else None


def storage_version(soap_action: str) -> str:
    """Return the version to answer a client of storage policies at: its own where the lab has that."""
    asked = VmomiSupport.versionMap.get(soap_action.strip().strip('"').removeprefix("urn:"))
    return str(asked) if asked and is_at_least(STORAGE_VERSION, str(asked)) else STORAGE_VERSION


def service_versions_xml(newest: str) -> bytes:
    """Return the document behind `/sdk/vimServiceVersions.xml`."""
    current, *prior = version_ids(newest)
    lines = [
        '<?xml version="1.0" encoding="UTF-8" ?>',
        '<namespaces version="1.0">',
        " <namespace>",
        f"  <name>{NAMESPACE}</name>",
        f"  <version>{current}</version>",
        "  <priorVersions>",
        *(f"   <version>{version_id}</version>" for version_id in prior),
        "  </priorVersions>",
        " </namespace>",
        "</namespaces>",
        "",
    ]
    return "\n".join(lines).encode()
