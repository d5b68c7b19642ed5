"""Checks of a VM's NICs that are functions: why a host cannot give them, and their cost.

Sources: vSphere Networking (SR-IOV: full reservation, its exclusions), NVIDIA AI Enterprise 5.0 User Guide,
chapter 4 (GPU and NIC of one NUMA node).

Belief: virtual-function-portgroup.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from vgpu_cfg.model.desired import DesiredVm
from vgpu_cfg.model.observed.inventory import Host
from vgpu_cfg.model.wording import listed, node_list
from vgpu_cfg.planning.capacity.nic_needs import (
    NicKind,
    NicNeed,
    NicStock,
    far_nics,
    holders_of,
    host_functions,
    infiniband_ports,
    is_matching,
    nodes_of,
    refuse_nics,
)
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.vms.lookup.wanted import PlannedFunction

TO_ETHERNET = (
    "use an Ethernet port, or set `firmware: {LINK_TYPE_P1: ETH}` in a NIC rule under `hosts` with the "
    "port's `match: {pci_id: …}` (on the host: `mlxconfig -d PCI set LINK_TYPE_P1=2`, then reboot); its "
    "cable must be connected to an Ethernet switch, and VMs that use InfiniBand on it lose that connection"
)

NIC_REMEDIES = {
    Code.NIC_INFINIBAND: TO_ETHERNET,
    Code.NIC_ABSENT: "run `vgpu-cfg inventory` to list the NICs with their addresses and labels",
    Code.NIC_NOT_READY: "enable passthrough with a rule under `hosts`: nics: [{match: {vmnic: NAME}, use: "
    "passthrough}], or use: sriov with `vfs`",
    Code.NIC_TAKEN: "free a NIC, make more NICs available, or specify more hosts",
    Code.NIC_FAR: "free a function near the GPU, or set `near: any`",
    Code.NIC_HOSTS_OWN: "use another NIC, or remove this one from its switch first",
}


def explain_nics(
    needs: Sequence[NicNeed], stock: NicStock, gpu_nodes: Sequence[int | None]
) -> tuple[Code, str] | None:
    """Say why a host cannot give these functions, with who holds what; None where it can."""
    code = refuse_nics(needs, stock, gpu_nodes)
    match code:
        case None:
            return None
        case Code.NIC_ABSENT:
            missing = [need for need in needs if not _matching(need, stock.capacity.host)]
            return code, f"does not have {listed(dict.fromkeys(need.of for need in missing))}"
        case Code.NIC_INFINIBAND:
            host = stock.capacity.host
            return code, explain_infiniband([one for need in needs for one in infiniband_ports(need, host)])
        case Code.NIC_NOT_READY:
            return _explain_not_ready(needs, stock)
        case Code.NIC_FAR:
            held = _held(needs, stock, set(gpu_nodes))
            return code, f"none is free on the GPU's NUMA node {_known(gpu_nodes)}{held}"
        case _:
            return Code.NIC_TAKEN, f"no free function{_held(needs, stock)}"


def explain_infiniband(ports: Sequence[str]) -> str:
    """Say which ports cannot serve, by PCI address: function 0 is port 1."""
    told = listed((f"{pci_id} (port {int(pci_id[-1]) + 1})" for pci_id in dict.fromkeys(ports)), shown=6)
    return f"the link type of {told} is InfiniBand, but RoCE and this plan's networks require Ethernet"


def check_functions(
    vm: DesiredVm,
    needs: Sequence[NicNeed],
    chosen: Sequence[str],
    stock: NicStock,
    gpu_nodes: Sequence[int | None],
    findings: Findings,
    possible: Collection[int | None] = (),
) -> None:
    """Check the functions that a VM was given on a host; `stock` is as it will be.

    `possible` are the nodes of every GPU that ESXi could choose for it. A function named by its address that
    is far from the GPUs is reported by `check_nics_near`, which knows the PCIe tree as well.
    """
    host = stock.capacity.host
    is_apart = far_nics(needs, chosen, stock, gpu_nodes)
    named = {need.pin for need in needs if need.pin is not None}
    far = tuple(pci_id for pci_id in is_apart if pci_id not in named)
    if far:
        nodes = nodes_of(stock)
        apart = listed(f"{pci_id} (node {nodes[pci_id]})" for pci_id in dict.fromkeys(far))
        better = _better(needs, chosen, far, stock, gpu_nodes)
        message = (
            f"its GPU is on NUMA node {_known(gpu_nodes)} of {host.name}, but its NIC is on another node: "
            f"{apart}; {better}"
        )
        remedy = "free a function near the GPU, specify more hosts, or set `near: any`"
        findings.add_vm(Code.NIC_FAR, vm, message, remedy)
    elif not (vm.gpus and all(gpu.group for gpu in vm.gpus)) and (
        elsewhere := {node for node in possible if node is not None} - set(gpu_nodes)
    ):
        near_ones = [pci_id for need, pci_id in zip(needs, chosen, strict=True) if need.near_gpu]
        near_ones = [pci_id for pci_id in near_ones if pci_id not in is_apart]
        if near_ones:
            message = (
                f"ESXi selects its GPU and may choose one on NUMA node "
                f"{node_list(sorted(elsewhere))}, away from its "
                f"NIC {listed(dict.fromkeys(near_ones))}"
            )
            remedy = (
                "after it starts, check with `vgpu-cfg inventory`; to choose the GPU yourself, use "
                "GPU passthrough"
            )
            findings.add_vm(Code.ASSIGNED_NODE_OPEN, vm, message, remedy)
    loose = _assignable(vm.name, needs, stock) - {None, *gpu_nodes}
    if loose and gpu_nodes and None not in gpu_nodes:
        message = f"ESXi may assign a NIC on NUMA node {_known(loose)}, but its GPU is on {_known(gpu_nodes)}"
        remedy = "use different labels for the NICs on each node, or select one with `pin`"
        findings.add_vm(Code.ASSIGNED_NODE_OPEN, vm, message, remedy)
    pools = {pool.pci.pci_id: pool for pool in stock.capacity.functions}
    for need, pci_id in zip(needs, chosen, strict=True):
        pool = pools.get(pci_id)
        is_off = need.network is not None and pool is not None and pool.networks is not None
        if pool is not None and is_off and need.network not in (pool.networks or ()):
            name = pool.vmnic or pci_id
            message = (
                f"{name} on {host.name} is not an uplink of the switch that its virtual function's network "
                "uses"
            )
            remedy = "specify a network on the NIC's own switch, or another NIC"
            findings.add_vm(Code.SRIOV_OFF_SWITCH, vm, message, remedy)


def check_bound(vm: DesiredVm, plans: Sequence[PlannedFunction], host: Host, findings: Findings) -> None:
    """Say what functions of NICs rule out for a VM."""
    fixed = [
        plan.device.pci_id
        for plan in plans
        if plan.device is not None and plan.device.kind == "new_passthrough"
    ]
    virtual = [
        plan.device.function
        for plan in plans
        if plan.device is not None and plan.device.kind == "new_sriov_nic"
    ]
    if fixed:
        message = (
            f"bound to NIC {', '.join(fixed)} on {host.name}, which prevents vMotion, HA restarts and live "
            f"snapshots"
        )
        remedy = "to allow HA restarts, use a device label (Dynamic DirectPath)"
        findings.add_vm(Code.FIXED_PASSTHROUGH, vm, message, remedy)
        if host.system_id is None:
            message = f"the system ID of {host.name}, which fixed passthrough requires, is unknown"
            remedy = "grant the account read access to the host's devices"
            findings.refuse_vm(Code.SYSTEM_ID_UNKNOWN, vm, message, remedy)
    if virtual:
        message = (
            f"uses a virtual function of {', '.join(dict.fromkeys(virtual))} on {host.name}, which "
            f"prevents vMotion, HA restarts and live snapshots"
        )
        findings.add_vm(Code.SRIOV_TIES_VM, vm, message, "vmxnet3 NICs support these features, but not RDMA")


def _assignable(vm: str, needs: Iterable[NicNeed], stock: NicStock) -> set[int | None]:
    """Return the nodes of the NICs that ESXi could assign to a VM that asks for them by label.

    Empty where it asks for all of them.
    """
    requested = [need for need in needs if need.label and need.pin is None and need.near_gpu]
    free = [
        slot.pci
        for slot in stock.capacity.slots
        if slot.pci.passthrough_active and stock.held.get(slot.pci.pci_id, vm) == vm
        if any(is_matching(slot.pci, need) for need in requested)
    ]
    return {pci.numa_node for pci in free} if len(free) > len(requested) else set()


def _matching(need: NicNeed, host: Host) -> list[str]:
    return [pci.pci_id for pci in host_functions(host) if is_matching(pci, need)]


def _explain_not_ready(needs: Sequence[NicNeed], stock: NicStock) -> tuple[Code, str]:
    """Distinguish a NIC that the host uses itself from one that has not been handed out."""
    host = stock.capacity.host
    vmnics = {nic.pci_id: nic.device for nic in host.nics}
    for need in needs:
        if need.kind is NicKind.SRIOV:
            if not any(pool.total and is_matching(pool.pci, need) for pool in stock.capacity.functions):
                return (
                    Code.NIC_NOT_READY,
                    f"no virtual functions on {listed(_matching(need, host), shown=6)}",
                )
            continue
        matching = [pci for pci in host_functions(host) if is_matching(pci, need)]
        if any(pci.passthrough_active for pci in matching):
            continue
        for pci in matching:
            vmnic = vmnics.get(pci.pci_id, "")
            if need.pin is not None and vmnic in stock.capacity.uplinks:
                words = (
                    f"the host itself uses {pci.pci_id}: {vmnic} is an uplink of "
                    f"{stock.capacity.uplinks[vmnic]}"
                )
                return Code.NIC_HOSTS_OWN, words
        names = listed((_called(pci.pci_id, vmnics) for pci in matching), shown=6)
        waits = listed(pci.pci_id for pci in matching if pci.passthrough_enabled)
        reported = f"; {waits} will be available after a restart" if waits else ""
        return Code.NIC_NOT_READY, f"{names}: not in passthrough mode{reported}"
    return Code.NIC_NOT_READY, "none of its NICs are in passthrough mode"


def _called(pci_id: str, vmnics: dict[str, str]) -> str:
    return f"{pci_id} ({vmnics[pci_id]})" if vmnics.get(pci_id) else pci_id


def _better(
    needs: Sequence[NicNeed],
    chosen: Sequence[str],
    far: Sequence[str],
    stock: NicStock,
    gpu_nodes: Iterable[int | None],
) -> str:
    """Name the functions that would be near, and their holders."""
    near = set(gpu_nodes)
    requested = [need for need, pci_id in zip(needs, chosen, strict=True) if pci_id in far]
    nodes = nodes_of(stock)
    good = dict.fromkeys(
        pci_id
        for need in requested
        for pci_id in _matching(need, stock.capacity.host)
        if nodes[pci_id] in near
    )
    if not good:
        return "the host has no NIC on the GPU's node"
    held = {pci_id: names for need in requested for pci_id, names in holders_of(need, stock).items()}
    return "nearby: " + listed(
        f"{pci_id} (used by {listed(dict.fromkeys(held[pci_id]))})" if held.get(pci_id) else pci_id
        for pci_id in good
    )


def _known(nodes: Iterable[int | None]) -> str:
    """List the known nodes, each once."""
    return node_list(node for node in dict.fromkeys(nodes) if node is not None)


def _held(needs: Iterable[NicNeed], stock: NicStock, near: set[int | None] | None = None) -> str:
    """Say who holds the functions that would do, or those of them on the nodes `near`."""
    nodes = nodes_of(stock)
    reported = dict.fromkeys(
        f"{pci_id} by {listed(dict.fromkeys(names))}"
        for need in needs
        for pci_id, names in holders_of(need, stock).items()
        if names and (near is None or nodes[pci_id] in near)
    )
    return f": {listed(reported, shown=8)}" if reported else ""
