"""Guests that are Linux, by the id that vSphere knows them under (vim `GuestOsIdentifier`)."""

from __future__ import annotations

_LINUX = (
    "almalinux",
    "amazonlinux",
    "asianux",
    "centos",
    "coreos",
    "debian",
    "fedora",
    "flatcar",
    "fusionos",
    "genericlinux",
    "kylinlinux",
    "mandrake",
    "mandriva",
    "miraclelinux",
    "nld",
    "oes",
    "opensuse",
    "oraclelinux",
    "pardus",
    "prolinux",
    "redhat",
    "rhel",
    "rockylinux",
    "sjds",
    "sles",
    "suse",
    "turbolinux",
    "ubuntu",
    "vmwarephoton",
)
_OTHERS = (
    "crx",
    "darwin",
    "dos",
    "ecomstation",
    "freebsd",
    "netware",
    "openserver",
    "os2",
    "solaris",
    "unixware",
    "vmkernel",
    "win",
)


def is_linux(guest_id: str) -> bool | None:
    """Say whether a guest id is one of a Linux; None for `otherGuest`, none, and those of later releases."""
    folded = guest_id.casefold()
    if folded.startswith(_LINUX) or (folded.startswith("other") and "linux" in folded):
        return True
    return False if folded.startswith(_OTHERS) else None
