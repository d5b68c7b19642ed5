"""The facts to read of hosts before a plan that prepares hosts can be made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.model.desired import DesiredPlan, network_mtu
from vgpu_cfg.model.observed.host_facts import SHELL_GROUPS, FactGroup
from vgpu_cfg.model.observed.inventory import Host, Inventory
from vgpu_cfg.model.plan_file import AccessEntry
from vgpu_cfg.model.vgpu import Sharing
from vgpu_cfg.planning.estate.site import find_named, inside
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.host_settings.resolved_host import resolve_hosts
from vgpu_cfg.planning.hosts.compare import desired_settings_of
from vgpu_cfg.planning.hosts.derive import derived_entry, may_run
from vgpu_cfg.planning.rdma.derive import rdma_facts
from vgpu_cfg.planning.vms.lookup.gpu_choice import with_choices

_ALWAYS = frozenset({FactGroup.BASE, FactGroup.OWNERS})


def needed_facts(
    desired: DesiredPlan, observed: Inventory, catalog: Catalog, options: PlanOptions | None = None
) -> Mapping[str, frozenset[FactGroup]]:
    """Return, by the moid of each host that the plan prepares, the groups of facts to read.

    The topology is read if VMs of the plan ask for NVLink peers, the basis of RDMA if they ask for that, the
    driver if guests get one that must fit it. The places of instances on GPUs in MIG mode are read from a
    shell that is used anyway.
    """
    desired = with_choices(desired, observed, catalog)
    needed: dict[str, frozenset[FactGroup]] = {}
    has_peers = any(gpu.nvlink is not None for vm in desired.vms for gpu in vm.gpus)
    has_drivers = any(vm.guest is not None and vm.guest.driver is not None for vm in desired.vms)
    for resolved in resolve_hosts(desired, observed, catalog, options or PlanOptions(), Findings()):
        entry = resolved.entry
        if entry.prepare == "from_vms":
            entry = derived_entry(resolved, desired, observed, catalog, Findings())
        groups = set(_ALWAYS)
        for setting, wanted in desired_settings_of(entry, resolved.view):
            groups |= setting.facts | ({FactGroup.IMAGE} if setting.by_image(wanted) else frozenset())
        if entry.gpus or entry.driver is not None or has_drivers:
            groups.add(FactGroup.SOFTWARE)
        if has_peers and resolved.view.boards and entry.access.ssh != "off":
            groups.add(FactGroup.SHELL_TOPOLOGY)
        of_rdma = rdma_facts([vm for vm in desired.vms if may_run(vm, resolved)])
        groups |= of_rdma - SHELL_GROUPS if entry.access.ssh == "off" else of_rdma
        if groups & SHELL_GROUPS and any(gpu.sharing is Sharing.MIG for gpu in resolved.view.host.gpus):
            groups.add(FactGroup.SHELL_MIG)
        needed[resolved.view.host.moid] = frozenset(groups)
    return {moid: frozenset({FactGroup.BASE}) for moid in _on_switches(desired, observed)} | needed


def driver_hosts(desired: DesiredPlan, observed: Inventory, catalog: Catalog) -> tuple[str, ...]:
    """Return the hosts whose driver's version decides on VMs, whether the plan prepares them or not.

    A VM's guest driver must fit it, or a host with a board of the VM's profile does not offer the profile.
    """
    desired = with_choices(desired, observed, catalog)
    asked = dict.fromkeys(
        (vm.clusters, vm.guest is not None and vm.guest.driver is not None, profile)
        for vm in desired.vms
        for gpu in vm.gpus
        for profile in gpu.profile
    )
    boards = {profile: {one.board.key for one in catalog.by_profile(profile)} for _, _, profile in asked}
    found: list[str] = []
    for host in inside(desired, observed, observed.hosts):
        cluster = observed.cluster_of(host)
        here = _boards_of(host, catalog)
        offered = None if host.profiles is None else {one.name for one in host.profiles}
        for clusters, has_driver, profile in asked:
            is_there = not clusters or (cluster and any(find_named(name, [cluster]) for name in clusters))
            is_absent = offered is not None and profile.name not in offered
            if is_there and (has_driver or is_absent) and not here.isdisjoint(boards[profile]):
                found.append(host.moid)
                break
    return tuple(found)


def _boards_of(host: Host, catalog: Catalog) -> set[str]:
    found = (catalog.of_device(gpu.pci) for gpu in host.gpus)
    return {board.key for board in found if board is not None}


def changes_networks(desired: DesiredPlan) -> bool:
    """Whether a plan could change a switch, so that everybody on it has to be known."""
    return any(network.switch for network in desired.networks) or any(
        entry.vmknics or any(rule.switch is not None for rule in entry.nics) for entry in desired.hosts
    )


def _on_switches(desired: DesiredPlan, observed: Inventory) -> Iterator[str]:
    """Yield the hosts on distributed switches if the plan may give such a switch another MTU."""
    if any(line.switch and network_mtu(desired, line) is not None for line in desired.networks):
        distributed = {one.moid for one in observed.networks if one.switch_uuid is not None}
        yield from (host.moid for host in observed.hosts if not distributed.isdisjoint(host.network_moids))


def shell_access(
    desired: DesiredPlan, observed: Inventory, catalog: Catalog, options: PlanOptions | None = None
) -> Mapping[str, AccessEntry]:
    """Return, by host moid, how the plan file lets the tool on the host's shell."""
    resolved_hosts = resolve_hosts(desired, observed, catalog, options or PlanOptions(), Findings())
    return {resolved.view.host.moid: resolved.entry.access for resolved in resolved_hosts}
