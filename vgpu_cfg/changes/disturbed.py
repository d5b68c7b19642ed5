"""One thing that a change disturbs besides what it is about: who, how, and which approval it needs."""

from __future__ import annotations

from enum import StrEnum

from vgpu_cfg.changes.values import Subject
from vgpu_cfg.model.approvals import Approval
from vgpu_cfg.model.frozen import Frozen


class Experience(StrEnum):
    """What happens to a disturbed thing, in the words of DISRUPTION."""

    LINK_DOWN = "link down and up"
    VMOTION = "vMotion"
    MOVED_OFF = "moved while powered off"
    POWERED_OFF = "powered off"
    GPU_MODE = "GPU mode changed"
    DISK_DETACHED = "disk detached"
    DISK_DELETED = "disk deleted"
    GOES_WITH_VM = "removed with its VM"
    USB_LOST = "USB disconnected"
    TRAINING_ENDED = "running work ended"
    NOT_REVERSIBLE = "cannot be undone"
    OPTION = "option changed"


class Disturbed(Frozen):
    """A thing that experiences something because of one change.

    `change` is the id of the change. `subject` is a VM, a host, a cluster, a disk, or the vCenter. `through`
    is what it shares with the change (a switch, a host), "" if the change is about it. `is_own` tells whether
    it is the plan's own. `needs` is the approval that the change requires because of it, None for none.
    """

    change: str
    subject: Subject
    experience: Experience
    through: str = ""
    is_own: bool = False
    needs: Approval | None = None
    note: str = ""
