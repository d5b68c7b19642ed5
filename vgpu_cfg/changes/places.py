"""The objects on which a plan's changes need privileges, including those yet to be made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from vgpu_cfg.changes import privileges
from vgpu_cfg.changes.privileges import Need, Needed
from vgpu_cfg.changes.tables import VmRows
from vgpu_cfg.changes.values import VmRef
from vgpu_cfg.model.observed.host_facts import HostAttribute
from vgpu_cfg.model.observed.inventory import Inventory

HOST, VM = "HostSystem", "VirtualMachine"
"""Types that have custom attributes."""


class Places:
    """The kinds of objects, and the future places of those yet to be made.

    `homes` are the moids of folders and datacenters, by kind and name of the objects the plan makes there.
    """

    def __init__(self, observed: Inventory, homes: Mapping[tuple[str, str], str], vm_rows: VmRows) -> None:
        self._root = observed.vcenter.root_folder_moid
        self._observed, self._homes, self.vm_rows = observed, homes, vm_rows

    def vm(self, ref: VmRef) -> str:
        """Return the VM, or the folder of one that is yet to be made."""
        return ref.moid or self._homes["vm", ref.name]

    def switch(self, moid: str | None, name: str) -> str | None:
        """Return the switch, or the datacenter of one that the plan makes."""
        return moid or self._homes.get(("network", name))

    def is_template(self, moid: str) -> bool:
        """Whether a VM is a template."""
        vm = self._observed.vm_by_moid.get(moid)
        return vm is not None and vm.is_template

    def is_nic(self, host_moid: str, pci_id: str) -> bool:
        """Whether a function of a host is a NIC's."""
        host = self._observed.host_by_moid.get(host_moid)
        return host is not None and any(nic.pci_id == pci_id for nic in host.nics)

    def at_root(self, need: Need) -> Iterator[Needed]:
        """Yield a need on vCenter's root folder."""
        if self._root:
            yield Needed(need, self._root)

    def at_alarms(self, need: Need) -> Iterator[Needed]:
        """Yield a need on the folder of locks and reservations."""
        if home := self._observed.vcenter.lock_home_moid:
            yield Needed(need, home)

    def attributes(self, moid: str, need: Need, kind: str, names: Iterable[str]) -> Iterator[Needed]:
        """Yield the privileges to set custom attributes on an object, and to define them."""
        yield Needed(need, moid)
        if self._root:
            wanted = frozenset((kind, name) for name in names)
            yield Needed(privileges.DEFINE_ATTRIBUTES, self._root, wanted)

    def host_mark(self, moid: str) -> Iterator[Needed]:
        """Yield the privileges to mark a host with the work done to it."""
        return self.attributes(moid, privileges.CORDON, HOST, (HostAttribute.MARK,))
