"""What is known of a plan's VMs on a host that does not respond: seen how last, startable where."""

from __future__ import annotations

from vgpu_cfg.changes.values import HostRef
from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.observed.inventory import Connection
from vgpu_cfg.model.observed.vm import PowerState


class LostVm(Frozen):
    """A VM of the plan on such a host. `power_state` is what vCenter saw last.

    It could start on `could_start_on` as things are now, together with the others; where that is empty
    `why_not` says what forbids it. With `is_restarted_by_ha` vSphere HA starts it elsewhere by itself once it
    takes the host for dead.
    """

    name: str
    moid: str
    power_state: PowerState
    could_start_on: str = ""
    why_not: str = ""
    is_restarted_by_ha: bool = False


class LostHost(Frozen):
    """A host that does not respond, or that somebody disconnected, and the plan's VMs on it."""

    host: HostRef
    connection: Connection
    vms: tuple[LostVm, ...]
