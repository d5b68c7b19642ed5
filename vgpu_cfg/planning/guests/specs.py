"""What each guest of a plan shall have: the spec of every VM whose plan file entry has a `guest`.

It follows from the plan file, from the addresses given away, and from what the hosts' drivers take; never
from what a VM shows, so that two plannings of one plan file come to the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from vgpu_cfg.model.desired import DesiredGuest, DesiredPlan, DesiredVm
from vgpu_cfg.model.guests.guest import GuestSpec
from vgpu_cfg.model.guests.modules import MODULE_ORDER, GuestModule
from vgpu_cfg.planning.guests.nics import Addresses, PlannedNic, planned_nics
from vgpu_cfg.planning.guests.own_modules import OwnGuest, own_modules
from vgpu_cfg.planning.guests.peers import Team, make_team
from vgpu_cfg.planning.guests.site import site_module
from vgpu_cfg.planning.guests.training_modules import training_modules


def guest_specs(
    desired: DesiredPlan,
    addresses: Addresses,
    branches: Mapping[str, tuple[str, ...]] | None = None,
    team: Team | None = None,
) -> dict[str, GuestSpec]:
    """Return the spec of each VM that has a guest, by the VM's name.

    `branches` are, by VM, the guest driver branches that its host takes. `team` is what `make_team` made of
    the same plan and addresses, where it was made already.
    """
    team = team or make_team(desired, addresses)
    return {
        vm.name: _spec(desired, vm, vm.guest, addresses, (branches or {}).get(vm.name, ()), team)
        for vm in desired.vms
        if vm.guest is not None
    }


def _spec(
    desired: DesiredPlan,
    vm: DesiredVm,
    guest: DesiredGuest,
    addresses: Addresses,
    branches: tuple[str, ...],
    team: Team | None,
) -> GuestSpec:
    peer = team.peer(vm.name) if team is not None else None
    nics = planned_nics(vm, addresses)
    training = team.training if team is not None and peer is not None else None
    site = desired.site
    if site is not None and site.toolkit_repository and guest.toolkit_repository is None:
        guest = guest.model_copy(update={"toolkit_repository": site.toolkit_repository})
    modules: list[GuestModule] = list(own_modules(OwnGuest(vm, guest, nics, branches, training)))
    if site is not None:
        modules.append(site_module(site, guest))
    if team is not None and peer is not None:
        modules += training_modules(team, peer)
    return GuestSpec(
        plan=desired.name,
        vm=vm.name,
        by=guest.by,
        login=guest.login,
        modules=tuple(sorted(modules, key=lambda module: MODULE_ORDER.index(module.kind))),
        user_data=guest.user_data,
        addresses=_reached_at(nics),
        wait_seconds=guest.wait_seconds,
        is_exposed=guest.is_exposed,
    )


def _reached_at(nics: tuple[PlannedNic, ...]) -> tuple[str, ...]:
    """Return a guest's addresses as the plan knows them, those without RDMA first."""
    in_order = sorted(nics, key=lambda nic: nic.is_rdma)
    return tuple(dict.fromkeys(nic.address for nic in in_order if nic.address))
