"""How a reservation is kept at vCenter: as locks are, a disabled alarm of the root folder."""

from __future__ import annotations

from pyVmomi import vim, vmodl

from vgpu_cfg.model.reservations import Reservation
from vgpu_cfg.vsphere.wire.faults import translated
from vgpu_cfg.vsphere.wire.session import Session
from vgpu_cfg.vsphere.writing.alarms import alarm_manager
from vgpu_cfg.vsphere.writing.locks import disabled_alarm


def write_reservation(session: Session, reservation: Reservation | None, alarm: str) -> bool:
    """Make, change or remove a reservation in one call; `alarm` is the moid of what is there, "" for nothing.

    Returns False where another of its name was made meanwhile, or what was there has gone.
    """
    manager = alarm_manager(session)
    root = session.service_content.rootFolder
    kept = vim.alarm.Alarm(alarm, session.stub) if alarm else None
    with translated("writing the reservation", alarm or str(root._moId)):
        try:
            if reservation is None:
                if kept is not None:
                    kept.RemoveAlarm()
                return kept is not None
            spec = disabled_alarm(reservation.alarm_name, reservation.text)
            if kept is None:
                manager.CreateAlarm(root, spec)
            else:
                kept.ReconfigureAlarm(spec)
        except (vim.fault.DuplicateName, vmodl.fault.ManagedObjectNotFound):
            return False
    return True
