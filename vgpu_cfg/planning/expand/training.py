"""The VMs of `training`: names looked up, guests given the settings for training, and faults of its keys.

Faults are conflicts of the keys of `training` with each other or with the VMs that it names, and invalid
variables of `training.environment`, for torchrun and for ranks.

torchrun accepts each of its options from a variable PET_OPTION, too (torch/distributed/argparse_util.py),
with lower precedence than its command line; `train` writes that. Types and choices: torch/distributed/run.py,
1.10 to 2.15.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from vgpu_cfg.documents import Loc, Part, build, did_you_mean
from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.model.desired import DesiredGuest, DesiredSite, DesiredTraining, DesiredVm
from vgpu_cfg.model.plan_file import (
    NVIDIA_REGISTRY,
    PackageEntry,
    RegistryEntry,
    TrainingEntry,
    host_name_of,
    registry_of,
)
from vgpu_cfg.model.plan_file.guest_values import parse_elastic
from vgpu_cfg.model.ranges import read_members
from vgpu_cfg.planning.expand.lines import Expansion
from vgpu_cfg.planning.expand.site import VmContext

_DEFAULT_RUNTIME = "docker"

PORT = "MASTER_PORT"
DEFAULT_PORT = 29500
"""The port of the ranks' meeting; torchrun's own default, which `train` sets."""
LAST_PORT = 65535
OF_EACH_PROCESS = frozenset(
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK", "NNODES", "NODE_ADDR"}
)
"""The variables that a launcher sets for each process."""
WRITTEN = {
    "PET_NNODES": "`elastic` sets the minimum and maximum number of workers",
    "PET_NPROC_PER_NODE": "`slots` sets the number of processes per worker",
    "PET_MAX_RESTARTS": "use `max_restarts`",
    "PET_MASTER_ADDR": "use MASTER_ADDR",
    "PET_MASTER_PORT": "use MASTER_PORT",
} | dict.fromkeys(
    (
        *("PET_NODE_RANK", "PET_NO_PYTHON", "PET_RDZV_BACKEND", "PET_RDZV_ENDPOINT", "PET_RDZV_ID"),
        *("PET_RDZV_CONF", "PET_LOCAL_ADDR", "PET_STANDALONE", "PET_MODULE", "PET_RUN_PATH"),
    ),
    "remove it",
)
"""torchrun's options that `train` writes or that go against those, by their variable, and what to do."""
WHOLE_NUMBERS = frozenset({"PET_SHUTDOWN_TIMEOUT"})
NUMBERS = frozenset({"PET_MONITOR_INTERVAL"})
CHOICES = {"PET_START_METHOD": ("spawn", "fork", "forkserver")}


@dataclass(slots=True)
class TrainingExpansion:
    """The training, the plan's VMs with the guests that it needs, and the faults."""

    training: DesiredTraining | None = None
    vms: list[DesiredVm] = field(default_factory=list)
    faults: list[DocumentFault] = field(default_factory=list)


def expand_training(
    part: Part | None, expansion: Expansion, context: VmContext, site: DesiredSite | None = None
) -> TrainingExpansion:
    """Make the training of a plan whose lines are written out.

    Its VMs get a guest if the plan file gives them none, and in it the training's needs if it states nothing
    else; the driver from the `site`, if that names one. If VMs are faulty, there is no report on which of
    them train.
    """
    out = TrainingExpansion(vms=list(expansion.vms))
    if part is None:
        return out
    try:
        entry = build(part.document, TrainingEntry, loc=part.loc, data=part.data)
    except DocumentError as error:
        out.faults += error.faults
        return out
    out.faults += check_training(entry, part, context)
    if expansion.faults:
        return out
    names = [vm.name for vm in expansion.vms]
    workers = list(_workers(entry, names, part, out))
    head = _head(entry, names, workers, part, out)
    if out.faults:
        return out
    driver = site.driver if site is not None and site.driver is not None else PackageEntry()
    needs_runtime = bool(entry.image) or entry.monitoring is not None
    members = {*workers, *filter(None, [head])}
    out.vms = [
        _with_guest(vm, expansion.guest_keys.get(vm.name, frozenset()), driver, needs_runtime=needs_runtime)
        if vm.name in members
        else vm
        for vm in out.vms
    ]
    by_name = {vm.name: vm for vm in out.vms}
    team = Team(tuple(by_name[name] for name in workers), by_name[head] if head else None)
    out.faults += check_team(entry, team, part, context)
    if not out.faults:
        out.training = _training(entry, workers, head, part.origin)
    return out


def _workers(entry: TrainingEntry, names: Sequence[str], part: Part, out: TrainingExpansion) -> Iterator[str]:
    """Yield the VMs that a glob matches, in the order of the plan."""
    is_list = isinstance(part.data.get("workers"), list)
    chosen: set[str] = set()
    for index, text in enumerate(entry.workers):
        loc = ("workers", index) if is_list else ("workers",)
        try:
            globs = [member.name for member in read_members(text)]
        except ValueError as error:
            out.faults.append(part.refused(loc, error))
            continue
        for glob in globs:
            matched = [name for name in names if fnmatchcase(name.casefold(), glob.casefold())]
            if not matched:
                hint = did_you_mean(glob.rstrip("*"), names) or (
                    "use the names of this plan's VMs, or globs that match them"
                )
                out.faults.append(part.fault(loc, f"the plan does not contain a VM named {glob!r}", hint))
                break
            chosen.update(matched)
    if not entry.workers:
        out.faults.append(
            part.fault(("workers",), "`workers` does not specify any VMs", "example: workers: hvd-*")
        )
    yield from (name for name in names if name in chosen)


def _head(
    entry: TrainingEntry, names: Sequence[str], workers: Collection[str], part: Part, out: TrainingExpansion
) -> str | None:
    if not entry.head:
        return None
    found = next((name for name in names if name.casefold() == entry.head.casefold()), None)
    if found is None:
        hint = did_you_mean(entry.head, names) or "use the name of a VM in this plan, or remove it"
        out.faults.append(part.fault(("head",), f"the plan does not contain a VM named {entry.head!r}", hint))
    elif found in workers:
        message = f"the head {found!r} is also listed as a worker"
        hint = "remove it from `workers`, or remove `head` to start training from the first worker"
        out.faults.append(part.fault(("head",), message, hint))
    return found


def _with_guest(
    vm: DesiredVm, stated: Collection[str], driver: PackageEntry, *, needs_runtime: bool
) -> DesiredVm:
    """Give a VM that trains its guest, and in it what nothing is said of."""
    guest = vm.guest or DesiredGuest(host_name=host_name_of(vm.name))
    update: dict[str, Any] = {}
    if vm.gpus and "driver" not in stated:
        update["driver"] = driver
    if needs_runtime and "containers" not in stated:
        update["runtime"] = _DEFAULT_RUNTIME
    return vm.model_copy(update={"guest": guest.model_copy(update=update)})


def _training(entry: TrainingEntry, workers: Sequence[str], head: str | None, origin: str) -> DesiredTraining:
    stated = {key: getattr(entry, key) for key in entry.model_fields_set}
    if entry.registry is not None:
        stated["registry"] = _registry(entry.registry, entry.image or "")
    return DesiredTraining(**{**stated, "workers": tuple(workers), "head": head, "origin": origin})


def _registry(entry: RegistryEntry, image: str) -> RegistryEntry:
    """Write the short form out: whose password, at which server."""
    server, password = entry.server or registry_of(image), entry.secret or entry.password
    return RegistryEntry(server=server, user=entry.user, password=password)


@dataclass(frozen=True, slots=True)
class Team:
    """The VMs that train together, and their start VM, if it is none of them."""

    workers: tuple[DesiredVm, ...]
    head: DesiredVm | None = None

    @property
    def members(self) -> tuple[DesiredVm, ...]:
        """All of them."""
        return (*self.workers, self.head) if self.head is not None else self.workers


def check_training(entry: TrainingEntry, part: Part, context: VmContext) -> Iterator[DocumentFault]:
    """Yield the faults of `training` that do not depend on the VMs."""
    if entry.archive_sha256 and not entry.archive:
        message = "`archive_sha256` requires an `archive`"
        yield part.fault(("archive_sha256",), message, "add `archive`, or remove it")
    if not entry.image:
        for key in ("archive", "mounts", "registry"):
            if getattr(entry, key):
                message = f"`{key}` requires a training `image`"
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
            hint = "example: traffic: {link: 10Gbps, control: 200Mbps}"
            yield part.fault(("traffic",), "`traffic` requires both `link` and `control`", hint)
        elif control >= link:
            message = f"`control` ({control} Mbps) would use all {link} Mbps of `link`"
            yield part.fault(("traffic", "control"), message, "use a smaller value")


def _check_environment(entry: TrainingEntry, part: Part) -> Iterator[DocumentFault]:
    for name, value in entry.environment.items():
        if fault := fault_of_variable(name, value):
            yield part.fault(("environment", name), *fault)
    if entry.port == (meeting := meeting_port(entry)):
        message = f"port {meeting} is used for the rendezvous of the first process (MASTER_PORT)"
        yield part.fault(("port",), message, "use another port: containers share the guest's network")


def _check_registry(registry: RegistryEntry, image: str, part: Part) -> Iterator[DocumentFault]:
    if len({"secret", "password"} & registry.model_fields_set) != 1:
        hint = "example: registry: {secret: ngc}"
        message = "a registry login requires either `password` or `secret`"
        yield part.fault(("registry",), message, hint)
    server = registry.server or registry_of(image)
    if registry.server and image and registry_of(f"{registry.server}/x") != registry_of(image):
        message = f"the image is pulled from {registry_of(image)}, but this login is for {registry.server}"
        yield part.fault(("registry", "server"), message, "remove it, or correct the image name")
    if not registry.user and server != NVIDIA_REGISTRY and image:
        message = f"the login for {server} requires a `user`; only {NVIDIA_REGISTRY} uses a shared one"
        hint = "example: registry: {user: NAME, password: {secret: NAME}}"
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
    """Yield the VMs' missing parts for training; they have their guests already."""
    if not entry.slots:
        for vm in team.workers:
            if not vm.gpus:
                message = f"the worker {vm.name!r} has no `gpus`, so it would not run any processes"
                yield part.fault(("workers",), message, "remove it from `workers`, or set `slots`")
                break
    else:
        yield from _check_slots(entry.slots, team, part)
    yield from _check_staged(team, part)
    yield from _check_runtimes(entry, team, part)
    yield from _check_ports(entry, team, part)
    if entry.elastic:
        least, _ = parse_elastic(entry.elastic)
        if least > len(team.workers):
            message = (
                f"elastic training requires at least {least} workers, but there are only {len(team.workers)}"
            )
            yield part.fault(("elastic",), message, "add workers, or use a smaller value")
    if entry.rdma_network:
        yield from _check_rdma(entry.rdma_network, team, part, context)


def _check_slots(slots: int, team: Team, part: Part) -> Iterator[DocumentFault]:
    for vm in team.workers:
        if 0 < len(vm.gpus) < slots:
            gpus = f"{len(vm.gpus)} GPU{'s' * (len(vm.gpus) > 1)}"
            message = (
                f"{slots} processes would share the {gpus} of {vm.name!r}, but NCCL requires one GPU per "
                "process"
            )
            yield part.fault(("slots",), message, "remove it to run one process on each GPU")
            return


def _check_staged(team: Team, part: Part) -> Iterator[DocumentFault]:
    """Complain of a VM that trains and whose guest only a customisation specification speaks to."""
    for vm in team.members:
        if vm.guest is not None and not vm.guest.is_staged:
            message = (
                f"training components must be staged in the guests, but {vm.name!r} has only `guest.spec`"
            )
            hint = "set by: ssh, or by: guest-operations, with a `login` from its template"
            yield part.fault(("workers",), message, hint)
            return


def _check_runtimes(entry: TrainingEntry, team: Team, part: Part) -> Iterator[DocumentFault]:
    runtimes = {vm.name: vm.guest.runtime for vm in team.members if vm.guest is not None}
    without = [name for name, runtime in runtimes.items() if runtime is None]
    if without and entry.image:
        message = f"training uses an image, but the guest of {without[0]!r} has `containers: leave`"
        yield part.fault(("image",), message, "use docker, containerd or apptainer for that guest")
    several = sorted({str(runtime) for runtime in runtimes.values() if runtime is not None})
    if len(several) > 1:
        message = f"the training VMs use different container runtimes: {', '.join(several)}"
        yield part.fault(("workers",), message, "set the same `containers` for all of them")
    if entry.monitoring is not None:
        unable = [name for name, runtime in runtimes.items() if runtime in (None, "apptainer")]
        if unable:
            message = f"monitoring requires docker or containerd, but {unable[0]!r} has neither"
            yield part.fault(("monitoring",), message, "change its `containers`, or remove it")


def _check_ports(entry: TrainingEntry, team: Team, part: Part) -> Iterator[DocumentFault]:
    for vm in team.members:
        if vm.guest is not None and vm.guest.login.port == entry.port:
            message = f"port {entry.port} is used by the SSH server of {vm.name!r}"
            yield part.fault(("port",), message, "use another port: containers share the guest's network")
            return
        if vm.guest is not None and vm.guest.login.port == meeting_port(entry):
            message = f"port {vm.guest.login.port} is used by the SSH server of {vm.name!r}"
            loc = ("environment", PORT) if PORT in entry.environment else ("workers",)
            yield part.fault(loc, message, f"set another {PORT} in `environment`")
            return


def _check_rdma(name: str, team: Team, part: Part, context: VmContext) -> Iterator[DocumentFault]:
    for vm in team.workers:
        nics = [nic for nic in vm.nics if nic.network == name]
        if not nics:
            others = [nic.network for nic in vm.nics if nic.network]
            hint = did_you_mean(name, {*others, *(context.networks or {})}) or (
                "add the NIC, or correct the name"
            )
            message = f"the worker {vm.name!r} has no NIC on {name!r}"
            yield part.fault(("rdma_network",), message, hint)
            return
        if not any(nic.rdma for nic in nics):
            message = f"the NIC of {vm.name!r} on {name!r} has no `rdma` setting"
            yield part.fault(("rdma_network",), message, "set rdma: gpudirect (or host) on the NIC")
            return
        if not any(nic.rdma and nic.ip for nic in nics):
            message = f"the NIC of {vm.name!r} on {name!r} has no `ip` setting, but RoCE requires an address"
            yield part.fault(("rdma_network",), message, "set `ip` on the NIC to pool, dhcp or an address")
            return


def meeting_port(entry: TrainingEntry) -> int | None:
    """Return the port of the ranks' meeting; None if horovodrun finds one, or if the value is invalid."""
    value = entry.environment.get(PORT, str(DEFAULT_PORT))
    return int(value) if entry.framework != "horovod" and _is_port(value) else None


def fault_of_variable(name: str, value: str) -> tuple[str, str] | None:
    """Return a variable's fault and its remedy, None if it has none."""
    if name in OF_EACH_PROCESS:
        return f"{name} differs for each process and is set by the launcher", "remove it"
    if name in WRITTEN:
        return f"`train` already sets the value that torchrun reads from {name}", WRITTEN[name]
    if name == PORT and not _is_port(value):
        return f"{value!r} is not a valid port for {name}", f"use 1 to {LAST_PORT}"
    if name == "MASTER_ADDR" and not value.strip():
        return (
            f"{name} is empty, so ranks have no rendezvous address",
            "set it to an address of the first worker, or remove it",
        )
    if name in WHOLE_NUMBERS and re.fullmatch("[0-9]+", value) is None:
        return f"for {name}, torchrun requires a whole number of seconds, not {value!r}", "example: 30"
    if name in NUMBERS and re.fullmatch(r"[0-9]+([.][0-9]+)?|[.][0-9]+", value) is None:
        return f"for {name}, torchrun requires a number of seconds, not {value!r}", "example: 0.1"
    if name in CHOICES and value not in CHOICES[name]:
        return f"torchrun does not accept {value!r} for {name}", f"use {', '.join(CHOICES[name])}"
    return None


def _is_port(value: str) -> bool:
    return re.fullmatch("[0-9]{1,5}", value) is not None and 1 <= int(value) <= LAST_PORT
