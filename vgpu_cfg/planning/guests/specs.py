"""The wanted state of each guest of a plan: the spec of every VM whose plan file entry has a `guest`.

It follows from the plan file, from the assigned addresses, from the drivers that hosts accept and from their
wiring; never from a VM's present state, so that two plannings of one plan file have the same result.

The modules that a guest has because it trains with others: mesh, image, worker, launcher, metrics.

The guests with NCCL settings: those that train, and those with GPUs and RDMA.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping

from vgpu_cfg.model.desired import DesiredGuest, DesiredPlan, DesiredTraining, DesiredVm
from vgpu_cfg.model.guests.guest import GuestSpec
from vgpu_cfg.model.guests.modules import (
    MODULE_ORDER,
    GuestModule,
    HostEntry,
    HostsModule,
    NcclModule,
    RoceModule,
    SharedFolderModule,
    TrafficModule,
)
from vgpu_cfg.model.guests.training_modules import (
    OVER_SSH,
    ImageModule,
    LauncherModule,
    MeshPeer,
    MonitoringModule,
    RankModule,
    RegistryModule,
    ScrapeTarget,
    SshMeshModule,
    TrainWorker,
    WorkerModule,
)
from vgpu_cfg.model.plan_file.guest_values import parse_elastic
from vgpu_cfg.planning.guests.downloads import pinned
from vgpu_cfg.planning.guests.drivers import GuestDrivers
from vgpu_cfg.planning.guests.own_modules import OwnGuest, own_modules
from vgpu_cfg.planning.guests.peers import Addresses, Peer, PlannedNic, Team, make_team, planned_nics
from vgpu_cfg.planning.guests.site import site_module
from vgpu_cfg.planning.guests.wiring import NO_WIRING, Wiring

DCGM_PORT, NODE_PORT = 9400, 9100
"""The default ports of DCGM exporter and node exporter."""

ECN_CAPABLE = 2
"""The two low bits of a type-of-service byte that say "ECN capable"."""


def guest_specs(
    desired: DesiredPlan,
    addresses: Addresses,
    takes: Mapping[str, GuestDrivers] | None = None,
    team: Team | None = None,
    wirings: Mapping[str, Wiring] | None = None,
) -> dict[str, GuestSpec]:
    """Return the spec of each VM whose guest is staged, by the VM's name.

    `takes` are, by VM, the guest drivers that its host accepts. `team` is the result of `make_team` for the
    same plan and addresses, if made already. `wirings` are the places of VMs' devices in their hosts.
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
    """Return a guest with the site's values for all of them, if it has none itself."""
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
        modules=tuple(
            pinned(module, desired.downloads)
            for module in sorted(modules, key=lambda module: MODULE_ORDER.index(module.kind))
        ),
        user_data=guest.user_data,
        addresses=_reached_at(own.nics),
        wait_seconds=guest.wait_seconds,
        is_exposed=guest.is_exposed,
    )


def _reached_at(nics: tuple[PlannedNic, ...]) -> tuple[str, ...]:
    """Return a guest's addresses as the plan knows them, those without RDMA first."""
    in_order = sorted(nics, key=lambda nic: nic.is_rdma)
    return tuple(dict.fromkeys(nic.address for nic in in_order if nic.address))


def training_modules(team: Team, peer: Peer) -> Iterator[GuestModule]:
    """Yield the modules of one VM of a training, in no order."""
    training, guest = team.training, peer.guest
    entries = tuple(HostEntry(address=one.address, names=one.names) for one in team.everyone if one.address)
    if entries:
        yield HostsModule(entries=entries)
    yield SshMeshModule(
        vm=peer.vm.name,
        port=training.port,
        peers=tuple(_mesh_peer(one) for one in team.everyone),
    )
    yield from _shared_folder(team, peer)
    control = peer.other_nics
    if training.traffic is not None and control:
        yield TrafficModule(
            nic=control[0].guest,
            link_mbps=training.traffic.link,
            control_mbps=training.traffic.control,
            control_ports=(22, training.port),
        )
    if guest.runtime is not None and training.image:
        yield from _container(team, peer, guest.runtime)
    yield RankModule(environment=dict(sorted(team.training.environment.items())))
    if team.launcher is peer:
        yield _launcher(team, peer)
    yield from _monitoring(team, peer)


def _mesh_peer(peer: Peer) -> MeshPeer:
    return MeshPeer(vm=peer.vm.name, names=peer.names, addresses=(peer.address,) if peer.address else ())


def _shared_folder(team: Team, peer: Peer) -> Iterator[GuestModule]:
    folder, head = team.training.shared_folder, team.head
    if folder is None or head is None or not head.address:
        return
    if peer is head:
        yield SharedFolderModule(role="server", path=folder.path, clients=_clients(team))
    else:
        yield SharedFolderModule(role="client", path=folder.path, server=head.address)


def _clients(team: Team) -> tuple[str, ...]:
    """Return who may mount the head's folder: the networks of the workers, which stay when one is added."""
    networks = {one.subnet for one in team.workers if one.subnet}
    return tuple(sorted(networks, key=lambda text: str(ipaddress.ip_network(text).network_address)))


def _container(team: Team, peer: Peer, runtime: str) -> Iterator[GuestModule]:
    training = team.training
    common = {"runtime": runtime}
    registry = training.registry
    if registry is not None and not training.archive:
        yield RegistryModule.model_validate(
            common | registry.model_dump(include={"server", "user", "password"}, exclude_none=True)
        )
    yield ImageModule.model_validate(
        common
        | {
            "image": training.image,
            "archive": training.archive or "",
            "sha256": training.archive_sha256 or "",
            "framework": training.framework,
            "server": registry.server if registry is not None and not training.archive else "",
        }
    )
    folder = training.shared_folder
    shared = (f"{folder.path}:{folder.path}",) if folder is not None and team.head is not None else ()
    yield WorkerModule.model_validate(
        common
        | {
            "image": training.image,
            "port": training.port,
            "sshd": training.framework in OVER_SSH,
            "mounts": tuple(dict.fromkeys((*training.mounts, *shared))),
            "shared_memory": peer.guest.shared_memory,
            "gpus": bool(peer.vm.gpus),
            "rdma": bool(peer.rdma_nics),
        }
    )


def _launcher(team: Team, peer: Peer) -> LauncherModule:
    """Return the launcher: NICs are those of a worker, since a head takes no part in the work."""
    training, first = team.training, team.workers[0] if team.workers else peer
    return LauncherModule.model_validate(
        {
            "framework": training.framework,
            "max_restarts": training.max_restarts,
            "elastic": parse_elastic(training.elastic) if training.elastic else None,
            "image": (training.image or "") if peer.guest.runtime is not None else "",
            "runtime": peer.guest.runtime or "docker",
            "port": training.port,
            "workers": tuple(
                TrainWorker(name=one.guest.host_name, address=one.training_address, slots=one.slots)
                for one in team.workers
            ),
            "nics": tuple(nic.guest for nic in first.rdma_nics),
            "control_nics": tuple(nic.guest for nic in first.other_nics if nic.is_stated),
            "runs_work": team.is_worker(peer.vm.name),
        }
    )


def _monitoring(team: Team, peer: Peer) -> Iterator[GuestModule]:
    wanted, runtime = team.training.monitoring, peer.guest.runtime
    if wanted is None or runtime not in ("docker", "containerd"):
        return
    port = DCGM_PORT if wanted.exporter == "dcgm" else NODE_PORT
    common = {"runtime": runtime, "exporter": wanted.exporter, "images": dict(wanted.images)}
    if peer is team.head:
        targets = tuple(
            ScrapeTarget(vm=one.guest.host_name, address=one.address, port=port)
            for one in team.workers
            if one.address
        )
        yield MonitoringModule.model_validate(
            common | {"role": "server", "targets": targets, "grafana_password": wanted.grafana_password or ""}
        )
    elif peer.vm.gpus:
        yield MonitoringModule.model_validate(common | {"role": "exporter"})


def nccl_modules(own: OwnGuest, team: Team | None, wiring: Wiring = NO_WIRING) -> Iterator[GuestModule]:
    """Yield the module of one VM, if it has any.

    A head that does no work has none. Without RDMA the NIC on the workers' own network carries the training.
    """
    peer = team.peer(own.vm.name) if team is not None else None
    is_worker = team is not None and team.is_worker(own.vm.name)
    if not is_worker and not (own.has_gpus and own.rdma_nics):
        return
    nics = own.rdma_nics or tuple(nic for nic in own.nics if peer and peer.training_address == nic.address)
    if not nics:
        nics = tuple(nic for nic in own.nics if nic.is_stated)[:1]
    address = peer.training_address if peer is not None else ""
    if address not in [nic.address for nic in nics]:
        address = next((nic.address for nic in nics if nic.address), "")
    roce = own.training.roce if own.training is not None else None
    dscp = roce.dscp if roce is not None else RoceModule(nics=()).dscp
    is_rdma = bool(own.rdma_nics)
    yield NcclModule(
        nics=tuple(nic.guest for nic in nics),
        address=address,
        traffic_class=dscp << 2 | ECN_CAPABLE if is_rdma else None,
        is_direct=is_rdma
        and own.has_gpus
        and all(nic.desired.rdma == "gpudirect" and not nic.desired.is_pvrdma for nic in nics),
        gpu_wires=wiring.gpus if is_rdma else (),
        nic_wires=wiring.nics if is_rdma else (),
    )
