"""What clients log by LogUserEvent: kept as a GeneralUserEvent of the entity.

Which entities take one is of the method's description. Which fault another one meets is recalled, and so is
what `fullFormattedMessage` says before the words.
"""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.api.references import reference
from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.simulation.context import Context
from vgpu_cfg.lab.simulation.methods import answers
from vgpu_cfg.lab.simulation.past_events import record
from vgpu_cfg.lab.state.inventory import Cluster, Datacenter, Host, Managed, VirtualMachine

_TAKING = (Datacenter, VirtualMachine, Host, Cluster)


@answers("EventManager", "LogUserEvent")
def log_user_event(context: Context, thing: Managed, *, entity: Any, msg: str) -> None:
    """Keep the words of a client. Raises InvalidArgument for an entity that takes none."""
    found = context.state.objects.get(entity._moId)
    if found is None:
        raise refusals.object_gone(entity)
    if not isinstance(found, _TAKING) and found.moid != context.state.root:
        raise refusals.bad_argument("entity")
    record(
        context.lab,
        found,
        "GeneralUserEvent",
        message=msg,
        fullFormattedMessage=f"User logged event: {msg}",
        entity=vim.event.ManagedEntityEventArgument(name=found.name, entity=reference(found)),
    )
