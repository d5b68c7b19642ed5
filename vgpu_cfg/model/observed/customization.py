"""Customization specifications that a plan file names, and the results of customizations, as read."""

from __future__ import annotations

from typing import Final, Literal

from vgpu_cfg.model.frozen import Frozen

# Belief: deploy-pkg-means-pending.
PENDING_KEY: Final = "tools.deployPkg.fileName"
"""The extraConfig key of a VM whose guest is to be customised at its next start (VM Operator reads it)."""

CUSTOMIZATION_SUCCEEDED: Final = "CustomizationSucceeded"
CUSTOMIZATION_FAILURES: Final = (
    "CustomizationFailed",
    "CustomizationSysprepFailed",
    "CustomizationLinuxIdentityFailed",
    "CustomizationNetworkSetupFailed",
    "CustomizationUnknownFailure",
)
"""The events of a failed one: CustomizationFailed and its subtypes (vSphere API reference)."""


class SpecNic(Frozen):
    """A specification's setting for a NIC: DHCP, one address for all, prompt the user, or another way."""

    kind: Literal["dhcp", "fixed", "ask", "other"]
    address: str = ""


class CustomizationSpec(Frozen):
    """A specification by its name. If it does not exist (`is_there`), `others` are the existing names.

    `kind` is its guest's system, "other" for one whose host name cannot be filled in. `domain` is "" where it
    has none. `is_foreign`: it has passwords that are encrypted for another vCenter's key.
    """

    name: str
    is_there: bool = True
    others: tuple[str, ...] = ()
    kind: Literal["linux", "windows", "other"] = "linux"
    change_version: str = ""
    domain: str = ""
    nics: tuple[SpecNic, ...] = ()
    is_foreign: bool = False


class CustomizationSeen(Frozen):
    """How far the customisation of a guest is, by vCenter's events; `message` and `log` are their words."""

    state: Literal["waiting", "running", "succeeded", "failed"] = "waiting"
    event: str = ""
    message: str = ""
    log: str = ""
