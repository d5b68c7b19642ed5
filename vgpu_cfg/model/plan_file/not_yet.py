"""Keys of the plan file that this release refuses by name, and which release area brings each.

A key is never ignored: either a model has a field for it, or it stands here. To
support one, delete its row and add the field. Paths are dotted and pass over
lists; `vms` stands for `defaults` and `except` too.
"""

from __future__ import annotations

from typing import Final

TRAINING: Final = "multi-VM training"
UNPLANNED: Final = "not planned yet"

NOT_YET_KEYS: Final[dict[str, str]] = {
    "training": TRAINING,
    "hosts.access.bmc": UNPLANNED,
    "networks.physical": TRAINING,
    "networks.subnet": TRAINING,
    "networks.pool": TRAINING,
    "networks.gateway": TRAINING,
    "networks.dns": TRAINING,
    "vms.template.library": UNPLANNED,
    "vms.template.item": UNPLANNED,
    "vms.storage_policy": UNPLANNED,
    "vms.vtpm": UNPLANNED,
    "vms.nics.ip": TRAINING,
    "vms.nics.rdma": TRAINING,
    "vms.disks.storage_policy": UNPLANNED,
    "vms.ha": UNPLANNED,
    "vms.drs": UNPLANNED,
    "vms.tags": UNPLANNED,
    "vms.attributes": UNPLANNED,
    "vms.guest": TRAINING,
}

NOT_YET_VALUES: Final[dict[tuple[str, str], str]] = {
    ("vms.nics.type", "pvrdma"): TRAINING,
}
"""Values of keys that are supported otherwise."""
