"""Whether a device group of a GPU with the NIC beside it is what the rest of the plan asks for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vgpu_cfg.model.observed.inventory import VGPU_PART, DeviceGroupInfo, Host
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.vms.lookup.nic_match import functions_of
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm
from vgpu_cfg.planning.vms.lookup.vendor_groups import NIC_PART, nic_parts, offered, places_of


def check_groups(resolved: ResolvedVm, hosts: Sequence[Host], findings: Findings) -> None:
    """Refuse a group with another vGPU, other devices than NICs, or a NIC that the plan does not ask for."""
    for place, gpu in enumerate(resolved.gpus):
        if not gpu.group:
            continue
        found = next(((one, host) for host in hosts if (one := offered(gpu.group, host)) is not None), None)
        if found is None:
            continue
        group, host = found
        for message, remedy in _faults(resolved, place, group, host):
            findings.refuse_vm(Code.DEVICE_GROUP_UNLIKE, resolved.desired, message, remedy)


def _faults(
    resolved: ResolvedVm, place: int, group: DeviceGroupInfo, host: Host
) -> Iterator[tuple[str, str]]:
    name, asked = group.name, resolved.gpus[place].profile[0].name
    profiles = [part.profile for part in group.parts if part.kind == VGPU_PART]
    if profiles != [asked]:
        told = listed(profiles) if profiles else "no vGPU"
        yield f"the device group {name} has {told}, not one {asked}", "write the profile that the group has"
        return
    others = [part.kind for part in nic_parts(group) if part.kind != NIC_PART]
    if others:
        yield (
            f"the device group {name} has {listed(dict.fromkeys(others))}, too, which no key asks for",
            "take another group, or a vGPU and a NIC by themselves",
        )
        return
    count = len(nic_parts(group))
    wanted = functions_of(resolved.nics or ())
    have = sum(1 for _ in places_of(wanted, {0: name}, host))
    if have < count:
        models = listed(part.name or NIC_PART for part in nic_parts(group))
        yield (
            f"the device group {name} brings {models}; `nics` has {have} of {count} passthrough NICs for it",
            "add {type: passthrough, near: gpu} to its `nics` for each",
        )
