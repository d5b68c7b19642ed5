"""Changes of a plan's reservation at vCenter, and their text."""

from __future__ import annotations

from collections.abc import Iterable

from vgpu_cfg.changes.change import Change, SetReservation
from vgpu_cfg.changes.values import Edit, Subject
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.reservations import KeptReservation, Reservation

ALARM = "alarm description"
"""The leaf of the request that holds a reservation."""


def change_of_reservation(
    desired: DesiredPlan,
    own: KeptReservation | None,
    wanted: Reservation | None,
    needs: Iterable[Change] = (),
) -> SetReservation:
    """Return the change from a plan's present reservation to the wanted one, None for nothing."""
    edit = edit_of_reservation(own.reservation if own is not None else None, wanted)
    return SetReservation(
        id="release the reservation" if wanted is None else "reserve GPUs",
        subject=Subject(kind="plan", name=desired.name),
        edits=(edit,),
        needs=tuple(change.id for change in needs),
        reservation=wanted,
        alarm=own.moid if own is not None else "",
    )


def edit_of_reservation(before: Reservation | None, after: Reservation | None) -> Edit:
    """Return the reservation before and after, None for nothing."""
    return Edit(
        key="reserved",
        before=before.words if before is not None else None,
        after=after.words if after is not None else None,
        sets={ALARM: after.text} if after is not None else {},
    )


def give_back(desired: DesiredPlan, observed: Inventory, needs: Iterable[Change]) -> tuple[Change, ...]:
    """Return the change that removes a plan's reservation, if it has one."""
    kept = observed.reservations
    own = kept.of_plan(desired.identity) if kept is not None else None
    return (change_of_reservation(desired, own, None, needs),) if own is not None else ()
