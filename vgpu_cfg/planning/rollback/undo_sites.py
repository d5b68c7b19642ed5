"""The rollback of changes of neither a VM nor a host: rules, overrides, options, cordons, networks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vgpu_cfg.changes.change import (
    Change,
    ChangeNetwork,
    RemoveRule,
    RemoveVmGroup,
    SetClusterOption,
    SetCordon,
    SetHostRule,
    SetOverrides,
    SetReservation,
    SetRule,
    SetVCenterOption,
)
from vgpu_cfg.changes.kinds.change_network import EditSwitch, MakeSwitch, SetPortgroup
from vgpu_cfg.changes.kinds.cluster import VmOverride
from vgpu_cfg.changes.values import Edit, Subject, VmRef, must_word
from vgpu_cfg.model.observed.drs import ClusterRule, VmHostRule
from vgpu_cfg.model.observed.inventory import Cluster
from vgpu_cfg.model.observed.vm import SettingValue, Vm
from vgpu_cfg.planning.estate.ownership import edit_of_reservation
from vgpu_cfg.planning.rollback.attempt import FailedRun
from vgpu_cfg.planning.vms.rules import remaining
from vgpu_cfg.planning.vms.settings.edits import setting_leaves
from vgpu_cfg.planning.vms.settings.table import vm_setting

OfSite = (
    SetOverrides
    | SetRule
    | SetHostRule
    | RemoveRule
    | RemoveVmGroup
    | SetCordon
    | SetReservation
    | SetClusterOption
    | SetVCenterOption
    | ChangeNetwork
)


def undo_site(change: OfSite, run: FailedRun) -> Iterable[Change]:
    """List what takes a change back; what cannot be is noted in the run."""
    match change:
        case SetOverrides():
            return _overrides_back(change, run)
        case SetRule() | SetHostRule():
            return _rule_back(change, run)
        case RemoveRule():
            return _rule_again(change, change.rule_name, run)
        case RemoveVmGroup():
            return _group_again(change, run)
        case SetReservation():
            return _reservation_back(change, run)
        case SetCordon():
            return _cordon_back(change, run)
        case SetClusterOption():
            return _option_back(change, run)
        case SetVCenterOption():
            return _vcenter_option_back(change, run)
        case ChangeNetwork():
            return _network_back(change, run)


# ---------------------------------------------------------------- of clusters


def _clusters(change: Change, moid: str, run: FailedRun) -> tuple[Cluster, Cluster] | None:
    was, now = run.before.cluster_by_moid.get(moid), run.after.cluster_by_moid.get(moid)
    if was is None or now is None:
        run.cannot(change, "the cluster no longer exists")
        return None
    return was, now


def _overrides_back(change: SetOverrides, run: FailedRun) -> Iterable[Change]:
    both = _clusters(change, change.cluster_moid, run)
    if both is None:
        return ()
    overrides: list[VmOverride] = []
    edits: list[Edit] = []
    for one in change.overrides:
        if run.is_made(one.vm):
            continue  # it goes with its VM
        was, now = (cluster.overrides_of(one.vm.moid or "") for cluster in both)
        values = {key: was[key] for key in one.settings if key in was and was[key] != now.get(key)}
        if any(key not in was and key in now for key in one.settings):
            run.cannot(
                change,
                f"{one.vm.name} had no overrides in {both[1].name} before, and vgpu-cfg does not remove "
                f"overrides",
                "remove the VM from the cluster's VM overrides",
            )
        if values:
            overrides.append(VmOverride(vm=one.vm, settings=values))
            edits += _override_edits(one.vm.name, values, now)
    if not overrides:
        return ()
    return [change.model_copy(update={"overrides": tuple(overrides), "edits": tuple(edits), "needs": ()})]


def overrides_again(vm: Vm, cluster: Cluster) -> Iterable[SetOverrides]:
    """Return the cluster's former overrides of a VM that comes back to it."""
    values = cluster.overrides_of(vm.moid)
    if values:
        yield SetOverrides(
            id=f"set VM overrides of {vm.name} in {cluster.name}",
            subject=Subject(kind="cluster", name=cluster.name, moid=cluster.moid),
            edits=tuple(_override_edits(vm.name, values, {})),
            cluster_moid=cluster.moid,
            overrides=(VmOverride(vm=VmRef(name=vm.name, moid=vm.moid), settings=values),),
        )


def _override_edits(
    vm: str, values: Mapping[str, SettingValue], now: Mapping[str, SettingValue]
) -> Iterable[Edit]:
    for key, value in values.items():
        row = vm_setting(key)
        if row is not None:
            found = now.get(key)
            yield Edit(
                key=f"{vm} {key}",
                before=None if found is None else row.text(found),
                after=row.text(value),
                sets=setting_leaves(row, value),
            )


def _rule_back(change: SetRule | SetHostRule, run: FailedRun) -> Iterable[Change]:
    both = _clusters(change, change.cluster_moid, run)
    if both is None:
        return ()
    was, now = (_rule(change.rule_name, cluster) for cluster in both)
    if was is not None:
        return _rule_again(change, change.rule_name, run)
    gone: list[Change] = []
    if now is not None:
        gone.append(
            RemoveRule(
                id=f"remove rule {now.name} in {both[1].name}",
                subject=change.subject,
                edits=(Edit(key="rule", before=now.name),),
                cluster_moid=change.cluster_moid,
                rule_name=now.name,
                rule_key=now.key,
            )
        )
    is_own_group = isinstance(change, SetHostRule) and not change.has_group
    if isinstance(change, SetHostRule) and is_own_group and both[1].vm_group(change.vm_group) is not None:
        gone.append(
            RemoveVmGroup(
                id=f"remove VM group {change.vm_group} in {both[1].name}",
                subject=change.subject,
                edits=(Edit(key="VM group", before=change.vm_group),),
                needs=tuple(one.id for one in gone),
                cluster_moid=change.cluster_moid,
                group_name=change.vm_group,
            )
        )
    return gone


def _rule(name: str, cluster: Cluster) -> ClusterRule | VmHostRule | None:
    rules: list[ClusterRule | VmHostRule] = [*cluster.rules, *cluster.host_rules]
    return next((rule for rule in rules if rule.name == name), None)


def _rule_again(change: Change, name: str, run: FailedRun) -> Iterable[Change]:
    """Restore a rule; without DRS's word for "off", one that was off keeps its present state."""
    moid = change.subject.moid or ""
    both = _clusters(change, moid, run)
    if both is None:
        return ()
    was, now = (_rule(name, cluster) for cluster in both)
    if was is None or was == now:
        return ()
    if not was.is_enabled:
        return run.cannot(change, f"the rule {name} was disabled", "restore it in vCenter")
    subject = Subject(kind="cluster", name=both[1].name, moid=moid)
    found = None if now is None else now.key
    mandatory = Edit(key="mandatory", after=must_word(is_mandatory=was.is_mandatory))
    if isinstance(was, ClusterRule):
        if was.kind != "anti_affinity":
            return run.cannot(change, f"the rule {name} kept VMs together", "recreate it in vCenter")
        vms = remaining(was.vm_moids, frozenset(), run.after)
        return [
            SetRule(
                id=f"set rule {name} in {both[1].name}",
                subject=subject,
                edits=(Edit(key="apart", after=", ".join(vm.name for vm in vms)), mandatory),
                cluster_moid=moid,
                rule_name=name,
                rule_key=found,
                vms=vms,
                is_mandatory=was.is_mandatory,
            )
        ]
    group = both[0].vm_group(was.vm_group)
    if group is None or not was.host_group or was.avoided_group:
        return run.cannot(change, f"the rule {name} cannot be restored", "recreate it in vCenter")
    vms = remaining(group.vm_moids, frozenset(), run.after)
    words = (("VM group", ", ".join(vm.name for vm in vms)), ("hosts", was.host_group))
    return [
        SetHostRule(
            id=f"set rule {name} in {both[1].name}",
            subject=subject,
            edits=(*(Edit(key=key, after=after) for key, after in words), mandatory),
            cluster_moid=moid,
            rule_name=name,
            rule_key=found,
            vm_group=was.vm_group,
            has_group=both[1].vm_group(was.vm_group) is not None,
            host_group=was.host_group,
            vms=vms,
            is_mandatory=was.is_mandatory,
        )
    ]


def _group_again(change: RemoveVmGroup, run: FailedRun) -> Iterable[Change]:
    """Leave a VM group to the rule that named it: it does not come back alone."""
    was = run.before.cluster_by_moid.get(change.cluster_moid)
    rules = () if was is None else was.host_rules
    if any(rule.vm_group == change.group_name for rule in rules):
        return ()
    return run.cannot(change, "VM groups without a rule are not recreated", "create it in vCenter")


def _option_back(change: SetClusterOption, run: FailedRun) -> Iterable[Change]:
    was, now = (facts.facts.clusters.get(change.cluster_moid) for facts in (run.before, run.after))
    if was is None or now is None:
        return run.cannot(change, "the cluster's options could not be read", "restore the option in vCenter")
    before, here = was.drs_options.get(change.option), now.drs_options.get(change.option)
    if before == here:
        return ()
    edit = Edit(key=change.option, before=here, after=before)
    return [change.model_copy(update={"value": before, "edits": (edit,), "needs": ()})]


def _vcenter_option_back(change: SetVCenterOption, run: FailedRun) -> Iterable[Change]:
    was, now = (one.facts.vcenter_options.get(change.option) for one in (run.before, run.after))
    if was is None:
        return run.cannot(change, "its previous value is unknown", "restore it in vCenter")
    if was == now:
        return ()
    value: bool | int | str = was
    if isinstance(change.value, bool):
        value = was.casefold() == "true"
    elif isinstance(change.value, int):
        value = int(was)
    edit = Edit(key=change.option, before=now, after=was)
    return [change.model_copy(update={"value": value, "edits": (edit,), "needs": ()})]


def _reservation_back(change: SetReservation, run: FailedRun) -> Iterable[Change]:
    before, after = run.before.reservations, run.after.reservations
    if before is None or after is None:
        return run.cannot(change, "the previous reservation is unknown")
    was = next((one for one in before.kept if one.moid == change.alarm), None)
    name = change.reservation.alarm_name if change.reservation is not None else was.name if was else ""
    now = after.named(name)
    wanted = was.reservation if was is not None else None
    here = now.reservation if now is not None else None
    if wanted == here:
        return ()
    edit = edit_of_reservation(here, wanted)
    alarm = now.moid if now is not None else ""
    return [change.model_copy(update={"reservation": wanted, "alarm": alarm, "edits": (edit,), "needs": ()})]


def _cordon_back(change: SetCordon, run: FailedRun) -> Iterable[Change]:
    was, now = (inventory.host_by_moid.get(change.host.moid) for inventory in (run.before, run.after))
    if was is None or now is None:
        return run.cannot(change, "the host no longer exists")
    texts, found = ({one.attribute: one for one in host.cordons} for host in (was, now))
    values, edits = {}, []
    for name in change.values:
        before, here = texts.get(name), found.get(name)
        text = before.text if before is not None else ""
        if text != (here.text if here is not None else ""):
            values[name] = text
            words = (here.words if here is not None else None, before.words if before is not None else None)
            edits.append(
                Edit(key="cordon", before=words[0], after=words[1], sets={f"customValue[{name}]": text})
            )
    if not values:
        return ()
    return [change.model_copy(update={"values": values, "edits": tuple(edits), "needs": ()})]


# ---------------------------------------------------------------- of networks


def _network_back(change: ChangeNetwork, run: FailedRun) -> Iterable[Change]:
    network = change.network
    match network:
        case MakeSwitch():
            return run.cannot(
                change, "switches are never deleted", "delete it in vCenter if it contains no hosts"
            )
        case EditSwitch():
            return _switch_back(change, network, run)
        case SetPortgroup():
            return _portgroup_back(change, network, run)


def _switch_back(change: ChangeNetwork, edit: EditSwitch, run: FailedRun) -> Iterable[Change]:
    was, now = (
        next((one for one in inventory.facts.switches if one.moid == edit.switch_moid), None)
        for inventory in (run.before, run.after)
    )
    if was is None or now is None:
        return ()  # it goes, or stays, with the switch that this run made
    if any(now.members.get(host) != was.members.get(host) for host in edit.members):
        run.cannot(
            change,
            "hosts and uplinks are not removed from the switch",
            "remove them in vCenter if they are not in use",
        )
    if was.mtu == now.mtu or was.mtu is None:
        return ()
    back = EditSwitch(switch_name=was.name, switch_moid=was.moid, mtu=was.mtu)
    told = Edit(key="MTU", before=str(now.mtu), after=str(was.mtu))
    return [change.model_copy(update={"network": back, "edits": (told,), "needs": ()})]


def _portgroup_back(change: ChangeNetwork, spec: SetPortgroup, run: FailedRun) -> Iterable[Change]:
    if spec.portgroup_moid is None:
        return run.cannot(change, "port groups are never deleted", "delete it in vCenter if it is not in use")
    was, now = (
        {moid: vlan for switch in inventory.facts.switches for moid, vlan in switch.portgroup_vlans.items()}
        for inventory in (run.before, run.after)
    )
    before, here = was.get(spec.portgroup_moid), now.get(spec.portgroup_moid)
    if before == here:
        return ()
    if before is None:
        return run.cannot(change, "it had multiple VLANs before", "restore them in vCenter")
    told = Edit(key="VLAN", before=str(here), after=str(before))
    back = spec.model_copy(update={"vlan": before})
    return [change.model_copy(update={"network": back, "edits": (told,), "needs": ()})]
