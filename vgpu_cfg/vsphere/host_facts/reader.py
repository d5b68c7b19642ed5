"""How the facts of hosts are read: in bulk what the property collector gives, the rest host by host.

The round trips, whatever the number of hosts: one (and a page for each 2,000 objects) for
networks and switches, one for hosts, clusters and custom fields, one per option of vCenter. With
OWNERS one more per cluster and one for the names of profiles. Per host: see `questions`. Of a host one
question is asked after the other, of several hosts some at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyVmomi import vim, vmodl

from vgpu_cfg.errors import NotRecorded, ReachError, VCenterError
from vgpu_cfg.model.observed.host_facts import SHELL_GROUPS, EstateFacts, FactGroup, HostFacts
from vgpu_cfg.model.observed.names import unescaped
from vgpu_cfg.vsphere.host_facts import passes
from vgpu_cfg.vsphere.host_facts.properties import (
    Networks,
    attributes_by_key,
    base_facts,
    base_unread,
    cluster_facts,
    option_text,
    silence,
)
from vgpu_cfg.vsphere.host_facts.questions import (
    LOST,
    QUESTIONS,
    HostQuestions,
    HostSilent,
    associated_profiles,
)
from vgpu_cfg.vsphere.wire.collector import Item, Start, collect_all, collect_from
from vgpu_cfg.vsphere.wire.faults import to_error
from vgpu_cfg.vsphere.wire.session import Session

ALL_GROUPS = frozenset(FactGroup) - SHELL_GROUPS - {FactGroup.NETWORK_USERS}
"""Every group that is read of a host through vCenter."""
ALL_FACTS = ALL_GROUPS | {FactGroup.NETWORK_USERS}
"""With what is read of the estate: a recording has all of it."""

_GONE = "the host is not in vCenter's inventory"
_COMPUTE_TYPES = ("ComputeResource", "ClusterComputeResource")
_NO_NETWORKS = (*_COMPUTE_TYPES, "HostSystem", "CustomFieldsManager", "LicenseManager")


def read_facts(session: Session, host_moids: Sequence[str], groups: frozenset[FactGroup]) -> EstateFacts:
    """Read facts of hosts and of their clusters, of vCenter's options and all distributed switches.

    BASE is always read; groups of the shell are not read and stand in no answer. Of a host, `groups`
    names what was read and `unread` what was not, with the reason. An option that vCenter does
    not tell is absent. Raises VCenterError where the connection or the session is lost, or the bulk
    reading fails.
    """
    requested = groups & ALL_GROUPS | {FactGroup.BASE}
    networks = collect_all(session, passes.NETWORK_PASS)
    starts = _starts(session, dict.fromkeys(host_moids), requested)
    hosts = collect_from(session, passes.HOST_PASS, starts)
    facts = _facts(session, host_moids, requested, [*networks, *hosts])
    users = _network_vms(session) if FactGroup.NETWORK_USERS in groups else None
    return facts.model_copy(update={"vcenter_options": _vcenter_options(session), "network_vms": users})


def _network_vms(session: Session) -> dict[str, tuple[str, ...]] | None:
    """Read which VMs are on each network; None from a recording that was made before this was read."""
    try:
        items = collect_all(session, passes.NETWORK_USERS_PASS)
    except NotRecorded:
        return None
    return {item.moid: tuple(item.moids_of("vm")) for item in items}


def read_with(
    session: Session, moid: str, groups: frozenset[FactGroup], paths: Sequence[str]
) -> tuple[EstateFacts, Item | None]:
    """Read facts of one host as `read_facts`, but for vCenter's options, and what of `paths` the host has.

    Networks, switches and the host take one round trip together. The host's item holds more besides, and is
    None where it has gone.
    """
    requested = groups & ALL_GROUPS | {FactGroup.BASE}
    starts, wanted = _starts(session, [moid], requested), passes.host_pass(tuple(paths))
    items = collect_all(session, passes.NETWORK_PASS, wanted, starts)
    return _facts(session, [moid], requested, items), next((one for one in items if one.moid == moid), None)


def _facts(
    session: Session, host_moids: Sequence[str], requested: frozenset[FactGroup], found: Sequence[Item]
) -> EstateFacts:
    """Make facts of what was read in bulk, and ask the hosts for the rest."""
    networks = Networks(item for item in found if item.type_name not in _NO_NETWORKS)
    items = {item.moid: item for item in found if item.type_name in _NO_NETWORKS}
    computes = {item.moid: item for item in items.values() if item.type_name in _COMPUTE_TYPES}
    fields = _first(items, "CustomFieldsManager")
    licences = _first(items, "LicenseManager")
    attributes = attributes_by_key(fields)
    manager = None if licences is None else licences.get("licenseAssignmentManager")

    def facts_of(moid: str) -> HostFacts:
        item = items.get(moid)
        if item is None:
            return HostFacts(unread=dict.fromkeys(requested, _GONE))
        why = base_unread(item, fields)
        unread = {FactGroup.BASE: why} if why else {}
        name = unescaped(item.get("name", moid))
        answers = _ask(HostQuestions(session, item, manager, name), item, requested, unread)
        return HostFacts(
            groups=requested - unread.keys(),
            **base_facts(item, networks, attributes),
            **answers,
            unread=unread,
        )

    hosts = dict(session.each(facts_of, dict.fromkeys(host_moids)))
    if FactGroup.OWNERS in requested:
        hosts = _with_owners(session, hosts, items, computes)
    return EstateFacts(
        hosts=hosts,
        clusters={moid: cluster_facts(item) for moid, item in computes.items()},
        switches=networks.switches,
    )


def _starts(session: Session, moids: Iterable[str], requested: frozenset[FactGroup]) -> list[Start]:
    content = session.service_content
    starts = [Start(passes.HOST, moid, follow="parent", is_read=True) for moid in moids]
    if content.customFieldsManager is not None:
        starts.append(Start(passes.CUSTOM_FIELDS, str(content.customFieldsManager._moId)))
    if FactGroup.LICENCE in requested and content.licenseManager is not None:
        starts.append(Start(passes.LICENCES, str(content.licenseManager._moId)))
    return starts


def _first(items: Mapping[str, Item], type_name: str) -> Item | None:
    return next((item for item in items.values() if item.type_name == type_name), None)


def _ask(
    questions: HostQuestions, item: Item, requested: frozenset[FactGroup], unread: dict[FactGroup, str]
) -> dict[str, Any]:
    """Ask a host all groups; why one was not read goes to `unread`."""
    answers: dict[str, Any] = {}
    silent = silence(item)
    for group, question in QUESTIONS.items():
        if group not in requested:
            continue
        if silent:
            unread[group] = silent
            continue
        try:
            answers.update(question(questions))
        except LOST:
            raise
        except HostSilent as error:
            silent = unread[group] = error.message
        except ReachError as error:
            unread[group] = error.message
    return answers


def _with_owners(
    session: Session, hosts: Mapping[str, HostFacts], items: Mapping[str, Item], computes: Mapping[str, Item]
) -> dict[str, HostFacts]:
    """Add the host profiles of clusters to those of their hosts, and name them all."""

    def told_of(moid: str) -> tuple[str, ...] | VCenterError:
        try:
            return associated_profiles(session, vim.ClusterComputeResource, moid, moid)
        except LOST:
            raise
        except VCenterError as error:
            return error

    clusters = [moid for moid, item in computes.items() if item.type_name == "ClusterComputeResource"]
    of_cluster = dict(session.each(told_of, clusters))
    found = {
        moid: _owners(facts, of_cluster.get(_parent(items.get(moid)), ())) for moid, facts in hosts.items()
    }
    names = _profile_names(session, {profile for facts in found.values() for profile in facts.owners})
    return {
        moid: facts.model_copy(
            update={"owners": tuple(f"host profile {names.get(owner, owner)}" for owner in facts.owners)}
        )
        for moid, facts in found.items()
    }


def _parent(item: Item | None) -> str:
    return (None if item is None else item.moid_of("parent")) or ""


def _owners(facts: HostFacts, of_cluster: tuple[str, ...] | VCenterError) -> HostFacts:
    if FactGroup.OWNERS in facts.unread:
        return facts
    if isinstance(of_cluster, VCenterError):
        return facts.model_copy(
            update={
                "owners": (),
                "groups": facts.groups - {FactGroup.OWNERS},
                "unread": {**facts.unread, FactGroup.OWNERS: of_cluster.message},
            }
        )
    return facts.model_copy(update={"owners": tuple(dict.fromkeys([*facts.owners, *of_cluster]))})


def _profile_names(session: Session, moids: Iterable[str]) -> dict[str, str]:
    starts = [Start(passes.HOST_PROFILE, moid) for moid in sorted(moids)]
    items = collect_from(session, passes.PROFILE_PASS, starts) if starts else []
    return {item.moid: item.get("name", item.moid) for item in items}


def _vcenter_options(session: Session) -> dict[str, str]:
    """Read options of vCenter; one that it does not have or does not tell is left out."""
    manager = session.service_content.setting
    found: dict[str, str] = {}
    for name in passes.VCENTER_OPTIONS if manager is not None else ():
        try:
            found.update(
                (option.key, option_text(option.value)) for option in manager.QueryOptions(name) or ()
            )
        except vim.fault.NotAuthenticated as fault:
            raise to_error(fault, "reading vCenter's options", session.address) from fault
        except vmodl.MethodFault:
            continue
    return found
