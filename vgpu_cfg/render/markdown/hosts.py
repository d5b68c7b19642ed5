"""How changes to hosts, clusters, networks and vCenter are done by hand, settings as the table tells them.

Commands come from the write that the plan would send wherever it can be typed: it merges what several
settings want of one option string, as no setting's own paragraph does.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import assert_never

from vgpu_cfg.changes.change import (
    ChangeHost,
    ChangeNetwork,
    ColdBootHost,
    EnterMaintenance,
    ExitMaintenance,
    ManualStep,
    RebootHost,
    RestartService,
    SetClusterOption,
    SetCordon,
    SetReservation,
    SetVCenterOption,
    ShutDownHost,
)
from vgpu_cfg.changes.change_host import (
    EsxcliWrite,
    GraphicsWrite,
    HostWrite,
    LicenceWrite,
    ModuleWrite,
    OptionWrite,
    PassthroughWrite,
    RulesetWrite,
    ShellWrite,
    SwitchWrite,
    VmknicWrite,
)
from vgpu_cfg.changes.change_network import EditSwitch, MakeSwitch, SetPortgroup
from vgpu_cfg.changes.commands import command, is_command
from vgpu_cfg.changes.values import SettingTarget
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.reservations import RESERVATION_HEAD
from vgpu_cfg.planning.host_settings.entry import DesiredSetting, HostSetting, HostView
from vgpu_cfg.render.markdown.parts import Part, filled

SettingsLookup = Callable[[str], HostSetting]
_RESTART = re.compile(
    r"esxcli system shutdown|/etc/init\.d/\w+ restart|govc host\.service .*\brestart\b|reboot\b"
)
_SET_BACK = "in the vSphere Client, set it back to {before}"
_VSAN_WORDS = {
    "ensureAccessibility": "Ensure accessibility",
    "noAction": "No data migration",
    "evacuateAllData": "Full data migration",
}
_SERVICE_NAMES = {"xorg": "X.Org Server"}
HostChange = (
    EnterMaintenance
    | ChangeHost
    | RestartService
    | RebootHost
    | ColdBootHost
    | ShutDownHost
    | ExitMaintenance
    | SetCordon
    | SetReservation
    | SetClusterOption
    | SetVCenterOption
    | ChangeNetwork
    | ManualStep
)


def host_parts(
    change: HostChange,
    settings_lookup: SettingsLookup,
    views: Mapping[str, HostView],
    names: Mapping[str, str],
) -> tuple[Part, ...]:
    """Tell how a change is done by hand; `names` maps the moids of hosts to their names."""
    match change:
        case EnterMaintenance():
            return (_enter(change),)
        case ChangeHost():
            return _write(change, settings_lookup, views)
        case RestartService():
            return (_restart(change, settings_lookup),)
        case RebootHost():
            return (_reboot(change, settings_lookup),)
        case ColdBootHost():
            return (_cold_boot(change, settings_lookup),)
        case ShutDownHost():
            return (_shut_down(change),)
        case ExitMaintenance():
            return (_exit(change, settings_lookup),)
        case SetCordon():
            return (_cordon(change),)
        case SetReservation():
            return (_reservation(change),)
        case SetClusterOption():
            return (_cluster_option(change),)
        case SetVCenterOption():
            return (_vcenter_option(change),)
        case ChangeNetwork():
            return (_network(change, names),)
        case ManualStep():
            return (_manual(change, settings_lookup, views),)
        case _:
            assert_never(change)


def _enter(change: EnterMaintenance) -> Part:
    name = change.host.name
    if change.is_held:
        return Part(what=f"Somebody else holds {name} in maintenance mode. Ask them before you go on.")
    if change.is_recovered:
        return Part(what=f"An earlier run of this plan took {name} into maintenance mode, where it stands.")
    moves = (
        f"DRS moves these VMs away: {fold_names(change.evacuates)}. Where it does not, move them yourself."
        if change.evacuates
        else "Nothing has to move."
    )
    limit = "one host of its cluster" if change.max_down == 1 else f"{change.max_down} hosts of its cluster"
    window = f" Begin only in the window {change.window}." if change.window else ""
    vsan = f"; vSAN data migration: {_VSAN_WORDS[change.vsan]}" if change.vsan is not None else ""
    enter = command("govc", "host.maintenance.enter", "-timeout", change.timeout_seconds, name)
    enters = f"Take {name} into maintenance mode. No more than {limit} may be down at a time."
    return Part(
        what=f"{enters}{window} {moves}",
        why=change.reason,
        client=f"{name} > Actions > Maintenance Mode > Enter Maintenance Mode{vsan}",
        # govc has no word for vSAN, and would take vCenter's default.
        commands=() if change.vsan is not None else (enter,),
        expected=f"the task ends without error, and {name} is shown in maintenance mode",
        verify=("esxcli system maintenanceMode get",),
        undo=(command("govc", "host.maintenance.exit", name),),
    )


def _cordon(change: SetCordon) -> Part:
    name = change.host.name
    return Part(
        what=f"Set the custom attributes {', '.join(change.values)} of {name}. Nothing is disturbed.",
        client=f"{name} > Summary > Custom Attributes",
        commands=tuple(
            command("govc", "fields.set", "-add", "-type", "HostSystem", key, value, name)
            for key, value in change.values.items()
        ),
        expected="nothing is printed",
        verify=(command("govc", "fields.info", name),),
    )


def _reservation(change: SetReservation) -> Part:
    rows = tuple((edit.key, edit.before or "", edit.after or "") for edit in change.edits)
    where = "vCenter > Configure > Alarm Definitions"
    if change.reservation is None:
        return Part(
            what="Give back the GPUs that this plan has reserved: remove the alarm.",
            client=f"{where}, filter for {RESERVATION_HEAD.strip()}",
            commands=(command("govc", "alarm.rm", change.alarm),),
            expected="nothing is printed",
            rows=rows,
        )
    return Part(
        what=f"Reserve {change.reservation.words}: the alarm {change.reservation.alarm_name!r} keeps it. "
        "Nothing is disturbed, and vCenter enforces none of it.",
        why="other plans leave these GPUs to this one",
        client=f"{where}: a disabled alarm of that name, whose description is {change.reservation.text}",
        expected="it is listed there",
        rows=rows,
    )


def _exit(change: ExitMaintenance, settings_lookup: SettingsLookup) -> Part:
    name = change.host.name
    rows = _rows(change.settles, settings_lookup, is_shown_before=False)
    if change.is_held:
        what = f"See that {name} shows every value below. It stays in maintenance mode, as it was found."
        return Part(what=what, rows=rows)
    return Part(
        what=f"See that {name} shows every value below, then take it out of maintenance mode.",
        client=f"{name} > Actions > Maintenance Mode > Exit Maintenance Mode",
        commands=(command("govc", "host.maintenance.exit", name),),
        expected=f"{name} is connected and runs VMs again",
        verify=("esxcli system maintenanceMode get",),
        undo=(command("govc", "host.maintenance.enter", name),),
        rows=rows,
    )


def _reboot(change: RebootHost, settings_lookup: SettingsLookup) -> Part:
    name = change.host.name
    rows = _rows(change.settles, settings_lookup)
    return Part(
        what=f"Reboot {name} in maintenance mode, and wait until vCenter shows it connected again.",
        why="these settings are configured, and in force only after a reboot",
        client=f"{name} > Actions > Power > Reboot",
        commands=(command("govc", "host.shutdown", "-r", name),),
        expected=f"{name} is back, still in maintenance mode, and the values of this step are in force",
        verify=(command("govc", "host.info", "-host", name),),
        rows=rows,
    )


def _cold_boot(change: ColdBootHost, settings_lookup: SettingsLookup) -> Part:
    name, bmc = change.host.name, change.bmc
    return Part(
        what=f"Shut {name} down, which must be in maintenance mode; once it is off, switch it on by its BMC "
        f"{bmc.address} as {bmc.user}.",
        why="a reboot does not do: what was set is loaded only when the power comes back",
        client=f"{name} > Actions > Power > Shut Down; then the BMC's own page, Power On",
        commands=(
            command("govc", "host.shutdown", name),
            f"# once it is off: POST ResetType On to the action ComputerSystem.Reset of https://{bmc.address}",
        ),
        expected=f"{name} is back, still in maintenance mode, and the values of this step are in force",
        verify=(command("govc", "host.info", "-host", name),),
        rows=_rows(change.settles, settings_lookup),
    )


def _shut_down(change: ShutDownHost) -> Part:
    name = change.host.name
    return Part(
        what=f"Shut {name} down, which must be in maintenance mode.",
        why="a reboot does not do: what was set is loaded only when the power comes back",
        client=f"{name} > Actions > Power > Shut Down",
        commands=(command("govc", "host.shutdown", name),),
        expected=f"{name} is not responding in vCenter, and its power is off",
        verify=(command("govc", "host.info", "-host", name),),
        undo=("switch the host on, at its console or through its management controller",),
    )


def _restart(change: RestartService, settings_lookup: SettingsLookup) -> Part:
    name = change.host.name
    label = _SERVICE_NAMES.get(change.service, change.service)
    rows = _rows(change.settles, settings_lookup)
    return Part(
        what=f"Restart the service {change.service} of {name}. No VM with a GPU may run there meanwhile.",
        why="these settings are configured, and in force once the service has restarted",
        client=f"{name} > Configure > System > Services > {label} > Restart",
        commands=(command("govc", "host.service", "-host", name, "restart", change.service),),
        expected="the service runs, and the values of this step are in force",
        verify=(command("govc", "host.service", "-host", name, "status", change.service),),
        rows=rows,
    )


def _write(
    change: ChangeHost, settings_lookup: SettingsLookup, views: Mapping[str, HostView]
) -> tuple[Part, ...]:
    """Tell one part per setting; the first tells the commands of the whole write where it can be typed."""
    typed = write_commands(change.host.name, change.write)
    parts = []
    for index, target in enumerate(change.settings):
        part = _setting(target, change.host.name, settings_lookup, views.get(change.host.moid))
        if typed:
            shared = " (set together with the others of this step)" if index else ""
            part = Part(
                heading=part.heading + shared,
                why=part.why,
                client=part.client,
                commands=() if index else typed,
                expected=part.expected,
                verify=part.verify,
                undo=part.undo,
                rows=part.rows,
            )
        parts.append(part)
    return tuple(parts) or (Part(commands=typed),)


def _setting(
    target: SettingTarget, host: str, settings_lookup: SettingsLookup, view: HostView | None
) -> Part:
    """Take a setting's paragraph from the table; without a view of the host, or an entry, only its values."""
    heading, how = _label(target, settings_lookup), None
    setting = _entry(target, settings_lookup)
    if setting is not None and view is not None:
        how = setting.how(
            view, DesiredSetting(setting=target.setting, value=target.value, device=target.device)
        )
    rows = ((heading, target.before or "", target.value),)
    if how is None:
        return Part(heading=heading, rows=rows)
    part = Part(
        heading=heading,
        why=how.why,
        client=how.client,
        commands=_without_restarts(how.commands),
        expected=how.expected,
        verify=how.verify,
        undo=_without_restarts(how.undo) or ((_SET_BACK,) if how.undo else ()),
        rows=rows,
    )
    return filled(part, host=host, device=target.device, value=target.value, before=target.before)


def _entry(target: SettingTarget, settings_lookup: SettingsLookup) -> HostSetting | None:
    """Return a setting's entry, None where a plan of another release names one that is not in the table."""
    try:
        return settings_lookup(target.setting)
    except KeyError:
        return None


def _label(target: SettingTarget, settings_lookup: SettingsLookup) -> str:
    setting = _entry(target, settings_lookup)
    return f"{setting.title} {target.device}".rstrip() if setting is not None else target.id


def _rows(
    targets: Sequence[SettingTarget], settings_lookup: SettingsLookup, *, is_shown_before: bool = True
) -> tuple[tuple[str, str, str], ...]:
    return tuple(
        (_label(target, settings_lookup), (target.before or "") if is_shown_before else "", target.value)
        for target in targets
    )


def _without_restarts(lines: Sequence[str]) -> tuple[str, ...]:
    """Leave out restarts: a plan has them as steps of their own, one for all settings that need it."""
    return tuple(line for line in lines if not _RESTART.match(line))


def write_commands(host: str, write: HostWrite) -> tuple[str, ...]:
    """Return the command lines of a write, empty where there are none that say the same."""
    match write:
        case EsxcliWrite():
            options = (f"--{name}={value}" for name, value in write.arguments)
            return (command("esxcli", *write.command.split("."), *options),)
        case ShellWrite():
            return tuple(shlex.join(words) for words in write.commands)
        case ModuleWrite():
            words = ("esxcli", "system", "module", "parameters", "set", "-m", write.module, "-p")
            return (command(*words, write.options),)
        case OptionWrite():
            return tuple(
                command("govc", "host.option.set", "-host", host, key, _plain(value))
                for key, value in write.options.items()
            )
        case RulesetWrite():
            ruleset = (f"--ruleset-id={write.ruleset}", f"--enabled={_plain(write.is_enabled)}")
            return (command("esxcli", "network", "firewall", "ruleset", "set", *ruleset),)
        case GraphicsWrite() | PassthroughWrite() | VmknicWrite() | SwitchWrite() | LicenceWrite():
            return ()
        case _:
            assert_never(write)


def _plain(value: bool | int | str) -> str:  # noqa: FBT001 - the value of an option, of whatever type
    return str(value).lower() if isinstance(value, bool) else str(value)


def _manual(step: ManualStep, settings_lookup: SettingsLookup, views: Mapping[str, HostView]) -> Part:
    """Tell a step that is done by hand anyway; proof and undo come from the setting that it proves."""
    view = views.get(step.host_moid or "")
    reported = [_setting(target, step.subject.name, settings_lookup, view) for target in step.proves]
    shown = step.proofs
    is_typed = all(map(is_command, shown))
    of_one = reported[0] if len(reported) == 1 and step.edits else Part()
    return Part(
        what=step.text,
        why=of_one.why,
        client=of_one.client,
        commands=step.commands,
        expected=of_one.expected if is_typed else step.proof,
        verify=shown if is_typed else of_one.verify,
        undo=of_one.undo,
        rows=tuple((edit.key, edit.before or "", edit.after or "") for edit in step.edits)
        or _rows(step.proves, settings_lookup),
    )


def _cluster_option(change: SetClusterOption) -> Part:
    value = "remove it" if change.value is None else f"value {change.value}"
    before = next((edit.before for edit in change.edits if edit.before is not None), None)
    return Part(
        what=f"Set the advanced option {change.option} of DRS in cluster {change.subject.name}: {value}.",
        why="DRS does with VMs that have vGPUs only what its options tell it to",
        client=f"{change.subject.name} > Configure > Services > vSphere DRS > Edit > Advanced Options",
        expected="the option is listed there with this value, or not at all where it was removed",
        undo=(f"in the same place, {'take it out' if before is None else f'set it back to {before}'}",),
        rows=tuple((edit.key, edit.before or "", edit.after or "") for edit in change.edits),
    )


def _vcenter_option(change: SetVCenterOption) -> Part:
    before = next((edit.before for edit in change.edits if edit.before is not None), None)
    undo = command("govc", "option.set", change.option, before) if before is not None else ""
    return Part(
        what=f"Set vCenter's own advanced setting {change.option} to {_plain(change.value)}.",
        why="vCenter moves running VMs with vGPUs only where this setting lets it",
        client="the vCenter itself > Configure > Settings > Advanced Settings > Edit Settings",
        commands=(command("govc", "option.set", change.option, _plain(change.value)),),
        expected="nothing is printed",
        verify=(command("govc", "option.ls", change.option),),
        undo=(undo,) if undo else (),
        rows=tuple((edit.key, edit.before or "", edit.after or "") for edit in change.edits),
    )


def _network(change: ChangeNetwork, names: Mapping[str, str]) -> Part:
    rows = tuple((edit.key, edit.before or "", edit.after or "") for edit in change.edits)
    spec = change.network
    match spec:
        case MakeSwitch():
            mtu = ("-mtu", spec.mtu) if spec.mtu is not None else ()
            return Part(
                what=f"Make the distributed switch {spec.name}.",
                why="the plan's networks are portgroups of it",
                client="Networking > the datacenter > Distributed Switch > New Distributed Switch",
                commands=(command("govc", "dvs.create", *mtu, spec.name),),
                expected="the task ends without error",
                verify=(command("govc", "ls", "network"),),
                undo=("delete the switch, as long as no host is in it",),
                rows=rows,
            )
        case EditSwitch():
            lines = []
            if spec.mtu is not None:
                lines.append(command("govc", "dvs.change", "-mtu", spec.mtu, spec.switch_name))
            for moid, nics in spec.members.items():
                host = names.get(moid, moid)
                lines += [
                    command("govc", "dvs.add", "-dvs", spec.switch_name, "-pnic", nic, host)
                    for nic in nics[:1]
                ]
            more = any(len(nics) > 1 for nics in spec.members.values())
            note = " govc takes one uplink per host; add the others in the vSphere Client." if more else ""
            return Part(
                what=f"Change the distributed switch {spec.switch_name}.{note}",
                why="a packet is as large as the smallest MTU on its way, and leaves only by an uplink",
                verify=(
                    command("govc", "object.collect", "-s", f"network/{spec.switch_name}", "config.maxMtu"),
                ),
                client=f"Networking > {spec.switch_name} > Actions > Edit Settings, or Add and Manage Hosts",
                commands=tuple(lines),
                expected="the task ends without error, and every host is listed with its uplinks",
                undo=("set the values of the column “before” again",),
                rows=rows,
            )
        case SetPortgroup():
            vlan = ("-vlan", spec.vlan) if spec.vlan is not None else ()
            is_new = spec.portgroup_moid is None
            ports = ("-nports", spec.ports, "-auto-expand=true")  # by itself govc makes 128, and no more
            made = command("govc", "dvs.portgroup.add", "-dvs", spec.switch_name, *ports, *vlan, spec.name)
            set_vlan = command("govc", "dvs.portgroup.change", *vlan, spec.name)
            verb = "Make" if is_new else "Set the VLAN of"
            return Part(
                what=f"{verb} the portgroup {spec.name} on the distributed switch {spec.switch_name}.",
                why="VMs and VMkernel NICs reach the network by it, in its VLAN",
                client=f"Networking > {spec.switch_name} > Distributed Port Group",
                commands=(made if is_new else set_vlan,),
                expected="the task ends without error",
                verify=(command("govc", "dvs.portgroup.info", "-pg", spec.name, spec.switch_name),),
                undo=("delete the portgroup, as long as nothing uses it" if is_new else "set the VLAN back",),
                rows=rows,
            )
        case _:
            assert_never(spec)
