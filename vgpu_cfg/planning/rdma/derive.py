"""Needs of hosts for the RDMA of the VMs that are to run on them (`prepare: from_vms`).

    passed through    ATS in the kernel, the NIC handed out; ATS in its firmware before that, since the host
                      cannot reach it afterwards. Trust and PFC are the guest's matter.
    virtual function  ATS likewise, enough virtual functions, trust and PFC in the host's driver
    PVRDMA            trust and PFC in the host's driver, the VMkernel NIC that PVRDMA talks through

A NIC that the host itself uses, or that a VM outside the plan names, is never chosen, unless a VM of the plan
names it by its address. Rules of the plan file come first and are only added to. Firmware is set if the host
still has the NIC and its shell, with NVIDIA's tools, reports the parameter: else it is set in the guest (see
`rdma.chain`).

The VMkernel NIC that PVRDMA talks through must be on the switch of the NIC's portgroup, whose only uplink is
the RDMA NIC; with teaming, or without any of it, the traffic falls back to TCP silently. Source: vSphere
Networking 8.0, Configure an ESXi Host for PVRDMA (GUID-4A5EBD44).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from vgpu_cfg.catalog.nic import load_nics
from vgpu_cfg.model.desired import (
    RDMA_MTU,
    DesiredHosts,
    DesiredNic,
    DesiredPlan,
    DesiredVm,
    asks_gpudirect,
    is_gpudirect,
    network_of,
)
from vgpu_cfg.model.observed.host_facts import FactGroup, HostSwitch
from vgpu_cfg.model.observed.inventory import Inventory, PciDevice
from vgpu_cfg.model.plan_file import HostNicEntry, NicMatch, PvrdmaEntry, RoceEntry, VmknicEntry
from vgpu_cfg.model.plan_values import NicUse
from vgpu_cfg.planning.capacity.host_capacity import read_functions
from vgpu_cfg.planning.capacity.nic_needs import NicKind, NicNeed, host_functions, is_matching
from vgpu_cfg.planning.estate.site import find_named
from vgpu_cfg.planning.host_settings.entry import HostView
from vgpu_cfg.planning.host_settings.match import nic_rules
from vgpu_cfg.planning.host_settings.nics.rdma import CORE
from vgpu_cfg.planning.host_settings.nics.uplinks import base_unread
from vgpu_cfg.planning.host_settings.nics.vmknics import network_name
from vgpu_cfg.planning.host_settings.resolved_host import ResolvedHost


@dataclass(frozen=True, slots=True)
class PvrdmaNeeds:
    """The additions to an entry: PVRDMA's settings, VMkernel NICs with their MTU, the switch's uplinks."""

    pvrdma: PvrdmaEntry | None = None
    vmknics: tuple[VmknicEntry, ...] = ()
    uplinks: tuple[str, ...] = ()


def pvrdma_nics(vm: DesiredVm) -> list[DesiredNic]:
    """Return a VM's paravirtual RDMA NICs."""
    return [nic for nic in vm.nics if nic.is_pvrdma]


def pvrdma_needs(
    entry: DesiredHosts,
    view: HostView,
    vms: Sequence[DesiredVm],
    desired: DesiredPlan,
    observed: Inventory,
) -> PvrdmaNeeds:
    """Return the needs of these VMs' paravirtual RDMA NICs on a host, as far as it has the parts."""
    nics = [nic for vm in vms for nic in pvrdma_nics(vm)]
    if not nics:
        return PvrdmaNeeds(vmknics=entry.vmknics)
    switches = {name: None for nic in nics for name in _switch_names(nic, desired, observed)}
    own = [one for one in view.facts.switches if one.name in switches and one.switch_uuid is not None]
    uplinks = tuple(dict.fromkeys(vmnic for one in own for vmnic in one.uplinks))
    vmknics = tuple(
        one.model_copy(update={"mtu": RDMA_MTU})
        if one.mtu is None and _is_on(one.network, switches, desired, observed)
        else one
        for one in entry.vmknics
    )
    if entry.pvrdma is not None:
        return PvrdmaNeeds(vmknics=vmknics, uplinks=uplinks)
    stated = next((one for one in vmknics if _is_on(one.network, switches, desired, observed)), None)
    if stated is not None:
        return PvrdmaNeeds(PvrdmaEntry(network=network_name(stated.network)), vmknics, uplinks)
    there = next(
        (one for one in view.facts.vmknics if _is_on(one.network, switches, desired, observed)), None
    )
    if there is None:
        return PvrdmaNeeds(vmknics=vmknics, uplinks=uplinks)
    if there.mtu < RDMA_MTU:
        vmknics = (*vmknics, VmknicEntry(network=there.network, mtu=RDMA_MTU))
    return PvrdmaNeeds(PvrdmaEntry(vmknic=there.device), vmknics, uplinks)


def switch_of(
    nic: DesiredNic, view: HostView, desired: DesiredPlan, observed: Inventory
) -> HostSwitch | None:
    """Return the distributed switch of a NIC's network as a host sees it, None where it has none."""
    names = _switch_names(nic, desired, observed)
    return next((one for one in view.facts.switches if one.name in names and one.switch_uuid), None)


def _switch_names(nic: DesiredNic, desired: DesiredPlan, observed: Inventory) -> tuple[str, ...]:
    """Name the distributed switch that a NIC's network is on, or is made on by the plan."""
    line = network_of(desired, nic)
    if line is not None and line.switch is not None:
        return (line.switch,)
    return _switches_of(nic.network or "", observed)


def _switches_of(network: str, observed: Inventory) -> tuple[str, ...]:
    uuids = {one.switch_uuid for one in find_named(network, observed.networks) if one.switch_uuid}
    return tuple(one.name for one in observed.facts.switches if one.uuid in uuids)


def _is_on(network: str, switches: dict[str, None], desired: DesiredPlan, observed: Inventory) -> bool:
    """Whether a network is a portgroup of one of the switches."""
    if not network:
        return False
    made = [
        one.switch
        for one in desired.networks
        if one.switch is not None and network_name(one.name) == network_name(network)
    ]
    names = made or _switches_of(network, observed)
    return any(name in switches for name in names)


ATS = "ATS_ENABLED"


def rdma_facts(vms: Sequence[DesiredVm]) -> frozenset[FactGroup]:
    """Return the facts to read of a host to check the RDMA path of such VMs."""
    groups: set[FactGroup] = set()
    if any(asks_gpudirect(vm) for vm in vms):
        groups |= {FactGroup.KERNEL, FactGroup.OPTIONS, FactGroup.SHELL_NICS}
    if any(nic.is_pvrdma for vm in vms for nic in vm.nics):
        groups |= {FactGroup.OPTIONS, FactGroup.MODULES}
    if any(True for _ in _needs(vms, NicKind.SRIOV)):
        groups.add(FactGroup.MODULES)
    return frozenset(groups)


def with_rdma_needs(
    entry: DesiredHosts,
    resolved: ResolvedHost,
    vms: Sequence[DesiredVm],
    desired: DesiredPlan,
    observed: Inventory,
) -> DesiredHosts:
    """Return the entry with the needs of RDMA VMs added; the entry itself if it has them."""
    if not vms or base_unread(resolved.view):
        return entry
    update: dict[str, object] = {}
    if entry.ats is None and any(asks_gpudirect(vm) for vm in vms):
        update["ats"] = True
    rules = _Rules(entry, resolved.view, _roce(desired))
    rules.take_whole(vms)
    rules.cut(vms, observed)
    wants = pvrdma_needs(entry, resolved.view, vms, desired, observed)
    for vmnic in wants.uplinks:
        rules.mark(vmnic)
    if wants.pvrdma is not None:
        update["pvrdma"] = wants.pvrdma
    if wants.vmknics != entry.vmknics:
        update["vmknics"] = wants.vmknics
    if rules.made:
        update["nics"] = (*rules.made.values(), *entry.nics)
    return entry.model_copy(update=update) if update else entry


def _roce(desired: DesiredPlan) -> RoceEntry:
    training = desired.training
    return (
        RoceEntry(dscp=training.roce.dscp, priority=training.roce.priority)
        if training is not None
        else RoceEntry()
    )


def need_of_nic(nic: DesiredNic) -> NicNeed | None:
    """Return the needs of a NIC with `rdma`; None for one that is no function."""
    if nic.function is None or nic.rdma is None:
        return None
    function = nic.function
    return NicNeed(
        NicKind(function.kind),
        function.pin,
        function.label,
        function.model,
        near_gpu=function.near_gpu,
        is_ethernet=True,
    )


@dataclass(slots=True)
class _Rules:
    """The rules made for single NICs of one host, by PCI address, each in place of the plan file's own."""

    entry: DesiredHosts
    view: HostView
    roce: RoceEntry
    made: dict[str, HostNicEntry] = field(default_factory=dict)

    def take_whole(self, vms: Sequence[DesiredVm]) -> None:
        """Hand NICs out, as many as the VMs need; those that are out already count first."""
        taken: dict[str, bool] = {}
        for nic, need in _needs(vms, NicKind.PASSTHROUGH):
            pci = self._choose(need, taken)
            if pci is not None:
                taken[pci.pci_id] = is_gpudirect(nic)
        for pci_id, has_ats in taken.items():
            pci = self.view.device(pci_id)
            is_out = pci is not None and pci.passthrough_active
            self._add(pci_id, has_ats=has_ats and not is_out, use=NicUse.PASSTHROUGH)

    def cut(self, vms: Sequence[DesiredVm], observed: Inventory) -> None:
        """Cut NICs into virtual functions, enough for the VMs and for present holders."""
        names = {vm.name for vm in vms}
        there = observed.vms_by_host.get(self.view.host.moid, ())
        others = [vm for vm in there if vm.name not in names]
        pools = {pool.pci.pci_id: pool for pool in read_functions(self.view.host, others, observed.facts)}
        count: Counter[str] = Counter()
        has_ats: dict[str, bool] = {}
        for nic, need in _needs(vms, NicKind.SRIOV):
            pci = self._choose(need, {}, count)
            if pci is not None:
                count[pci.pci_id] += 1
                has_ats[pci.pci_id] = has_ats.get(pci.pci_id, False) or is_gpudirect(nic)
        for pci_id, wanted in count.items():
            pci, pool = self._function(pci_id), pools.get(pci_id)
            held = len(pool.holders) if pool is not None else 0
            sriov = pci.sriov if pci is not None else None
            vfs = max(wanted + held, sriov.requested if sriov is not None else 0)
            brings = sriov is None or not sriov.is_capable or sriov.most < vfs
            self._add(pci_id, has_ats=has_ats[pci_id], use=NicUse.SRIOV, vfs=vfs, brings_functions=brings)

    def mark(self, vmnic: str) -> None:
        """Have the host's driver trust and protect what an uplink of PVRDMA carries."""
        nic = self.view.nic(vmnic)
        if nic is None or nic.driver not in ("", CORE):
            return
        stated = self._stated(nic.pci_id)
        if stated is None or stated.roce is None:
            base = stated if stated is not None else HostNicEntry()
            match = NicMatch(vmnic=vmnic)
            self.made[nic.pci_id] = base.model_copy(update={"match": match, "roce": self.roce})

    def _add(
        self,
        pci_id: str,
        *,
        has_ats: bool,
        use: NicUse,
        vfs: int | None = None,
        brings_functions: bool = False,
    ) -> None:
        stated = self._stated(pci_id)
        base = stated if stated is not None else HostNicEntry()
        if base.use is not None and base.use is not use:
            return
        update: dict[str, object] = {"match": self._match(pci_id), "use": use}
        firmware: dict[str, str] = {}
        if has_ats and self._has_parameter(pci_id, ATS):
            firmware[ATS] = "True"
        if use is NicUse.SRIOV:
            update["vfs"] = max(base.vfs or 0, vfs or 0)
            if base.roce is None:
                update["roce"] = self.roce
            if brings_functions and self._has_parameter(pci_id, "NUM_OF_VFS"):
                firmware |= {"SRIOV_EN": "True", "NUM_OF_VFS": str(update["vfs"])}
        update["firmware"] = {**firmware, **base.firmware}
        self.made[pci_id] = base.model_copy(update=update)

    def _has_parameter(self, pci_id: str, name: str) -> bool:
        """Whether the host can set a parameter of a NIC's firmware, as far as its shell was asked."""
        shell = self.view.facts.shell
        if shell is None:
            return self.entry.access.ssh != "off"
        return name in shell.firmware.get(pci_id, {})

    def _match(self, pci_id: str) -> NicMatch:
        """Name the NIC as a rule for a NIC in use by the host must: by its vmnic, if it has one."""
        nic = self.view.nic(pci_id)
        if nic is not None and nic.device:
            return NicMatch(vmnic=nic.device)
        return NicMatch(pci_id=pci_id)

    def _stated(self, pci_id: str) -> HostNicEntry | None:
        if pci_id in self.made:
            return self.made[pci_id]
        return next((rule for nic, rule in nic_rules(self.entry, self.view) if nic.pci_id == pci_id), None)

    def _function(self, pci_id: str) -> PciDevice | None:
        return next((one for one in host_functions(self.view.host) if one.pci_id == pci_id), None)

    def _choose(
        self, need: NicNeed, taken: dict[str, bool], cut: Counter[str] | None = None
    ) -> PciDevice | None:
        """Return the function that suits a need best: in the wanted state, close to idle GPUs, fast."""
        options = [
            pci
            for pci in host_functions(self.view.host)
            if pci.pci_id not in taken and is_matching(pci, need) and self._is_free(pci, need, cut)
        ]
        gpus = Counter(gpu.numa_node for gpu in self.view.host.gpus if not gpu.vm_moids)
        used = Counter(one.numa_node for one in host_functions(self.view.host) if one.pci_id in taken)

        def price(pci: PciDevice) -> tuple[bool, bool, int, float, str]:
            is_ready = pci.passthrough_active or pci.passthrough_enabled
            if cut is not None:
                is_ready = pci.sriov is not None and pci.sriov.requested > cut[pci.pci_id]
            here = gpus[pci.numa_node]
            crowd = cut[pci.pci_id] if cut is not None else used[pci.numa_node]
            nic = self.view.nic(pci.pci_id)
            speed = (nic.speed_mbps or 0) if nic is not None else 0
            return (need.near_gpu and not here, not is_ready, -speed, crowd / max(1, here), pci.pci_id)

        return min(options, key=price, default=None)

    def _is_free(self, pci: PciDevice, need: NicNeed, cut: Counter[str] | None) -> bool:
        """Whether a function may be chosen: an unused RDMA NIC, or one that the VM names itself."""
        if not load_nics().names_of(pci.vendor_id, pci.device_id) or self.view.holders.get(pci.pci_id):
            return False
        stated = self._stated(pci.pci_id)
        wanted = NicUse.PASSTHROUGH if cut is None else NicUse.SRIOV
        if stated is not None and stated.use is not None:
            return stated.use is wanted
        if need.pin is not None:
            return True
        nic = self.view.nic(pci.pci_id)
        is_used = nic is not None and self.view.facts.uplink_of(nic.device) is not None
        if cut is None:
            return not is_used and (pci.passthrough_active or not (pci.sriov and pci.sriov.is_active))
        has_functions = pci.sriov is not None and pci.sriov.is_active
        return not pci.passthrough_active and (has_functions or not is_used)


def _needs(vms: Sequence[DesiredVm], kind: NicKind) -> Iterator[tuple[DesiredNic, NicNeed]]:
    """Yield the NICs of one kind with their needs; those that name a function first."""
    found = [
        (nic, need)
        for vm in vms
        for nic in vm.nics
        if (need := need_of_nic(nic)) is not None and need.kind is kind
    ]
    yield from sorted(found, key=lambda one: one[1].pin is None)
