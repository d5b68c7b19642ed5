"""Which texts containers, mounts and exports can carry; what any guest can carry is in `values`."""

from __future__ import annotations

import ipaddress
import re

from vgpu_cfg.errors import GuestError

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_IMAGE = re.compile(
    r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?::[0-9]{1,5})?"  # a registry, or the first part of the name
    r"(?:/[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*)*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?"
    r"(?:@sha256:[0-9a-f]{64})?\Z"
)
_REGISTRY = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{1,5})?\Z")
_UNSAFE_IN_PATHS = re.compile(r"[\x00-\x1f\x7f:,]")


def checked_variable(text: str, where: str) -> str:
    """Return the name of an environment variable."""
    if not _VARIABLE.match(text):
        raise _refused(text, where, "write a variable's name: letters, digits and '_'")
    return text


def checked_image(text: str, where: str) -> str:
    """Return a container image's name, with its registry, tag or digest."""
    if not _IMAGE.match(text):
        raise _refused(text, where, "write it as in nvcr.io/nvidia/tensorflow:21.07-tf1-py3")
    return text


def checked_registry(text: str, where: str) -> str:
    """Return a registry's host name, with its port where it has one."""
    if not _REGISTRY.match(text):
        raise _refused(text, where, "write its host name, such as registry.example.com:5000")
    return text


def checked_path(text: str, where: str) -> str:
    """Return an absolute path that a mount can carry: anything but ':', ',' and control characters."""
    if not text.startswith("/") or _UNSAFE_IN_PATHS.search(text) or "/../" in f"{text}/":
        raise _refused(text, where, "write an absolute path without ':', ',', '..' and control characters")
    return text


def checked_network(text: str, where: str) -> str:
    """Return an address or a network."""
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise _refused(text, where, "write an address or a network such as 10.111.0.0/24") from None
    return text


def checked_port(number: int, where: str) -> int:
    """Return a TCP port."""
    if not 0 < number < 65536:
        raise _refused(str(number), where, "write a port from 1 to 65535")
    return number


def _refused(text: str, where: str, remedy: str) -> GuestError:
    return GuestError(f"{where} cannot go into a guest: {text!r}", subject=where, remedy=remedy)
