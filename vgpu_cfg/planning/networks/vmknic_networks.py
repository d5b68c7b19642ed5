"""The network of a VMkernel NIC that the plan makes, and the changes to networks before it.

A host's settings know a network by its name alone, which is enough for a standard one. A distributed one gets
its id here; one that the plan makes has none until it is made, and the run fills it in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vgpu_cfg.changes.base import of_kind
from vgpu_cfg.changes.change import Change, ChangeHost, ChangeNetwork
from vgpu_cfg.changes.kinds.change_network import MakeSwitch
from vgpu_cfg.model.observed.inventory import Inventory, Network, NetworkKind
from vgpu_cfg.planning.estate.site import find_named


def tie_vmknics(changes: Sequence[Change], observed: Inventory) -> list[Change]:
    """Return the changes with each VMkernel NIC after what its network and that one's switch lack.

    Done twice it is the same as done once.
    """
    networks = list(of_kind(changes, ChangeNetwork))
    writes = (change for change in of_kind(changes, ChangeHost) if change.write.joins)
    tied = {change.id: _tied(change, networks, observed) for change in writes}
    return [tied.get(change.id, change) for change in changes]


def _tied(change: ChangeHost, networks: Iterable[ChangeNetwork], observed: Inventory) -> ChangeHost:
    write = change.write
    found = _network(change.host.moid, write.joins, observed)
    switches = {_switch_of(found, observed)} - {None}
    needs = [one.id for one in networks if _concerns(one, write.joins, switches)]
    if found is not None and found.kind is NetworkKind.DISTRIBUTED:
        write = write.on_network(found.moid)
    return change.model_copy(update={"write": write, "needs": tuple(dict.fromkeys((*change.needs, *needs)))})


def _network(host_moid: str, name: str, observed: Inventory) -> Network | None:
    """Return the network of a name that the host sees, else a distributed one: the host may join yet."""
    found = [one for one in find_named(name, observed.networks) if not one.is_uplink]
    host = observed.host_by_moid.get(host_moid)
    seen = host.network_moids if host is not None else ()
    return next(
        (one for one in found if one.moid in seen),
        next((one for one in found if one.kind is NetworkKind.DISTRIBUTED), None),
    )


def _switch_of(network: Network | None, observed: Inventory) -> str | None:
    if network is None or network.switch_uuid is None:
        return None
    return next((one.name for one in observed.facts.switches if one.uuid == network.switch_uuid), None)


def _concerns(change: ChangeNetwork, name: str, switches: set[str | None]) -> bool:
    """Whether a change makes or changes a network of this name, or a switch of these."""
    network = change.network
    if isinstance(network, MakeSwitch):
        return network.name in switches
    if network.kind == "set_portgroup":
        return network.name.casefold() == name.casefold()
    return network.switch_name in switches
