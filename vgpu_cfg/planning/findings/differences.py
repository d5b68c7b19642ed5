"""Which findings tell of a difference from the plan file that no change of the plan fixes.

One that only informs is none: the plan file states a wish (`must: false`), or made it so by `checks`.
"""

from __future__ import annotations

from vgpu_cfg.planning.findings.codes import Code

DIFFERENCES_OF_VMS = frozenset(
    {
        Code.SET_AT_CREATION_ONLY,
        Code.SPREAD_UNMET,
        Code.ELSEWHERE,
        Code.HOST_FORBIDDEN,
        Code.KEEP_FREE_UNMET,
        Code.NOT_MADE_ANEW,
        Code.ORPHAN_ELSEWHERE,
        Code.NAME_TAKEN,
        Code.DEVICES_OF_OTHERS,
    }
)
"""A VM is elsewhere than the plan file says or cannot have its name, is not as one made now, cannot be made
anew, left the file, or has devices that it does not ask for."""

DIFFERENCES_OF_HOSTS = frozenset({Code.HOST_SILENT, Code.OTHERS_MAINTENANCE, Code.HOST_LOST})
"""A host does not answer, or others work on it: what is asked of it and of VMs there is not brought about."""
