"""How a key of the plan file is declared: that it may be absent, what it means, when it takes effect."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import Field


class TakesEffect(StrEnum):
    """When a changed value of a key reaches a VM that exists, or a host."""

    AT_CREATION = "at creation only"
    AT_POWER_CYCLE = "at a power cycle"
    LIVE = "live"
    REPORTING = "in reports only"
    SERVICE_RESTART = "at a restart of Xorg"
    """The host's service `xorg`; no VM with a vGPU may run there meanwhile."""
    MAINTENANCE = "in maintenance mode"
    HOST_REBOOT = "at a reboot of the host"
    HOST_COLD_BOOT = "at a reboot of the host, or a cold boot"
    BY_HAND = "by hand"
    IN_GUEST = "in the guest, live"
    """It is staged again in a guest that runs."""
    GUEST_RESTART = "in the guest, perhaps with its restart"
    FIRST_BOOT = "at the guest's first boot only"
    NEXT_RUN = "in the next run"
    """It asks nothing of the host: it says how this tool shall work."""


def _absent() -> Any:
    return None


def _is_absent(value: object) -> bool:
    return value is None


def key(description: str, takes_effect: TakesEffect | None = None, default: str = "", **schema: Any) -> Any:
    """Declare a key that may be absent; `default` tells in words what holds then, `schema` adds keywords.

    One that is absent is None, and is not written down.
    """
    extra: dict[str, Any] = dict(schema)
    if takes_effect is not None:
        extra["x-takes-effect"] = takes_effect.value
    if default:
        extra["x-default"] = default
    return Field(
        default_factory=_absent,
        description=description,
        json_schema_extra=extra or None,
        exclude_if=_is_absent,
    )
