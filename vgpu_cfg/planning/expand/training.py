"""From `training` to the VMs that train together: names looked up, guests given what training needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from vgpu_cfg.documents import Part, build, did_you_mean
from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.model.desired import DesiredGuest, DesiredSite, DesiredTraining, DesiredVm
from vgpu_cfg.model.plan_file import PackageEntry, RegistryEntry, TrainingEntry, host_name_of, registry_of
from vgpu_cfg.model.ranges import read_members
from vgpu_cfg.planning.expand.context import VmContext
from vgpu_cfg.planning.expand.lines import Expansion
from vgpu_cfg.planning.expand.training_checks import Team, check_team, check_training

_DEFAULT_RUNTIME = "docker"


@dataclass(slots=True)
class TrainingExpansion:
    """The training, the plan's VMs with the guests that it needs, and what is wrong."""

    training: DesiredTraining | None = None
    vms: list[DesiredVm] = field(default_factory=list)
    faults: list[DocumentFault] = field(default_factory=list)


def expand_training(
    part: Part | None, expansion: Expansion, context: VmContext, site: DesiredSite | None = None
) -> TrainingExpansion:
    """Make the training of a plan whose lines are written out.

    Its VMs get a guest where the plan file gives them none, and what training needs in it where nothing
    is said of that; the driver from the `site`, where that names one. Where VMs are faulty, nothing is said
    of which of them train.
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
                hint = (
                    did_you_mean(glob.rstrip("*"), names) or "give names of this plan's VMs, or globs of them"
                )
                out.faults.append(part.fault(loc, f"no VM of this plan is called {glob!r}", hint))
                break
            chosen.update(matched)
    if not entry.workers:
        out.faults.append(part.fault(("workers",), "`workers` names no VM", "as in workers: hvd-*"))
    yield from (name for name in names if name in chosen)


def _head(
    entry: TrainingEntry, names: Sequence[str], workers: Collection[str], part: Part, out: TrainingExpansion
) -> str | None:
    if not entry.head:
        return None
    found = next((name for name in names if name.casefold() == entry.head.casefold()), None)
    if found is None:
        hint = did_you_mean(entry.head, names) or "give the name of a VM of this plan, or remove it"
        out.faults.append(part.fault(("head",), f"no VM of this plan is called {entry.head!r}", hint))
    elif found in workers:
        message = f"the head {found!r} is one of the workers too"
        hint = "leave it out of `workers`; or remove `head`: training starts from the first worker"
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
