"""vCenter's events about VMs, hosts and clusters, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from pydantic import Field

from vgpu_cfg.model.frozen import Frozen


class PastEvent(Frozen):
    """One event. `kind` is vim's name of its type, `moid` and `name` are its object's, at that time.

    `by` is the account, or the alarm or scheduled task whose task it was; `at` is vCenter's own time. `sets`
    are the written values, by the paths of `Edit.sets`; for devices, `device[KIND]` with the operation.
    `words` is a text of vCenter's in which only names are looked for.
    """

    kind: str
    moid: str
    name: str
    at: datetime
    by: str = ""
    sets: Mapping[str, str] = Field(default_factory=dict)
    words: str = ""


class PastScope(Frozen):
    """Whose events are wanted: of VMs, hosts and clusters by moid, and the removals of VMs by name.

    `folder_moid` is that of the folder that all of the VMs are in, "" where they are in several. `kinds` are
    the requested ones, or all that show differences if it is empty; `since` is the oldest that is.
    """

    vm_moids: tuple[str, ...] = ()
    removed_vms: tuple[str, ...] = ()
    host_moids: tuple[str, ...] = ()
    cluster_moids: tuple[str, ...] = ()
    folder_moid: str = ""
    kinds: tuple[str, ...] = ()
    since: datetime | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it names nothing."""
        return not (self.vm_moids or self.removed_vms or self.host_moids or self.cluster_moids)


class Past(Frozen):
    """The events read, oldest first.

    `since` is the time of vCenter's oldest event; None if it was not read or vCenter has none.
    `made_at` maps VMs to their creation times. `unread` is why events are missing; empty if none are.
    """

    events: tuple[PastEvent, ...] = ()
    since: datetime | None = None
    made_at: Mapping[str, datetime] = Field(default_factory=dict)
    unread: str = ""
