"""Where the managers of a host are, and what of it must be known before one of them is called.

One round trip brings the host's name, its API version, its managers and whatever else a
write has to merge into. Nothing is kept between writes: what is merged was read just before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from vgpu_cfg.errors import NotFound, VersionTooOld
from vgpu_cfg.vsphere.wire.collector import Item, Paths, Start, collect_from
from vgpu_cfg.vsphere.wire.faults import not_offered, to_error
from vgpu_cfg.vsphere.wire.session import Session
from vgpu_cfg.vsphere.wire.versions import is_at_least

ManagerName = Literal[
    "advancedOption",
    "firewallSystem",
    "graphicsManager",
    "kernelModuleSystem",
    "networkSystem",
    "pciPassthruSystem",
    "serviceSystem",
]
"""Properties of vim `HostConfigManager` that are used here."""


@dataclass(frozen=True, slots=True)
class HostManagers:
    """What one reading of a host brought; values are pyvmomi's."""

    session: Session
    item: Item

    @property
    def name(self) -> str:
        """The host's name, its id where vCenter tells none."""
        return str(self.item.get("name", self.item.moid))

    def manager(self, name: ManagerName) -> Any:
        """Return one of the host's managers, to call. Raises NotOffered where the host has none."""
        found = self.item.get(f"configManager.{name}")
        if found is None:
            raise not_offered(f"the host has no {name}", self.name)
        return found

    def require(self, path: str, what: str) -> Any:
        """Return a property that a write merges into.

        Raises NotOffered where the host tells none, and the reason where vCenter gives one.
        """
        found = self.item.get(path)
        if found is None and path in self.item.faults:
            raise to_error(self.item.faults[path], f"reading {what}", self.name)
        if found is None:
            raise not_offered(f"the host reports no {what}", self.name)
        return found

    def require_api(self, version: str, what: str) -> None:
        """Raise VersionTooOld unless vCenter and the host both know this version.

        What the negotiated version lacks would be dropped from the request without a word.
        """
        self.session.require_api(version, what)
        own = str(self.item.get("config.product.apiVersion", ""))
        if not is_at_least(own, version):
            raise VersionTooOld(
                f"{what} needs API {version} and the host speaks {own or 'one that it does not report'}",
                subject=self.name,
                remedy=f"an ESXi with API {version} or later is needed",
            )


def read_managers(session: Session, moid: str, manager: ManagerName, *paths: str) -> HostManagers:
    """Read a host's name, version, one of its managers and these properties, in one round trip.

    Raises NotFound where the host has gone.
    """
    wanted = (host_paths(manager, *paths),)
    return only_host(session, moid, collect_from(session, wanted, [Start("vim.HostSystem", moid)]))


def host_paths(manager: ManagerName, *paths: str) -> Paths:
    """Return what is read of a host for a write through one of its managers."""
    return Paths("vim.HostSystem", ("name", "config.product.apiVersion", f"configManager.{manager}", *paths))


def only_host(session: Session, moid: str, items: list[Item]) -> HostManagers:
    """Find a host among what was read. Raises NotFound where it has gone."""
    for item in items:
        if item.moid == moid:
            return HostManagers(session, item)
    raise NotFound(
        "the host is no longer there", subject=moid, remedy="plan again: the inventory has changed"
    )
