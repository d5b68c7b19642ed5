"""The base of every module of a guest, and the NICs that several share, with their kept addresses.

An extraConfig key holds the addresses that a VM's pools gave it, spelled as follows.

`nic2=10.111.0.11/24` is the second NIC's address; `nic3=10.112.0.11/24@b8:59:9f:00:00:01` also has the MAC by
which the guest knows a passthrough NIC, since vCenter no longer reports it then.
"""

from __future__ import annotations

import hashlib
import json
import re
from abc import abstractmethod
from collections.abc import Mapping
from enum import StrEnum
from ipaddress import ip_interface
from typing import ClassVar, NamedTuple

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.plan_file import registry_of
from vgpu_cfg.model.plan_file.site_values import host_of

ADDRESSES_KEY = "vgpu_cfg.addresses"

_WORD = re.compile(r"nic([1-9][0-9]{0,2})=([^@=]*)(?:@([0-9a-f]{2}(?::[0-9a-f]{2}){5}))?")


class Ends(StrEnum):
    """The running work that applying a module may interrupt, in the words of DISRUPTION."""

    CONTAINERS = "containers"
    WORKER = "the worker's container"
    NETWORK = "connections"
    DRIVER = "processes on the GPU"
    EVERYTHING = "everything, by a restart"


NOTHING: frozenset[Ends] = frozenset()

PLAN_KEYS = "plan-keys"
"""The name of the fingerprint of the plan's own keys among the secrets' fingerprints."""


HIDDEN = "****"
"""The placeholder for a secret in all output."""


class Fetched(NamedTuple):
    """A download of staging: the key of the plan file that brings it, and the host that it leads to.

    `registry` is an image's registry, for which its runtime may use a mirror; "" for other downloads.
    The other fields are those of `Download`; a login or a time server has no address.
    """

    key: str
    host: str
    registry: str = ""
    address: str = ""
    pin: str = ""
    package: str = ""
    version: str = ""
    is_signed: bool = False


def fetched_file(key: str, address: str, pin: str = "") -> tuple[Fetched, ...]:
    """Return what an address fetches; nothing is fetched from a path in the guest."""
    host = host_of(address)
    return (Fetched(key, host, address=address, pin=pin),) if host else ()


def fetched_image(key: str, image: str, digest: str = "") -> Fetched:
    """Return what pulling an image fetches; its name may have a digest, too."""
    registry = registry_of(image)
    name, _, own = image.partition("@")
    return Fetched(key, host_of(f"https://{registry}"), registry, name, own or digest)


class Description(NamedTuple):
    """A module in words, without any secret."""

    words: str
    """Its line in a plan."""
    by_hand: str
    """The manual step, for root in the guest. Secrets have their names in the plan file."""
    is_default: bool = False
    """Whether no key of the plan file asks for it, or its values are the defaults."""
    fetched: tuple[Fetched, ...] = ()
    """The downloads of staging."""


class ModuleBase(Frozen):
    """A guest module: its parameters determine the files it writes, and `describe` explains them.

    `VERSION` is incremented when a module writes different files for the same parameters.
    """

    VERSION: ClassVar[int] = 1
    MAY_REBOOT: ClassVar[bool] = False
    """Whether bringing it may restart the guest."""
    ENDS: ClassVar[frozenset[Ends]]
    """The running work that applying it interrupts. Each module states it."""
    ONLY_CHECKED: ClassVar[frozenset[str]] = frozenset()
    """Parameters that only its check uses: another value of theirs brings nothing anew."""

    @abstractmethod
    def describe(self) -> Description:
        """Describe the module for plans, for manual steps, and for closed sites."""

    @property
    def unpinned(self) -> str:
        """The address of code that it runs or installs without a checksum; "" for none."""
        return ""

    @property
    def ends(self) -> frozenset[Ends]:
        """The running work that applying it with these parameters interrupts."""
        return self.ENDS | {Ends.EVERYTHING} if self.MAY_REBOOT else self.ENDS

    @property
    def secrets(self) -> tuple[str, ...]:
        """The names of the secrets that it writes; `PLAN_KEYS` for keys derived for the plan."""
        return ()

    @property
    def is_private(self) -> bool:
        """Whether it delivers secrets, which are never in a VM's configuration."""
        return bool(self.secrets)

    @property
    def host_keys_of(self) -> tuple[str, ...]:
        """The VMs whose guests' public ssh host keys it writes."""
        return ()

    @property
    def digest(self) -> str:
        """A digest of ten hex digits over the parameters that determine its files."""
        content = [self.VERSION, self.model_dump(mode="json", exclude=set(self.ONLY_CHECKED))]
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:10]


def without_checksum(place: str, sha256: str) -> str:
    """Return a place if it is an address, and no checksum goes with it; "" else."""
    return "" if sha256 or place.startswith("/") else place


class GuestNic(Frozen):
    """A NIC as netplan and the RDMA tools need it.

    It is found by `mac` (lowercase) or, if that is not known in advance, by its `driver`
    ("vmxnet3", "mlx5_core"), which then matches this NIC alone. `name` is the interface name that
    netplan gives it, "" keeps the kernel's. `addresses` are CIDR; with none and `dhcp` false the NIC is
    brought up without an address.
    """

    mac: str = ""
    driver: str = ""
    name: str = ""
    addresses: tuple[str, ...] = ()
    dhcp: bool = False
    gateway: str = ""
    dns: tuple[str, ...] = ()
    mtu: int | None = None
    optional: bool = False
    """Whether boot goes on without it."""

    @property
    def setting(self) -> str:
        """Its addresses and its MTU, in a few words."""
        where = ", ".join(self.addresses) or ("DHCP" if self.dhcp else "no address")
        return f"{where}, MTU {self.mtu}" if self.mtu is not None else where

    @property
    def named_setting(self) -> str:
        """The same, and which NIC it is."""
        which = f"the NIC {self.mac}" if self.mac else f"the {self.driver} NIC"
        return f"{which}: {self.setting}"


class KeptAddress(Frozen):
    """The stored values of one NIC: an address with its prefix length, a MAC; either may be empty."""

    address: str = ""
    mac: str = ""


def print_addresses(kept: Mapping[int, KeptAddress]) -> str:
    """Format the stored values by the NIC's index in the plan file, from 0; "" if there are none."""
    words = [
        f"nic{index + 1}={one.address}{f'@{one.mac}' if one.mac else ''}"
        for index, one in sorted(kept.items())
        if one.address or one.mac
    ]
    return " ".join(words)


def parse_addresses(text: str) -> dict[int, KeptAddress]:
    """Read it back; words that are none are left out, since the key is open to everybody."""
    found: dict[int, KeptAddress] = {}
    for word in text.split():
        match = _WORD.fullmatch(word.casefold())
        if match is None:
            continue
        number, address, mac = match.groups()
        try:
            spelt = str(ip_interface(address)) if address else ""
        except ValueError:
            continue
        if spelt or mac:
            found[int(number) - 1] = KeptAddress(address=spelt, mac=mac or "")
    return found
