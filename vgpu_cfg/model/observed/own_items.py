"""vCenter's own items that a plan file names, as read: library items, customization specs, and tags."""

from __future__ import annotations

from datetime import datetime
from typing import Final, Literal

from vgpu_cfg.model.frozen import Frozen

VM_TEMPLATE: Final = "vm-template"
"""The type of an item that is a VM template of the inventory, under a name of the library's, too."""


class LibraryItem(Frozen):
    """An item by its library and its name; `kind` is its type, "" for one that is not there.

    A VM template has the moid of its inventory object; None if unknown. If it is
    missing, `others` are the existing names: items in the library, or libraries without it (`has_library`).
    `count` is how many items have the name.
    """

    library: str
    name: str
    kind: str = ""
    template_moid: str | None = None
    has_library: bool = True
    others: tuple[str, ...] = ()
    count: int = 1


# Belief: deploy-pkg-means-pending.
PENDING_KEY: Final = "tools.deployPkg.fileName"
"""The extraConfig key of a VM whose guest is to be customised at its next start (VM Operator reads it)."""

CUSTOMIZATION_SUCCEEDED: Final = "CustomizationSucceeded"
CUSTOMIZATION_FAILURES: Final = (
    "CustomizationFailed",
    "CustomizationSysprepFailed",
    "CustomizationLinuxIdentityFailed",
    "CustomizationNetworkSetupFailed",
    "CustomizationUnknownFailure",
)
"""The events of a failed one: CustomizationFailed and its subtypes (vSphere API reference)."""


class SpecNic(Frozen):
    """A specification's setting for a NIC: DHCP, one address for all, prompt the user, or another way."""

    kind: Literal["dhcp", "fixed", "ask", "other"]
    address: str = ""


class CustomizationSpec(Frozen):
    """A specification by its name. If it does not exist (`is_there`), `others` are the existing names.

    `kind` is its guest's system, "other" for one whose host name cannot be filled in. `domain` is "" where it
    has none. `is_foreign`: it has passwords that are encrypted for another vCenter's key.
    """

    name: str
    is_there: bool = True
    others: tuple[str, ...] = ()
    kind: Literal["linux", "windows", "other"] = "linux"
    change_version: str = ""
    domain: str = ""
    nics: tuple[SpecNic, ...] = ()
    is_foreign: bool = False


class CustomizationSeen(Frozen):
    """How far the customisation of a guest is, by vCenter's events; `message` and `log` are their words."""

    state: Literal["waiting", "running", "succeeded", "failed"] = "waiting"
    event: str = ""
    message: str = ""
    log: str = ""


VM_TYPE = "VirtualMachine"


class Tag(Frozen):
    """A tag. Names are shown and compared, and `id` (an URN) is what vCenter is asked by.

    `category` is the name of the category that it is of.
    """

    category: str
    name: str
    id: str

    def __str__(self) -> str:
        return f"{self.category}/{self.name}"


class TagCategory(Frozen):
    """A category with its tags, which are read only for requested categories.

    With `is_single` an object has one tag of it at most. `types` are the types of objects that its tags are
    for, empty for all.
    """

    name: str
    id: str
    is_single: bool = False
    types: frozenset[str] = frozenset()
    tags: tuple[Tag, ...] = ()

    @property
    def is_for_vms(self) -> bool:
        """Whether a VM can have its tags."""
        return not self.types or VM_TYPE in self.types

    def tag(self, name: str) -> Tag | None:
        """Return the tag of a name, None where there is none."""
        return next((tag for tag in self.tags if tag.name == name), None)


class HostAlarm(Frozen):
    """An alarm that is triggered on a host, not acknowledged; `is_red` or else yellow."""

    name: str
    is_red: bool
    since: datetime


class SeenLicence(Frozen):
    """A license as vCenter names it, and when it ends; None if it does not, or vCenter does not say."""

    name: str
    ends: datetime | None = None
