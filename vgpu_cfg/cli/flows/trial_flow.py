"""A trial from the question to the removal of its objects, and the removal of what earlier ones left."""

from __future__ import annotations

import secrets
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from vgpu_cfg.cli import compose
from vgpu_cfg.cli.flows.doctor_flow import read_to_examine, save_found
from vgpu_cfg.cli.flows.flow import meant_at, plan_with
from vgpu_cfg.cli.flows.preparing.privileges import missing_of
from vgpu_cfg.cli.flows.running.run_flow import ask
from vgpu_cfg.cli.kept.whole_file import refuse_unwritable
from vgpu_cfg.cli.options.shared import OutputFormat
from vgpu_cfg.cli.output import show
from vgpu_cfg.documents import did_you_mean
from vgpu_cfg.errors import DoesNotFit, Interrupted, NotConfirmed, NotFound, NotPermitted, VgpuCfgError
from vgpu_cfg.model.wording import counted
from vgpu_cfg.settings.connection import Connection, resolve_connection
from vgpu_cfg.settings.flags import ConnectionFlags

if TYPE_CHECKING:
    from vgpu_cfg.contact.bench import Bench, Tools
    from vgpu_cfg.planning.doctor.trials import Experiment, Remaining, Step, TrialMark
    from vgpu_cfg.planning.doctor.tried import Tried

_TO_TRY = 0.75
"""The part of the time in which experiments begin and their tasks end; the rest is for the removal."""
_EXPIRY = timedelta(minutes=5)
_DISK_MIB, _SWAP_MIB = 1024, 1280
"""The disk of a VM that is made from scratch, and the swap file of one that runs."""
_FROM_SCRATCH = {
    "template": {"scratch": "otherLinux64Guest"},
    "disks": [{"size": f"{_DISK_MIB}MiB"}],
}
_REMOVING = ("Alarm.Delete", "VirtualMachine.Interact.PowerOff", "VirtualMachine.Inventory.Delete")


@dataclass(frozen=True, slots=True)
class How:
    """How a trial goes."""

    minutes: int
    yes: bool
    dry_run: bool
    output: OutputFormat
    save: Path | None = None
    plan: Path | None = None
    """The plan file with the access to the hosts whose shells are read."""

    @property
    def is_json(self) -> bool:
        """Whether standard output belongs to a program."""
        return self.output is OutputFormat.JSON


@dataclass(frozen=True, slots=True)
class Place:
    """The place of throw-away VMs: keys of a plan file with their values, and the network of their NICs."""

    keys: Mapping[str, str]
    network: str | None = None
    profile: str | None = None
    move_to: str | None = None
    spec: str | None = None

    @property
    def left_out(self) -> set[Experiment]:
        """Return the experiments that it does not allow."""
        from vgpu_cfg.planning.doctor import trials

        allowed = {
            trials.GPU_MOVE: self.move_to is not None,
            trials.CUSTOMIZED: self.spec is not None,
            trials.CLONED_VM: "template" in self.keys,
            trials.NEW_VM: "template" not in self.keys,
        }
        return {one for one, is_allowed in allowed.items() if not is_allowed}


def trial(flags: ConnectionFlags, steps: Sequence[Step], place: Place, how: How) -> None:
    """Show the calls of some steps, ask, run their experiments, and remove the objects.

    Raises NotPermitted before anything is made, Interrupted after Ctrl-C, and NotConfirmed if an object
    remains.
    """
    from vgpu_cfg.contact.bench import Bench, all_tried
    from vgpu_cfg.execution import refuse_frozen
    from vgpu_cfg.knowledge.beliefs import Trial
    from vgpu_cfg.planning.doctor.trials import Outline, Step, TrialMark, experiments_of
    from vgpu_cfg.render.data.upkeep import trial_data
    from vgpu_cfg.render.text.doctor import render_outline, render_tried

    if how.save is not None:
        refuse_unwritable(how.save / "vcenter" if how.save.is_dir() else how.save, "--save")
    connection = resolve_connection(flags)
    experiments = experiments_of(steps, place.left_out)
    with compose.connect_trial(connection, how.minutes * _TO_TRY) as tools:
        mark = TrialMark(secrets.token_hex(3), tools.things.now() + timedelta(minutes=how.minutes) + _EXPIRY)
        bench = Bench(tools, mark)
        if any(step.makes_vms for step in steps):
            _plan_for(bench, place, connection)
        if how.plan is not None:
            _log_in_by(how.plan, bench, connection)
        if Step.READING in steps:
            bench.observed = read_to_examine(connection, with_images=True)
        refuse_missing(experiments, bench)
        outline = Outline(connection.server, mark, steps, experiments, how.minutes, bench.most_mib)
        if not how.is_json or not (how.yes or how.dry_run):
            show.lines(
                lambda width: render_outline(outline, width), sys.stderr if how.is_json else sys.stdout
            )
        tried: list[Tried] = []
        left: tuple[Remaining, ...] = ()
        ended: BaseException | None = None
        if not how.dry_run:
            if outline.calls:
                ask("Create these objects, then remove them?", yes=how.yes)
            refuse_frozen(tools.locks.read())
            ended = _try_all(bench, tried, experiments)
            left = _remove_all(tools, mark, timedelta(minutes=how.minutes * (1 - _TO_TRY)))
    found = all_tried(tried, steps)
    if how.is_json:
        show.data(trial_data(outline, found, left))
    elif not how.dry_run:
        show.lines(lambda width: render_tried(found, width))
    if how.save is not None and tried:
        by = {belief: one.step for one in experiments for belief in one.beliefs}
        parts = (([one for one in tried if by[one.belief] is step], Trial(step.trial)) for step in Step)
        save_found(how.save, read_to_examine(connection), *parts)
    _refuse_left(left, connection.server)
    if isinstance(ended, KeyboardInterrupt):
        raise Interrupted(
            "stopped before all assumptions were tested",
            subject=connection.server,
            remedy="nothing to do: this trial's objects have been removed",
        ) from ended
    if ended is not None:
        raise ended


def _try_all(bench: Bench, tried: list[Tried], experiments: Sequence[Experiment]) -> BaseException | None:
    """Run experiments, and fill in their verdicts; return the cause of an early end."""
    from vgpu_cfg.contact import gpus, objects, readings, shells, vms
    from vgpu_cfg.contact.bench import run_all

    courses = objects.COURSES | vms.COURSES | gpus.COURSES | shells.COURSES | readings.COURSES
    try:
        for one in run_all(experiments, courses, bench):
            tried.append(one)
            show.say(f"{one.verdict.value}: {one.belief}")
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - whatever it is, the objects must go
        return error
    return None


def _remove_all(tools: Tools, mark: TrialMark, span: timedelta) -> tuple[Remaining, ...]:
    """Remove the objects of a trial; return those that remain, with the reasons.

    Half of the time is for tasks that go on, the other half for the removal.
    """
    from vgpu_cfg.contact.bench import find_left, remove

    try:
        found = find_left(tools.longer(span / 2), mark.start)
        return tuple(remove(found, tools.longer(span / 2)))
    except (VgpuCfgError, KeyboardInterrupt):
        show.say(f"objects whose names begin with {mark.start} may remain: {_clean(tools.locks.server)}")
        raise


def clean(flags: ConnectionFlags, how: How, *, with_all: bool) -> None:
    """Remove the objects of trials that have expired; `with_all` the others, too, after a question.

    Raises NotConfirmed if an object remains.
    """
    from vgpu_cfg.contact.bench import find_left, remove
    from vgpu_cfg.execution import refuse_frozen
    from vgpu_cfg.render.data.upkeep import clean_data
    from vgpu_cfg.render.text.doctor import render_left

    connection = resolve_connection(flags)
    with compose.connect_trial(connection, how.minutes / 2) as tools:
        now, found = tools.things.now(), find_left(tools)
        due = [one for one in found if with_all or one.is_due(now)]
        if not how.is_json or not (how.yes or how.dry_run):
            show.lines(
                lambda width: render_left(found, due, width), sys.stderr if how.is_json else sys.stdout
            )
        left: tuple[Remaining, ...] = ()
        if due and not how.dry_run:
            ask(f"Remove {counted(len(due), 'object')}?", yes=how.yes)
            refuse_frozen(tools.locks.read())
            left = tuple(remove(due, tools.longer(timedelta(minutes=how.minutes / 2))))
    if how.is_json:
        show.data(clean_data(found, () if how.dry_run else due, left, connection.server))
    _refuse_left(left, connection.server)


def _plan_for(bench: Bench, place: Place, connection: Connection) -> None:
    """Let the planner plan the VMs that a trial makes. Raises DoesNotFit with the first error."""
    from vgpu_cfg.changes.base import of_kind
    from vgpu_cfg.changes.change import CreateVm
    from vgpu_cfg.changes.kinds.move_vm import Destination
    from vgpu_cfg.contact.vms import GPU, SOURCE
    from vgpu_cfg.documents import dump
    from vgpu_cfg.plan_loading import load_plan
    from vgpu_cfg.planning.findings.options import PlanOptions
    from vgpu_cfg.settings.secrets import SecretStore

    vm: dict[str, object] = {"cpus": 1, "memory": "1GiB", **_FROM_SCRATCH, **place.keys}
    if place.network is not None:
        vm["nics"] = [place.network]
    if "template" in place.keys:
        del vm["disks"]
    guest = {} if place.spec is None else {"guest": {"spec": place.spec}}
    vms = [{"name": bench.mark.name(SOURCE), **vm, **guest, "power": "off"}]
    if place.profile is not None:
        vms.append({"name": bench.mark.name(GPU), **vm, "gpus": place.profile})
    text = dump({"version": 1, "name": "trial", "vcenter": connection.server, "vms": vms})
    desired = meant_at(connection, load_plan(Path("vgpu-cfg-trial"), text=text).desired)
    planned = plan_with(bench.tools.reader, desired, connection, PlanOptions(), SecretStore({}, Path()))
    for error in planned.plan.errors:
        raise DoesNotFit(f"{error.code} {error.message}", subject=connection.server, remedy=error.remedy)
    observed = planned.observed
    bench.planned = {bench.mark.part(one.vm.name): one for one in of_kind(planned.plan.changes, CreateVm)}
    source, detail = bench.planned[SOURCE], None
    if source.source.kind == "clone":
        detail = observed.vm_by_moid[source.source.template.moid or ""].detail
    mib = sum(disk.capacity_mib for disk in detail.disks) if detail else _DISK_MIB
    bench.most_mib = (2 + len(bench.planned)) * (mib + _SWAP_MIB)
    host = source.location.host_moid
    bench.has_drs = any(one.drs_enabled for one in observed.clusters if host in one.host_moids)
    if place.move_to is not None:
        hosts = {one.name: one.moid for one in observed.hosts}
        if place.move_to not in hosts:
            hint = did_you_mean(place.move_to, list(hosts), noun="hosts")
            raise NotFound(f"host {place.move_to!r} not found", subject=connection.server, remedy=hint)
        bench.move_to = Destination(host_moid=hosts[place.move_to], host_name=place.move_to)
    for one in planned.plan.placements:
        bench.expected = bench.expected if one.is_certain else one.gpu_pci_ids or bench.expected


def _log_in_by(plan: Path, bench: Bench, connection: Connection) -> None:
    """Let the hosts of a plan file be logged in to. Raises NotFound if it has access to none."""
    from vgpu_cfg.cli.flows.bundle_flow import access_of, shell_on
    from vgpu_cfg.cli.flows.preparing.request import read_request

    observed, request = read_to_examine(connection), read_request(plan, {}, ())
    ways = ((host, access_of(connection, observed, host, request)) for host in observed.hosts)
    bench.shells = tuple(
        (host, partial(shell_on, connection, observed, host, way)) for host, way in ways if way is not None
    )
    if not bench.shells:
        raise NotFound(
            "the plan file does not grant shell access to any host in this vCenter",
            subject=str(plan),
            remedy="add `hosts` with `access`",
        )


def refuse_missing(experiments: Sequence[Experiment], bench: Bench) -> None:
    """Raise NotPermitted if the account lacks a privilege of experiments, those of the removal first.

    Optional privileges are not checked.
    """
    from vgpu_cfg.changes.privileges import TRIAL_ALARMS, Needed, Place
    from vgpu_cfg.planning.doctor.trials import needs_of

    tools, at = bench.tools, {Place.ROOT: bench.tools.things.root_moid}
    for create in bench.planned.values():
        location = create.location
        at |= dict.fromkeys((Place.FOLDER, Place.VM), location.folder_moid)
        at |= {Place.POOL: location.resource_pool_moid, Place.DATASTORE: location.datastore_moid}
        at[Place.NETWORK] = next((one.network_moid for one in create.spec.devices if one.network_moid), "")
        if create.source.kind == "clone":
            at[Place.TEMPLATE] = create.source.template.moid or ""
    needs = [need for need in needs_of(experiments) if not need.is_optional]
    homes = {TRIAL_ALARMS: tools.things.lock_home_moid}
    asked = [Needed(need, homes.get(need) or at.get(need.place, "")) for need in needs]
    lacking = missing_of(asked, tools.reader)
    names = dict.fromkeys(name for missing in lacking.values() for name in missing)
    to_remove = [name for name in _REMOVING if name in names]
    if names:
        purpose = "remove its objects" if to_remove else "create its objects"
        raise NotPermitted(
            f"nothing was created: the account lacks {', '.join(to_remove or names)}, required to {purpose}",
            subject=", ".join(dict.fromkeys(one.need.on for one in lacking)),
            remedy="`vgpu-cfg privileges --trial STEP` lists the privileges and writes the role",
        )


def _refuse_left(left: Sequence[Remaining], server: str) -> None:
    if left:
        first, reason = left[0]
        more = f", and {counted(len(left) - 1, 'more object')}" if len(left) > 1 else ""
        raise NotConfirmed(
            f"{first.kind} {first.name} was not removed: {reason}{more}",
            subject=first.name,
            remedy=f"correct the cause, then {_clean(server)}",
        )


def _clean(server: str) -> str:
    return f"run `vgpu-cfg trial --clean --all --server {shlex.quote(server)}` on any machine"
