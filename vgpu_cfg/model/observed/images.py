"""The image that manages a cluster's hosts: its components, the versions in the depot, its manager's mark."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from vgpu_cfg.model.frozen import Frozen

COMPLIANT = "COMPLIANT"
BASE_IMAGE = "ESXi"
"""The name under which components list the base image."""


class HostImage(Frozen):
    """The last compliance check of a host: its status, its impact, and the components that differ.

    `differs` has each component's version on the host and in the image, "" for none. `effects` are the
    steps of a remediation that affect the host, in vCenter's words.
    """

    status: str
    impact: str = ""
    differs: Mapping[str, tuple[str, str]] = Field(default_factory=dict)
    effects: tuple[str, ...] = ()

    @property
    def is_compliant(self) -> bool:
        return self.status == COMPLIANT

    @property
    def is_refused(self) -> bool:
        """Whether vCenter can not apply the image to the host."""
        return self.status in ("INCOMPATIBLE", "UNAVAILABLE")

    @property
    def words(self) -> str:
        """The status and the impact as the vSphere Client has them: "non-compliant, reboot required"."""
        known = [one.lower().replace("non_", "non-").replace("_", " ") for one in (self.status, self.impact)]
        return ", ".join(one for one in known if one)

    @property
    def outlook(self) -> str:
        """The same, with what vCenter expects of a remediation."""
        expects = f"vCenter expects: {' '.join(self.effects)}" if self.effects else ""
        return "; ".join(one for one in (self.words, expects) if one)


class ClusterImage(Frozen):
    """The image of a cluster, as vSphere Lifecycle Manager has it. Its base image counts as a component.

    `depot` has the versions of each component, the oldest first. `hosts` is the compliance by host moid.
    `manager` names the product that owns the image, such as SDDC Manager. `unread` is why it is not known.
    """

    components: Mapping[str, str] = Field(default_factory=dict)
    depot: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    hosts: Mapping[str, HostImage] = Field(default_factory=dict)
    manager: str = ""
    unread: str = ""
