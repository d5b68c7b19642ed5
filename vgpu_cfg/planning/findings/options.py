"""The user's permissions for a plan, and the wanted part of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase

from vgpu_cfg.model.choices import Approval


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The command line's say in planning.

    `allow_power_cycle` lets running VMs be switched off for a change, `allow_move` lets VMs of the plan be
    moved to their place in the plan file. `delete` names VMs of the plan that the plan file does not name, by
    name or inventory path, never by glob: they are deleted, whatever `only` selects, and no other such VM is.
    A name in the form `[datastore] path` is a disk's: if its VM is deleted, it goes along, though the plan
    did not make it. `allow_destroy` is how many VMs may be deleted. `only` restricts the plan to VMs by glob
    (`hvd-*`, `vm:hvd-*`), or to hosts and their VMs (`host:esx-01`); empty means all, and networks are always
    part of it. `fingerprints` identify the present secrets by name, without revealing them; `PLAN_KEYS` is
    the name of the plan's own keys, and `former_keys` are the fingerprints of earlier ones that are still
    kept. `expiries` are the expiry times of tokens, by the names of their secrets. `rotate` names the parts
    to replace in guests: "keys", "licence", "registry". `canary` is how many VMs go first.
    """

    allow_power_cycle: bool = False
    allow_move: bool = False
    delete: tuple[str, ...] = ()
    allow_destroy: int = 0
    only: tuple[str, ...] = ()
    allow: tuple[Approval, ...] = ()
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    former_keys: tuple[str, ...] = ()
    expiries: Mapping[str, datetime] = field(default_factory=dict)
    rotate: tuple[str, ...] = ()
    canary: int = 0

    @property
    def deleted_vms(self) -> tuple[str, ...]:
        """The names in `delete` that are VMs'."""
        return tuple(name for name in self.delete if not name.startswith("["))

    @property
    def deleted_disks(self) -> tuple[str, ...]:
        """The names in `delete` that are disks'."""
        return tuple(name for name in self.delete if name.startswith("["))

    def selects(self, vm_name: str, host_name: str = "") -> bool:
        """Whether a VM on this host belongs to the part that is wanted."""
        return not self.only or any(_selects(selector, vm_name, host_name) for selector in self.only)

    def names_host(self, host_names: Iterable[str]) -> bool:
        """Whether `only` names one of these hosts by `host:`."""
        globs = [selector.removeprefix("host:") for selector in self.only if selector.startswith("host:")]
        return any(is_host(name, glob) for name in host_names for glob in globs)


def matches_any(text: str, globs: Iterable[str]) -> bool:
    """Whether one of the globs matches, whatever the case."""
    folded = text.casefold()
    return any(fnmatchcase(folded, glob.casefold()) for glob in globs)


def is_host(host_name: str, glob: str) -> bool:
    """Whether a glob means a host, by its name in vCenter or the part before the domain."""
    return any(matches_any(name, [glob]) for name in _names_of(host_name))


def _selects(selector: str, vm_name: str, host_name: str) -> bool:
    kind, colon, glob = selector.partition(":")
    if colon and kind == "host":
        return bool(host_name) and is_host(host_name, glob)
    return matches_any(vm_name, [glob if colon and kind == "vm" else selector])


def _names_of(host_name: str) -> tuple[str, ...]:
    """Return a host's name in vCenter and the short form of it, before the domain."""
    short = host_name.partition(".")[0]
    return (host_name,) if short.isdigit() else (host_name, short)
