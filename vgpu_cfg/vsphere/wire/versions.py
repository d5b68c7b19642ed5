"""The API version that a server and this client both speak.

A field newer than the negotiated version is dropped on the wire without a word,
so the version is settled before anything else and asked about ever after. A server
says of itself which is its newest (`about.apiVersion`), and each holds all that came before it.

Belief: service-content-in-api-65, patches-use-the-release-version.
"""

from __future__ import annotations

import re

from pyVmomi import VmomiSupport

from vgpu_cfg.errors import Unreachable, VersionTooOld

OLDEST = "6.5"
OLDEST_NAME = "vim.version.version11"
"""pyvmomi's name of it. The roots of the API are asked for in it, whatever the server speaks."""
_NUMBERS = re.compile(r"\d+(?:\.\d+)*")


def negotiate(spoken: str, release: str, address: str) -> str:
    """Return the newest vmodl version known here (`vim.version.v8_0_3_0`) that a server speaks.

    `spoken` is the server's newest: numbers, or the id of a patch (`m5CA1EF4D`). If that id is not known, the
    version of its `release` ("9.1.0") is used. Raises Unreachable if neither is a version, VersionTooOld if
    it is older than 6.5.
    """
    limit = next((_numbers(said) for said in (spoken, release) if _NUMBERS.fullmatch(said)), ())
    for version in VmomiSupport.GetServiceVersions("vim25"):
        known = VmomiSupport.versionIdMap[version]
        if known == spoken or (_NUMBERS.fullmatch(known) and _numbers(known) <= limit):
            if _numbers(dotted(version)) < _numbers(OLDEST):
                break
            return str(version)
    if not limit:
        raise no_api(address)
    raise refused(f"it supports API {spoken}", address)


def refused(why: str, address: str) -> VersionTooOld:
    """Return the error for a server that does not speak the oldest version."""
    return VersionTooOld(
        f"the server does not support API {OLDEST}: {why}",
        subject=address,
        remedy=f"vSphere {OLDEST} or later is required",
    )


def no_api(address: str) -> Unreachable:
    """Return the error for a server that does not answer as a vCenter does."""
    return Unreachable("this server has no vSphere API", subject=address, remedy="check that it is a vCenter")


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
