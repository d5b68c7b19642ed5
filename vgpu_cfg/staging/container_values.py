"""Which texts containers, mounts and exports can carry; what any guest can carry is in `values`."""

from __future__ import annotations

import ipaddress
import re

from vgpu_cfg.errors import GuestError
from vgpu_cfg.model.plan_file.guest_values import check_image, check_registry, check_shell_variable
from vgpu_cfg.staging.values import asserted

_UNSAFE_IN_PATHS = re.compile(r"[\x00-\x1f\x7f:,]")


def checked_variable(text: str, where: str) -> str:
    """Return the name of an environment variable."""
    return asserted(check_shell_variable, where, text)


def checked_image(text: str, where: str) -> str:
    """Return a container image's name, with its registry, tag or digest."""
    return asserted(check_image, where, text)


def checked_registry(text: str, where: str) -> str:
    """Return a registry's host name, with its port where it has one."""
    return asserted(check_registry, where, text)


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
