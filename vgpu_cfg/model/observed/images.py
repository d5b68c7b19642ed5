"""The image that manages a cluster's hosts: its components, the versions in the depot, its manager's mark."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from vgpu_cfg.model.frozen import Frozen


class HostImage(Frozen):
    """The last compliance check of a host: its status, its impact, and the components that differ.

    `differs` has each component's version on the host and in the image, "" for none.
    """

    status: str
    impact: str = ""
    differs: Mapping[str, tuple[str, str]] = Field(default_factory=dict)


class ClusterImage(Frozen):
    """The image of a cluster, as vSphere Lifecycle Manager has it.

    `depot` has the versions of each component, the oldest first. `hosts` is the compliance by host moid.
    `manager` names the product that owns the image, such as SDDC Manager. `unread` is why it is not known.
    """

    base_image: str = ""
    components: Mapping[str, str] = Field(default_factory=dict)
    depot: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    hosts: Mapping[str, HostImage] = Field(default_factory=dict)
    manager: str = ""
    unread: str = ""
