"""The default number of a run's tasks at once, derived from vCenter's own limits.

Belief: clone-limits, queued-clones-show-queued.
"""

from __future__ import annotations

from typing import Final

PARALLEL: Final = 20
"""In all: Horizon's own default for provisioning at one vCenter (Horizon API, `vcProvisioningLimit`).

A vCenter carries out some 640 operations before it queues ("vCenter Limits for Tasks Running at the Same
Time", VMware's performance blog, 2021).
"""

PER_HOST: Final = 4
"""On one host: a cloning within a host takes four of its 16 units, and a fifth is queued (the same page).

Older documents count eight of provisioning alone ("vCenter Server Limits on Simultaneous Migrations",
vSphere 6.7).
"""
