"""Ailments of hosts, their GPUs and their clusters: connections, half-done work, drivers, waste, failover."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import date, timedelta

from vgpu_cfg.catalog.version_pairs import DriverBranch, load_driver_branches
from vgpu_cfg.model.observed.gpu_use import GraphicsType
from vgpu_cfg.model.observed.inventory import Cluster, Connection, Gpu, Host
from vgpu_cfg.model.observed.vm import PassthroughDevice, Vm, VmDetail
from vgpu_cfg.model.vgpu import Sharing
from vgpu_cfg.model.wording import counted, listed, version_tuple
from vgpu_cfg.planning.capacity.gpu_state import lacks_functions
from vgpu_cfg.planning.capacity.pci_tree import is_switched
from vgpu_cfg.planning.doctor.ailments import Ailment, Kind
from vgpu_cfg.planning.doctor.ours import is_held, maintenance
from vgpu_cfg.planning.doctor.patient import Patient, owner_name
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.host_settings.cluster import EVACUATE_OPTION, EVACUATE_VALUE
from vgpu_cfg.planning.host_settings.gpus.driver import driver_facts, driver_version
from vgpu_cfg.planning.host_settings.licence import is_evaluation
from vgpu_cfg.planning.pool.gpus import PooledGpu, PoolMode, StrandedKind
from vgpu_cfg.planning.pool.reservations import now_of
from vgpu_cfg.planning.pool.spare import load_of, lost_by_host, room_of
from vgpu_cfg.planning.vms.lookup.moving import may_hot_migrate

_DATASTORE_FULL = 0.05
"""Free space below this share of a datastore is too little: a choice."""
ENDS_SOON = timedelta(days=60)
"""So long before a license ends it is reported: a choice."""
_GENERAL_SUPPORT = {"6.5": date(2022, 10, 15), "6.7": date(2022, 10, 15), "7.0": date(2025, 10, 2)}
"""The end of general support of ESXi (Broadcom's product lifecycle; recalled)."""


def host_ailments(patient: Patient) -> Iterator[Ailment]:
    """Yield the ailments of each host that has GPUs."""
    for host in patient.gpu_hosts:
        yield from _state(host, patient)
        if host.connection is Connection.CONNECTED:
            yield from _gpus(host, patient)
            yield from _pending(host, patient)
            yield from _licence(host, patient)
            yield from _sriov(host, patient)
            yield from _numa(host)
            yield from _ages(host, patient)
            yield from _promises(host)


def _state(host: Host, patient: Patient) -> Iterator[Ailment]:
    subject = f"host:{host.name}"
    on = sum(vm.is_on for vm in patient.observed.vms_by_host.get(host.moid, ()) if not vm.is_template)
    gpus = counted(len(host.gpus), "GPU")
    if host.connection is not Connection.CONNECTED:
        says = f"{host.connection.words}; {gpus}, {counted(on, 'VM')} last known to be running"
        yield Ailment(Kind.HOST_LOST, subject, says, f"govc host.reconnect -host {host.name}")
    elif host.is_in_maintenance_mode and not is_held(host, patient):
        yield maintenance(host, patient)


def _gpus(host: Host, patient: Patient) -> Iterator[Ailment]:
    """Report GPUs that can give no vGPU: their graphics type, or no driver that serves them."""
    shared, bare = [], []
    for state in patient.capacity(host).gpus:
        gpu = host.gpu(state.pci_id)
        if gpu is None or gpu.is_passthrough:
            continue
        if gpu.graphics_type is GraphicsType.BASIC or state.obstacle is Code.NO_HOST_DRIVER:
            bare.append(gpu)
        elif gpu.gives_vgpus is False:
            shared.append(gpu)
    if bare:
        command = "esxcli software vib list | grep -i -E 'nvd|nvidia'"
        yield Ailment(Kind.NO_DRIVER, f"host:{host.name}", _named(bare), command)
    if shared:
        types = listed(sorted({str(gpu.graphics_type.value) for gpu in shared if gpu.graphics_type}))
        command = "esxcli graphics host set --default-type SharedPassthru"
        yield Ailment(Kind.GRAPHICS, f"host:{host.name}", f"{_named(shared)}: {types}", command)


def _named(gpus: list[Gpu]) -> str:
    counts = Counter(f"{gpu.name}{gpu.pci.mode_note}" for gpu in gpus)
    return ", ".join(f"{count} × {name}" for name, count in sorted(counts.items()))


def _pending(host: Host, patient: Patient) -> Iterator[Ailment]:
    """Report configured values that are not in force: types, modes, passthrough and virtual functions."""
    waits: dict[str, None] = {}
    for gpu in host.gpus:
        if gpu.graphics_type is GraphicsType.BASIC:
            continue  # no driver serves it, so nothing can come into force
        if gpu.configured_graphics_type not in (None, gpu.graphics_type):
            waits["graphics type"] = None
        if gpu.vgpu_mode is not None and gpu.configured_vgpu_mode not in (None, gpu.vgpu_mode):
            waits["vGPU mode"] = None
    for device in host.pci_devices:
        if device.passthrough_enabled != device.passthrough_active:
            waits[f"passthrough of {device.pci_id}"] = None
        functions = device.sriov
        if functions is not None and functions.is_active and functions.requested != functions.functions:
            waits[f"virtual functions of {device.pci_id}"] = None
    if patient.facts(host).reboot_required:
        waits["vCenter reports that a restart is required"] = None
    if waits:
        command = f"govc host.maintenance.enter {host.name} && govc host.shutdown -r -host {host.name}"
        yield Ailment(Kind.PENDING, f"host:{host.name}", listed(waits), command)


def _licence(host: Host, patient: Patient) -> Iterator[Ailment]:
    licences = patient.observed.licences
    if licences is None:
        return
    found = licences.get(host.moid, ())
    subject, command = f"host:{host.name}", f"govc license.assign -host {host.name} KEY"
    if not found or any(is_evaluation(one.name) for one in found):
        says = listed(one.name for one in found) or "no license is assigned"
        yield Ailment(Kind.LICENCE, subject, says, command)
    else:
        for one in found:
            if one.ends is not None and one.ends - now_of(patient.observed) < ENDS_SOON:
                yield Ailment(Kind.LICENCE_ENDS, subject, f"{one.name} ends on {one.ends:%F}", command)


def _sriov(host: Host, patient: Patient) -> Iterator[Ailment]:
    """Report NICs and GPUs without virtual functions, as far as the host's own words show it.

    Belief: no-functions-none-creatable.
    """
    subject, devices = f"host:{host.name}", host.pci_devices
    waiting = [one.pci_id for one in devices if one.sriov and one.sriov.requested and not one.sriov.is_active]
    if waiting:
        says = f"{listed(waiting)}: virtual functions requested, but none are active"
        yield Ailment(Kind.SRIOV_OFF, subject, says, "esxcli network sriovnic list")
    is_none = bool(host.profiles) and not host.creatable_profiles
    if is_none and lacks_functions(patient.capacity(host).gpus):
        says = "no vGPU type can be created on the host's idle GPUs"
        yield Ailment(Kind.SRIOV_OFF, subject, says, "nvidia-smi -q | grep 'Host VGPU Mode'")
    if any(one.sriov for one in devices) and not any(one.passthrough_capable for one in devices):
        says = "no PCI device is capable of passthrough: IOMMU (VT-d) may be off"
        yield Ailment(Kind.SRIOV_OFF, subject, says, "esxcli hardware pci pcipassthru list")


def _numa(host: Host) -> Iterator[Ailment]:
    unknown = [gpu.pci_id for gpu in host.gpus if gpu.numa_node is None]
    if len(host.numa_nodes) > 1 and unknown:
        yield Ailment(Kind.NUMA_UNKNOWN, f"host:{host.name}", counted(len(unknown), "GPU"))


def _ages(host: Host, patient: Patient) -> Iterator[Ailment]:
    """Report releases that are older than their support, and newer than vCenter."""
    subject, today = f"host:{host.name}", patient.observed.read_at.date()
    release = ".".join(host.version.split(".")[:2])
    ended = _GENERAL_SUPPORT.get(release)
    if ended is not None and today > ended:
        says = f"ESXi {host.version}, general support ended on {ended}"
        yield Ailment(Kind.OLD_ESXI, subject, says)
    vcenter = patient.observed.vcenter.version
    if vcenter and version_tuple(host.version)[:3] > version_tuple(vcenter)[:3]:
        yield Ailment(Kind.OLD_VCENTER, subject, f"ESXi {host.version}, vCenter {vcenter}")
    version = driver_version(host, patient.facts(host).software)
    number = version.partition(".")[0]
    branches = load_driver_branches()
    boards = [patient.reader.board_of(gpu.pci) for gpu in host.gpus]
    for fault in branches.faults_of(version, boards):
        says = f"{version}: {fault.means}; fixed in vGPU {fault.release} ({fault.source})"
        yield Ailment(Kind.FAULTY_DRIVER, subject, says)
    own = branches.find(number)
    month = f"{today:%Y-%m}"
    gone = [one for one in branches.branches if one.end_of_life is not None and one.end_of_life.date < month]
    last = max(gone, key=lambda one: one.release, default=None)
    if own is not None and last is not None and own.release <= last.release and not _is_supported(own, month):
        says = f"branch {number} (vGPU {own.release})"
        if own.end_of_life is not None:
            says += f", ended {own.end_of_life.date}"
        yield Ailment(Kind.OLD_DRIVER, subject, says)


def _is_supported(branch: DriverBranch, month: str) -> bool:
    return branch.end_of_life is not None and branch.end_of_life.date >= month


def _promises(host: Host) -> Iterator[Ailment]:
    for one in host.direct_path or ():
        if one.unused_reservation > one.remaining:
            says = f"{one.name}: {one.unused_reservation} reserved, {one.remaining} free"
            yield Ailment(Kind.OVER_RESERVED, f"host:{host.name}", says)


def cluster_ailments(patient: Patient) -> Iterator[Ailment]:
    """Yield what differs between the hosts of a cluster, and what its settings do to VMs with GPUs."""
    for cluster, hosts in patient.clusters():
        usable = [host for host in hosts if host.connection is Connection.CONNECTED]
        yield from _differing(
            cluster, usable, Kind.BUILDS, lambda host: f"{host.version} {host.build}".strip()
        )
        yield from _differing(cluster, usable, Kind.DRIVERS, lambda host: _driver(host, patient))
        yield from _differing(cluster, usable, Kind.DAEMONS, lambda host: _daemon(host, patient))
        vms = [one for one in patient.gpu_vms if one[2].owner_moid == cluster.moid]
        running = [vm for vm, _, _ in vms if vm.is_on]
        if running and not cluster.ha_enabled and len(hosts) > 1:
            command = f"govc cluster.change -ha-enabled {cluster.name}"
            says = f"vSphere HA is off; {counted(len(running), 'running GPU VM')}"
            yield Ailment(Kind.HA_OFF, f"cluster:{cluster.name}", says, command)
        yield from _reach(hosts, vms, patient)
        yield from _drs(cluster, running, patient)
        yield from _unlike(usable)


def _drs(cluster: Cluster, running: list[Vm], patient: Patient) -> Iterator[Ailment]:
    subject = f"cluster:{cluster.name}"
    with_vgpus = [vm for vm in running if vm.detail is not None and vm.detail.vgpus]
    if with_vgpus and not cluster.drs_enabled:
        says = f"{counted(len(running), 'running GPU VM')}"
        yield Ailment(Kind.DRS_OFF, subject, says, f"govc cluster.change -drs-enabled {cluster.name}")
    found = patient.observed.facts.clusters.get(cluster.moid)
    option = found.drs_options.get(EVACUATE_OPTION, "") if found is not None else ""
    if (
        with_vgpus
        and cluster.drs_enabled
        and may_hot_migrate(patient.observed)
        and found is not None
        and option != EVACUATE_VALUE
    ):
        says = f"{EVACUATE_OPTION} is {option or 'not set'}; {counted(len(with_vgpus), 'running vGPU VM')}"
        yield Ailment(Kind.NO_EVACUATION, subject, says)


def _unlike(hosts: list[Host]) -> Iterator[Ailment]:
    """Compare hosts of one server model with one kind of GPU: their numbers of GPUs, their device groups."""
    alike: dict[tuple[str, frozenset[str]], list[Host]] = {}
    for host in hosts:
        alike.setdefault((host.model, frozenset(gpu.name for gpu in host.gpus)), []).append(host)
    for group in alike.values():
        most = max(len(host.gpus) for host in group)
        full = sum(len(host.gpus) == most for host in group)
        offers = [host for host in group if host.device_groups]
        for host in group:
            subject, command = f"host:{host.name}", f"govc host.info -host {host.name}"
            if len(host.gpus) < most and full > len(group) // 2:
                says = f"{counted(len(host.gpus), 'GPU')}; {full} identical hosts have {most}"
                yield Ailment(Kind.FEWER_GPUS, subject, says, command)
            if not host.device_groups and len(offers) > len(group) // 2 and len(host.gpus) == most:
                names = listed(one.name for one in offers[0].device_groups)
                yield Ailment(Kind.NO_GROUPS, subject, f"{offers[0].name} has {names}", command)


def _driver(host: Host, patient: Patient) -> str:
    found = driver_facts(patient.facts(host).software)
    return f"{found.kind} {(found.version or '').partition('-')[0]}" if found.kind else ""


def _daemon(host: Host, patient: Patient) -> str:
    found = driver_facts(patient.facts(host).software)
    return "" if found.kind is None else "installed" if found.daemon else "not installed"


def _differing(
    cluster: Cluster, hosts: list[Host], kind: Kind, value_of: Callable[[Host], str]
) -> Iterator[Ailment]:
    """Name the hosts that do not have what most of the cluster have; nothing is said of unknown ones."""
    values = {host.name: value for host in hosts if (value := value_of(host))}
    counts = Counter(values.values())
    if len(counts) < 2:
        return
    usual = min(counts, key=lambda value: (-counts[value], value))
    for name, value in values.items():
        if value != usual:
            says = f"{value}; {counts[usual]} in cluster {cluster.name}: {usual}"
            yield Ailment(kind, f"host:{name}", says, "govc host.info -host " + name)


def _reach(
    hosts: tuple[Host, ...], vms: list[tuple[Vm, VmDetail, Host]], patient: Patient
) -> Iterator[Ailment]:
    """Report hosts without a network or datastore that VMs with GPUs on other hosts of the cluster use."""
    names = {one.moid: one.name for one in (*patient.observed.networks, *patient.observed.datastores)}
    networks: Counter[str] = Counter()
    datastores: Counter[str] = Counter()
    for _, detail, _ in vms:
        networks.update(patient.observed.networks_of(detail))
        datastores.update(set(detail.datastore_moids))
    for kind, used, has in (
        (Kind.NETWORK, networks, lambda host: host.network_moids),
        (Kind.STORAGE, datastores, lambda host: host.datastore_moids),
    ):
        yield from _missing(kind, used, names, hosts, has)


def _missing(
    kind: Kind,
    used: Counter[str],
    names: Mapping[str, str],
    hosts: tuple[Host, ...],
    has: Callable[[Host], frozenset[str]],
) -> Iterator[Ailment]:
    for moid, count in used.items():
        having = [host for host in hosts if moid in has(host)]
        if kind is Kind.STORAGE and len(having) == 1:
            continue  # its VMs are reported: no other host is expected to have a local datastore
        without = [
            host for host in hosts if host.connection is Connection.CONNECTED and moid not in has(host)
        ]
        if len(without) < len(hosts) and moid in names:
            for host in without:
                says = f"{names[moid]}, used by {counted(count, 'GPU VM')} in the cluster"
                yield Ailment(kind, f"host:{host.name}", says)


def storage_ailments(patient: Patient) -> Iterator[Ailment]:
    """Yield datastores of hosts with GPUs that are not accessible, or nearly full."""
    seen = {moid for host in patient.gpu_hosts for moid in host.datastore_moids}
    seen |= {moid for _, detail, _ in patient.gpu_vms for moid in detail.datastore_moids}
    for one in patient.observed.datastores:
        if one.moid not in seen:
            continue
        subject, command = f"datastore:{one.name}", f"govc datastore.info {one.name}"
        if not one.is_accessible:
            yield Ailment(Kind.DATASTORE_LOST, subject, one.kind, command)
        elif one.capacity_mib and one.free_mib < _DATASTORE_FULL * one.capacity_mib:
            says = f"{one.free_mib // 1024:,} of {one.capacity_mib // 1024:,} GiB free"
            yield Ailment(Kind.DATASTORE_FULL, subject, says, command)


_MOSTLY = 0.75
"""A GPU of which so much is locked to the size of a single small vGPU wastes it: a choice."""


def gpu_ailments(patient: Patient) -> Iterator[Ailment]:
    """Yield the capacity of GPUs that no VM can use, or none does."""
    in_mig = _mig_users(patient)
    for host, gpu in patient.gpus:
        subject = f"gpu:{host.name}/{gpu.pci_id}"
        yield from _stranded(subject, host, gpu, patient)
        if not host.is_usable:
            continue
        if gpu.mode is PoolMode.MIG and not gpu.runs and (host.owner_moid, gpu.board_key) not in in_mig:
            command = patient.type_("inventory", "--gpus", "--host", host.name)
            yield Ailment(Kind.MIG_UNUSED, subject, gpu.board, command)
        board = patient.catalog.board(gpu.board_key) if gpu.board_key else None
        if gpu.mode is PoolMode.PASSTHROUGH and is_switched(host, board):
            yield Ailment(Kind.NVSWITCH_SPLIT, subject, gpu.board)
        if gpu.mode is PoolMode.PASSTHROUGH and not gpu.runs:
            yield _passthrough(subject, host, gpu, patient)


def _stranded(subject: str, host: Host, gpu: PooledGpu, patient: Patient) -> Iterator[Ailment]:
    command = patient.type_("inventory", "--gpus", "--host", host.name)
    found = host.gpu(gpu.pci_id)
    most_kept = found.memory_mib // 8 if found is not None else 0
    most = _MOSTLY * found.memory_mib if found is not None else 0
    for one in gpu.stranded:
        if one.kind is StrandedKind.NVLINK:
            yield Ailment(Kind.NVLINK, subject, one.text, command)
        elif one.lost_mib > most_kept or one.compute_slices > 1:
            yield Ailment(Kind.STRANDED, subject, one.text, command)
        elif one.kind is StrandedKind.SIZE_LOCK and len(gpu.runs) == 1 and one.bound_mib >= most > 0:
            yield Ailment(Kind.LOCKED_SIZE, subject, one.text, command)


def _mig_users(patient: Patient) -> frozenset[tuple[str, str]]:
    """Return the clusters and boards of which a VM, running or not, has a MIG profile."""
    found = set()
    for _, detail, host in patient.gpu_vms:
        for vgpu in detail.vgpus:
            for board, need in patient.reader.needs(vgpu.profile).items():
                if need.sharing is Sharing.MIG:
                    found.add((host.owner_moid, board))
    return frozenset(found)


def _passthrough(subject: str, host: Host, gpu: PooledGpu, patient: Patient) -> Ailment:
    """Report a passed-through GPU without a running VM, with the VM that is off and waits for it."""
    waiting = [
        vm.name
        for vm, detail, at in patient.gpu_vms
        if not vm.is_on
        and at.owner_moid == host.owner_moid
        and any(_could_have(device, at, host, gpu) for device in detail.passthrough_gpus)
    ]
    says = (
        f"{gpu.board}, assigned to {waiting[0]}, which is powered off"
        if waiting
        else f"{gpu.board}, not assigned to a VM"
    )
    command = f"esxcli hardware pci pcipassthru set -d {gpu.pci_id} -e false"
    return Ailment(Kind.PASSTHROUGH_UNUSED, subject, says, command)


def _could_have(device: PassthroughDevice, at: Host, host: Host, gpu: PooledGpu) -> bool:
    if device.pci_id is not None:
        return at.moid == host.moid and device.pci_id == gpu.pci_id
    pci = host.device(gpu.pci_id)
    if pci is None or (pci.vendor_id, pci.device_id) not in device.allowed:
        return False
    return not device.label or device.label == gpu.label


def failover_ailments(patient: Patient) -> Iterator[Ailment]:
    """Yield the VMs that no other host could take, or their cluster if that holds for each of its hosts."""
    for cluster, hosts in patient.clusters():
        usable = [host for host in hosts if host.is_usable]
        rooms = [room_of(host, patient.capacity(host), patient.observed) for host in usable]
        found = (load_of(vm, cluster) for vm, _, _ in patient.gpu_vms)
        lost = lost_by_host(rooms, [load for load in found if load is not None], patient.reader)
        if lost and all(lost.values()):
            count = sum(map(len, lost.values()))
            says = f"{counted(count, 'GPU VM')} on {counted(len(lost), 'host')} cannot run on another host"
            command = patient.type_("fit", "--without", f"host:{next(iter(lost))}")
            yield Ailment(Kind.NO_SPARE, f"cluster:{cluster.name}", says, command)
            continue
        for name, left in lost.items():
            for load, why in left:
                command = patient.type_("fit", "--without", f"host:{name}")
                owner = owner_name(load.vm) if load.vm is not None else ""
                yield Ailment(Kind.NO_RESTART, f"vm:{load.name}", f"on {name}: {why}", command, owner)
