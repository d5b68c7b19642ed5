"""Checks of a VM's settings without its host: clashes, limits, dates, keys without effect, device groups.

A device group of a GPU with its NIC must match the rest of the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from vgpu_cfg.changes.kinds.configure_vm import raised_text
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.documents import did_you_mean
from vgpu_cfg.model.desired import DesiredVm, TemplateSource, asks_gpudirect
from vgpu_cfg.model.observed.inventory import VGPU_PART, DeviceGroupInfo, Host
from vgpu_cfg.model.observed.managed_object import ManagedObject
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.capacity.hardware import passthrough_limit, vgpu_limit
from vgpu_cfg.planning.capacity.pci_tree import SIZE_KEY, USE_KEY
from vgpu_cfg.planning.estate.site import Site, find_named, template_of_library, which_of
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.vms.devices import MOST_NICS
from vgpu_cfg.planning.vms.lookup.baseline import device_kinds, least_of_devices
from vgpu_cfg.planning.vms.lookup.placed import PlacedVm
from vgpu_cfg.planning.vms.lookup.resolved_vm import Lookup, ResolvedVm
from vgpu_cfg.planning.vms.lookup.wanted import (
    NIC_PART,
    functions_of,
    nic_parts,
    offered,
    places_of,
)
from vgpu_cfg.planning.vms.settings.extra_config_rows import P2P_KEYS
from vgpu_cfg.planning.vms.settings.table import VM_SETTINGS

LARGEST_DISK_MIB = 62 * 1024 * 1024
"""The largest virtual disk (vSphere Configuration Maximums)."""
_OF_VERSIONS = tuple(setting for setting in VM_SETTINGS if setting.hardware and setting.plan_key)
_RESERVATION_KEYS = frozenset({"sched.mem.min", "sched.mem.minsize", "sched.mem.pin", "sched.mem.max"})


def check_settings(resolved: ResolvedVm, findings: Findings) -> None:
    """Check the plan file's statements by themselves."""
    vm = resolved.desired
    for key, value in vm.extra_config.items():
        folded = key.casefold()
        if folded in _RESERVATION_KEYS and resolved.gpus:
            message = f"extra_config sets {key}, but all memory of a VM with GPUs is reserved"
            findings.refuse_vm(Code.COMPUTED_SETTING, vm, message, f"remove {key}")
        elif folded == "firmware" and value.casefold() != "efi" and resolved.gpus:
            message = f"extra_config sets firmware to {value}, but GPUs require EFI"
            findings.refuse_vm(Code.COMPUTED_SETTING, vm, message, "remove firmware")
        elif folded == USE_KEY.casefold() and value.upper() != "TRUE" and resolved.gpus:
            message = f"extra_config sets {key} to {value}, but GPUs with large BARs require TRUE"
            findings.refuse_vm(Code.COMPUTED_SETTING, vm, message, f"remove {key}")
    _check_p2p(vm, findings)
    if any(disk.size_mib > LARGEST_DISK_MIB for disk in vm.disks if disk.kind in ("new", "grow")):
        message = "the maximum size of a virtual disk is 62 TiB"
        findings.refuse_vm(Code.DISK_TOO_LARGE, vm, message, "use several smaller disks")
    virtual = sum(nic.function is None for nic in vm.nics)
    if virtual > MOST_NICS:
        message = f"the VM has {virtual} NICs; the maximum is {MOST_NICS}"
        findings.refuse_vm(Code.TOO_MANY_NICS, vm, message, "use fewer")


def _check_p2p(vm: DesiredVm, findings: Findings) -> None:
    """Refuse what would break the ATS chain that the VM itself asks for."""
    known = {key.casefold() for key in P2P_KEYS}
    for key, value in vm.extra_config.items():
        if asks_gpudirect(vm) and key.casefold() in known and value.upper() != "TRUE":
            message = f"extra_config sets {key} to {value}, but `rdma: gpudirect` requires TRUE"
            findings.refuse_vm(Code.COMPUTED_SETTING, vm, message, f"remove {key}, or set `rdma: host`")


def check_mmio(vm: DesiredVm, wanted: PlacedVm, findings: Findings) -> None:
    """Warn of a stated 64-bit MMIO size that is below the rule."""
    stated = next(
        (value for key, value in vm.extra_config.items() if key.casefold() == SIZE_KEY.casefold()), None
    )
    if stated is not None and wanted.mmio_gb and (not stated.isdigit() or int(stated) < wanted.mmio_gb):
        message = (
            f"extra_config sets {SIZE_KEY} to {stated}, but according to the sizing rule, its GPUs require "
            f"{wanted.mmio_gb}"
        )
        findings.add_vm(Code.MMIO_TOO_SMALL, vm, message, "remove the key to use the required size")


def least_hardware(resolved: ResolvedVm) -> int:
    """Return the lowest hardware version that can have the VM's devices and options."""
    return max([least_of_devices(resolved), *hardware_of_options(resolved)])


def hardware_of_options(resolved: ResolvedVm) -> Iterator[int]:
    """Yield the versions that introduced the options in the plan file."""
    for setting in _OF_VERSIONS:
        if resolved.manages(setting.plan_key) and getattr(resolved.desired, setting.plan_key):
            yield setting.hardware


def check_raised(resolved: ResolvedVm, version: int, findings: Findings) -> None:
    """Report the consequences of another hardware version for an existing VM."""
    message = f"{raised_text(resolved.base, version)}; it cannot be downgraded later"
    remedy = "first configure the guest to identify NICs by MAC address, or keep this VM and create a new one"
    findings.add_vm(Code.HARDWARE_RAISED, resolved.desired, message, remedy)


def check_hardware(resolved: ResolvedVm, host: Host, version: int | None, findings: Findings) -> None:
    """See that the hardware version a VM will have allows its devices: those it runs with it does."""
    kinds = device_kinds(resolved)
    vgpus = kinds.count("vgpu")
    if version is None:
        return
    least = least_hardware(resolved)
    if version < least:
        message = (
            f"its devices require hardware version {least}, but {host.name} supports only version {version}"
        )
        remedy = "upgrade the host, or use fewer devices"
        findings.refuse_vm(Code.HARDWARE_VERSION, resolved.desired, message, remedy)
    elif not resolved.keeps_gpus and vgpus > vgpu_limit(host, version):
        message = (
            f"hardware version {version} allows {vgpu_limit(host, version)} vGPUs, but {vgpus} are required"
        )
        findings.refuse_vm(Code.TOO_MANY_VGPUS, resolved.desired, message, "use fewer vGPUs per VM")
    passed = len(kinds) - vgpus
    if passed > passthrough_limit(version):
        message = (
            f"hardware version {version} allows {passthrough_limit(version)} passthrough devices, but "
            f"{passed} are required"
        )
        findings.refuse_vm(Code.TOO_MANY_PASSTHROUGH, resolved.desired, message, "use fewer devices per VM")


def check_creation_keys(
    resolved: ResolvedVm, settings: Iterable[str], lookup: Lookup, findings: Findings
) -> None:
    """Report stated keys that differ from an existing VM and take effect at creation only.

    `settings` are those of them that the table of VM settings found.
    """
    vm, base = resolved.desired, resolved.base
    differing = list(settings)
    if vm.is_managed("resource_pool") and base.resource_pool_moid and resolved.host is not None:
        cluster = next((one for one in lookup.silent.clusters if one.moid == resolved.host.owner_moid), None)
        pool = lookup.silent.pool_of(vm, cluster) if cluster is not None else None
        if pool is not None and pool != base.resource_pool_moid:
            differing.append("resource_pool")
    if differing:
        message = (
            "the plan file differs from the VM in keys that apply only when a VM is created: "
            f"{', '.join(differing)}"
        )
        remedy = "change it manually, or delete the VM and run `plan` again"
        findings.add_vm(Code.SET_AT_CREATION_ONLY, vm, message, remedy)


def check_kept(resolved: ResolvedVm, findings: Findings) -> None:
    """Report that an existing VM keeps the disks of its template, and a larger vGPU than it needs.

    Both are as it was created; a mark without a template was made before marks had one.
    """
    vm, existing, template = resolved.desired, resolved.existing, resolved.template
    seen = existing.mark.template if existing is not None and existing.mark is not None else None
    if seen is not None and template is not None and template.detail is not None:
        is_same = template.instance_uuid.lower() == seen.instance_uuid
        message = ""
        if not is_same and template.name != seen.name:
            message = f"cloned from {seen.name}, but the plan file now names {template.name}"
        elif not is_same:
            message = f"cloned from an earlier template {seen.name}, which was replaced"
        elif template.detail.change_version != seen.version:
            message = f"cloned from {template.name} before that template was last edited"
        if message:
            remedy = (
                "if the VM can stay unchanged, do nothing; for the new disks, delete the VM (`destroy` with "
                "--only and its name) and run `apply`"
            )
            findings.add_vm(Code.KEPT_AS_CREATED, vm, f"{message}; it keeps its disks", remedy)
    for asked, has in zip(vm.gpus, resolved.asked_gpus, strict=False) if resolved.has_devices else ():
        held = has.profile[0] if asked.memory is not None and len(has.profile) == 1 else None
        alike = [
            one
            for one in asked.profile
            if held is not None and (one.prefix, one.sharing) == (held.prefix, held.sharing)
        ]
        least = min(alike, key=lambda one: one.framebuffer_gb, default=held)
        if held is not None and least is not None and least.framebuffer_gb < held.framebuffer_gb:
            message = f"keeps {held.name}, although {least.name} would be enough"
            line = least.name if len(vm.gpus) == 1 else f"{{profile: {least.name}, count: {len(vm.gpus)}}}"
            line = f"set `gpus: {line}`" if len({*vm.gpus}) == 1 else f"name {least.name} in `gpus`"
            remedy = f"to shrink it, {line} and add --allow-power-cycle"
            findings.add_vm(Code.KEPT_AS_CREATED, vm, message, remedy, Severity.INFO)


def check_made_anew(vm: DesiredVm, site: Site, findings: Findings) -> None:
    """Warn of names in the plan file from which an existing VM could no longer be made."""
    missing: list[str] = []
    remedies: list[str] = []
    if isinstance(vm.source, TemplateSource) and vm.source.library is not None:
        _, objection = template_of_library(vm.source, site.observed)
        if objection is not None and site.observed.library_items is not None:
            missing.append(objection.message)
            remedies.append(objection.remedy)
    for noun, name, objects in _made_from(vm, site):
        found = find_named(name, objects)
        if not found:
            missing.append(f"{noun} {name!r} not found")
            remedies.append(did_you_mean(name, (one.name for one in objects), noun="names"))
        elif len(found) > 1:
            missing.append(f"{len(found)} {noun}s are named {name!r}")
            remedies.append(which_of(found))
    if missing:
        message = f"{listed(missing)}, so the VM could not be recreated"
        remedy = "; ".join(remedy for remedy in dict.fromkeys(remedies) if remedy)
        findings.add_vm(Code.NOT_MADE_ANEW, vm, message, remedy or "use an existing one")


def _made_from(vm: DesiredVm, site: Site) -> Iterator[tuple[str, str, Sequence[ManagedObject]]]:
    """Yield the sources of a new VM: kind, name, and possible objects."""
    if isinstance(vm.source, TemplateSource) and vm.source.library is None:
        name = vm.source.path_or_name
        is_vm = not find_named(name, site.templates) and find_named(name, site.vms)
        yield "template", name, site.vms if is_vm else site.templates
    yield from (("cluster", name, site.clusters) for name in vm.clusters)
    if vm.datastore is not None:
        pods = [] if find_named(vm.datastore, site.datastores) else site.pods
        yield "datastore", vm.datastore, [*site.datastores, *pods]
    if vm.resource_pool is None:
        return
    clusters = [one for name in vm.clusters for one in find_named(name, site.clusters)] or site.clusters
    for cluster in clusters:
        pools = [pool for pool in site.pools if pool.owner_moid == cluster.moid]
        yield f"resource pool of {cluster.name}", vm.resource_pool, pools


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
        yield f"the device group {name} contains {told}, not a single {asked}", "use the group's profile"
        return
    others = [part.kind for part in nic_parts(group) if part.kind != NIC_PART]
    if others:
        yield (
            (
                f"the device group {name} also contains {listed(dict.fromkeys(others))}, which the plan file "
                f"does not request"
            ),
            "use another group, or a separate vGPU and NIC",
        )
        return
    count = len(nic_parts(group))
    wanted = functions_of(resolved.nics or ())
    have = sum(1 for _ in places_of(wanted, {0: name}, host))
    if have < count:
        models = listed(part.name or NIC_PART for part in nic_parts(group))
        yield (
            (
                f"the device group {name} contains {models}, but `nics` has only {have} of the {count} "
                "passthrough NICs that it requires"
            ),
            "for each missing NIC, add {type: passthrough, near: gpu} to `nics`",
        )
