"""What each guest of a plan shall have: the spec of every VM whose plan file entry has a `guest`.

It follows from the plan file, from the addresses given away, from what the hosts' drivers take and from how
they are wired; never from what a VM shows, so that two plannings of one plan file come to the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from vgpu_cfg.model.desired import DesiredGuest, DesiredPlan, DesiredTraining, DesiredVm
from vgpu_cfg.model.guests.guest import GuestSpec
from vgpu_cfg.model.guests.modules import MODULE_ORDER, GuestModule
from vgpu_cfg.planning.guests.drivers import GuestDrivers
from vgpu_cfg.planning.guests.nccl_modules import nccl_modules
from vgpu_cfg.planning.guests.nics import Addresses, PlannedNic, planned_nics
from vgpu_cfg.planning.guests.own_modules import OwnGuest, own_modules
from vgpu_cfg.planning.guests.peers import Team, make_team
from vgpu_cfg.planning.guests.site import site_module
from vgpu_cfg.planning.guests.training_modules import training_modules
from vgpu_cfg.planning.guests.wiring import NO_WIRING, Wiring


def guest_specs(
    desired: DesiredPlan,
    addresses: Addresses,
    takes: Mapping[str, GuestDrivers] | None = None,
    team: Team | None = None,
    wirings: Mapping[str, Wiring] | None = None,
) -> dict[str, GuestSpec]:
    """Return the spec of each VM whose guest is staged, by the VM's name.

    `takes` are, by VM, the guest drivers that its host takes. `team` is what `make_team` made of the same
    plan and addresses, where it was made already. `wirings` say how the devices of VMs hang in their hosts.
    """
    team = team or make_team(desired, addresses)
    return {
        vm.name: _spec(
            desired,
            OwnGuest(
                vm,
                _guest(desired, vm.guest),
                planned_nics(vm, addresses),
                (takes or {}).get(vm.name, GuestDrivers()),
                _training(team, vm),
            ),
            team,
            (wirings or {}).get(vm.name, NO_WIRING),
        )
        for vm in desired.vms
        if vm.guest is not None and vm.guest.is_staged
    }


def _training(team: Team | None, vm: DesiredVm) -> DesiredTraining | None:
    return team.training if team is not None and team.peer(vm.name) is not None else None


def _guest(desired: DesiredPlan, guest: DesiredGuest) -> DesiredGuest:
    """Return a guest with what the site says for all of them, where it says nothing itself."""
    site = desired.site
    if site is None or not site.toolkit_repository or guest.toolkit_repository is not None:
        return guest
    return guest.model_copy(update={"toolkit_repository": site.toolkit_repository})


def _spec(desired: DesiredPlan, own: OwnGuest, team: Team | None, wiring: Wiring) -> GuestSpec:
    guest = own.guest
    peer = team.peer(own.vm.name) if team is not None else None
    modules: list[GuestModule] = [*own_modules(own), *nccl_modules(own, team, wiring)]
    if desired.site is not None:
        modules.append(site_module(desired.site, guest))
    if team is not None and peer is not None:
        modules += training_modules(team, peer)
    return GuestSpec(
        plan=desired.name,
        vm=own.vm.name,
        by=guest.by,
        login=guest.login,
        modules=tuple(sorted(modules, key=lambda module: MODULE_ORDER.index(module.kind))),
        user_data=guest.user_data,
        addresses=_reached_at(own.nics),
        wait_seconds=guest.wait_seconds,
        is_exposed=guest.is_exposed,
    )


def _reached_at(nics: tuple[PlannedNic, ...]) -> tuple[str, ...]:
    """Return a guest's addresses as the plan knows them, those without RDMA first."""
    in_order = sorted(nics, key=lambda nic: nic.is_rdma)
    return tuple(dict.fromkeys(nic.address for nic in in_order if nic.address))
