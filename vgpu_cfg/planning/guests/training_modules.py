"""The modules that a guest has because it trains with others: mesh, image, worker, launcher, metrics."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from vgpu_cfg.model.guests.modules import (
    GuestModule,
    HostEntry,
    HostsModule,
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
from vgpu_cfg.planning.guests.peers import Peer, Team

DCGM_PORT, NODE_PORT = 9400, 9100
"""Where DCGM exporter and node exporter listen, by their own defaults."""


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
