"""Ailments of VMs with GPUs: what keeps them from starting again, from moving, or from running well."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from vgpu_cfg.model.guests.guest import DRIVER_KEY, parse_driver
from vgpu_cfg.model.observed.inventory import Cluster, Host
from vgpu_cfg.model.observed.vm import AFFINITY_KEY, PowerState, Vm, VmDetail
from vgpu_cfg.model.wording import counted, duration, gib, listed, node_list
from vgpu_cfg.planning.capacity.hardware import misses_nodes, nodes_of_affinity
from vgpu_cfg.planning.doctor.ailments import Ailment, Kind
from vgpu_cfg.planning.doctor.patient import Patient, owner_name, path_of
from vgpu_cfg.planning.guests.drivers import guest_branches, refused_branches
from vgpu_cfg.planning.host_settings.entry import HostView
from vgpu_cfg.planning.host_settings.gpus.driver import branch_of, driver_version
from vgpu_cfg.planning.pool.summary import IDLE_BELOW_PERCENT, LEAST_UPTIME_SECONDS, cpu_percent
from vgpu_cfg.planning.rdma.chain import LinkState, ats_chain, direct_pairs
from vgpu_cfg.planning.remedies.start_conditions import ConditionKind, ConditionState
from vgpu_cfg.planning.vms.lookup.affinity import gpus_on
from vgpu_cfg.planning.vms.lookup.moving import HA_RESTART, has_host_devices, may_hot_migrate, why_pinned

_CONDITIONS: Mapping[ConditionKind, Kind] = {
    ConditionKind.FIRMWARE: Kind.FIRMWARE,
    ConditionKind.MEMORY: Kind.MEMORY,
    ConditionKind.MMIO: Kind.MMIO,
    ConditionKind.CPUS: Kind.CPUS,
    ConditionKind.HARDWARE_VERSION: Kind.HARDWARE,
    ConditionKind.PASSTHROUGH: Kind.PASSTHROUGH,
}
"""The conditions of a start that do not depend on other VMs; hosts and GPUs have rules of their own."""

_MOVES = "fullyAutomated"
NESTED_KEY = "vhv.enable"
"""Exposes hardware virtualization to the guest; with passthrough devices it is refused (recalled)."""


def vm_ailments(patient: Patient) -> Iterator[Ailment]:
    """Yield the ailments of each VM that has a GPU."""
    offered = _offered(patient)
    for vm, detail, host in patient.gpu_vms:
        yield from _starts(vm, patient)
        yield from _profiles(vm, detail, host, offered, patient)
        yield from _guest_driver(vm, detail, host, patient)
        yield from _numa(vm, detail, host)
        yield from _settings(vm, detail, host, patient)
        yield from _start_settings(vm, detail, host, patient)
    yield from _local_disks(patient)
    yield from _shared_devices(patient)
    yield from _macs(patient)
    yield from _rdma(patient)
    yield from _rules(patient)


def _ailment(kind: Kind, vm: Vm, says: str, command: str = "") -> Ailment:
    return Ailment(kind, f"vm:{vm.name}", says, command, owner_name(vm))


def _starts(vm: Vm, patient: Patient) -> Iterator[Ailment]:
    for one in patient.conditions(vm):
        kind = _CONDITIONS.get(one.about)
        if one.verdict is ConditionState.WRONG and kind is not None:
            yield _ailment(kind, vm, one.says, one.command or patient.type_("explain", "--vm", vm.name))


def _offered(patient: Patient) -> dict[str, frozenset[str] | None]:
    """Return the profiles that hosts of each cluster offer by moid; None if a host reports none."""
    found: dict[str, frozenset[str] | None] = {}
    for moid, hosts in patient.hosts_by_cluster.items():
        names: set[str] = set()
        is_known = True
        for host in hosts:
            is_known = is_known and host.profiles is not None
            names |= patient.capacity(host).offered
        found[moid] = frozenset(names) if is_known else None
    return found


def _profiles(
    vm: Vm, detail: VmDetail, host: Host, offered: Mapping[str, frozenset[str] | None], patient: Patient
) -> Iterator[Ailment]:
    known = offered.get(host.owner_moid, frozenset())
    missing = sorted({vgpu.profile for vgpu in detail.vgpus} - known) if known is not None else []
    if missing and not vm.is_on:
        command = patient.type_("explain", "--vm", vm.name)
        yield _ailment(Kind.NOT_OFFERED, vm, f"{listed(missing)} on {host.name}", command)


def _guest_driver(vm: Vm, detail: VmDetail, host: Host, patient: Patient) -> Iterator[Ailment]:
    """Report a guest whose own word on its driver is of a branch that the host's driver does not take."""
    version = parse_driver(detail.extra_config.get(DRIVER_KEY, ""))
    taken = branch_of(driver_version(host, patient.facts(host).software))
    if detail.vgpus and branch_of(version) in refused_branches(taken):
        says = f"{version}; {host.name} has R{taken}, for R{' or R'.join(guest_branches(taken))}"
        yield _ailment(Kind.GUEST_DRIVER, vm, says, f"govc guest.run -vm {path_of(vm)} /usr/bin/nvidia-smi")


def _numa(vm: Vm, detail: VmDetail, host: Host) -> Iterator[Ailment]:
    nodes = set(nodes_of_affinity(detail.extra_config.get(AFFINITY_KEY, "")))
    if not nodes:
        return
    off = "" if not vm.is_on else "after powering off the VM: "
    held = {node for _, node in gpus_on(host, vm.moid, detail) if node is not None}
    possible = held or {gpu.numa_node for gpu in host.gpus if gpu.numa_node is not None}
    is_stale = misses_nodes(nodes, held, host) if held else bool(possible) and not nodes & possible
    if is_stale:
        says = f"{AFFINITY_KEY} {node_list(nodes)}, but its GPU is on node {node_list(possible)}"
        change = f"govc vm.change -vm {path_of(vm)} -e {AFFINITY_KEY}={node_list(held or possible)}"
        yield _ailment(Kind.NUMA_STALE, vm, says, off + change)
    room = sum(node.memory_mib for node in host.numa_nodes if node.node_id in nodes)
    cores = sum(node.cores for node in host.numa_nodes if node.node_id in nodes)
    if 0 < room < detail.memory_mib or 0 < cores < detail.cpus:
        size = f"{detail.cpus} vCPUs and {gib(detail.memory_mib)}"
        says = f"{size} on node {node_list(nodes)} with {counted(cores, 'core')} and {gib(room)}"
        yield _ailment(Kind.NUMA_WIDE, vm, says)


def _settings(vm: Vm, detail: VmDetail, host: Host, patient: Patient) -> Iterator[Ailment]:
    cluster = patient.observed.cluster_of(host)
    name = path_of(vm)
    if detail.options.get("memory_hot_add") is True:
        change = f"govc vm.change -vm {name} -memory-hot-add-enabled=false"
        yield _ailment(Kind.HOT_ADD, vm, "memory hot-add is enabled", change)
    if detail.options.get("cpu_hot_add") is True and len(host.numa_nodes) > 1:
        yield _ailment(
            Kind.HOT_ADD,
            vm,
            "CPU hot-add is enabled",
            f"govc vm.change -vm {name} -cpu-hot-add-enabled=false",
        )
    if detail.snapshot_moid is not None:
        yield _ailment(Kind.SNAPSHOT, vm, f"on {host.name}", f"govc snapshot.tree -vm {name}")
    if detail.media:
        yield _ailment(Kind.MEDIA, vm, listed(detail.media), f"govc device.ls -vm {name}")
    if vm.power_state is PowerState.SUSPENDED:
        yield _ailment(Kind.SUSPENDED, vm, f"on {host.name}", f"govc vm.power -on {name}")
    if vm.is_on and cluster is not None and not cluster.is_standalone:
        yield from _in_cluster(vm, detail, cluster, patient)
    if vm.is_on and detail.guest is not None and not detail.guest.tools_running:
        yield _ailment(Kind.TOOLS, vm, f"on {host.name}", f"govc vm.info -t {name}")
    used, up = cpu_percent(vm), detail.uptime_seconds
    if vm.is_on and used is not None and used < IDLE_BELOW_PERCENT and (up or 0) >= LEAST_UPTIME_SECONDS:
        says = f"{used:.1f} % of its CPUs, powered on for {duration(up or 0)}"
        yield _ailment(Kind.IDLE, vm, says, patient.type_("inventory", "--gpus", "--host", host.name))


def _start_settings(vm: Vm, detail: VmDetail, host: Host, patient: Patient) -> Iterator[Ailment]:
    """Report settings that keep a VM with a GPU from starting or from moving, whatever its host has free."""
    name = path_of(vm)
    settings = {key.lower(): value.lower() for key, value in detail.extra_config.items()}
    if settings.get(NESTED_KEY.lower()) == "true":
        yield _ailment(
            Kind.NESTED, vm, f"{NESTED_KEY} is TRUE", f"govc vm.change -vm {name} -nested-hv-enabled=false"
        )
    pinning = sorted(key for key, value in settings.items() if why_pinned(key) and value not in ("", "0"))
    if pinning:
        yield _ailment(Kind.NO_VMOTION_VM, vm, listed(pinning), f"govc vm.info -e {name}")
    reserved, cpus = detail.options.get("cpu_reservation"), detail.cpus
    is_high = detail.options.get("latency_sensitivity") == "high"
    if is_high and host.cpu_mhz and isinstance(reserved, int) and reserved < cpus * host.cpu_mhz:
        says = f"{reserved} of {cpus * host.cpu_mhz} MHz reserved"
        change = f"govc vm.change -vm {name} -cpu.reservation={cpus * host.cpu_mhz}"
        yield _ailment(Kind.LATENCY, vm, says, change)
    others = patient.hosts_by_cluster.get(host.owner_moid, ())
    most = max((one.memory_mib for one in others), default=0)
    if 0 < most < detail.memory_mib:
        yield _ailment(Kind.TOO_LARGE, vm, f"{gib(detail.memory_mib)}; the largest host has {gib(most)}")


def _in_cluster(vm: Vm, detail: VmDetail, cluster: Cluster, patient: Patient) -> Iterator[Ailment]:
    overrides = cluster.overrides_of(vm.moid)
    if cluster.ha_enabled and overrides.get(HA_RESTART) == "disabled":
        says = f"its restart priority in cluster {cluster.name} is Disabled"
        command = f"govc cluster.override.change -vm {path_of(vm)} -ha-restart-priority medium"
        yield _ailment(Kind.HA_OFF, vm, says, command)
    level = overrides.get("drs") or cluster.drs_behavior
    may_move = may_hot_migrate(patient.observed)
    is_bound = bool(detail.extra_config.get(AFFINITY_KEY))
    if cluster.drs_enabled and level == _MOVES and may_move and is_bound and not has_host_devices(detail):
        command = f"govc cluster.override.change -vm {path_of(vm)} -drs-mode manual"
        yield _ailment(Kind.DRS_MOVES, vm, f"cluster {cluster.name} is fully automated", command)


def _local_disks(patient: Patient) -> Iterator[Ailment]:
    names = {one.moid: one.name for one in patient.observed.datastores}
    for _, hosts in patient.clusters():
        if len(hosts) < 2:
            continue
        has = Counter(moid for host in hosts for moid in host.datastore_moids)
        moids = {host.moid for host in hosts}
        for vm, detail, host in patient.gpu_vms:
            local = [names[one] for one in detail.datastore_moids if has[one] == 1 and one in names]
            if host.moid in moids and local:
                yield _ailment(
                    Kind.LOCAL_DISK, vm, f"{listed(local)} on {host.name}", f"govc vm.info {path_of(vm)}"
                )


def _shared_devices(patient: Patient) -> Iterator[Ailment]:
    """Report each device that several VMs name by its address."""
    users: dict[tuple[str, str], list[Vm]] = {}
    for vm in patient.observed.vms:
        for device in vm.detail.passthrough if vm.detail is not None and not vm.is_template else ():
            if device.pci_id is not None:
                users.setdefault((vm.host_moid or "", device.pci_id), []).append(vm)
    for (moid, pci_id), vms in users.items():
        host = patient.observed.host_by_moid.get(moid)
        if len(vms) > 1 and host is not None:
            says = f"assigned to {listed(vm.name for vm in vms)}"
            command = f"govc device.ls -vm {path_of(vms[-1])}"
            yield Ailment(Kind.TWIN_DEVICE, f"gpu:{host.name}/{pci_id}", says, command)


def _macs(patient: Patient) -> Iterator[Ailment]:
    by_mac: dict[tuple[str, str], list[Vm]] = {}
    for vm in patient.observed.vms:
        for nic in vm.detail.nics if vm.detail is not None and not vm.is_template else ():
            if nic.mac:
                by_mac.setdefault((nic.mac.lower(), nic.network), []).append(vm)
    for (mac, _), vms in by_mac.items():
        if len(vms) > 1:
            says = f"{mac}, also used by {listed(vm.name for vm in vms[:-1])}"
            yield _ailment(Kind.MAC, vms[-1], says, f"govc device.info -vm {path_of(vms[-1])} ethernet-*")


def _rdma(patient: Patient) -> Iterator[Ailment]:
    """Report links of ATS chains that are known to be missing, and GPUs far from their VM's NIC."""
    by_name = {vm.name: vm for vm in patient.observed.vms}
    for host in patient.gpu_hosts:
        topology = patient.topologies.of(host)
        view = HostView(host=host, facts=patient.facts(host))
        nodes = {device.pci_id: device.numa_node for device in host.pci_devices}
        for placed in direct_pairs(host, topology, patient.observed):
            vm = by_name[placed.vm]
            links = ats_chain(placed, view, topology, ())
            bad = [one for one in links if one.state in (LinkState.OFF, LinkState.PENDING)]
            if bad:
                command = patient.type_("inventory", "-v", "--host", host.name)
                yield _ailment(Kind.ATS, vm, listed(f"{one.link}: {one.text}" for one in bad), command)
            nic = nodes.get(placed.nic)
            far = [gpu for gpu in placed.gpus if None not in (nic, nodes.get(gpu)) and nodes[gpu] != nic]
            if far:
                says = f"NIC {placed.nic} on node {nic}, GPU {listed(far)} on node {nodes[far[0]]}"
                yield _ailment(Kind.FAR, vm, says, patient.type_("inventory", "-v", "--host", host.name))


def _rules(patient: Patient) -> Iterator[Ailment]:
    """Report rules that keep VMs apart and are broken now, or cannot be met by the usable hosts."""
    for cluster, _ in patient.clusters():
        moids = set(cluster.host_moids)
        usable = [host for host in patient.observed.hosts if host.moid in moids and host.is_usable]
        for rule in cluster.rules:
            if rule.kind != "anti_affinity" or not rule.is_enabled:
                continue
            vms = [
                patient.observed.vm_by_moid[moid]
                for moid in rule.vm_moids
                if moid in patient.observed.vm_by_moid
            ]
            hosts = Counter(vm.host_moid for vm in vms if vm.is_on)
            command = f"govc cluster.rule.info -cluster {cluster.name} -name {rule.name}"
            subject = f"cluster:{cluster.name}"
            if len(vms) > len(usable):
                says = (
                    f"rule {rule.name} keeps {counted(len(vms), 'VM')} on separate hosts, but there are only "
                    f"{counted(len(usable), 'usable host')}"
                )
                yield Ailment(Kind.RULE, subject, says, command)
            elif any(count > 1 for count in hosts.values()):
                yield Ailment(Kind.RULE, subject, f"rule {rule.name}: its VMs share a host", command)
