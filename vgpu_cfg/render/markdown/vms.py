"""How each change to VMs and DRS rules is done by hand, in the words of the vSphere Client and of govc.

Options of govc are those of its release 0.52; what it cannot say is left to the vSphere Client.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import assert_never

from vgpu_cfg.changes.change import (
    AwaitCustomization,
    CreateVm,
    DestroyVm,
    MarkVm,
    MoveVmToFolder,
    PowerOffVm,
    PowerOnVm,
    ReconfigureVm,
    RelocateVm,
    RemoveRule,
    RemoveVmGroup,
    RenameVm,
    SetAttributes,
    SetHostRule,
    SetOverrides,
    SetRule,
    SetTags,
    StageGuest,
    UpgradeVm,
)
from vgpu_cfg.changes.commands import command
from vgpu_cfg.changes.create_vm import CloneFrom
from vgpu_cfg.changes.edits import edit_value
from vgpu_cfg.changes.plan import StartQueue
from vgpu_cfg.changes.values import Edit
from vgpu_cfg.changes.vm_spec import (
    DeviceEdit,
    EditNic,
    GrowDisk,
    NewDisk,
    NewDynamicPassthrough,
    NewNic,
    NewPassthrough,
    NewPvrdmaNic,
    NewSriovNic,
    NewTpm,
    NewVgpu,
    RemoveDevice,
    SetDiskPolicy,
    VmSpec,
)
from vgpu_cfg.model.observed.tags import Tag
from vgpu_cfg.model.observed.vm import OWN_PREFIX, SettingValue
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.planning.vms.settings.table import rows_of
from vgpu_cfg.render.markdown.customization import awaiting_part, customization_part
from vgpu_cfg.render.markdown.guests import guest_part
from vgpu_cfg.render.markdown.parts import Part
from vgpu_cfg.render.markdown.vm_moves import move_part

VmChange = (
    CreateVm
    | UpgradeVm
    | ReconfigureVm
    | MarkVm
    | SetAttributes
    | SetTags
    | SetOverrides
    | PowerOffVm
    | DestroyVm
    | RenameVm
    | MoveVmToFolder
    | RelocateVm
    | SetRule
    | SetHostRule
    | RemoveRule
    | RemoveVmGroup
    | AwaitCustomization
    | StageGuest
)


_AS_BEFORE = "set the values of the column “before” again, where none stands here"


def vm_parts(change: VmChange) -> tuple[Part, ...]:
    """Tell how a change is done by hand."""
    match change:
        case CreateVm():
            return _create(change)
        case UpgradeVm():
            return (_upgrade(change),)
        case ReconfigureVm():
            return _configure(change.vm.name, change.spec, change.edits, undo=change.undo)
        case MarkVm():
            return _configure(change.vm.name, change.spec, change.edits)
        case RenameVm() | MoveVmToFolder() | RelocateVm():
            return (move_part(change),)
        case SetAttributes():
            return (_set_attributes(change),)
        case SetTags():
            return (_set_tags(change),)
        case SetOverrides():
            return (_set_overrides(change),)
        case PowerOffVm():
            return (_power_off(change),)
        case DestroyVm():
            return (_destroy(change),)
        case AwaitCustomization():
            return (awaiting_part(change),)
        case StageGuest():
            return (guest_part(change),)
        case SetRule():
            return (_set_rule(change),)
        case SetHostRule():
            return _set_host_rule(change)
        case RemoveRule():
            return (_remove_rule(change),)
        case RemoveVmGroup():
            return (_remove_vm_group(change),)
        case _:
            assert_never(change)


def _create(change: CreateVm) -> tuple[Part, ...]:
    name, place = change.vm.name, change.location
    where = ("-host", place.host_name, "-ds", place.datastore_name, "-folder", place.folder_path)
    undo = (command("govc", "vm.destroy", name),)
    if isinstance(change.source, CloneFrom):
        template, is_linked = change.source.template.name, change.source.snapshot_moid is not None
        made = Part(
            heading="Clone",
            what=f"Clone {template} to {name}, on {place.host_name}, {place.datastore_name}, in "
            f"{place.folder_path}; do not power it on.",
            client=f"VMs and Templates > {template} > New VM from This Template (Clone > Clone to Virtual "
            "Machine, where it is a VM)" + ("; a linked clone takes govc" if is_linked else ""),
            commands=(
                command("govc", "vm.clone", "-vm", template, "-on=false", *where)
                + (" -link " if is_linked else " ")
                + command(name),
            ),
            expected="the task ends without error; the VM is off",
            verify=(command("govc", "vm.info", name),),
            undo=undo,
        )
    else:
        guest = change.source.guest_id
        made = Part(
            heading="Create",
            what=f"Make an empty VM {name} for {guest}, on {place.host_name}; do not power it on.",
            client=f"{place.folder_path} > New Virtual Machine > Create a new virtual machine",
            commands=(
                command("govc", "vm.create", "-on=false", "-g", guest, "-firmware", "efi", *where, name),
            ),
            expected="the task ends without error; the VM is off",
            verify=(command("govc", "vm.info", name),),
            undo=undo,
        )
    configured = _configure(name, change.spec, change.edits, heading="Configure")
    if change.customization is None:
        return (made, *configured)
    return (made, *configured, customization_part(name, change.customization))


def _upgrade(change: UpgradeVm) -> Part:
    name, version = change.vm.name, change.hardware_version
    return Part(
        what=f"Raise the hardware version of {name} to {version}. It must be off, and cannot go back.",
        client=f"{name} > Actions > Compatibility > Upgrade VM Compatibility",
        commands=(command("govc", "vm.upgrade", f"-version={version}", "-vm", name),),
        expected="the task ends without error",
        verify=(command("govc", "device.info", "-vm", name),),
        undo=("there is no way back but a snapshot that was taken before",),
    )


def _configure(
    name: str, spec: VmSpec, edits: tuple[Edit, ...], *, undo: VmSpec | None = None, heading: str = ""
) -> tuple[Part, ...]:
    back = tuple(spec_commands(name, undo)) if undo is not None else ()
    return (
        Part(
            heading=heading,
            what=f"Set what {name} lacks. {'It may run.' if _is_live(spec) else 'It must be off.'} "
            f"{_left_to_client(spec)}".rstrip(),
            client=f"{name} > Actions > Edit Settings > Virtual Hardware; names with a dot stand under "
            "VM Options > Advanced > Configuration Parameters",
            commands=tuple(spec_commands(name, spec)),
            expected="every task ends without error",
            verify=(
                command("govc", "vm.info", "-e", name),
                command("govc", "device.ls", "-vm", name),
            ),
            undo=(
                *back,
                *_undo_text(spec),
                _AS_BEFORE,
            ),
            rows=_rows(edits),
        ),
    )


def _is_live(spec: VmSpec) -> bool:
    """Whether a running VM takes all of a request: settings whose rows say so, and this tool's own pairs."""
    devices = tuple(one for one in spec.devices if not isinstance(one, SetDiskPolicy))
    rest = VmSpec(devices=devices, device_groups=spec.device_groups)
    is_own = all(key.startswith(OWN_PREFIX) for key in spec.extra_config)
    return rest.is_empty and is_own and all(setting.is_live for setting, _ in rows_of(spec.settings))


def _rows(edits: tuple[Edit, ...]) -> tuple[tuple[str, str, str], ...]:
    return tuple((edit.key, edit.before or "", edit_value(edit)) for edit in edits)


def _undo_text(spec: VmSpec) -> tuple[str, ...]:
    """Tell how those settings are taken back that no earlier value undoes."""
    return tuple(
        f"{setting.name.rstrip(':')}: {setting.undo}" for setting, _ in rows_of(spec.settings) if setting.undo
    )


def spec_commands(name: str, spec: VmSpec) -> Iterator[str]:
    """Yield the command lines of a request to a VM, as far as govc has words for it."""
    vm = ("-vm", name)
    pairs = tuple(word for key, value in spec.extra_config.items() for word in ("-e", f"{key}={value}"))
    lines = _flags_by_verb(spec.settings)
    if pairs:
        lines.setdefault("vm.change", []).extend(pairs)
    yield from (command("govc", verb, *vm, *flags) for verb, flags in lines.items())
    for index, device in enumerate(spec.devices, 1):
        yield from _device_commands(name, index, device)


def _flags_by_verb(settings: Mapping[str, SettingValue]) -> dict[str, list[str]]:
    """Return the flags of govc's commands that set these, as far as govc has words for them."""
    lines: dict[str, list[str]] = {}
    for setting, value in rows_of(settings):
        if words := setting.govc(value):
            lines.setdefault(words[0], []).extend(words[1:])
    return lines


def _device_commands(name: str, index: int, device: DeviceEdit) -> Iterator[str]:
    vm = ("-vm", name)
    match device:
        case NewVgpu() if device.group is None:
            yield command("govc", "gpu.vm.add", *vm, "-profile", device.profile)
        case NewPassthrough():
            yield command("govc", "device.pci.add", *vm, device.pci_id)
        case NewNic():
            mac = ("-net.address", device.mac) if device.mac is not None else ()
            network = ("-net", device.backing.network_name, "-net.adapter", "vmxnet3")
            yield command("govc", "vm.network.add", *vm, *network, *mac)
        case NewDisk():
            new_disk = ("-name", f"{name}/disk-{index}", "-size", f"{device.size_mib}M")
            yield command("govc", "vm.disk.create", *vm, *new_disk)
        case GrowDisk():
            disk_key = ("-disk.key", device.key, "-size", f"{device.size_mib}M")
            yield command("govc", "vm.disk.change", *vm, *disk_key)
        case (
            NewVgpu()
            | NewDynamicPassthrough()
            | NewSriovNic()
            | NewPvrdmaNic()
            | NewTpm()
            | EditNic()
            | SetDiskPolicy()
            | RemoveDevice()
        ):
            return
        case _:
            assert_never(device)


def _left_to_client(spec: VmSpec) -> str:
    """Say what the vSphere Client must do, as govc has no words for it, or needs a name that is not known."""
    words = []
    for device in spec.devices:
        if isinstance(device, RemoveDevice):
            words.append(f"remove {device.was}")
        elif isinstance(device, EditNic):
            words.append(f"tie the network adapter with key {device.key} to {device.backing.network_name}")
        elif isinstance(device, NewDynamicPassthrough):
            ids = ", ".join(f"{vendor:04x}:{model:04x}" for vendor, model in device.allowed)
            label = f" with the hardware label {device.label}" if device.label else ""
            words.append(f"add a PCI device by Dynamic DirectPath IO, {ids}{label}")
        elif isinstance(device, NewSriovNic):
            mac = f", MAC address {device.mac}" if device.mac is not None else ""
            mtu = ", Guest OS MTU Change allowed" if device.allow_mtu_change else ""
            words.append(
                f"add a network adapter of type SR-IOV passthrough on {device.backing.network_name}, "
                f"physical function {device.function}{mac}{mtu}"
            )
        elif isinstance(device, NewPvrdmaNic):
            mac = f", MAC address {device.mac}" if device.mac is not None else ""
            words.append(
                f"add a network adapter of type PVRDMA on {device.backing.network_name}, device protocol "
                f"RoCE v2{mac}"
            )
        elif isinstance(device, NewTpm):
            words.append("add a Trusted Platform Module")
        elif isinstance(device, SetDiskPolicy):
            words.append(f"give the disk with key {device.key} the storage policy {device.policy.name}")
        elif isinstance(device, NewDisk) and device.policy is not None:
            disk = f"the new disk of {device.size_mib} MiB"
            words.append(f"give {disk} the storage policy {device.policy.name}")
    if spec.home_policy is not None:
        words.append(f"give VM home the storage policy {spec.home_policy.name} (Edit VM Storage Policies)")
    words += [f"add the device group {name} as a PCI device" for name in spec.device_groups.values()]
    for setting, value in rows_of(spec.settings):
        if by_hand := setting.client(value):
            words.append(f"set {by_hand}")
    return f"In the vSphere Client: {'; '.join(words)}." if words else ""


def _set_attributes(change: SetAttributes) -> Part:
    name = change.vm.name
    pairs = change.values.items()
    return Part(
        what=f"Set the custom attributes {', '.join(change.values)} of {name}. It may run.",
        client=f"{name} > Summary > Custom Attributes",
        commands=tuple(
            command("govc", "fields.set", "-add", "-type", "VirtualMachine", key, value, name)
            for key, value in pairs
        ),
        expected="nothing is printed",
        verify=(command("govc", "fields.info", name),),
        undo=tuple(command("govc", "fields.set", edit.key, edit.before or "", name) for edit in change.edits),
        rows=_rows(change.edits),
    )


def _set_tags(change: SetTags) -> Part:
    """Tell which tags go and come; govc takes a VM by its path here, and no name that is met twice."""
    name = change.vm.name
    path = f'"$({command("govc", "find", "/", "-type", "m", "-name", name)})"'

    def lines(verb: str, tags: Sequence[Tag]) -> tuple[str, ...]:
        return tuple(
            f"{command('govc', f'tags.{verb}', '-c', tag.category, tag.name)} {path}" for tag in tags
        )

    return Part(
        what=f"Set the tags of {name}. It may run.",
        client=f"{name} > Summary > Tags > Assign",
        commands=lines("detach", change.detach) + lines("attach", change.attach),
        expected="nothing is printed",
        verify=(f"govc tags.attached.ls -r {path}",),
        undo=lines("detach", change.attach) + lines("attach", change.detach),
        rows=_rows(change.edits),
    )


def _set_overrides(change: SetOverrides) -> Part:
    """Tell what the cluster shall do with single VMs; govc takes one VM at a time."""
    cluster = change.subject.name
    lines, clicks = [], []
    for one in change.overrides:
        by_hand = (setting.client(value) for setting, value in rows_of(one.settings))
        clicks += [f"{one.vm.name}: {words}" for words in by_hand if words]
        lines += [
            command("govc", verb, "-cluster", cluster, "-vm", one.vm.name, *flags)
            for verb, flags in _flags_by_verb(one.settings).items()
        ]
    left = f" In the vSphere Client: {'; '.join(clicks)}." if clicks else ""
    names = fold_names(one.vm.name for one in change.overrides)
    return Part(
        what=f"Tell the cluster {cluster} what to do with {names}. They may run.{left}",
        client=f"{cluster} > Configure > Configuration > VM Overrides",
        commands=tuple(lines),
        expected="nothing is printed",
        verify=(command("govc", "cluster.override.info", "-cluster", cluster),),
        undo=(*_overrides_removed(change), *((_AS_BEFORE,) if any(map(_was_set, change.edits)) else ())),
        rows=_rows(change.edits),
    )


def _was_set(edit: Edit) -> bool:
    return edit.before is not None


def _overrides_removed(change: SetOverrides) -> Iterator[str]:
    """Yield the lines that take the overrides of those VMs away of which the cluster said nothing before."""
    had = {edit.key.rpartition(" ")[0] for edit in change.edits if _was_set(edit)}
    for one in change.overrides:
        if one.vm.name not in had:
            yield command(
                "govc", "cluster.override.remove", "-cluster", change.subject.name, "-vm", one.vm.name
            )


def power_on_part(change: PowerOnVm, queue: StartQueue | None) -> Part:
    """Tell how a VM is powered on, and what to look out for where those of its host start one by one."""
    name = change.vm.name
    pin = ""
    if change.pin is not None:
        nodes = ", ".join(f"{pci_id} is on node {node}" for pci_id, node in change.pin.node_by_pci_id.items())
        now = ",".join(str(node) for node in change.pin.nodes)
        pin = (
            f" Then see which GPU it got: {nodes}. Where that is another node than its numa.nodeAffinity "
            f"({now}), shut it down, set numa.nodeAffinity to the GPU's node, and power it on again."
        )
    return Part(
        what=f"Power on {name}.{pin}{_turn(name, queue)}",
        client=f"{name} > Actions > Power > Power On",
        commands=(command("govc", "vm.power", "-on", name),),
        expected=f"{name} is powered on, and its guest boots",
        verify=(command("govc", "vm.info", name), command("govc", "gpu.vm.info", "-vm", name)),
        undo=(command("govc", "vm.power", "-s", name),),
    )


def _turn(name: str, queue: StartQueue | None) -> str:
    if queue is None:
        return ""
    others = fold_names(sorted(vm for vm in queue.starts if vm != name))
    return (
        f" Not together with {others}: one at a time, and after each see which GPU it got. Start a size only "
        "while it still has to open an idle GPU, or once every size has all that it needs; `vgpu-cfg apply` "
        "works that out by itself."
    )


def _power_off(change: PowerOffVm) -> Part:
    name = change.vm.name
    return Part(
        what=f"Shut {name} down through its guest; switch it off where that has not worked in five minutes.",
        client=f"{name} > Actions > Power > Shut Down Guest OS",
        commands=(
            command("govc", "vm.power", "-s", name),
            command("govc", "vm.power", "-off", "-force", name) + "   # only where it has not gone down",
        ),
        expected=f"{name} is powered off",
        verify=(command("govc", "vm.info", name),),
        undo=(command("govc", "vm.power", "-on", name),),
    )


def _destroy(change: DestroyVm) -> Part:
    name = change.vm.name
    return Part(
        what=f"Remove {'; '.join([f'{name} with all its disks', *change.goes_along])} for good.",
        client=f"{name} > Actions > Delete from Disk",  # noqa: S608 - a menu of the client, no SQL
        commands=(command("govc", "vm.destroy", name),),
        expected=f"{name} is no longer listed",
        verify=(command("govc", "find", "/", "-type", "m", "-name", name),),
        undo=("only from a backup",),
    )


def _set_rule(change: SetRule) -> Part:
    cluster, rule = change.subject.name, change.rule_name
    names = [vm.name for vm in change.vms]
    must = "must" if change.is_mandatory else "should"
    verb = "cluster.rule.create" if change.rule_key is None else "cluster.rule.change"
    kind = ("-enable", "-anti-affinity") if change.rule_key is None else ("-enable",)
    mandatory = (f"-mandatory={str(change.is_mandatory).lower()}",)
    return Part(
        what=f"Have DRS keep {fold_names(names)} apart in cluster {cluster}: they {must} not share a host.",
        client=f"{cluster} > Configure > Configuration > VM/Host Rules: Separate Virtual Machines",
        commands=(command("govc", verb, "-cluster", cluster, "-name", rule, *kind, *mandatory, *names),),
        expected="nothing is printed",
        verify=(command("govc", "cluster.rule.info", "-cluster", cluster, "-name", rule),),
        undo=(command("govc", "cluster.rule.remove", "-cluster", cluster, "-name", rule),),
    )


def _set_host_rule(change: SetHostRule) -> tuple[Part, Part]:
    cluster, rule, group = change.subject.name, change.rule_name, change.vm_group
    in_cluster = ("-cluster", cluster)
    names = [vm.name for vm in change.vms]
    must = "must" if change.is_mandatory else "should"
    verb = "change" if change.has_group else "create"
    kind = () if change.has_group else ("-vm",)
    grouped = Part(
        what=f"Put {fold_names(names)} into the VM group {group} of cluster {cluster}.",
        client=f"{cluster} > Configure > Configuration > VM/Host Groups: VM Group",
        commands=(command("govc", f"cluster.group.{verb}", *in_cluster, "-name", group, *kind, *names),),
        expected="nothing is printed",
        verify=(command("govc", "cluster.group.ls", *in_cluster, "-name", group),),
        undo=("give the group the VMs that it had",)
        if change.has_group
        else (command("govc", "cluster.group.remove", *in_cluster, "-name", group),),
    )
    mandatory = (f"-mandatory={str(change.is_mandatory).lower()}",)
    groups = ("-vm-group", group, "-host-affine-group", change.host_group)
    of_rule = ("-vm-host",) if change.rule_key is None else ()
    setting = "cluster.rule.create" if change.rule_key is None else "cluster.rule.change"
    ruled = Part(
        what=f"Have DRS keep the VM group on the hosts of {change.host_group}: they {must} run there.",
        client=f"{cluster} > Configure > Configuration > VM/Host Rules: Virtual Machines to Hosts, "
        f"{must.capitalize()} run on hosts in group",
        commands=(
            command("govc", setting, *in_cluster, "-name", rule, "-enable", *of_rule, *mandatory, *groups),
        ),
        expected="nothing is printed",
        verify=(command("govc", "cluster.rule.info", *in_cluster, "-name", rule),),
        undo=(command("govc", "cluster.rule.remove", *in_cluster, "-name", rule),)
        if change.rule_key is None
        else ("give the rule what it had before",),
    )
    return grouped, ruled


def _remove_vm_group(change: RemoveVmGroup) -> Part:
    cluster, group = change.subject.name, change.group_name
    return Part(
        what=f"Remove the VM group {group} from cluster {cluster}; its VMs stay.",
        client=f"{cluster} > Configure > Configuration > VM/Host Groups: Delete",
        commands=(command("govc", "cluster.group.remove", "-cluster", cluster, "-name", group),),
        expected="nothing is printed",
        verify=(command("govc", "cluster.group.ls", "-cluster", cluster),),
        undo=("make the group again, with the VMs it had",),
    )


def _remove_rule(change: RemoveRule) -> Part:
    cluster, rule = change.subject.name, change.rule_name
    return Part(
        what=f"Remove the DRS rule {rule} from cluster {cluster}.",
        client=f"{cluster} > Configure > Configuration > VM/Host Rules: Delete",
        commands=(command("govc", "cluster.rule.remove", "-cluster", cluster, "-name", rule),),
        expected="nothing is printed",
        verify=(command("govc", "cluster.rule.ls", "-cluster", cluster),),
        undo=("make the rule again, with the VMs it had",),
    )
