"""What must change in a VM, or in the clone of a template, for it to be what is wanted.

One function for both: a new VM is compared with its template in everything, a VM that
exists only in the keys that the plan file states. The result is one VmSpec and the
edits that a reader sees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vgpu_cfg.model.addresses import ADDRESSES_KEY
from vgpu_cfg.model.change import Edit
from vgpu_cfg.model.desired import DesiredDisk
from vgpu_cfg.model.vm import AFFINITY_KEY, VmDetail
from vgpu_cfg.model.vm_spec import DeviceEdit, VmSpec
from vgpu_cfg.planning.gpu_devices import GpuEdits, WantedGpu, compare_gpus
from vgpu_cfg.planning.mmio import SIZE_KEY, USE_KEY
from vgpu_cfg.planning.nic_devices import FunctionPlan, compare_functions
from vgpu_cfg.planning.other_devices import (
    PVRDMA,
    DeviceEdits,
    WantedNic,
    compare_disks,
    compare_nics,
    compare_pvrdma,
)
from vgpu_cfg.planning.words import gib, node_list

EFI = "efi"
P2P_KEYS = ("pciPassthru.allowP2P", "pciPassthru.RelaxACSforP2P")
"""What lets a VM's GPU and NIC talk to each other past the root complex (NVIDIA AI Enterprise 5.0, ch. 4)."""
_OF_NEW_HARDWARE = frozenset({"cores_per_numa_node"})


@dataclass(frozen=True, slots=True)
class WantedVm:
    """A VM as it shall be, every name looked up and every default filled in.

    None means that the template or vCenter decides. `affinity` None leaves the NUMA
    affinity alone, an empty one removes it. `nics` None leaves them alone, and the `functions`, which are
    the NICs that are no vmxnet3 ones. Over `nodes` NUMA nodes the CPUs are split into sockets.
    `cores_per_numa_node` is 0 where ESXi shall shape the virtual NUMA nodes, None where they stay as
    they are. With `allows_p2p` GPU and NIC may talk to each other past the root complex. `addresses` is what
    is kept of the NICs on the VM, None where that is left alone.
    `device_groups` names the groups that members in `gpus` bear the keys of.
    """

    cpus: int | None
    memory_mib: int | None
    gpus: tuple[WantedGpu, ...] = ()
    gpu_notes: tuple[str, ...] = ()
    device_groups: Mapping[int, str] = field(default_factory=dict)
    mmio_gb: int | None = None
    nics: tuple[WantedNic, ...] | None = None
    functions: tuple[FunctionPlan, ...] = ()
    disks: tuple[DesiredDisk, ...] = ()
    inherited_disks: frozenset[int] = frozenset()
    extra_config: Mapping[str, str] = field(default_factory=dict)
    affinity: tuple[int, ...] | None = None
    affinity_note: str = ""
    secure_boot: bool = False
    nodes: int = 1
    cores_per_numa_node: int | None = None
    allows_p2p: bool = False
    addresses: str | None = None


@dataclass(slots=True)
class Difference:
    """What `compare_vm` found. `is_default` tells the keys that the plan file does not state."""

    is_default: Callable[[str], bool] = lambda _: False
    fields: dict[str, Any] = field(default_factory=dict)
    extra_config: dict[str, str] = field(default_factory=dict)
    edits: list[Edit] = field(default_factory=list)
    gpus: GpuEdits = field(default_factory=GpuEdits)
    nics: DeviceEdits = field(default_factory=DeviceEdits)
    functions: DeviceEdits = field(default_factory=DeviceEdits)
    rdma_nics: DeviceEdits = field(default_factory=DeviceEdits)
    disks: DeviceEdits = field(default_factory=DeviceEdits)

    @property
    def late_edits(self) -> list[Edit]:
        """The edits of what the hardware version must know."""
        hardware = (edit for edit in self.edits if edit.key in _OF_NEW_HARDWARE)
        return [*self.gpus.edits, *self.functions.edits, *self.rdma_nics.edits, *hardware]

    @property
    def late_devices(self) -> list[DeviceEdit]:
        """The new devices that the hardware version must know."""
        return [*self.gpus.additions, *self.functions.additions, *self.rdma_nics.additions]

    def spec(self, *, with_gpus: bool = True, only_gpus: bool = False, **more: Any) -> VmSpec:
        """Return the ConfigSpec of everything, of all but new GPUs and RDMA NICs, or of those alone.

        What the hardware version must know stands with the GPU devices.
        """
        late = {key: value for key, value in self.fields.items() if key in _OF_NEW_HARDWARE}
        new = self.late_devices
        if only_gpus:
            groups = dict(self.gpus.device_groups)
            return VmSpec(devices=tuple(new), device_groups=groups, **(late | more))
        removals = [*self.gpus.removals, *self.functions.removals]
        removals += [*self.rdma_nics.removals, *self.nics.removals]
        additions = [*(new if with_gpus else ()), *self.nics.additions, *self.disks.additions]
        early = {key: value for key, value in self.fields.items() if key not in late}
        return VmSpec(
            **(early | (late if with_gpus else {}) | more),
            extra_config=dict(sorted(self.extra_config.items())),
            devices=(*removals, *additions),
            device_groups=dict(self.gpus.device_groups) if with_gpus else {},
        )


def compare_vm(
    wanted: WantedVm,
    detail: VmDetail,
    manages: Callable[[str], bool],
    *,
    network_names: Mapping[str, str] | None = None,
    is_default: Callable[[str], bool] = lambda _: False,
) -> Difference:
    """Compare what is wanted with what a VM or template has, in the keys that `manages` names.

    Keys are those of the plan file. `is_default` tells which of them the plan file does not state.
    """
    found = Difference(is_default)
    if manages("cpus"):
        _compare_cpus(wanted, detail, found)
    if manages("memory"):
        _compare_memory(wanted, detail, found)
    if manages("gpus"):
        found.gpus = compare_gpus(wanted.gpus, detail, wanted.gpu_notes, wanted.device_groups)
        found.extra_config |= found.gpus.extra_config
        found.edits += found.gpus.edits
        _compare_mmio(wanted, detail, found)
    if manages("gpus") or manages("memory") or (manages("nics") and _pins_memory(wanted)):
        _compare_reservation(detail, found)
    if manages("numa") and wanted.affinity is not None:
        _compare_affinity(wanted.affinity, wanted.affinity_note, detail, found)
    if manages("numa") or ("cpus" in found.fields and detail.cores_per_numa_node):
        _compare_virtual_nodes(wanted.cores_per_numa_node, detail, found)
    if manages("nics") and wanted.nics is not None:
        names = dict(network_names or {})
        found.functions = compare_functions(wanted.functions, detail, names)
        found.rdma_nics = compare_pvrdma(wanted.nics, detail, names)
        found.nics = compare_nics(wanted.nics, detail, names)
        found.edits += [*found.functions.edits, *found.rdma_nics.edits, *found.nics.edits]
        _compare_p2p(wanted, detail, found)
        if wanted.addresses is not None:
            _set(ADDRESSES_KEY, wanted.addresses, detail, found, is_default=True)
    if manages("disks"):
        found.disks = compare_disks(wanted.disks, detail, wanted.inherited_disks)
        found.edits += found.disks.edits
    if manages("extra_config"):
        for key, value in sorted(wanted.extra_config.items()):
            _set(key, value, detail, found)
    return found


def _pins_memory(wanted: WantedVm) -> bool:
    """Whether a NIC needs all of the VM's memory reserved: a function of a physical one, or PVRDMA."""
    return bool(wanted.functions) or any(nic.kind == PVRDMA for nic in wanted.nics or ())


def _compare_cpus(wanted: WantedVm, detail: VmDetail, found: Difference) -> None:
    cpus = wanted.cpus or detail.cpus
    if wanted.cpus is not None and wanted.cpus != detail.cpus:
        found.fields["cpus"] = wanted.cpus
        before = str(detail.cpus) if detail.cpus else None
        is_default = found.is_default("cpus")
        found.edits.append(Edit(key="cpus", before=before, after=str(cpus), is_default=is_default))
    per_socket = _cores_per_socket(cpus, wanted.nodes, detail.cores_per_socket)
    if per_socket is not None and per_socket != detail.cores_per_socket:
        found.fields["cores_per_socket"] = per_socket
        before, after = str(detail.cores_per_socket), str(per_socket)
        found.edits.append(Edit(key="cores_per_socket", before=before, after=after, is_default=True))


def _cores_per_socket(cpus: int, nodes: int, current: int) -> int | None:
    """Return the cores of a socket where they must be set: one socket per NUMA node, or any that divides."""
    if nodes > 1 and cpus % nodes == 0:
        return cpus // nodes
    if cpus and current and cpus % current:
        return cpus
    return None


def _compare_memory(wanted: WantedVm, detail: VmDetail, found: Difference) -> None:
    if wanted.memory_mib is None or wanted.memory_mib == detail.memory_mib:
        return
    found.fields["memory_mib"] = wanted.memory_mib
    found.edits.append(
        Edit(
            key="memory",
            before=gib(detail.memory_mib) if detail.memory_mib else None,
            after=gib(wanted.memory_mib),
            is_default=found.is_default("memory"),
        )
    )


def _compare_reservation(detail: VmDetail, found: Difference) -> None:
    if detail.memory_reservation_locked:
        return
    found.fields["reserve_all_memory"] = True
    before = gib(detail.memory_reservation_mib)
    found.edits.append(Edit(key="memory_reservation", before=before, after="all", is_default=True))


def _compare_mmio(wanted: WantedVm, detail: VmDetail, found: Difference) -> None:
    """Raise the 64-bit MMIO size to what is needed; a larger one is left as it is."""
    if wanted.mmio_gb is None or any(key in wanted.extra_config for key in (USE_KEY, SIZE_KEY)):
        return
    if (_current(USE_KEY, detail) or "").upper() != "TRUE":
        _set(USE_KEY, "TRUE", detail, found, is_default=True)
    size = _current(SIZE_KEY, detail) or ""
    if not size.isdigit() or int(size) < wanted.mmio_gb:
        _set(SIZE_KEY, str(wanted.mmio_gb), detail, found, is_default=True)


def _compare_p2p(wanted: WantedVm, detail: VmDetail, found: Difference) -> None:
    """Let GPU and NIC talk to each other; what the plan file states of it is judged by `check_settings`."""
    stated = {key.casefold() for key in wanted.extra_config}
    for key in P2P_KEYS if wanted.allows_p2p else ():
        if key.casefold() not in stated and (_current(key, detail) or "").upper() != "TRUE":
            _set(key, "TRUE", detail, found, is_default=True)


def _compare_affinity(nodes: Sequence[int], note: str, detail: VmDetail, found: Difference) -> None:
    wanted = node_list(nodes)
    current = _current(AFFINITY_KEY, detail) or ""
    if current.replace(" ", "") != wanted:
        found.extra_config[AFFINITY_KEY] = wanted
        found.edits.append(
            Edit(
                key=AFFINITY_KEY,
                before=current or None,
                after=wanted or None,
                is_default=found.is_default("numa"),
                note=note,
            )
        )


def _compare_virtual_nodes(wanted: int | None, detail: VmDetail, found: Difference) -> None:
    """Compare the CPUs of a virtual NUMA node; what the API does not tell is ESXi's choice."""
    current = detail.cores_per_numa_node or 0
    if wanted is None or wanted == current:
        return
    found.fields["cores_per_numa_node"] = wanted
    found.edits.append(
        Edit(
            key="cores_per_numa_node",
            before=str(current) if current else None,
            after=str(wanted) if wanted else None,
            is_default=True,
        )
    )


def _current(key: str, detail: VmDetail) -> str | None:
    """Return an extraConfig value; names in a VMX file are the same whatever their case (recalled)."""
    exact = detail.extra_config.get(key)
    if exact is not None:
        return exact
    folded = key.casefold()
    return next((value for name, value in detail.extra_config.items() if name.casefold() == folded), None)


def _set(key: str, value: str, detail: VmDetail, found: Difference, *, is_default: bool = False) -> None:
    current = _current(key, detail)
    if (current or "") != value:
        found.extra_config[key] = value
        found.edits.append(Edit(key=key, before=current, after=value or None, is_default=is_default))
