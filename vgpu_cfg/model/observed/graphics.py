"""How a host's graphics are set: for whom its GPUs are, and how vGPUs are dealt to them."""

from __future__ import annotations

from enum import StrEnum


class GraphicsType(StrEnum):
    """vim `HostGraphicsInfoGraphicsType`."""

    BASIC = "basic"
    SHARED = "shared"
    DIRECT = "direct"
    SHARED_DIRECT = "sharedDirect"


class AssignmentPolicy(StrEnum):
    """vim `HostGraphicsConfigSharedPassthruAssignmentPolicy`."""

    PERFORMANCE = "performance"
    CONSOLIDATION = "consolidation"
