"""What a setting asks of a host's packages: which release, who installs it, from which offline bundles."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from fnmatch import fnmatchcase

from vgpu_cfg.changes.kinds.change_host import EsxcliWrite
from vgpu_cfg.model.observed.host_facts import HostFacts, is_same_boot

_GLOB = re.compile(r"[\w.*?\[\]!-]+")
NONE = "none"
STAGED = "taken in, waits for the reboot"


@dataclass(frozen=True, slots=True)
class WantedPackage:
    """A desired setting's value taken apart: `nvd-aie 580.* by esxcli from /vmfs/volumes/ds/driver.zip`."""

    kind: str
    version: str
    by: str = "hand"
    depots: tuple[str, ...] = ()

    @classmethod
    def parse(cls, value: str) -> WantedPackage:
        """Read what `value` wrote."""
        kind, version, *rest = shlex.split(value)
        by = rest[1] if rest else "hand"
        return cls(kind, version, by, tuple(rest[3:]))

    @property
    def value(self) -> str:
        """The value as plans and marks have it."""
        words = [self.kind, self.version]
        if self.by != "hand":
            words += ["by", self.by]
        if self.depots:
            words += ["from", *self.depots]
        return " ".join(word if _GLOB.fullmatch(word) else shlex.quote(word) for word in words)

    @property
    def is_installed_here(self) -> bool:
        """Whether this tool installs it, by esxcli."""
        return self.by == "esxcli" and bool(self.depots)

    @property
    def install(self) -> tuple[EsxcliWrite, ...]:
        """The call that takes in all bundles at once, for the next boot; nothing where others install it."""
        if not self.is_installed_here:
            return ()
        depots = tuple(("depot", depot) for depot in self.depots)
        return (EsxcliWrite(command="software.vib.install", arguments=depots),)


def is_wanted_package(wanted: str, found: str) -> bool:
    """Whether an installed package is of the wanted kind and its version fits the glob.

    A glob without a wildcard also fits a version with the VIB's suffix: "580.95.02" fits "580.95.02-1OEM…".
    What is staged is taken for the wanted one: after the reboot it shows whether it was.
    """
    if found == STAGED:
        return True
    kind, _, version = found.partition(" ")
    desired = WantedPackage.parse(wanted)
    fits = fnmatchcase(version, desired.version) or fnmatchcase(version, f"{desired.version}-*")
    return kind == desired.kind and fits


def is_staged(facts: HostFacts, setting: str) -> bool:
    """Whether this tool has installed a setting's package, and the host has not rebooted since.

    Until then the list of VIBs is that of the running image: the mark on the host tells, together with the
    host's own word that it must be rebooted.
    """
    waiting = facts.mark.waiting if facts.mark is not None else {}
    return facts.reboot_required and setting in waiting and is_same_boot(waiting[setting], facts.boot_time)
