"""What vCenter remembers of VMs, hosts and clusters: its events, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from pydantic import Field

from vgpu_cfg.model.frozen import Frozen


class PastEvent(Frozen):
    """One event. `kind` is vim's name of its type, `moid` and `name` are of what it is about, as of then.

    `by` is the account, or the alarm or scheduled task whose task it was; `at` is vCenter's own time. `sets`
    is what it wrote, by paths as `Edit.sets` has them; of devices it has `device[KIND]` with what was done.
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
    those that are wanted, all that tell of differences where it is empty; `since` is the oldest that is.
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
    """What was read of events, oldest first.

    `since` is when the oldest event is of that vCenter keeps at all, None where nobody looked or it has none.
    `made_at` tells of VMs when they were made. `unread` says why events are missing, empty where none is.
    """

    events: tuple[PastEvent, ...] = ()
    since: datetime | None = None
    made_at: Mapping[str, datetime] = Field(default_factory=dict)
    unread: str = ""
