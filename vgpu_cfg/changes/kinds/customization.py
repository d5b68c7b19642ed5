"""How the guest of a new VM is customised: vCenter's specification, and what a plan fills into it."""

from __future__ import annotations

from typing import Literal

from vgpu_cfg.model.frozen import Frozen


class NicCustomization(Frozen):
    """What is filled in for a NIC, in the order of its adapters; nothing is where `ip` is "".

    `ip` is "dhcp" or an address with its prefix length; `network` is for a reader.
    """

    network: str = ""
    ip: str = ""
    gateway: str = ""


class Customization(Frozen):
    """A specification by its name, as it was read: `change_version` refuses another one.

    `domain` is what its guest gets, from the plan file where `sets_domain`. `dns` replaces the name servers
    where it is not empty.
    """

    spec: str
    change_version: str
    kind: Literal["linux", "windows"]
    host_name: str
    domain: str = ""
    sets_domain: bool = False
    dns: tuple[str, ...] = ()
    nics: tuple[NicCustomization, ...] = ()
