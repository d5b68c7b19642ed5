"""Marks on hosts and VMs that outlive a command: cordons, ways into maintenance mode, and VMs' earlier hosts.

A cordon keeps new VMs off a host or one of its GPUs. Its text is in the host's custom attribute. An attribute
holds one cordon: `vgpu_cfg.cordon` that of the host, `vgpu_cfg.cordon.1` and on those of GPUs. A text that is
none of this tool's is a cordon of the host all the same, with the text as its reason: a user who edits the
attribute in the vSphere Client intends it, and truncated text still applies.

If a host has no mark, vCenter's events show the way it entered maintenance mode.

A VM's location before its host was drained is the text of the VM's custom attribute.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from vgpu_cfg.model.frozen import Frozen, Moment, moment_of
from vgpu_cfg.model.observed.vm import Vm

CORDON_ATTRIBUTE = "vgpu_cfg.cordon"
MOST_CHARACTERS = 255
"""How long the text of a cordon may be; vCenter's reference names no limit (unproven, as in `remembered`)."""

HOME_ATTRIBUTE = "vgpu_cfg.home"


class Cordon(Frozen):
    """The cordon of a host, or of its GPU at `pci_id`: the reason, and the user and time if known."""

    attribute: str
    reason: str
    pci_id: str = ""
    by: str = ""
    since: datetime | None = None

    @property
    def key(self) -> str:
        """The displayed name."""
        return f"cordon {self.pci_id}".rstrip()

    @property
    def text(self) -> str:
        """The attribute's value: JSON without empty fields."""
        since = "" if self.since is None else f"{self.since.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
        values = {"reason": self.reason, "gpu": self.pci_id, "by": self.by, "since": since}
        return json.dumps({key: value for key, value in values.items() if value}, ensure_ascii=False)

    @property
    def words(self) -> str:
        """The reason, with who gave it and when."""
        when = "" if self.since is None else f"since {self.since.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
        told = ", ".join(part for part in (self.by, when) if part)
        return f"{self.reason} ({told})" if told else self.reason

    @classmethod
    def parse(cls, attribute: str, text: str) -> Cordon:
        """Read a cordon back."""
        try:
            found: Any = json.loads(text)
            return cls(
                attribute=attribute,
                reason=str(found["reason"]),
                pci_id=str(found.get("gpu", "")),
                by=str(found.get("by", "")),
                since=moment_of(str(found.get("since", ""))),
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return cls(attribute=attribute, reason=text.strip())


def parse_cordons(texts: Mapping[str, str]) -> tuple[Cordon, ...]:
    """Read the cordons among a host's custom attributes, that of the host first."""
    names = (name for name in texts if name == CORDON_ATTRIBUTE or name.startswith(f"{CORDON_ATTRIBUTE}."))
    return tuple(Cordon.parse(name, texts[name]) for name in sorted(names) if texts[name].strip())


def free_attribute(taken: Iterable[str]) -> str:
    """Return the name of the first attribute for a GPU's cordon that none of a host's has."""
    names, number = set(taken), 1
    while f"{CORDON_ATTRIBUTE}.{number}" in names:
        number += 1
    return f"{CORDON_ATTRIBUTE}.{number}"


class MaintenanceEntry(Frozen):
    """The user who put a host into maintenance mode, and the time by vCenter's clock.

    `plan`, `plan_id` and `run` are those of the run during which the same account did it, "" where there was
    none.
    """

    at: Moment
    by: str = ""
    plan: str = ""
    plan_id: str = ""
    run: str = ""


class Home(Frozen):
    """The host that a running VM was taken from, by moid, and the one that it was moved to.

    `to` is empty for a VM that was only switched off. `is_cold`: it was off while it moved;
    `is_moving`: it was powered off for a move that has not finished. `vm` is the VM's own moid: a clone
    inherits the text, but was never moved.
    """

    vm: str = ""
    host: str
    to: str = ""
    is_cold: bool = False
    is_moving: bool = False

    @property
    def text(self) -> str:
        """The attribute's value: JSON without empty fields."""
        return self.model_dump_json(exclude_defaults=True)

    def is_there(self, vm: Vm) -> bool:
        """Whether a VM is still where it was put."""
        return vm.host_moid == (self.to or self.host) and vm.is_on is bool(self.to)


def home_of(vm: Vm) -> Home | None:
    """Return the VM's recorded location; None if it has none, or if the text is another VM's or edited."""
    text = vm.detail.attributes.get(HOME_ATTRIBUTE, "") if vm.detail is not None else ""
    try:
        home = Home.model_validate_json(text) if text else None
    except ValueError:
        return None
    return home if home is not None and home.vm == vm.moid else None
