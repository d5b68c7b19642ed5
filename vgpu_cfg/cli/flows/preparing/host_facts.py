"""The facts of the hosts that a plan prepares, from vCenter and from their shells, for a command."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.cli import compose
from vgpu_cfg.errors import Ambiguous, HostShellError, LoginFailed, Unreachable, VCenterError, VgpuCfgError
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.identity import PlanIdentity
from vgpu_cfg.model.observed.host_facts import (
    SHELL_GROUPS,
    EstateFacts,
    FactGroup,
    HostFacts,
    not_expired,
    recovered_mark,
)
from vgpu_cfg.model.observed.inventory import Connection, Host, Inventory
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.hosts.assess import to_keep
from vgpu_cfg.planning.hosts.needed import changes_networks, driver_hosts, needed_facts, shell_access
from vgpu_cfg.planning.hosts.packages import wanted_depots
from vgpu_cfg.settings.secrets import SecretStore
from vgpu_cfg.settings.variables import remember_days

if TYPE_CHECKING:
    from vgpu_cfg.changes.plan import Plan
    from vgpu_cfg.cli.compose import Estate
    from vgpu_cfg.execution import HostTools, RunLocks
    from vgpu_cfg.model.observed.host_facts import ShellFacts
    from vgpu_cfg.model.plan_file import AccessEntry
    from vgpu_cfg.planning.host_settings.entry import HostView
    from vgpu_cfg.ports import HostShells, InventoryReader
    from vgpu_cfg.settings.connection import Connection as Server


def reaches_beyond_vms(desired: DesiredPlan) -> bool:
    """Whether a plan asks anything of hosts or switches."""
    return bool(desired.hosts) or any(network.switch for network in desired.networks)


def with_facts(
    desired: DesiredPlan, observed: Inventory, reader: InventoryReader, options: PlanOptions
) -> Inventory:
    """Add vCenter's facts of the hosts that the plan prepares, or whose driver decides; nothing is written.

    Moves need its own settings, which come with that.
    """
    drivers = driver_hosts(desired, observed, load_catalog())
    if not reaches_beyond_vms(desired):
        if options.allow_move or drivers:
            groups = frozenset({FactGroup.BASE, FactGroup.SOFTWARE} if drivers else {FactGroup.BASE})
            return observed.model_copy(update={"facts": reader.read_facts(drivers, groups)})
        return observed
    needed = needed_facts(desired, observed, load_catalog(), options)
    groups = frozenset[FactGroup]().union(*needed.values()) - SHELL_GROUPS
    if changes_networks(desired):
        groups |= {FactGroup.NETWORK_USERS}
    groups |= {FactGroup.SOFTWARE} if drivers else set()
    facts = reader.read_facts(tuple(dict.fromkeys((*needed, *drivers))), groups | {FactGroup.BASE})
    days, today = remember_days(), observed.read_at.date()
    hosts = {
        moid: one.model_copy(update={"remembered": not_expired(one.remembered, today, days)})
        for moid, one in facts.hosts.items()
    }
    hosts |= _explained(observed, {moid: one for moid, one in hosts.items() if moid in needed}, reader)
    known = _with_hosts(observed.model_copy(update={"facts": facts}), hosts)
    depots = wanted_depots(desired, known, load_catalog(), options)
    looked = reader.read_depots(depots) if depots else {}
    looks = {moid: hosts[moid].model_copy(update={"depots": found}) for moid, found in looked.items()}
    return _with_hosts(known, {**hosts, **looks}) if looks else known


def with_move_facts(observed: Inventory, reader: InventoryReader) -> Inventory:
    """Add vCenter's own settings, which decide how VMs with vGPUs can move.

    Facts missing in a recording stay unknown.
    """
    if observed.facts.vcenter_options:
        return observed
    try:
        options = reader.read_facts((), frozenset({FactGroup.BASE})).vcenter_options
    except VgpuCfgError:
        return observed
    facts = observed.facts.model_copy(update={"vcenter_options": options})
    return observed.model_copy(update={"facts": facts})


def _explained(
    observed: Inventory, hosts: Mapping[str, HostFacts], reader: InventoryReader
) -> dict[str, HostFacts]:
    """Find out how hosts entered maintenance mode without a mark.

    If a run took one there and its mark was lost, the mark is as the run left it.
    """
    unmarked = [
        moid
        for moid, facts in hosts.items()
        if facts.mark is None and observed.host_by_moid[moid].is_in_maintenance_mode
    ]
    found = reader.read_maintenance(unmarked) if unmarked else {}
    return {
        moid: hosts[moid].model_copy(update={"entered": entry, "mark": recovered_mark(entry)})
        for moid, entry in found.items()
    }


def host_tools(
    desired: DesiredPlan,
    observed: Inventory,
    estate: Estate,
    options: PlanOptions,
    locks: RunLocks,
    store: SecretStore,
) -> HostTools:
    """Gather what changes the plan's hosts; a context that closes their shells at its end.

    Raises LoginFailed for a secret that is not there.
    """
    from vgpu_cfg.execution import HostTools

    secrets = host_secrets(desired, store, is_lab=estate.is_lab)
    return HostTools(
        plan=desired.identity,
        writer=estate.host_writer,
        clock=estate.clock,
        locks=locks,
        logins=estate.logins(secrets),
        powers=estate.powers(secrets),
        access=shell_access(desired, observed, load_catalog(), options),
        secrets=secrets,
        view_of=_views(observed),
    )


def tools_to_give_back(plan: Plan, observed: Inventory, estate: Estate, locks: RunLocks) -> HostTools | None:
    """Gather what gives hosts back in the name of the plan whose mark they have; None without such hosts."""
    from vgpu_cfg.execution import HostTools

    marks = [observed.host_by_moid[one.host_moid or ""].mark for one in plan.changes if one.frees_host]
    identities = {PlanIdentity(name=mark.plan, id=mark.id) for mark in marks if mark is not None}
    if len(identities) > 1:
        raise Ambiguous(
            f"these hosts were taken out of service by {len(identities)} different plans",
            subject=", ".join(sorted(one.name for one in identities)),
            remedy="specify hosts of only one plan at a time",
        )
    writer, clock = estate.host_writer, estate.clock
    return HostTools(identities.pop(), writer, clock, locks, _views(observed)) if identities else None


def _views(observed: Inventory) -> Callable[[Host, EstateFacts], HostView]:
    """Return views of a host's new readings, with the catalog's facts of its devices."""
    from vgpu_cfg.planning.host_settings.resolved_host import make_view

    catalog = load_catalog()
    return lambda host, facts: make_view(host, observed.model_copy(update={"facts": facts}), catalog)


def with_open_shells(
    desired: DesiredPlan, observed: Inventory, connection: Server, options: PlanOptions, secrets: SecretStore
) -> Inventory:
    """Add the facts of shells that are already open; nothing is opened or written."""
    if not desired.hosts or connection.recording is not None:
        return observed
    catalog = load_catalog()
    access = shell_access(desired, observed, catalog, options)
    wanted = {
        moid: groups & SHELL_GROUPS
        for moid, groups in needed_facts(desired, observed, catalog, options).items()
        if groups & SHELL_GROUPS and access[moid].ssh != "off" and _is_open(observed, moid)
    }
    if not wanted:
        return observed
    logins = compose.make_logins(connection, host_secrets(desired, secrets, is_lab=connection.is_lab))
    found: dict[str, HostFacts] = dict(observed.facts.hosts)
    for moid, groups in wanted.items():
        host = observed.host_by_moid[moid]
        found[moid] = _asked(found[moid], groups, partial(_read_once, logins, host, access[moid]))
    return _with_hosts(observed, found)


def _read_once(
    logins: HostShells, host: Host, access: AccessEntry, groups: frozenset[FactGroup]
) -> ShellFacts:
    from vgpu_cfg.execution.hosts.shell_access import nic_addresses

    shell = logins.connect(host.name, access)
    try:
        return shell.read_facts(groups, nic_addresses(host))
    finally:
        shell.close()


def _is_open(observed: Inventory, moid: str) -> bool:
    facts = observed.facts.hosts.get(moid)
    return facts is not None and facts.is_ssh_running


def with_shell_facts(
    desired: DesiredPlan, observed: Inventory, tools: HostTools, options: PlanOptions
) -> Inventory:
    """Add the facts of the hosts' shells; `tools` opens those that the plan file lets it open.

    A shell that does not answer leaves its reason in the facts of its host.
    """
    needed = needed_facts(desired, observed, load_catalog(), options)
    found: dict[str, HostFacts] = dict(observed.facts.hosts)
    for moid, groups in needed.items():
        host = observed.host_by_moid[moid]
        if host.connection is not Connection.CONNECTED:
            continue
        facts = found.get(moid, HostFacts())
        tools.marks.take(host, facts)
        if groups & SHELL_GROUPS and tools.shells.is_allowed(moid):
            found[moid] = _asked(facts, groups, partial(tools.shells.read, host, facts))
        else:
            tools.shells.adopt(host, facts)
    return _with_hosts(observed, found)


def closed_shells(desired: DesiredPlan, observed: Inventory, options: PlanOptions) -> tuple[str, ...]:
    """Return the moids of hosts whose shell is to be read, and is not open, and may be opened."""
    if not reaches_beyond_vms(desired):
        return ()
    catalog = load_catalog()
    access = shell_access(desired, observed, catalog, options)
    return tuple(
        moid
        for moid, groups in needed_facts(desired, observed, catalog, options).items()
        if groups & SHELL_GROUPS
        and access[moid].ssh == "open-and-close"
        and observed.host_by_moid[moid].connection is Connection.CONNECTED
        and not _is_open(observed, moid)
    )


def remember(
    desired: DesiredPlan, observed: Inventory, tools: HostTools, options: PlanOptions
) -> tuple[str, ...]:
    """Keep on the hosts the facts of their shells; return the obstacles, a line for each reason.

    They only serve later commands that run without a shell.
    """
    problems: dict[str, list[str]] = {}
    for moid, texts in to_keep(desired, observed, load_catalog(), options).items():
        try:
            tools.writer.remember(moid, texts)
        except (LoginFailed, Unreachable):
            raise
        except VCenterError as error:
            problems.setdefault(error.message, []).append(observed.host_by_moid[moid].name)
    return tuple(
        f"{fold_names(names)}: settings read from the shell could not be saved, so `plan` cannot use "
        f"them: {why}"
        for why, names in problems.items()
    )


def _asked(
    facts: HostFacts, groups: frozenset[FactGroup], read: Callable[[frozenset[FactGroup]], ShellFacts]
) -> HostFacts:
    wanted = groups & SHELL_GROUPS
    try:
        shell = read(wanted)
    except HostShellError as error:
        unread = {**facts.unread, **dict.fromkeys(wanted, error.message)}
        return facts.model_copy(update={"unread": unread})
    return facts.model_copy(update={"shell": shell})


def _with_hosts(observed: Inventory, hosts: Mapping[str, HostFacts]) -> Inventory:
    facts: EstateFacts = observed.facts.model_copy(update={"hosts": hosts})
    return observed.model_copy(update={"facts": facts})


def host_secrets(desired: DesiredPlan, secrets: SecretStore, *, is_lab: bool) -> dict[str, str]:
    """Fetch the secrets that the plan's hosts name; the lab needs none, and uses the right ones.

    Raises LoginFailed for a missing one; its value is never printed.
    """
    names: list[str | None] = []
    for entry in desired.hosts:
        access = entry.access
        names += [access.password, access.key] if access.ssh != "off" else []
        names += [access.bmc.password if access.bmc.addresses else None, entry.licence]
    found: dict[str, str] = {}
    for name in dict.fromkeys(name for name in names if name):
        value = secrets.find(name)
        if value is not None or not is_lab:
            found[name] = secrets.get(name)
    return found
