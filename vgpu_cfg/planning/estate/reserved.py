"""What is changed of a plan's reservation at vCenter, and how that reads."""

from __future__ import annotations

from collections.abc import Iterable

from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.plan.change import Change, Edit, SetReservation, Subject
from vgpu_cfg.model.reservations import KeptReservation, Reservation

ALARM = "alarm description"
"""The leaf of the request that holds a reservation."""


def change_of_reservation(
    desired: DesiredPlan,
    own: KeptReservation | None,
    wanted: Reservation | None,
    needs: Iterable[Change] = (),
) -> SetReservation:
    """Return the change from what is kept of a plan's reservation to what shall be, None for nothing."""
    before = own.reservation.words if own is not None and own.reservation is not None else None
    edit = Edit(
        key="reserved",
        before=before,
        after=wanted.words if wanted is not None else None,
        sets={ALARM: wanted.text} if wanted is not None else {},
    )
    return SetReservation(
        id="give back what is reserved" if wanted is None else "reserve GPUs",
        subject=Subject(kind="plan", name=desired.name),
        edits=(edit,),
        needs=tuple(change.id for change in needs),
        reservation=wanted,
        alarm=own.moid if own is not None else "",
    )


def give_back(desired: DesiredPlan, observed: Inventory, needs: Iterable[Change]) -> tuple[Change, ...]:
    """Return the change that gives a plan's reservation back, where it has one."""
    kept = observed.reservations
    own = kept.of_plan(desired.identity) if kept is not None else None
    return (change_of_reservation(desired, own, None, needs),) if own is not None else ()
