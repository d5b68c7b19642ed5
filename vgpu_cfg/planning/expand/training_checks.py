"""What the keys of `training` say against each other, and against the VMs that it names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vgpu_cfg.documents import Loc, Part, did_you_mean
from vgpu_cfg.errors import DocumentFault
from vgpu_cfg.model.desired import DesiredVm
from vgpu_cfg.model.plan_file import (
    NVIDIA_REGISTRY,
    RegistryEntry,
    TrainingEntry,
    registry_of,
)
from vgpu_cfg.model.plan_file.guest_values import parse_elastic
from vgpu_cfg.planning.expand.context import VmContext
from vgpu_cfg.planning.expand.training_variables import PORT, fault_of_variable, meeting_port


@dataclass(frozen=True, slots=True)
class Team:
    """The VMs that train together, and the one that they are started from, where it is none of them."""

    workers: tuple[DesiredVm, ...]
    head: DesiredVm | None = None

    @property
    def members(self) -> tuple[DesiredVm, ...]:
        """All of them."""
        return (*self.workers, self.head) if self.head is not None else self.workers


def check_training(entry: TrainingEntry, part: Part, context: VmContext) -> Iterator[DocumentFault]:
    """Yield what is wrong in `training` whatever the VMs are."""
    if entry.archive_sha256 and not entry.archive:
        message = "`archive_sha256` is of an `archive`, and there is none"
        yield part.fault(("archive_sha256",), message, "add `archive`, or remove it")
    if not entry.image:
        for key in ("archive", "mounts", "registry"):
            if getattr(entry, key):
                message = f"`{key}` is of the training's image, and there is none"
                yield part.fault((key,), message, "add `image`, or remove it")
    if entry.registry is not None:
        yield from _check_registry(entry.registry, entry.image or "", part)
    yield from _check_environment(entry, part)
    for loc, secret in _secrets(entry):
        if unknown := context.unknown_secret(secret):
            yield part.fault(loc, *unknown)
    if entry.traffic is not None:
        link, control = entry.traffic.link, entry.traffic.control
        if not {"link", "control"} <= entry.traffic.model_fields_set:
            hint = "as in traffic: {link: 10Gbps, control: 200Mbps}"
            yield part.fault(("traffic",), "`traffic` needs both `link` and `control`", hint)
        elif control >= link:
            message = f"`control` of {control} Mbps leaves nothing of the link's {link} Mbps"
            yield part.fault(("traffic", "control"), message, "write less")


def _check_environment(entry: TrainingEntry, part: Part) -> Iterator[DocumentFault]:
    for name, value in entry.environment.items():
        if fault := fault_of_variable(name, value):
            yield part.fault(("environment", name), *fault)
    if entry.port == (meeting := meeting_port(entry)):
        message = f"port {meeting} is where the first process waits for the others (MASTER_PORT)"
        yield part.fault(("port",), message, "write another: containers share the guest's network")


def _check_registry(registry: RegistryEntry, image: str, part: Part) -> Iterator[DocumentFault]:
    if len({"secret", "password"} & registry.model_fields_set) != 1:
        hint = "as in registry: {secret: ngc}"
        message = "a registry's login has one `password`, or `secret` for short"
        yield part.fault(("registry",), message, hint)
    server = registry.server or registry_of(image)
    if registry.server and image and registry_of(f"{registry.server}/x") != registry_of(image):
        message = f"the image is pulled from {registry_of(image)}, and this login is at {registry.server}"
        yield part.fault(("registry", "server"), message, "remove it, or fix the image's name")
    if not registry.user and server != NVIDIA_REGISTRY and image:
        message = f"the login at {server} needs a `user`: only {NVIDIA_REGISTRY} has one for all"
        hint = "as in registry: {user: NAME, password: {secret: NAME}}"
        yield part.fault(("registry",), message, hint)


def _secrets(entry: TrainingEntry) -> Iterator[tuple[Loc, str]]:
    if entry.keys is not None:
        yield ("keys", "secret"), entry.keys
    if entry.registry is not None and entry.registry.secret is not None:
        yield ("registry", "secret"), entry.registry.secret
    if entry.registry is not None and entry.registry.password is not None:
        yield ("registry", "password", "secret"), entry.registry.password
    if entry.monitoring is not None and entry.monitoring.grafana_password is not None:
        yield ("monitoring", "grafana_password", "secret"), entry.monitoring.grafana_password


def check_team(entry: TrainingEntry, team: Team, part: Part, context: VmContext) -> Iterator[DocumentFault]:
    """Yield what the VMs lack of what training with them needs; they have their guests already."""
    if not entry.slots:
        for vm in team.workers:
            if not vm.gpus:
                message = f"the worker {vm.name!r} has no `gpus`, and so no process would run on it"
                yield part.fault(("workers",), message, "leave it out of `workers`, or write `slots`")
                break
    else:
        yield from _check_slots(entry.slots, team, part)
    yield from _check_staged(team, part)
    yield from _check_runtimes(entry, team, part)
    yield from _check_ports(entry, team, part)
    if entry.elastic:
        least, _ = parse_elastic(entry.elastic)
        if least > len(team.workers):
            message = f"an elastic training of at least {least} workers never starts with {len(team.workers)}"
            yield part.fault(("elastic",), message, "add workers, or write less")
    if entry.rdma_network:
        yield from _check_rdma(entry.rdma_network, team, part, context)


def _check_slots(slots: int, team: Team, part: Part) -> Iterator[DocumentFault]:
    for vm in team.workers:
        if 0 < len(vm.gpus) < slots:
            gpus = f"{len(vm.gpus)} GPU{'s' * (len(vm.gpus) > 1)}"
            message = f"{slots} processes would share the {gpus} of {vm.name!r}, and NCCL takes one on each"
            yield part.fault(("slots",), message, "remove it: one process runs on each GPU")
            return


def _check_staged(team: Team, part: Part) -> Iterator[DocumentFault]:
    """Complain of a VM that trains and whose guest only a customisation specification speaks to."""
    for vm in team.members:
        if vm.guest is not None and not vm.guest.is_staged:
            message = f"what training needs is staged in guests, and {vm.name!r} has a `guest.spec` alone"
            hint = "write by: ssh, or by: guest-operations, with a `login` of its template"
            yield part.fault(("workers",), message, hint)
            return


def _check_runtimes(entry: TrainingEntry, team: Team, part: Part) -> Iterator[DocumentFault]:
    runtimes = {vm.name: vm.guest.runtime for vm in team.members if vm.guest is not None}
    without = [name for name, runtime in runtimes.items() if runtime is None]
    if without and entry.image:
        message = f"training runs in an image, and the guest of {without[0]!r} has `containers: leave`"
        yield part.fault(("image",), message, "write docker, containerd or apptainer there")
    several = sorted({str(runtime) for runtime in runtimes.values() if runtime is not None})
    if len(several) > 1:
        message = f"the VMs that train have different container runtimes: {', '.join(several)}"
        yield part.fault(("workers",), message, "give all of them the same `containers`")
    if entry.monitoring is not None:
        unable = [name for name, runtime in runtimes.items() if runtime in (None, "apptainer")]
        if unable:
            message = f"monitoring needs docker or containerd, and {unable[0]!r} has neither"
            yield part.fault(("monitoring",), message, "change its `containers`, or remove it")


def _check_ports(entry: TrainingEntry, team: Team, part: Part) -> Iterator[DocumentFault]:
    for vm in team.members:
        if vm.guest is not None and vm.guest.login.port == entry.port:
            message = f"port {entry.port} is that of the ssh server of {vm.name!r} itself"
            yield part.fault(("port",), message, "write another: containers share the guest's network")
            return
        if vm.guest is not None and vm.guest.login.port == meeting_port(entry):
            message = f"port {vm.guest.login.port} is that of the ssh server of {vm.name!r} itself"
            loc = ("environment", PORT) if PORT in entry.environment else ("workers",)
            yield part.fault(loc, message, f"write another {PORT} in `environment`")
            return


def _check_rdma(name: str, team: Team, part: Part, context: VmContext) -> Iterator[DocumentFault]:
    for vm in team.workers:
        nics = [nic for nic in vm.nics if nic.network == name]
        if not nics:
            others = [nic.network for nic in vm.nics if nic.network]
            hint = did_you_mean(name, {*others, *(context.networks or {})}) or "add the NIC, or fix the name"
            message = f"the worker {vm.name!r} has no NIC on {name!r}"
            yield part.fault(("rdma_network",), message, hint)
            return
        if not any(nic.rdma for nic in nics):
            message = f"the NIC of {vm.name!r} on {name!r} has no `rdma`"
            yield part.fault(("rdma_network",), message, "write rdma: gpudirect (or host) on the NIC")
            return
        if not any(nic.rdma and nic.ip for nic in nics):
            message = f"the NIC of {vm.name!r} on {name!r} has no `ip`, and RoCE needs an address"
            yield part.fault(("rdma_network",), message, "write ip: pool on the NIC, dhcp, or an address")
            return
