"""What is kept of a VM's tasks to explain a failure: the last that failed, and the last that changed it."""

from __future__ import annotations

from datetime import datetime

from vgpu_cfg.model.frozen import Frozen

RECONFIGURE = "VirtualMachine.reconfigure"
"""vCenter's description id of a task that changes a VM's configuration."""


class PastTask(Frozen):
    """A task of a VM that is over.

    `operation` is vCenter's description id, such as "VirtualMachine.powerOn"; `fault` the name of the
    fault's type and `error` what it says, both empty where the task succeeded.
    """

    task: str
    operation: str
    user: str = ""
    ended_at: datetime | None = None
    fault: str = ""
    error: str = ""


class VmHistory(Frozen):
    """The last task of a VM that failed, and the last that changed its configuration."""

    failed: PastTask | None = None
    reconfigured: PastTask | None = None
