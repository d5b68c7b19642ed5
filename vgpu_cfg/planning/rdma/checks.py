"""Obstacles to the RDMA of VMs: incomplete chains, GPUs without a NIC, PVRDMA.

Sources: NVIDIA AI Enterprise 5.0 User Guide, chapter 4; vSphere Networking 8.0, PVRDMA (GUID-4A5EBD44).
"""

from __future__ import annotations

from collections.abc import Sequence

from vgpu_cfg.changes.change import Change, ManualStep
from vgpu_cfg.changes.plan import Hindrance
from vgpu_cfg.changes.values import Impact, Placement, Subject
from vgpu_cfg.model.desired import DesiredPlan, DesiredVm, asks_gpudirect, is_gpudirect, mtu_of, network_of
from vgpu_cfg.model.observed.host_facts import FactGroup, HostFacts
from vgpu_cfg.model.observed.inventory import Host, Inventory
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.capacity.topology import Topologies
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.host_settings.entry import HostView
from vgpu_cfg.planning.host_settings.nics.rdma import OPTION, OPTION_KEY
from vgpu_cfg.planning.networks.compare import mtu_of_switch
from vgpu_cfg.planning.rdma.chain import RESTART, ChainLink, LinkState, Placed, ats_chain, firmware_in_guest
from vgpu_cfg.planning.rdma.derive import pvrdma_nics, switch_of
from vgpu_cfg.planning.vms.lookup.guest_system import is_linux
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm
from vgpu_cfg.planning.vms.lookup.wanted import PVRDMA, WantedNic

_STATES = {
    LinkState.ON: "on",
    LinkState.OFF: "OFF",
    LinkState.PENDING: "pending",
    LinkState.UNKNOWN: "unknown",
    LinkState.SET_BY_PLAN: "set by this plan",
}


class RdmaChecks:
    """Checks the VMs of a plan that ask for RDMA; `observed` is the inventory as it was read."""

    def __init__(
        self, desired: DesiredPlan, observed: Inventory, topologies: Topologies, findings: Findings
    ) -> None:
        self._desired, self._observed = desired, observed
        self._topologies, self._findings = topologies, findings

    def assess(
        self, resolved_vms: Sequence[ResolvedVm], placements: Sequence[Placement], changes: Sequence[Change]
    ) -> list[ManualStep]:
        """Report on every VM that asks, and return the restarts of hosts that are manual steps."""
        places = {one.vm: one for one in placements}
        waiting: dict[str, list[str]] = {}
        for resolved in resolved_vms:
            if not any(nic.rdma is not None or nic.is_pvrdma for nic in resolved.desired.nics):
                continue
            self._check_mtus(resolved.desired)
            self._check_pairs(resolved)
            self._check_fractions(resolved)
            view = self._view(resolved.host) if resolved.host is not None else None
            self._check_pvrdma(resolved, view, changes)
            place = places.get(resolved.name)
            if view is not None and place is not None and resolved.nics is not None:
                self._check_chain(resolved, place, view, changes, waiting)
        return [self._restart_step(moid, names) for moid, names in sorted(waiting.items())]

    def _view(self, host: Host) -> HostView:
        """Return the host as it was read: one that the plan prepares shows its future state there."""
        as_read = self._observed.host_by_moid.get(host.moid, host)
        facts = self._observed.facts.hosts.get(host.moid, HostFacts())
        return HostView(host=as_read, facts=facts)

    # ----------------------------------------------------------------- the VM

    def _check_pairs(self, resolved: ResolvedVm) -> None:
        """Compare how many GPUs and NICs for GPUDirect a VM has: each GPU is to have its own."""
        vm = resolved.desired
        nics = sum(is_gpudirect(nic) for nic in vm.nics)
        if not nics or len(resolved.gpus) in (0, nics):
            return
        message = (
            f"has {len(resolved.gpus)} GPUs and {nics} NICs for GPUDirect, but each GPU should have its "
            "own NIC"
        )
        if nics == 1:
            message = (
                f"its {len(resolved.gpus)} GPUs share one NIC for GPUDirect, but each should have its own"
            )
        remedy = "use one GPU and one NIC on the same NUMA node per VM, or as many NICs as GPUs (`count`)"
        self._findings.add_vm(Code.RDMA_UNPAIRED, vm, message, remedy)

    def _check_fractions(self, resolved: ResolvedVm) -> None:
        """Report GPUDirect RDMA for a vGPU that is a part of a GPU: documents differ on its support.

        Infra 6 names all C types of boards with SR-IOV, Infra 8 and 9 "only a subset of vGPUs" without names.
        """
        if not asks_gpudirect(resolved.desired) or resolved.fit is None:
            return
        parts = dict.fromkeys(need.name for need in resolved.fit.variant if not need.is_full)
        if parts:
            message = (
                f"the VM uses fractions of a GPU ({listed(parts)}); NVIDIA supports GPUDirect RDMA only for "
                "certain vGPUs, and does not list these"
            )
            remedy = "use a full-GPU profile, or measure the bandwidth from GPU memory with `vgpu-cfg verify`"
            self._findings.add_vm(Code.GPUDIRECT_ON_FRACTION, resolved.desired, message, remedy)

    def _check_mtus(self, vm: DesiredVm) -> None:
        """Complain of NICs whose MTU is above that of the switch which they are on."""
        for nic in vm.nics:
            network = network_of(self._desired, nic)
            is_whole = nic.function is not None and nic.function.kind == "passthrough"
            is_made = network is not None and network.switch is not None
            mtu = mtu_of(nic, network)
            if nic.rdma is None or mtu is None or is_whole or is_made or nic.network is None:
                continue
            found = mtu_of_switch(nic.network, self._observed)
            if found is not None and found < mtu:
                message = f"a NIC on {nic.network} requires MTU {mtu}, but its switch has {found}"
                remedy = (
                    f"add the switch to `networks` to set its MTU to {mtu}, or set `mtu: {found}` on the "
                    "network"
                )
                self._findings.add_vm(Code.MTU_TOO_SMALL, vm, message, remedy)

    # ----------------------------------------------------------------- PVRDMA

    def _check_pvrdma(self, resolved: ResolvedVm, view: HostView | None, changes: Sequence[Change]) -> None:
        vm = resolved.desired
        nics = pvrdma_nics(vm)
        if not nics:
            return
        standard = [
            nic.backing.network_name
            for nic in resolved.nics or ()
            if isinstance(nic, WantedNic) and nic.kind == PVRDMA and nic.backing.portgroup_key is None
        ]
        if standard:
            message = (
                f"a PVRDMA NIC requires a distributed port group, not a standard one: {listed(standard)}"
            )
            remedy = "specify a port group on a distributed switch, or set type: vmxnet3"
            self._findings.refuse_vm(Code.PVRDMA_NOT_DISTRIBUTED, vm, message, remedy)
        guest_id = resolved.base.guest_id
        if guest_id and ("64" not in guest_id or is_linux(guest_id) is False):
            message = f"the guest OS is {guest_id}, but PVRDMA supports only 64-bit Linux"
            self._findings.refuse_vm(
                Code.PVRDMA_GUEST, vm, message, "set type: vmxnet3, or use another template"
            )
        if resolved.gpus:
            message = "a PVRDMA NIC can access only guest memory, so GPUDirect and ATS are not available"
            remedy = (
                "to transfer data directly to and from GPU memory, set type: passthrough or sriov with "
                "`rdma: gpudirect`"
            )
            self._findings.add_vm(Code.PVRDMA_NO_GPUDIRECT, vm, message, remedy)
        if view is None or standard:
            return
        for nic in nics:
            switch = switch_of(nic, view, self._desired, self._observed)
            if switch is not None and len(switch.uplinks) != 1:
                has = f"the uplinks {listed(switch.uplinks)}" if switch.uplinks else "no uplinks"
                message = (
                    f"{switch.name} has {has} on {view.host.name}, but PVRDMA requires the RDMA NIC to be "
                    f"the only uplink"
                )
                remedy = "make the RDMA NIC the only uplink; otherwise, traffic silently falls back to TCP"
                self._findings.add_vm(Code.PVRDMA_UPLINKS, vm, message, remedy)
        self._check_vmknic(vm, view, changes)

    def _check_vmknic(self, vm: DesiredVm, view: HostView, changes: Sequence[Change]) -> None:
        is_set = any(
            change.host_moid == view.host.moid
            and any(target.setting == OPTION_KEY and target.value for target in change.writes)
            for change in changes
        )
        if is_set or view.facts.options.get(OPTION):
            return
        is_read = FactGroup.OPTIONS in view.facts.groups and FactGroup.OPTIONS not in view.facts.unread
        reported = "does not specify one" if is_read else "could not be read"
        message = f"PVRDMA requires a VMkernel NIC on {view.host.name}, but {OPTION} {reported}"
        remedy = (
            "under `hosts`, set `vmknics` on the NIC's switch and `pvrdma: {network: …}` for the host"
            if is_read
            else f"add {view.host.name} to `hosts`, or make sure that {OPTION} is set"
        )
        self._findings.add_vm(Code.PVRDMA_NO_VMKNIC, vm, message, remedy)

    # -------------------------------------------------------------- the chain

    def _check_chain(
        self,
        resolved: ResolvedVm,
        place: Placement,
        view: HostView,
        changes: Sequence[Change],
        waiting: dict[str, list[str]],
    ) -> None:
        functions = [nic for nic in resolved.desired.nics if nic.function is not None]
        for nic, pci_id in zip(functions, place.nic_pci_ids, strict=False):
            if not is_gpudirect(nic) or not pci_id or not place.gpu_pci_ids:
                continue
            placed = Placed(
                resolved.name,
                pci_id,
                place.gpu_pci_ids,
                resolved.base.extra_config,
                resolved.desired.guest is not None,
            )
            links = ats_chain(placed, view, self._topologies.of(view.host), changes)
            self._report(resolved.desired, pci_id, view.host, links)
            is_in_guest = firmware_in_guest(resolved.base.extra_config) is not None
            if is_in_guest and any(one.link == RESTART and one.state is LinkState.PENDING for one in links):
                step = self._restart_step(view.host.moid, [])
                if step.id not in view.facts.done:
                    names = waiting.setdefault(view.host.moid, [])
                    names += [resolved.name] if resolved.name not in names else []

    def _report(self, vm: DesiredVm, pci_id: str, host: Host, links: Sequence[ChainLink]) -> None:
        lacking = [one for one in links if one.state in (LinkState.OFF, LinkState.PENDING)]
        open_ones = [one for one in links if one.state is LinkState.UNKNOWN]
        if lacking:
            states = ", ".join(f"{one.link} {_STATES[one.state]}" for one in links)
            message = f"the ATS chain of NIC {pci_id} on {host.name} is incomplete ({states})"
            remedies = dict.fromkeys(one.remedy for one in lacking if one.remedy)
            rows = tuple(Hindrance(subject=one.link, reason=one.text) for one in lacking)
            self._findings.add_vm(Code.ATS_INCOMPLETE, vm, message, "; ".join(remedies), hindrances=rows)
        elif open_ones:
            why = "; ".join(one.text for one in open_ones if one.link != RESTART) or open_ones[0].text
            message = f"the ATS chain of NIC {pci_id} on {host.name} cannot be fully determined: {why}"
            remedy = "`vgpu-cfg verify` checks it in the guest: `ATSCtl: Enable+` in lspci"
            self._findings.add_vm(Code.ATS_UNPROVEN, vm, message, remedy)

    def _restart_step(self, moid: str, names: Sequence[str]) -> ManualStep:
        """Make the manual step that restarts a host for the firmware which its guests have set."""
        host = self._observed.host_by_moid[moid]
        guests = listed(sorted(names), shown=8)
        return ManualStep(
            id=restart_for_ats(host.name),
            subject=Subject(kind="host", name=host.name, moid=moid),
            text=(
                f"The guest in {guests} has set ATS_ENABLED in the NIC firmware. Restarting the VM does "
                f"not activate it: shut down {guests}, restart {host.name}, power the VMs on, and check in "
                "the guest. If Current still shows False, power-cycle the host."
            ),
            proof="in the guest, `mlxconfig -d DEVICE -e query ATS_ENABLED` shows True(1) under Current",
            commands=restart_commands(host.name),
            impact=Impact.HOST_REBOOT,
            host_moid=moid,
        )


def restart_for_ats(host: str) -> str:
    """Return the id of the step that restarts a host for its ATS."""
    return f"restart {host} for ATS"


def restart_commands(host: str) -> tuple[str, ...]:
    """Return the commands of a manual restart."""
    return (
        f"govc host.maintenance.enter {host}",
        f"govc host.shutdown -r -f=false {host}",
        f"govc host.maintenance.exit {host}",
    )
