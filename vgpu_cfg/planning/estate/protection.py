"""Objects never written: what `protect` covers, by the plan file or a context, and VMs of other products."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.inventory import Cluster, Folder
from vgpu_cfg.model.observed.vm import Manager
from vgpu_cfg.model.plan_file import ProtectEntry
from vgpu_cfg.planning.findings.options import matches_any

PLAN_FILE = "the plan file"


@dataclass(frozen=True, slots=True)
class Protection:
    """The globs of `protect`, those of the contexts first: no plan file takes them away.

    `rules` are (who says so, globs).
    """

    rules: tuple[tuple[str, ProtectEntry], ...] = ()

    @classmethod
    def of(cls, desired: DesiredPlan) -> Protection:
        """Return the objects that a plan must not write, by itself and by the contexts of its vCenter."""
        contexts = ((f"the context {one.name} in {one.file}", one.protect) for one in desired.contexts)
        return cls((*contexts, (PLAN_FILE, desired.protect)))

    def of_vm(self, name: str, folder: Folder | None, manager: Manager | None = None) -> Covering | None:
        """Return what covers a VM, None if nothing does. A folder whose path is unread may be any.

        A VM that another product manages is covered whatever the files say.
        """
        managed = None if manager is None else Covering("the VM", manager.words, manager=manager)
        return managed or next(self._of_vm(name, folder), None)

    def of_cluster(self, cluster: Cluster | None) -> Covering | None:
        """Return what covers a cluster, None if nothing does. One that was not read may be any."""
        for source, globs in self.rules:
            if cluster is None:
                if globs.clusters:
                    return Covering("its cluster", source, unread="clusters")
            elif any(matches_any(text, globs.clusters) for text in (cluster.name, cluster.inventory_path)):
                return Covering(f"the cluster {cluster.name}", source)
        return None

    def _of_vm(self, name: str, folder: Folder | None) -> Iterator[Covering]:
        for source, globs in self.rules:
            if matches_any(name, globs.names):
                yield Covering("its name", source)
            if folder is None or not folder.inventory_path:
                if globs.folders:
                    yield Covering("its folder", source, unread="folders")
                continue
            path = folder.inventory_path
            for glob in globs.folders:
                if matches_any(path, (glob, f"{glob.rstrip('/')}/*")) or matches_any(folder.name, [glob]):
                    yield Covering(f"the folder {path}", source)


@dataclass(frozen=True, slots=True)
class Covering:
    """The part of `protect` that covers an object: `what` it names, and its `source`.

    `unread` is the kind of thing whose place was not read: one of those that are protected may be it.
    `manager` is the product that manages the VM, which is then the source.
    """

    what: str
    source: str
    unread: str = ""
    manager: Manager | None = None

    @property
    def message(self) -> str:
        """Say that it is protected, and by whom."""
        if self.manager:
            return f"{self.what} is managed by {self.source}"
        if self.unread:
            return f"{self.what} could not be read, and {self.source} protects certain {self.unread}"
        return f"{self.what} is protected by {self.source}"

    def remedy(self, or_else: str = "", alone: str = "") -> str:
        """Return the remedy: `or_else` follows "or", `alone` is the remaining one if a context protects.

        A plan file cannot override a context.
        """
        if self.manager:
            told = f"its owner is {self.manager.owner}: request the change there"
            return "; ".join(filter(None, (alone, told)))
        if self.unread:
            return f"grant the account read access to {self.what} and its parent objects"
        if self.source == PLAN_FILE:
            return f"remove it from `protect`, or {or_else}" if or_else else "remove it from `protect`"
        only = f"{alone}; " if alone else ""
        return f"{only}contact the owner of the context to change its protection"
