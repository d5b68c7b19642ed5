"""Validation of texts for guests: all others are refused before anything is rendered.

Values of a plan file were refused there, by rules of `model.plan_file` that are only asserted here; values
from elsewhere, as from vCenter, have their rules here.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Collection

from vgpu_cfg.errors import GuestError
from vgpu_cfg.model.plan_file.guest_values import (
    check_image,
    check_package,
    check_public_key,
    check_registry,
    check_sha256,
    check_shell_variable,
    check_user,
    package_kind,
)

_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_DOMAIN = re.compile(rf"{_HOST_NAME.pattern}(\.{_HOST_NAME.pattern})*")
_INTERFACE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,14}")
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_DRIVER = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_UNSAFE_IN_PATHS = re.compile(r"[\x00-\x1f\x7f:,]")


def refuse(what: str, text: str, remedy: str) -> GuestError:
    """Make the error for a text that a guest cannot carry."""
    return GuestError(f"{text!r} cannot be used as {what}", subject=what, remedy=remedy)


def asserted(check: Callable[[str], str], what: str, text: str) -> str:
    """Return a text that a rule of the plan file lets through. Raises `GuestError` for any other."""
    try:
        return check(text)
    except ValueError as error:
        message, _, hint = str(error).partition("\n")
        raise GuestError(message, subject=what, remedy=hint or "fix it in the plan file") from error


def host_name(text: str) -> str:
    """Return a host name: one label of letters, digits and hyphens."""
    return _matching(_HOST_NAME, "the host name", text, "use at most 63 letters, digits, and hyphens")


def domain_name(text: str) -> str:
    """Return a name of one label or more, as /etc/hosts and a host's full name take it."""
    return _matching(_DOMAIN, "a name", text, "use labels of letters, digits, and hyphens, separated by dots")


def user_name(text: str) -> str:
    """Return the name of an account, as useradd takes it on all distributions."""
    return asserted(check_user, "a user name", text)


def interface_name(text: str) -> str:
    """Return the name of an interface, 15 signs at most."""
    return _matching(_INTERFACE, "an interface name", text, "use at most 15 letters and digits")


def mac_address(text: str) -> str:
    """Return a MAC address in lower case with colons."""
    return _matching(_MAC, "a MAC address", text.lower(), "use six pairs of hex digits separated by colons")


def driver_name(text: str) -> str:
    """Return the name of a NIC's kernel driver."""
    return _matching(_DRIVER, "a NIC's driver", text, "specify a kernel driver, such as mlx5_core")


def package(text: str) -> str:
    """Return where a package is: a URL, or an absolute path in the guest."""
    return asserted(check_package, "the location of a package", text)


def package_of(text: str, kinds: Collection[str], what: str) -> str:
    """Return where a package is that ends in one of `kinds`, "" for none; `what` it is called."""
    if not text:
        return ""
    found = package(text)
    if package_kind(found) not in kinds:
        raise refuse(what, found, f"specify a file that ends in {', '.join(kinds)}")
    return found


def sha256(text: str) -> str:
    """Return a SHA-256 in lower case, "" for none."""
    return asserted(check_sha256, "a SHA-256", text) if text else ""


def key_line(text: str) -> str:
    """Return a line of authorized_keys."""
    return asserted(check_public_key, "a key", text)


def address(text: str) -> str:
    """Return an IP address without a prefix length, in its usual spelling."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError as error:
        raise refuse("an address", text, "specify an IP address, such as 10.111.0.11") from error


def cidr(text: str) -> str:
    """Return an IP address with its prefix length, in its usual spelling."""
    try:
        made = ipaddress.ip_interface(text)
    except ValueError as error:
        raise refuse("an address", text, "include the prefix length, such as 10.111.0.11/24") from error
    if "/" not in text:
        raise refuse("an address", text, "include the prefix length, such as 10.111.0.11/24")
    return str(made)


def variable_name(text: str, where: str) -> str:
    """Return the name of an environment variable."""
    return asserted(check_shell_variable, where, text)


def image_name(text: str, where: str) -> str:
    """Return a container image's name, with its registry, tag or digest."""
    return asserted(check_image, where, text)


def registry_host(text: str, where: str) -> str:
    """Return a registry's host name, with its port where it has one."""
    return asserted(check_registry, where, text)


def mount_path(text: str, where: str) -> str:
    """Return an absolute path that a mount can carry: anything but ':', ',' and control characters."""
    if not text.startswith("/") or _UNSAFE_IN_PATHS.search(text) or "/../" in f"{text}/":
        raise _refused(text, where, "use an absolute path without ':', ',', '..', or control characters")
    return text


def network(text: str, where: str) -> str:
    """Return an address or a network."""
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise _refused(text, where, "specify an address or a network, such as 10.111.0.0/24") from None
    return text


def port(number: int, where: str) -> int:
    """Return a TCP port."""
    if not 0 < number < 65536:
        raise _refused(str(number), where, "specify a port from 1 to 65535")
    return number


def _matching(pattern: re.Pattern[str], what: str, text: str, remedy: str) -> str:
    if not pattern.fullmatch(text):
        raise refuse(what, text, remedy)
    return text


def _refused(text: str, where: str, remedy: str) -> GuestError:
    return GuestError(f"invalid value for {where}: {text!r}", subject=where, remedy=remedy)
