"""Keys of the plan file that this release refuses by name, and which release area brings each.

A key is never ignored: either a model has a field for it, or it stands here. To
support one, delete its row and add the field. Paths are dotted and pass over
lists; `vms` stands for `defaults` and `except` too.
"""

from __future__ import annotations

from typing import Final

UNPLANNED: Final = "not planned yet"

NOT_YET_KEYS: Final[dict[str, str]] = {
    "vms.guest.spec": UNPLANNED,
}
