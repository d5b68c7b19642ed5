"""A plan's need for facts of host kinds: profiles, device groups, newest hardware version.

Placing needs these, and so does counting free capacity. A VM that runs on with its present devices needs none
of it. Nor does one that stays off and that its own host could start, by its lists.
"""

from __future__ import annotations

from collections.abc import Sequence

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.model.desired import DesiredPlan, DesiredPower, with_nearness
from vgpu_cfg.model.observed.inventory import Host, Inventory
from vgpu_cfg.model.observed.vm import PowerState
from vgpu_cfg.model.vgpu import Sharing, VgpuMode
from vgpu_cfg.planning.capacity.host_capacity import CapacityReader
from vgpu_cfg.planning.estate.ownership import assess_ownership
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.placement.candidates import Candidates
from vgpu_cfg.planning.placement.expected_gpus import expect_gpus
from vgpu_cfg.planning.placement.startable import PLACERS, place_startable
from vgpu_cfg.planning.vms.checks.gpu_checks import OfferedBy, check_gpus
from vgpu_cfg.planning.vms.checks.topology_checks import check_peers
from vgpu_cfg.planning.vms.checks.vm_checks import least_hardware
from vgpu_cfg.planning.vms.expiry import with_expired_at_rest
from vgpu_cfg.planning.vms.lookup.baseline import demands_of, make_baseline
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm
from vgpu_cfg.planning.vms.lookup.vm_resolver import VmResolver

_MANY = 1_000
"""Of more VMs it is not looked: that takes a quarter of a second by then, and asking a few round trips."""
_TOO_SMALL = 2
"""The `Fit.numa_level` of NUMA nodes that are too small: only then the policy may not be followed."""


def needs_kinds(desired: DesiredPlan, observed: Inventory, catalog: Catalog, options: PlanOptions) -> bool:
    """Whether facts of host kinds could change the plan; `observed` is without them.

    It could not if all VMs of the plan file exist, keep their devices, places and hardware versions, none is
    started, no host is prepared and no GPU is reserved or set free.
    """
    is_reserved = observed.reservations is not None and bool(observed.reservations.kept)
    is_more = desired.hosts or desired.ends is not None or is_reserved or options.delete
    if is_more or len(desired.vms) > _MANY:
        return True
    desired = with_nearness(with_expired_at_rest(desired, observed))
    findings = Findings.for_plan(desired)
    resolver = VmResolver(desired, observed, catalog, findings)
    folders = resolver.folders()
    owned = assess_ownership(desired, observed, folders, findings)
    if owned.existing.keys() != {vm.name for vm in desired.vms}:
        return True
    vms: list[ResolvedVm] = []
    for vm in resolver.resolved_vms(folders, owned):
        if not _stays(vm, catalog, resolver.reader):
            return True
        vms.append(vm)
    if len(vms) < len(desired.vms):
        return True
    off = [vm for vm in vms if not vm.keeps_gpus and any(gpu.kind == "vgpu" for gpu in vm.gpus)]
    return not all(_is_told_by_lists(vm, resolver.reader) for vm in off) or not _fits(off, vms, resolver)


def _stays(resolved: ResolvedVm, catalog: Catalog, reader: CapacityReader) -> bool:
    """Whether a VM keeps its devices, its place, its power state and its hardware version."""
    vm, version = resolved.existing, resolved.base.hardware_version
    if vm is None or vm.power_state is PowerState.SUSPENDED or not resolved.has_devices:
        return False
    if resolved.possible_move is not None or not (vm.is_on or resolved.desired.power is not DesiredPower.ON):
        return False
    if version is not None and version < least_hardware(resolved):
        return False
    # What kinds of hosts tell may overrule what the catalogue says against its GPUs.
    told = Findings()
    check_gpus(resolved, catalog, reader, OfferedBy(()), told)
    check_peers(resolved, catalog, (), told)
    return not resolved.cannot_be_placed


def _is_told_by_lists(resolved: ResolvedVm, reader: CapacityReader) -> bool:
    """Whether a VM has one vGPU that its host lists as startable, all of whose GPUs are alike and not cut."""
    host, gpus = resolved.host, [gpu for gpu in resolved.gpus if gpu.kind == "vgpu"]
    if host is None or len(gpus) > 1 or gpus[0].nvlink is not None or gpus[0].group:
        return False
    boards = {reader.board_of(gpu.pci) for gpu in host.gpus}
    return (
        gpus[0].profile[0].name in host.creatable_profiles
        and len(boards) == 1
        and None not in boards
        and all(gpu.sharing is Sharing.TIME_SLICED for gpu in host.gpus)
        and all(gpu.vgpu_mode is not VgpuMode.MIXED_SIZE for gpu in host.gpus)
    )


def _fits(off: Sequence[ResolvedVm], vms: Sequence[ResolvedVm], resolver: VmResolver) -> bool:
    """Whether VMs that stay off have room on their own hosts, whatever GPUs NVLink joins there.

    Device groups show which idle GPUs are better left to others. That counts for nothing if each VM gets the
    GPU that its host's own policy would choose.
    """
    own = {vm.host.moid for vm in off if vm.host is not None}
    hosts = [host for host in resolver.hosts if host.moid in own]
    resolver.candidates = Candidates.among(hosts, resolver.observed, resolver.refused_drivers)
    for vm in off:
        resolver.shape(vm)
    baseline = make_baseline(hosts, resolver.observed, vms, (), resolver.reader, resolver.findings)
    demands = demands_of(off)
    placed = place_startable(baseline.states, demands, PLACERS, ())
    before = dict(placed.fits)
    after = expect_gpus(placed, demands).fits
    if after.keys() != {vm.name for vm in off}:
        return False
    return all(
        (after[name] is not fit and after[name].numa_level < _TOO_SMALL)
        or not _may_join(hosts[fit.host], resolver.reader)
        for name, fit in before.items()
    )


def _may_join(host: Host, reader: CapacityReader) -> bool:
    """Whether device groups may show that NVLink joins GPUs of a host."""
    boards = (reader.board_of(gpu.pci) for gpu in host.gpus)
    return any(board is not None and board.nvlink_p2p_profile is not None for board in boards)
