"""Others are kept off GPUs: a host or its GPUs are cordoned, or GPUs are reserved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from vgpu_cfg.changes.base import ChangeBase
from vgpu_cfg.changes.host_base import HostChangeBase
from vgpu_cfg.model.reservations import Reservation


class SetCordon(HostChangeBase):
    """Keep new VMs off a host or its GPUs, or give them back: custom attributes of the host, by their names.

    An empty text clears one. Plain calls, no task.
    """

    kind: Literal["set_cordon"] = "set_cordon"
    values: Mapping[str, str]


class SetReservation(ChangeBase):
    """Reserve GPUs for the plan, change what is reserved, or give it back: an alarm of vCenter's root folder.

    `reservation` is None where it is given back; `alarm` is the moid of what is there, "" for nothing.
    """

    kind: Literal["set_reservation"] = "set_reservation"
    reservation: Reservation | None
    alarm: str = ""
