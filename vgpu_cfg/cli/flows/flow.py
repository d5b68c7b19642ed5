"""From a plan file to a plan, and the obstacles to carrying it out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from vgpu_cfg.cli import compose
from vgpu_cfg.cli.flows.preparing.guest_access import with_fingerprints
from vgpu_cfg.cli.flows.preparing.host_facts import (
    closed_shells,
    host_tools,
    with_facts,
    with_move_facts,
    with_open_shells,
    with_shell_facts,
)
from vgpu_cfg.cli.flows.preparing.locked import locked, read_alone, shell_locks
from vgpu_cfg.cli.flows.preparing.privileges import refuse_closed_shells
from vgpu_cfg.cli.flows.preparing.request import PlanRequest, read_request
from vgpu_cfg.cli.options import typed
from vgpu_cfg.cli.output import show
from vgpu_cfg.documents import did_you_mean
from vgpu_cfg.errors import DocumentError, DocumentFault, DoesNotFit, NotFound, VgpuCfgError
from vgpu_cfg.model.vgpu import NAMES_NO_BOARD
from vgpu_cfg.model.wording import listed
from vgpu_cfg.settings.connection import Connection, resolve_connection
from vgpu_cfg.settings.flags import ConnectionFlags

if TYPE_CHECKING:
    from vgpu_cfg.changes.plan import Plan
    from vgpu_cfg.changes.suggestion import Suggestion
    from vgpu_cfg.execution import RunLocks
    from vgpu_cfg.model.desired import DesiredPlan, DesiredVm
    from vgpu_cfg.model.observed.inventory import Inventory
    from vgpu_cfg.model.reservations import Quotas
    from vgpu_cfg.planning.findings.options import PlanOptions
    from vgpu_cfg.planning.pool.summary import Hours
    from vgpu_cfg.ports import InventoryReader, ReadScope
    from vgpu_cfg.settings.secrets import SecretStore

EXIT_DIFFERENCES, EXIT_UNKNOWN = 10, 9
"""No errors: see docs/reference/exit-codes.md."""
_MOST_FREE = 4


def read_to_ask(
    path: Path, variables: dict[str, str], variable_files: tuple[Path, ...], flags: ConnectionFlags
) -> PlanRequest:
    """Read a request; a size without a board is answered with the profiles that are free now.

    Raises DocumentError with every fault of the file.
    """
    try:
        return read_request(path, variables, variable_files)
    except DocumentError as error:
        faults = tuple(_with_free(error.faults, path, flags))
        raise (DocumentError(faults) if faults != error.faults else error) from None


def _with_free(
    faults: Sequence[DocumentFault], path: Path, flags: ConnectionFlags
) -> Iterator[DocumentFault]:
    """Yield faults, those about a size alone with the profiles that are free, if the vCenter responds."""
    from vgpu_cfg.documents import read_document

    sizes = {one: one.message.removesuffix(NAMES_NO_BOARD).strip("'") for one in faults if _is_bare(one)}
    free: dict[str, str] = {}
    if sizes:
        with suppress(VgpuCfgError):
            server = read_document(path).data.get("vcenter")
            free = _free_profiles(resolve_connection(flags, plan_server=server), set(sizes.values()))
    for one in faults:
        use, _, _ = one.hint.partition(", or")
        known = free.get(sizes.get(one, ""))
        yield replace(one, hint=f"{use}; free now: {known}") if known else one


def _is_bare(fault: DocumentFault) -> bool:
    return fault.message.endswith(NAMES_NO_BOARD)


def _free_profiles(connection: Connection, sizes: Iterable[str]) -> dict[str, str]:
    """Return by size its C-series profiles, or those of the next larger one, with how many are free."""
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.model.plan_file.entries import gpu_of_size
    from vgpu_cfg.planning.pool.shapes import CurrentHosts

    wanted = {size: gpu for size in sizes if (gpu := gpu_of_size(size)) is not None}
    if not wanted:
        return {}
    hosts = CurrentHosts(read_all(connection, for_planning=True, reservations=True), load_catalog())
    found: dict[str, str] = {}
    for size, gpu in wanted.items():
        free = Counter[str]()
        for host in hosts.fit_gpu(gpu, lambda _: True).hosts:
            free.update(dict(host.profiles))
        found[size] = listed(f"{name} ({count})" for name, count in free.most_common(_MOST_FREE))
    return found


def locate(request: PlanRequest, flags: ConnectionFlags) -> tuple[Connection, DesiredPlan]:
    """Choose the server for a plan; return it with the plan as it applies there."""
    connection = server_of(flags, request.desired)
    return connection, meant_at(connection, request.desired)


def server_of(flags: ConnectionFlags, desired: DesiredPlan | None = None) -> Connection:
    """Decide which server is asked, by a plan where there is one."""
    if desired is None:
        return resolve_connection(flags)
    found = resolve_connection(flags, plan_server=desired.vcenter, plan_datacenter=desired.datacenter)
    if found.of_plan:
        typed.at_server(found.of_plan)
    return found


def meant_at(connection: Connection, desired: DesiredPlan) -> DesiredPlan:
    """Return a plan as it applies at a server: in its datacenter, with the settings for it."""
    here = {
        "datacenter": connection.datacenter,
        "contexts": connection.protecting,
        "quotas": quotas_of(connection),
    }
    return desired.model_copy(update=here)


def quotas_of(connection: Connection) -> tuple[Quotas, ...]:
    """Read the files of shares that hold at a server."""
    if not connection.quotas:
        return ()
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.settings.quotas import read_quotas

    return tuple(read_quotas(path, load_catalog()) for path in connection.quotas)


def scope_of(desired: DesiredPlan) -> ReadScope:
    """Return the scope of a reading for a plan."""
    from vgpu_cfg.model.desired import TemplateSource
    from vgpu_cfg.model.observed.own_items import PENDING_KEY
    from vgpu_cfg.ports import HostScope, ReadScope

    specs = frozenset(vm.guest.spec for vm in desired.vms if vm.guest is not None and vm.guest.spec)
    templates = [vm.source for vm in desired.vms if isinstance(vm.source, TemplateSource)]
    return ReadScope(
        plan=desired.identity,
        datacenter=desired.datacenter,
        vm_names=frozenset(vm.name for vm in desired.vms) | desired.moved.keys(),
        template_names=frozenset(one.path_or_name for one in templates if one.library is None),
        library_items=frozenset(
            (one.library, one.path_or_name) for one in templates if one.library is not None
        ),
        customization_specs=specs,
        extra_config_keys=frozenset(key for vm in desired.vms for key in vm.extra_config)
        | ({PENDING_KEY} if specs else frozenset()),
        # A host's VMs say what may be moved from it and who holds its devices, whether it has GPUs or not.
        hosts=tuple(HostScope(cluster=entry.cluster, names=entry.names) for entry in desired.hosts),
        system_ids=any(_has_fixed_passthrough(vm) for vm in desired.vms),
        key_providers=any(vm.vtpm for vm in desired.vms),
        storage_policies=frozenset(name for vm in desired.vms for name in vm.storage_policies),
        tag_categories=frozenset(name for vm in desired.vms for name in vm.tags or {}),
        several_vgpus=_may_have_any_gpus(desired) or any(len(vm.gpus) > 1 for vm in desired.vms),
        kinds_of=_prefixes_of(desired),
        kinds=False,
    )


def _prefixes_of(desired: DesiredPlan) -> frozenset[str] | None:
    """Return the prefixes of a plan's profiles; None where it takes GPUs otherwise, or may take others."""
    gpus = [gpu for vm in desired.vms for gpu in vm.gpus]
    if _may_have_any_gpus(desired) or any(gpu.kind != "vgpu" or gpu.memory for gpu in gpus):
        return None
    return frozenset(profile.prefix for gpu in gpus for profile in gpu.profile)


def _may_have_any_gpus(desired: DesiredPlan) -> bool:
    """Whether GPUs outside the plan file count: of hosts, or of a VM that keeps its GPUs."""
    return bool(desired.hosts) or not all(vm.is_managed("gpus") for vm in desired.vms)


def _has_fixed_passthrough(vm: DesiredVm) -> bool:
    """Whether a VM may name functions of its host, which takes the host's system id."""
    functions = (nic.function for nic in vm.nics if nic.function is not None)
    return any(gpu.kind == "passthrough" for gpu in vm.gpus) or any(
        function.kind == "passthrough" and (function.pin or not function.label) for function in functions
    )


def read_for(
    desired: DesiredPlan,
    reader: InventoryReader,
    *,
    all_kinds: bool = False,
    everything: bool = False,
    locks: bool = False,
    is_timed: bool = True,
    to_plan: PlanOptions | None = None,
    roles: bool = False,
) -> Inventory:
    """Read the estate for a plan, with its own VMs under the plan's names for them.

    With `all_kinds` include hosts whose GPUs have none of its profiles, with `everything` all VMs
    in detail, with `locks` the locks of runs and
    the reservations of plans, by vCenter's clock, `is_timed` and `roles` as a `ReadScope` has it. If only a
    plan with the options `to_plan` is made of it, kinds of hosts are asked only if that depends on them.
    """
    from vgpu_cfg.planning.estate.ownership import as_named

    scope = scope_of(desired).model_copy(update={"locks": locks, "timed": is_timed, "roles": roles})
    if all_kinds:
        scope = scope.model_copy(update={"kinds_of": None, "several_vgpus": True})
    scope = scope.model_copy(update={"everything": everything})
    observed = as_named(desired, reader.read_inventory(scope))
    observed = with_kinds(observed, reader, None if to_plan is None else (desired, to_plan))
    return _with_failed_customizations(desired, observed, reader)


def with_kinds(
    observed: Inventory, reader: InventoryReader, to_plan: tuple[DesiredPlan, PlanOptions] | None = None
) -> Inventory:
    """Add the facts of host kinds to a reader's last reading, unless a plan does not depend on them."""
    if observed.has_kinds:
        return observed
    if to_plan is not None:
        from vgpu_cfg.catalog import load_catalog
        from vgpu_cfg.planning.kinds_needed import needs_kinds

        desired, options = to_plan
        if not needs_kinds(desired, observed, load_catalog(), options):
            return observed
    return observed.model_copy(update={"hosts": reader.read_kinds(), "has_kinds": True})


def read_to_run(
    desired: DesiredPlan,
    reader: InventoryReader,
    locks: RunLocks,
    is_settled: Callable[[Inventory], bool] = lambda _: False,
    *,
    roles: bool = True,
) -> Inventory:
    """Read the estate for a run as `read_alone`, once no other works on its plan; `roles` as `read_for`."""
    is_timed = desired.ends is not None
    return read_alone(
        locks, lambda: read_for(desired, reader, locks=True, is_timed=is_timed, roles=roles), is_settled
    )


def without_deleted(options: PlanOptions, observed: Inventory, reader: InventoryReader) -> PlanOptions:
    """Remove each `--delete` of a VM that is deleted already, by vCenter's events; a mistyped name stays.

    So the same command again ends as the one that deleted it.
    """
    there = {name for vm in observed.vms for name in (vm.name, vm.inventory_path)}
    missing = {name: name.rpartition("/")[2] for name in options.delete if name not in there}
    if not missing:
        return options
    from vgpu_cfg.model.observed.past import PastScope
    from vgpu_cfg.planning.drift import REMOVED

    past = reader.read_past(PastScope(removed_vms=tuple(missing.values())))
    removed = {event.name for event in past.events if event.kind == REMOVED}
    gone = [name for name, called in missing.items() if called in removed]
    for name in gone:
        show.say(f"--delete {name}: nothing to do, already deleted")
    return replace(options, delete=tuple(name for name in options.delete if name not in gone))


def _with_failed_customizations(
    desired: DesiredPlan, observed: Inventory, reader: InventoryReader
) -> Inventory:
    """Add guests with a failed customization, from vCenter's events, if existing VMs name one."""
    from vgpu_cfg.model.observed.own_items import CUSTOMIZATION_FAILURES, CUSTOMIZATION_SUCCEEDED
    from vgpu_cfg.model.observed.past import PastScope

    asked = (vm for vm in desired.vms if vm.guest is not None and vm.guest.spec)
    names = {vm.name for vm in asked if "guest" not in vm.ignore}
    vms = [vm for vm in observed.vms if vm.name in names and vm.is_of(desired.identity)]
    if not vms:
        return observed
    folders = {vm.folder_moid or "" for vm in vms}
    scope = PastScope(
        vm_moids=tuple(vm.moid for vm in vms),
        folder_moid=folders.pop() if len(folders) == 1 else "",
        kinds=(CUSTOMIZATION_SUCCEEDED, *CUSTOMIZATION_FAILURES),
    )
    last = {event.moid: event for event in reader.read_past(scope).events}
    failed = {moid: event for moid, event in last.items() if event.kind != CUSTOMIZATION_SUCCEEDED}
    return observed.model_copy(update={"failed_customizations": failed})


def refuse_errors(plan: Plan, fixes: Suggestion | None = None, *, is_shown: bool = True) -> None:
    """Raise DoesNotFit if a finding refuses the plan, which was shown; `fixes` were shown above."""
    refusal = refusal_of(plan, fixes)
    if refusal is not None:
        refusal.is_shown = is_shown
        raise refusal


def refusal_of(plan: Plan, fixes: Suggestion | None = None) -> DoesNotFit | None:
    """Return the error that refuses a plan, None if there is none."""
    from vgpu_cfg.render.views.plan import alike

    errors = plan.errors
    if not errors:
        return None
    first, *others = alike(errors)
    more = f" (and {len(others)} more above)" if others else ""
    remedy = first.remedy or f"see docs/reference/checks/{first.code}.md"
    if fixes is not None and fixes.fixes:
        leave = " (requires approval)" if fixes.fixes[0].needs_leave else ""
        remedy = f"apply the validated fix shown under FIX{leave}"
    return DoesNotFit(
        f"{first.code} {first.message}{more}",
        subject=f"{first.subject.kind} {first.subject.name}",
        remedy=remedy,
    )


def exit_code_of_differences(plan: Plan) -> int:
    """Return the exit code for differences, or for values that could not be read, or 0."""
    from vgpu_cfg.planning.sync import is_in_sync, is_known

    if not is_in_sync(plan):
        return EXIT_DIFFERENCES
    return 0 if is_known(plan) else EXIT_UNKNOWN


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, the reading that it was made for, and the options with the known facts of secrets."""

    plan: Plan
    observed: Inventory
    options: PlanOptions


def plan_once(
    request: PlanRequest,
    flags: ConnectionFlags,
    options: PlanOptions,
    *,
    open_shell: bool = False,
    only_plan: bool = False,
) -> Planned:
    """Read the estate and plan for it; nothing is changed.

    With `open_shell` the shells of hosts are opened to be read, as far as the plan file lets them,
    and closed again. `only_plan` says that the reading serves for nothing else.
    """
    connection, desired = locate(request, flags)
    secrets = request.secrets()
    if not open_shell:
        with compose.connect_reader(connection) as reader:
            return plan_with(reader, desired, connection, options, secrets, only_plan=only_plan)
    if connection.recording is not None:
        raise typer.BadParameter("cannot open host shells in a recording", param_hint="--open-shell")
    secrets.allow_commands()
    with (
        compose.connect_writer(connection) as estate,
        locked(desired.identity, estate, "plan --open-shell", at_once=True) as locks,
    ):
        observed = read_to_run(desired, estate.reader, locks)
        observed = with_facts(desired, observed, estate.reader, options)
        with host_tools(desired, observed, estate, options, locks, secrets) as tools:
            refuse_closed_shells(closed_shells(desired, observed, options), observed, estate.reader)
            locks.take(*shell_locks(tools, observed))
            observed = with_shell_facts(desired, observed, tools, options)
            show.shells_opened(tools)
    return _planned(desired, observed, connection, options, secrets)


def plan_with(
    reader: InventoryReader,
    desired: DesiredPlan,
    connection: Connection,
    options: PlanOptions,
    secrets: SecretStore,
    *,
    only_plan: bool = False,
) -> Planned:
    """Plan from a reader's answers, for a command that only reads: with the locks of active runs.

    `only_plan` is whether the reading serves only this.
    """
    observed = read_to_plan(desired, reader, connection, options, secrets, locks=True, only_plan=only_plan)
    options = without_deleted(options, observed, reader)
    return _planned(desired, observed, connection, options, secrets)


def _planned(
    desired: DesiredPlan,
    observed: Inventory,
    connection: Connection,
    options: PlanOptions,
    secrets: SecretStore,
) -> Planned:
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.planning.planner import make_plan

    options = with_fingerprints(desired, observed, options, connection, secrets)
    return Planned(make_plan(desired, observed, load_catalog(), options), observed, options)


def read_to_plan(
    desired: DesiredPlan,
    reader: InventoryReader,
    connection: Connection,
    options: PlanOptions,
    secrets: SecretStore,
    *,
    locks: bool = False,
    only_plan: bool = False,
    roles: bool = False,
) -> Inventory:
    """Read the data for a plan, except from closed shells.

    `locks` and `roles` are those of `read_for`; `only_plan` is whether only a plan is made of it.
    """
    to_plan = options if only_plan else None
    observed = read_for(desired, reader, locks=locks, to_plan=to_plan, roles=roles)
    observed = with_facts(desired, observed, reader, options)
    return with_open_shells(desired, observed, connection, options, secrets)


def plan_destroy_once(request: PlanRequest, flags: ConnectionFlags, options: PlanOptions) -> Plan:
    """Read the estate and plan what `destroy` would remove there; nothing is changed."""
    from vgpu_cfg.planning.vms.destroy import make_destroy_plan

    return make_destroy_plan(*read_of(request, flags), options)


def read_of(request: PlanRequest, flags: ConnectionFlags) -> tuple[DesiredPlan, Inventory]:
    """Read the estate that a plan is for; return it with the plan as it applies there."""
    connection, desired = locate(request, flags)
    return desired, read_at(connection, desired)


def read_at(
    connection: Connection, desired: DesiredPlan, *, reservations: bool = False, moves: bool = False
) -> Inventory:
    """Read at a server the data for a plan that applies there, and the alternatives to its profiles.

    With `reservations` also reservations of plans, with `moves` the settings that decide how VMs with vGPUs
    can move.
    """
    with compose.connect_reader(connection) as reader:
        observed = read_for(desired, reader, all_kinds=True, locks=reservations)
        observed = with_move_facts(observed, reader) if moves else observed
    return observed.model_copy(update={"locks": None})


def read_all(
    connection: Connection,
    *,
    use_days: float | None = None,
    with_chains: bool = False,
    with_licences: bool = False,
    reservations: bool = False,
    with_locks: bool = False,
    for_planning: bool = False,
    kinds_of: frozenset[str] | None = None,
) -> Inventory:
    """Read a whole estate, with `use_days` also the use of its GPUs, now and over so many days.

    With `with_chains` also the hosts' data on the ATS chains of their VMs; with `with_licences` those of
    vCenter's licenses that hosts have; with `reservations` the reservations of plans, with `with_locks` the
    locks of runs, too; `for_planning` with data that only placing VMs needs, with `kinds_of` as a
    `ReadScope` has it.

    Raises NotFound for a datacenter that it has not.
    """
    from vgpu_cfg.ports import ReadScope

    with compose.connect_reader(connection) as reader:
        scope = ReadScope(
            datacenter=connection.datacenter,
            for_planning=for_planning,
            kinds_of=kinds_of,
            counters=use_days is not None,
            locks=reservations or with_locks,
        )
        observed = reader.read_inventory(scope)
        if not with_locks:
            observed = observed.model_copy(update={"locks": None})
        if use_days is not None:
            use = reader.read_gpu_use(observed.hosts, use_days)
            observed = observed.model_copy(update={"gpu_use": use})
        if with_chains:
            observed = _with_kernels(observed, reader)
        if with_licences:
            observed = observed.model_copy(update={"licences": reader.read_licences()})
    known = [found.name for found in observed.datacenters]
    if connection.datacenter is not None and connection.datacenter not in known:
        raise NotFound(
            f"datacenter {connection.datacenter!r} not found",
            subject=connection.server,
            remedy=did_you_mean(connection.datacenter, known, noun="datacenters"),
        )
    return observed


def _with_kernels(observed: Inventory, reader: InventoryReader) -> Inventory:
    """Add the hosts' VMkernel settings, a link of ATS chains, if a VM has a GPU and an RDMA NIC."""
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.model.observed.host_facts import FactGroup
    from vgpu_cfg.planning.rdma.chain import hosts_with_pairs

    hosts = hosts_with_pairs(observed, load_catalog())
    if not hosts:
        return observed
    facts = reader.read_facts(hosts, frozenset({FactGroup.BASE, FactGroup.KERNEL}))
    return observed.model_copy(update={"facts": facts})


def read_hours(flags: ConnectionFlags, age: timedelta, by: str) -> tuple[Hours, str]:
    """Read the GPU use of VMs over so long; return it with the server. Raises ValueError for a bad `by`."""
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.model.observed.past import Past, PastScope
    from vgpu_cfg.planning.pool.summary import OFF_EVENTS, ON_EVENTS, count_hours, gpu_vms, key_of
    from vgpu_cfg.ports import ReadScope

    connection = resolve_connection(flags)
    with compose.connect_reader(connection) as reader:
        observed = reader.read_inventory(ReadScope(datacenter=connection.datacenter))
        key_of(observed, by)
        since = observed.read_at - age
        vms = gpu_vms(observed)
        kinds = tuple(sorted(ON_EVENTS | OFF_EVENTS))
        past = reader.read_past(PastScope(vm_moids=vms, kinds=kinds, since=since)) if vms else Past()
    return count_hours(observed, load_catalog(), past, since, by), observed.vcenter.address


def read_site(flags: ConnectionFlags) -> Inventory:
    """Read a whole estate, whatever its datacenters, and which drivers its GPU hosts have."""
    from vgpu_cfg.model.observed.host_facts import FactGroup
    from vgpu_cfg.ports import ReadScope

    with compose.connect_reader(resolve_connection(flags)) as reader:
        observed = reader.read_inventory(ReadScope())
        hosts = [host.moid for host in observed.hosts if host.gpus]
        facts = reader.read_facts(hosts, frozenset({FactGroup.BASE, FactGroup.SOFTWARE}))
    return observed.model_copy(update={"facts": facts})


def record(flags: ConnectionFlags, path: Path) -> None:
    """Save a vCenter's answers to a file."""
    trips = compose.record(resolve_connection(flags), path)
    show.say(f"{path}: {trips} answers recorded. Try it: vgpu-cfg inventory --from {path}")
