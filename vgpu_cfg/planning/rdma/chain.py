"""VMs that have RDMA NICs and GPUs together, and the completeness of their ATS chain.

Its links: host kernel, VM options, NIC firmware, restart, path. With ATS a GPU and a NIC communicate through
their switch. If one link is missing everything still works, but over the root complex and at about half the
bandwidth, without any report: the chain is all or nothing. If neither vCenter nor the host's shell reports a
link, `vgpu-cfg verify` proves the whole in the guest. Source: NVIDIA AI Enterprise 5.0 User Guide, chapter 4.

Belief: ats-on-virtual-functions, gpudirect-over-two-root-complexes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.changes.change import Change
from vgpu_cfg.model.guests.guest import REPORT_KEY, GuestReport, ModuleState
from vgpu_cfg.model.observed.inventory import Host, Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.wording import is_at_least, listed
from vgpu_cfg.planning.capacity.host_capacity import SRIOV
from vgpu_cfg.planning.capacity.topology import Topologies, Topology
from vgpu_cfg.planning.host_settings.entry import HostView, Reading
from vgpu_cfg.planning.host_settings.kernel import ON
from vgpu_cfg.planning.host_settings.nics.nic_firmware import NIC_FIRMWARE, is_same_word
from vgpu_cfg.planning.host_settings.table import setting
from vgpu_cfg.planning.rdma.derive import ATS
from vgpu_cfg.planning.vms.settings.extra_config_rows import P2P_KEYS

KERNEL, OPTIONS, FIRMWARE, RESTART, PATH = "kernel", "vm options", "nic firmware", "restart", "path"

_ON_BY_DEFAULT = (7, 0, 3)
_IN_GUEST = "nic-firmware"
"""The module that sets firmware parameters in a guest."""


class LinkState(StrEnum):
    """The known state of one link."""

    ON = "on"
    OFF = "off"
    PENDING = "pending"
    """Set, and not in force yet."""
    UNKNOWN = "unknown"
    SET_BY_PLAN = "set_by_plan"
    """Not so now, and so once this plan is carried out."""


@dataclass(frozen=True, slots=True)
class ChainLink:
    """One link with its state and, in words, why; `remedy` is the way to get it, if the plan does not."""

    link: str
    state: LinkState
    text: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Placed:
    """A VM's NIC for GPUDirect on its host: the function `nic`, the GPUs, the extraConfig that the VM has.

    `has_guest` is whether the plan sets its guest up.
    """

    vm: str
    nic: str
    gpus: tuple[str, ...]
    extra_config: Mapping[str, str]
    has_guest: bool = False


def ats_chain(
    placed: Placed, view: HostView, topology: Topology, changes: Iterable[Change]
) -> tuple[ChainLink, ...]:
    """Return the links of one NIC's chain, from the host's kernel to the way between GPU and NIC.

    `view` is the host as it was read, `changes` are those of the plan.
    """
    changes = list(changes)
    host = view.host.moid
    reported = {
        target.id: target.value for change in changes if change.host_moid == host for target in change.brings
    }
    restarts = any(change.host_moid == host and change.restarts_host for change in changes)
    kernel = _kernel(view, reported)
    firmware = _firmware(placed, view, reported)
    return (
        kernel,
        _options(placed, changes),
        firmware,
        _restart(placed, kernel, firmware, restarts=restarts),
        _path(placed, topology),
    )


def _kernel(view: HostView, reported: Mapping[str, str]) -> ChainLink:
    ats = setting("ats")
    reading = ats.read(view, "")
    if reported.get("ats") == ON:
        return ChainLink(KERNEL, LinkState.SET_BY_PLAN, "the plan sets the host's atsSupport")
    if not reading.unread:
        return _read_link(
            KERNEL,
            reading,
            "the host's atsSupport",
            is_on=reading.configured == ON,
            remedy="set `ats: true` under `hosts`",
        )
    if is_at_least(view.host.version, _ON_BY_DEFAULT) and view.host.version:
        return ChainLink(
            KERNEL,
            LinkState.UNKNOWN,
            "the host's atsSupport could not be read; it is on by default since ESXi 7.0 U3",
        )
    return ChainLink(KERNEL, LinkState.UNKNOWN, f"the host's atsSupport is unknown: {reading.unread}")


def _read_link(link: str, reading: Reading, what: str, *, is_on: bool, remedy: str) -> ChainLink:
    if not is_on:
        return ChainLink(link, LinkState.OFF, f"{what} is {reading.configured}", remedy)
    if reading.runtime is not None and not is_same_word(reading.configured or "", reading.runtime):
        return ChainLink(link, LinkState.PENDING, f"{what} is set, but {reading.runtime} is still active")
    return ChainLink(link, LinkState.ON, f"{what} is {reading.configured}")


def _options(placed: Placed, changes: Sequence[Change]) -> ChainLink:
    wanted = {key.casefold() for key in P2P_KEYS}
    now = {key.casefold() for key, value in placed.extra_config.items() if value.upper() == "TRUE"} & wanted
    then = now | {
        key.casefold()
        for change in changes
        if change.subject.kind == "vm" and change.subject.name == placed.vm
        for key, value in change.extra_config.items()
        if value.upper() == "TRUE"
    }
    if now == wanted:
        return ChainLink(OPTIONS, LinkState.ON, "the VM's P2P options are set")
    if wanted <= then:
        return ChainLink(OPTIONS, LinkState.SET_BY_PLAN, "the plan sets the VM's P2P options")
    lacking = listed(key for key in P2P_KEYS if key.casefold() not in then)
    remedy = "add the VM's `nics` to the plan file so that the plan sets the options"
    return ChainLink(OPTIONS, LinkState.OFF, f"the VM does not have {lacking}", remedy)


def _firmware(placed: Placed, view: HostView, reported: Mapping[str, str]) -> ChainLink:
    device = f"{placed.nic} {ATS}"
    what = f"{ATS} of {placed.nic}"
    value = reported.get(f"{NIC_FIRMWARE.key} {device}")
    if value is not None and is_same_word("True", value):
        return ChainLink(FIRMWARE, LinkState.SET_BY_PLAN, f"the plan sets {what} on the host")
    reading = NIC_FIRMWARE.read(view, device)
    if not reading.unread:
        return _read_link(
            FIRMWARE,
            reading,
            what,
            is_on=is_same_word("True", reading.configured or ""),
            remedy=f"set `firmware: {{{ATS}: true}}` in the NIC's rule under `hosts`, with `access`",
        )
    staged = firmware_in_guest(placed.extra_config)
    if staged is not None and staged.state in ("present", "done"):
        # Its check wants the value that is in force, not the one of the next boot.
        return ChainLink(FIRMWARE, LinkState.ON, f"the guest reports that {what} is on")
    if staged is not None and staged.state == "hand":
        return ChainLink(FIRMWARE, LinkState.PENDING, f"the guest has set {what}")
    if staged is not None and staged.state == "failed":
        remedy = (
            "see the guest's log; if mlxconfig does not list ATS_ENABLED for a NIC, update the NIC's firmware"
        )
        return ChainLink(FIRMWARE, LinkState.OFF, f"the guest could not set {what}: {staged.why}", remedy)
    if reading.is_absent and _is_handed_out(view, placed.nic):
        where = "the guest sets it" if placed.has_guest else "only the guest can read and set it"
        return ChainLink(
            FIRMWARE, LinkState.UNKNOWN, f"{what} is unknown because the NIC is passed through; {where}"
        )
    if reading.is_absent:
        remedy = "update the NIC's firmware"
        return ChainLink(FIRMWARE, LinkState.OFF, f"{what} is not available: {reading.unread}", remedy)
    return ChainLink(FIRMWARE, LinkState.UNKNOWN, f"{what} is unknown: {reading.unread}")


def _is_handed_out(view: HostView, pci_id: str) -> bool:
    function = view.device(pci_id)
    return function is not None and function.passthrough_active


def firmware_in_guest(extra_config: Mapping[str, str]) -> ModuleState | None:
    """Return a guest's report of the NIC firmware to set, None without a report."""
    text = extra_config.get(REPORT_KEY)
    if not text:
        return None
    try:
        report = GuestReport.model_validate_json(text)
    except ValueError:
        return None
    return next((one for one in report.modules if one.name == _IN_GUEST), None)


def _restart(placed: Placed, kernel: ChainLink, firmware: ChainLink, *, restarts: bool) -> ChainLink:
    """Return whether the set value is in force: the host has restarted since, or does so with this plan."""
    states = {kernel.state, firmware.state}
    if firmware_in_guest(placed.extra_config) is not None and firmware.state is LinkState.PENDING:
        remedy = "restart the host; if the guest still reports False afterwards, power-cycle the host"
        return ChainLink(
            RESTART, LinkState.PENDING, "the guest's setting takes effect only after a host restart", remedy
        )
    if states & {LinkState.SET_BY_PLAN, LinkState.PENDING}:
        if restarts:
            return ChainLink(RESTART, LinkState.SET_BY_PLAN, "the plan restarts the host")
        remedy = "restart the host; power-cycle it only if a restart is not enough"
        return ChainLink(
            RESTART, LinkState.PENDING, "the setting takes effect only after a host restart", remedy
        )
    if LinkState.OFF in states:
        return ChainLink(RESTART, LinkState.UNKNOWN, "after it is set, the host must be restarted")
    if LinkState.UNKNOWN in states:
        return ChainLink(RESTART, LinkState.UNKNOWN, "it is unknown whether the host was restarted")
    return ChainLink(RESTART, LinkState.ON, "all settings are active")


def _path(placed: Placed, topology: Topology) -> ChainLink:
    """Say whether the nearest GPU is of the NIC's NUMA node and root complex."""
    if not placed.gpus:
        return ChainLink(PATH, LinkState.UNKNOWN, "its GPU has not been assigned yet")
    node = topology.numa_node(placed.nic)
    nodes = [topology.numa_node(gpu) for gpu in placed.gpus]
    if any(topology.is_one_root(gpu, placed.nic) for gpu in placed.gpus):
        return ChainLink(PATH, LinkState.ON, "the GPU and NIC share a root complex")
    if node is not None and None not in nodes and node not in nodes:
        remedy = "use a NIC on the GPU's NUMA node"
        words = f"NIC {placed.nic} is on NUMA node {node}, but the GPU is on another"
        return ChainLink(PATH, LinkState.OFF, words, remedy)
    if all(topology.is_one_root(gpu, placed.nic) is False for gpu in placed.gpus):
        # NVIDIA's guide asks for one node, its later documents for one root complex: servers with one root
        # for each slot have no such pair.
        words = "the GPU and NIC are on the same NUMA node, but on different root complexes"
        return ChainLink(PATH, LinkState.UNKNOWN, words)
    if node is not None and node in nodes:
        return ChainLink(PATH, LinkState.ON, "the GPU and NIC are on the same NUMA node")
    return ChainLink(PATH, LinkState.UNKNOWN, "the host does not report the locations of the GPU and NIC")


def direct_pairs(host: Host, topology: Topology, observed: Inventory) -> Iterator[Placed]:
    """Yield each RDMA NIC that a VM has with a GPU on a host, by VM and address.

    A NIC or a GPU that vSphere chooses when the VM starts is there once it runs.
    """
    rdma = {pci_id for pci_id, _ in topology.nics()}
    for vm in sorted(observed.vms_by_host.get(host.moid, ()), key=lambda one: one.name):
        if vm.is_template or vm.detail is None:
            continue
        gpus = gpus_of(vm, host)
        for nic in sorted(nics_of(vm) & rdma) if gpus else ():
            yield Placed(vm.name, nic, gpus, vm.detail.extra_config, has_guest=vm.mark is not None)


def hosts_with_pairs(observed: Inventory, catalog: Catalog) -> tuple[str, ...]:
    """Return the moids of the hosts on which a VM has an RDMA NIC with a GPU."""
    topologies = Topologies(observed, catalog)
    return tuple(
        host.moid
        for host in observed.hosts
        if host.gpus and any(direct_pairs(host, topologies.of(host), observed))
    )


def gpus_of(vm: Vm, host: Host) -> tuple[str, ...]:
    """Return the addresses of the GPUs that a VM has or shares, as far as they are known."""
    own = {one.pci_id or one.assigned_id for one in vm.detail.passthrough_gpus} if vm.detail else set()
    return tuple(gpu.pci_id for gpu in host.gpus if vm.moid in gpu.vm_moids or gpu.pci_id in own)


def nics_of(vm: Vm) -> set[str]:
    """Return the addresses of a VM's NICs, of virtual functions those of their physical ones."""
    if vm.detail is None:
        return set()
    passed = {one.pci_id or one.assigned_id for one in vm.detail.passthrough_nics}
    return {one for one in passed | {nic.function for nic in vm.detail.own_nics if nic.kind == SRIOV} if one}
