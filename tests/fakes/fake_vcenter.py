"""A vCenter at the port: reader, writer and clock in one, in memory, deterministic.

Tasks take `task_seconds` of its own time each and take effect when they end. It can
drop fields of a clone (its instance UUID too), fail the n-th call of a method, choose GPUs by a script, and
raise at the n-th wait. Power-ons and power-offs move a VM's change version; what a VM
held may be shown for a while. `calls` tells what was asked, in order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import NAMESPACE_URL, uuid5

from tests.fakes.vm_settings import with_settings
from vgpu_cfg.changes.change import CreateVm, RemoveRule, RemoveVmGroup, SetHostRule, SetRule
from vgpu_cfg.changes.kinds.create_vm import CloneFrom
from vgpu_cfg.changes.kinds.move_vm import Destination
from vgpu_cfg.changes.kinds.vm_spec import (
    EditNic,
    GrowDisk,
    NewDisk,
    NewDynamicPassthrough,
    NewNic,
    NewPassthrough,
    NewPvrdmaNic,
    NewSriovNic,
    NewVgpu,
    NicBacking,
    RemoveDevice,
    VmSpec,
)
from vgpu_cfg.errors import VCenterError
from vgpu_cfg.model.locks import Locks
from vgpu_cfg.model.observed.cordon import MaintenanceEntry, parse_cordons
from vgpu_cfg.model.observed.drs import ClusterRule, ClusterTies, VmGroup, VmHostRule
from vgpu_cfg.model.observed.gpu_use import UseReading
from vgpu_cfg.model.observed.host_facts import DepotLook, EstateFacts, FactGroup
from vgpu_cfg.model.observed.inventory import Host, Inventory, VCenter
from vgpu_cfg.model.observed.own_items import CustomizationSeen, HostAlarm
from vgpu_cfg.model.observed.past import Past, PastScope
from vgpu_cfg.model.observed.vm import (
    OwnerMark,
    PassthroughDevice,
    PowerState,
    SettingValue,
    VgpuDevice,
    VirtualDisk,
    VirtualNic,
    Vm,
    VmDetail,
)
from vgpu_cfg.model.reservations import KeptReservation, Reservation
from vgpu_cfg.ports import ReadScope, TaskState, TaskUpdate

START = datetime(2026, 3, 2, 21, 4, 11, tzinfo=UTC)


def uuid_of(moid: str) -> str:
    """Return the instance UUID that the server gives a VM."""
    return str(uuid5(NAMESPACE_URL, moid))


@dataclass
class _Task:
    moid: str
    due: datetime
    host_moid: str | None
    finish: Callable[[], str | None]
    failure: tuple[str, str] | None = None
    update: TaskUpdate | None = None


@dataclass
class FakeVCenter:
    """One vCenter, with `gpus` as host moid → GPU address → NUMA node."""

    vms: dict[str, Vm] = field(default_factory=dict)
    gpus: dict[str, dict[str, int]] = field(default_factory=dict)
    drops: frozenset[str] = frozenset()
    failures: dict[tuple[str, int], tuple[str, str]] = field(default_factory=dict)
    refusals: dict[tuple[str, int], VCenterError] = field(default_factory=dict)
    choices: list[str] = field(default_factory=list)
    raise_at_wait: dict[int, BaseException] = field(default_factory=dict)
    task_seconds: float = 10.0
    guests_shut_down_after: float | None = None
    time: datetime = START
    calls: list[tuple[str, str]] = field(default_factory=list)
    looks: list[tuple[str, ...]] = field(default_factory=list)
    host_attributes: dict[str, dict[str, str]] = field(default_factory=dict)
    rules: dict[str, tuple[str, ...]] = field(default_factory=dict)
    overrides: dict[str, dict[str, SettingValue]] = field(default_factory=dict)
    tags: dict[str, frozenset[str]] = field(default_factory=dict)
    customizations: list[CustomizationSeen] = field(default_factory=list)
    vm_groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    reserved: dict[str, Reservation] | None = None
    most_at_once: int = 0
    most_on_host: Counter[str] = field(default_factory=Counter)
    hides_gpus_for: float = 0.0
    starts_on: str | None = None
    moves_to: str | None = None
    hosts_asked: list[str | None] = field(default_factory=list)
    shows_released_for: float = 0.0
    _tasks: dict[str, _Task] = field(default_factory=dict)
    _held: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _shown_at: dict[str, datetime] = field(default_factory=dict)
    _shutting_down: dict[str, datetime] = field(default_factory=dict)
    _released: dict[str, tuple[tuple[str, ...], datetime]] = field(default_factory=dict)
    _counts: Counter[str] = field(default_factory=Counter)
    _serial: int = 0
    _waits: int = 0

    # ------------------------------------------------------------- for tests

    def add_vm(self, name: str, moid: str, detail: VmDetail | None = None, **fields: object) -> Vm:
        made = {"moid": moid, "name": name, "detail": detail or VmDetail(), "instance_uuid": uuid_of(moid)}
        vm = Vm.model_validate(made | fields)
        self.vms[moid] = vm
        return self._touch(vm)

    def vm(self, name: str) -> Vm:
        return next(vm for vm in self.vms.values() if vm.name == name)

    def change_vm(self, name: str, /, **fields: object) -> None:
        """Change a VM as somebody else would: its change version moves."""
        self._touch(self.vm(name).model_copy(update=fields))

    def started(self, method: str) -> list[str]:
        return [subject for called, subject in self.calls if called == method]

    # ------------------------------------------------------------- clock

    def now(self) -> datetime:
        return self.time

    def pause(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)

    # ------------------------------------------------------------- reader

    def read_inventory(self, scope: ReadScope) -> Inventory:
        return Inventory(
            vcenter=VCenter(address="fake"),
            read_at=self.time,
            vms=tuple(self._seen(vm) for vm in self.vms.values()),
        )

    def read_kinds(self) -> tuple[Host, ...]:
        return ()

    def read_part(self, scope: ReadScope, vm_moids: Iterable[str]) -> Inventory:
        del vm_moids
        return self.read_inventory(scope)

    def read_vms(
        self, moids: Iterable[str], extra_config_keys: frozenset[str] = frozenset()
    ) -> tuple[Vm, ...]:
        self._settle_guests()
        return tuple(self._seen(self.vms[moid]) for moid in moids if moid in self.vms)

    def read_vms_on(self, host_moid: str) -> tuple[Vm, ...]:
        return self.read_vms([moid for moid, vm in self.vms.items() if vm.host_moid == host_moid])

    def read_gpu_holders(self, host_moids: Iterable[str]) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
        return {
            host: {
                pci_id: tuple(
                    moid
                    for moid, held in self._held.items()
                    if pci_id in held and self._shown_at[moid] <= self.time
                )
                + tuple(
                    moid
                    for moid, (held, until) in self._released.items()
                    if pci_id in held and until > self.time
                )
                for pci_id in self.gpus.get(host, {})
            }
            for host in host_moids
        }

    def read_vms_and_holders(
        self, moids: Iterable[str], host_moids: Iterable[str], extra_config_keys: frozenset[str] = frozenset()
    ) -> tuple[tuple[Vm, ...], Mapping[str, Mapping[str, tuple[str, ...]]]]:
        wanted = tuple(moids)
        self.looks.append(wanted)
        return self.read_vms(wanted, extra_config_keys), self.read_gpu_holders(host_moids)

    def read_facts(self, host_moids: Sequence[str], groups: frozenset[FactGroup]) -> EstateFacts:
        return EstateFacts()

    def read_host(self, moid: str, groups: frozenset[FactGroup]) -> tuple[Host | None, EstateFacts]:
        return next(iter(self.read_hosts([moid])), None), self.read_facts([moid], groups)

    def read_hosts(self, moids: Iterable[str]) -> tuple[Host, ...]:
        return tuple(
            Host(moid=moid, name=moid, cordons=parse_cordons(self.host_attributes[moid]))
            for moid in moids
            if moid in self.host_attributes
        )

    def read_past(self, scope: PastScope) -> Past:
        return Past(unread="this vCenter does not provide events")

    def read_maintenance(self, host_moids: Sequence[str]) -> Mapping[str, MaintenanceEntry]:
        return {}

    def read_depots(self, wanted: Mapping[str, Sequence[str]]) -> Mapping[str, Mapping[str, DepotLook]]:
        return {}

    def read_ties(self, cluster_moid: str) -> ClusterTies:
        told = {"is_enabled": True, "is_mandatory": True, "key": 1}
        ties = {name: held for name, held in self.rules.items() if held and held[0] in self.vm_groups}
        rules = [
            ClusterRule.model_validate({"name": name, "kind": "anti_affinity", "vm_moids": held} | told)
            for name, held in self.rules.items()
            if name not in ties
        ]
        host_rules = [
            VmHostRule.model_validate({"name": name, "vm_group": held[0], "host_group": held[1]} | told)
            for name, held in ties.items()
        ]
        groups = [VmGroup(name=name, vm_moids=moids) for name, moids in self.vm_groups.items()]
        return ClusterTies(rules=tuple(rules), host_rules=tuple(host_rules), vm_groups=tuple(groups))

    def read_licences(self) -> None:
        return

    def read_alarms(self, host_moids: Sequence[str]) -> Mapping[str, tuple[HostAlarm, ...]]:
        del host_moids
        return {}

    def read_portgroups(self, switch_moid: str) -> Mapping[str, str]:
        del switch_moid
        return {}

    def read_gpu_use(self, hosts: Sequence[Host], days: float | None = None) -> UseReading:
        return UseReading(unread="this vCenter has no GPU performance counters")

    def read_locks(self) -> Locks | None:
        """Return the reservations, by the alarms that keep them; None where the account may not read them."""
        if self.reserved is None:
            return None
        kept = (
            KeptReservation(moid=moid, name=one.alarm_name, reservation=one)
            for moid, one in self.reserved.items()
        )
        return Locks(now=self.time, reserved=tuple(kept))

    def read_attached_tags(self, vm_moids: Sequence[str]) -> Mapping[str, frozenset[str]]:
        return {moid: self.tags.get(moid, frozenset()) for moid in vm_moids}

    def read_customization(self, vm_moid: str) -> CustomizationSeen:
        return self.customizations.pop(0) if self.customizations else CustomizationSeen()

    def read_missing_privileges(self, needed: Mapping[str, Sequence[str]]) -> Mapping[str, tuple[str, ...]]:
        return {}

    def read_defined_attributes(self) -> frozenset[tuple[str, str]]:
        return frozenset()

    # ------------------------------------------------------------- writer

    def create_vm(self, change: CreateVm, instance_uuid: str | None = None) -> str:
        def finish() -> str:
            self._serial += 1
            moid = f"vm-{self._serial}"
            before = VmDetail()
            if isinstance(change.source, CloneFrom) and change.source.template.moid:
                before = self.vms[change.source.template.moid].detail or before
            settings = {key: value for key, value in change.spec.settings.items() if key not in self.drops}
            unset = {name: _UNSET[name] for name in self.drops if name in _UNSET}
            kept = change.spec.model_copy(update={"settings": settings, **unset})
            asked = instance_uuid if "instance_uuid" not in self.drops else None
            vm = Vm(
                moid=moid,
                name=change.vm.name,
                host_moid=change.location.host_moid,
                instance_uuid=asked or uuid_of(moid),
                detail=before,
            )
            self.vms[moid] = vm
            self._apply(moid, kept)
            return moid

        return self._start("create_vm", change.vm.name, change.location.host_moid, finish)

    def upgrade_vm(self, moid: str, hardware_version: int) -> str:
        return self._start(
            "upgrade_vm",
            *self._of(moid),
            lambda: self._apply(moid, VmSpec(settings={"hardware_version": hardware_version})),
        )

    def reconfigure_vm(self, moid: str, spec: VmSpec) -> str:
        seen = self.vms[moid].detail
        stale = spec.change_version and seen and seen.change_version != spec.change_version
        failure = (
            ("ConcurrentAccess", "The object has been changed by another client since.") if stale else None
        )
        return self._start("reconfigure_vm", *self._of(moid), lambda: self._apply(moid, spec), failure)

    def power_on_vm(self, moid: str, host_moid: str | None = None) -> str:
        def finish() -> None:
            vm = self.vms[moid]
            host = self.starts_on or host_moid or vm.host_moid or ""
            held: list[str] = []
            for _ in (vm.detail or VmDetail()).vgpus:
                taken = set(held)
                for other, others in self._held.items():
                    taken |= set(others) if self.vms[other].host_moid == host else set()
                free = [pci_id for pci_id in sorted(self.gpus.get(host, {})) if pci_id not in taken]
                choice = self.choices.pop(0) if self.choices else free[0]
                held.append(choice)
            self._held[moid] = tuple(held)
            self._shown_at[moid] = self.time + timedelta(seconds=self.hides_gpus_for)
            self._touch(vm.model_copy(update={"power_state": PowerState.ON, "host_moid": host or None}))

        self.hosts_asked.append(host_moid)
        return self._start("power_on_vm", *self._of(moid), finish)

    def power_off_vm(self, moid: str) -> str:
        return self._start("power_off_vm", *self._of(moid), lambda: self._switch_off(moid))

    def shut_down_guest(self, moid: str) -> bool:
        self.calls.append(("shut_down_guest", self.vms[moid].name))
        if self.guests_shut_down_after is None:
            return False
        self._shutting_down[moid] = self.time + timedelta(seconds=self.guests_shut_down_after)
        return True

    def destroy_vm(self, moid: str) -> str:
        def finish() -> None:
            del self.vms[moid]

        return self._start("destroy_vm", *self._of(moid), finish)

    def rename_vm(self, moid: str, name: str) -> str:
        def finish() -> None:
            self._touch(self.vms[moid].model_copy(update={"name": name}))

        return self._start("rename_vm", *self._of(moid), finish)

    def move_vm_to_folder(self, moid: str, folder_moid: str) -> str:
        def finish() -> None:
            self._touch(self.vms[moid].model_copy(update={"folder_moid": folder_moid}))

        return self._start("move_vm_to_folder", *self._of(moid), finish)

    def relocate_vm(self, moid: str, destination: Destination) -> str:
        def finish() -> None:
            detail = self.vms[moid].detail or VmDetail()
            if destination.datastore_moid is not None:
                detail = detail.model_copy(update={"datastore_moids": (destination.datastore_moid,)})
            host_moid = self.moves_to or destination.host_moid
            self._touch(self.vms[moid].model_copy(update={"host_moid": host_moid, "detail": detail}))

        return self._start("relocate_vm", *self._of(moid), finish)

    def set_rule(self, change: SetRule, vm_moids: Sequence[str]) -> str:
        def finish() -> None:
            self.rules[change.rule_name] = tuple(vm_moids)

        return self._start("set_rule", change.rule_name, None, finish)

    def set_host_rule(self, change: SetHostRule, vm_moids: Sequence[str]) -> str:
        def finish() -> None:
            self.vm_groups[change.vm_group] = tuple(vm_moids)
            self.rules[change.rule_name] = (change.vm_group, change.host_group)

        return self._start("set_host_rule", change.rule_name, None, finish)

    def set_overrides(self, cluster_moid: str, overrides: Mapping[str, Mapping[str, SettingValue]]) -> str:
        def finish() -> None:
            for moid, settings in overrides.items():
                self.overrides.setdefault(moid, {}).update(settings)

        return self._start("set_overrides", cluster_moid, None, finish)

    def set_attributes(self, moid: str, values: Mapping[str, str]) -> None:
        self.calls.append(("set_attributes", self.vms[moid].name))
        detail = self.vms[moid].detail or VmDetail()
        found = {name: text for name, text in {**detail.attributes, **values}.items() if text}
        self._touch(
            self.vms[moid].model_copy(update={"detail": detail.model_copy(update={"attributes": found})})
        )

    def set_tags(self, moid: str, detach: Sequence[str], attach: Sequence[str]) -> None:
        self.calls.append(("set_tags", self.vms[moid].name))
        if "tags" not in self.drops:
            self.tags[moid] = self.tags.get(moid, frozenset()) - set(detach) | set(attach)

    def set_host_attributes(self, host_moid: str, values: Mapping[str, str]) -> None:
        self.calls.append(("set_host_attributes", host_moid))
        if "host_attributes" not in self.drops:
            self.host_attributes[host_moid] |= values

    def set_reservation(self, reservation: Reservation | None, alarm: str) -> bool:
        """Keep a reservation under an alarm, or remove it; a new alarm of a name that is there is refused."""
        self.calls.append(("set_reservation", alarm))
        kept = self.reserved if self.reserved is not None else {}
        if not alarm and reservation and reservation.plan in {one.plan for one in kept.values()}:
            return False
        if "reservation" not in self.drops and self.reserved is not None:
            self.reserved.pop(alarm, None)
            if reservation is not None:
                self.reserved[alarm or "alarm-new"] = reservation
        return True

    def remove_vm_group(self, change: RemoveVmGroup) -> str:
        def finish() -> None:
            del self.vm_groups[change.group_name]

        return self._start("remove_vm_group", change.group_name, None, finish)

    def remove_rule(self, change: RemoveRule) -> str:
        def finish() -> None:
            del self.rules[change.rule_name]

        return self._start("remove_rule", change.rule_name, None, finish)

    def wait_for_tasks(self, tasks: Sequence[str], timeout_seconds: float) -> tuple[TaskUpdate, ...]:
        self._waits += 1
        if self._waits in self.raise_at_wait:
            raise self.raise_at_wait[self._waits]
        self._note_load()
        waited = [self._tasks[task] for task in tasks]
        until = min([task.due for task in waited], default=self.time)
        until = min(until, self.time + timedelta(seconds=timeout_seconds))
        self.time = max(self.time, until)
        self._settle_guests()
        halfway = [
            TaskUpdate(task=task.moid, state=TaskState.RUNNING, progress=50)
            for task in waited
            if task.due > self.time
        ]
        return (*halfway, *(self._end(task) for task in waited if task.due <= self.time))

    # ------------------------------------------------------------- inside

    def _of(self, moid: str) -> tuple[str, str | None]:
        return self.vms[moid].name, self.vms[moid].host_moid

    def _start(
        self,
        method: str,
        subject: str,
        host_moid: str | None,
        finish: Callable[[], str | None],
        failure: tuple[str, str] | None = None,
    ) -> str:
        self.calls.append((method, subject))
        self._counts[method] += 1
        nth = self._counts[method]
        if (method, nth) in self.refusals:
            raise self.refusals[method, nth]
        moid = f"task-{len(self._tasks) + 1}"
        due = self.time + timedelta(seconds=self.task_seconds)
        self._tasks[moid] = _Task(moid, due, host_moid, finish, self.failures.get((method, nth), failure))
        return moid

    def _end(self, task: _Task) -> TaskUpdate:
        if task.update is None and task.failure is not None:
            fault, error = task.failure
            task.update = TaskUpdate(task=task.moid, state=TaskState.ERROR, fault=fault, error=error)
        elif task.update is None:
            task.update = TaskUpdate(task=task.moid, state=TaskState.SUCCESS, result_moid=task.finish())
        return task.update

    def _note_load(self) -> None:
        going_on = [task for task in self._tasks.values() if task.update is None]
        self.most_at_once = max(self.most_at_once, len(going_on))
        for host, count in Counter(task.host_moid for task in going_on if task.host_moid).items():
            self.most_on_host[host] = max(self.most_on_host[host], count)

    def _settle_guests(self) -> None:
        for moid, due in tuple(self._shutting_down.items()):
            if due <= self.time:
                del self._shutting_down[moid]
                self._switch_off(moid)

    def _switch_off(self, moid: str) -> None:
        held = self._held.pop(moid, ())
        self._released[moid] = (held, self.time + timedelta(seconds=self.shows_released_for))
        self._touch(self.vms[moid].model_copy(update={"power_state": PowerState.OFF}))

    def _seen(self, vm: Vm) -> Vm:
        extra = vm.detail.extra_config if vm.detail else {}
        plan = extra.get("vgpu_cfg.plan")
        mark = OwnerMark.parse(plan, extra.get("vgpu_cfg.vm", "")) if plan else None
        return vm.model_copy(update={"mark": mark})

    def _touch(self, vm: Vm) -> Vm:
        self._serial += 1
        detail = (vm.detail or VmDetail()).model_copy(update={"change_version": f"v{self._serial}"})
        self.vms[vm.moid] = vm.model_copy(update={"detail": detail})
        return self.vms[vm.moid]

    def _apply(self, moid: str, spec: VmSpec) -> None:
        vm = self.vms[moid]
        detail = vm.detail or VmDetail()
        detail = with_settings(detail, spec.settings)
        fields: dict[str, object] = {}
        merged = {**detail.extra_config, **spec.extra_config}
        fields["extra_config"] = {key: value for key, value in merged.items() if value}
        for edit in spec.devices:
            detail = _with_device(detail, edit)
        self._touch(vm.model_copy(update={"detail": detail.model_copy(update=fields)}))


_UNSET: Mapping[str, object] = {"extra_config": {}, "devices": ()}


def _with_device(detail: VmDetail, edit: object) -> VmDetail:
    passthrough, nics, disks = detail.passthrough, detail.nics, detail.disks
    keys = {vgpu.key for vgpu in detail.vgpus} | {device.key for device in passthrough}
    pci_key = next(key for key in range(13000, 13032) if key not in keys)
    match edit:
        case NewVgpu():
            return detail.model_copy(
                update={"vgpus": (*detail.vgpus, VgpuDevice(key=pci_key, profile=edit.profile))}
            )
        case NewPassthrough():
            device = PassthroughDevice(key=pci_key, pci_id=edit.pci_id, system_id=edit.system_id)
            return detail.model_copy(update={"passthrough": (*passthrough, device)})
        case NewDynamicPassthrough():
            device = PassthroughDevice(key=pci_key, allowed=edit.allowed, label=edit.label)
            return detail.model_copy(update={"passthrough": (*passthrough, device)})
        case NewNic() | NewPvrdmaNic():
            kind = "vmxnet3" if isinstance(edit, NewNic) else "pvrdma"
            nic = VirtualNic(
                key=4000 + len(nics), kind=kind, network=_network(edit.backing), mac=edit.mac or ""
            )
            return detail.model_copy(update={"nics": (*nics, nic)})
        case NewSriovNic():
            nic = VirtualNic(
                key=13031 - len(nics),
                kind="sriov",
                network=_network(edit.backing),
                mac=edit.mac or "",
                function=edit.function,
            )
            return detail.model_copy(update={"nics": (*nics, nic)})
        case EditNic():
            edited = [
                nic.model_copy(update={"network": _network(edit.backing), "mac": edit.mac or nic.mac})
                if nic.key == edit.key
                else nic
                for nic in nics
            ]
            return detail.model_copy(update={"nics": tuple(edited)})
        case NewDisk():
            key = 2000 + len(disks)
            disk = VirtualDisk(
                key=key,
                capacity_mib=edit.size_mib,
                controller_key=1000,
                uuid=f"uuid-{key}",
                file=f"[v] a/{key}",
            )
            return detail.model_copy(update={"disks": (*disks, disk)})
        case GrowDisk():
            grown = [
                disk.model_copy(update={"capacity_mib": edit.size_mib}) if disk.key == edit.key else disk
                for disk in disks
            ]
            return detail.model_copy(update={"disks": tuple(grown)})
        case RemoveDevice():
            return detail.model_copy(
                update={
                    "vgpus": tuple(device for device in detail.vgpus if device.key != edit.key),
                    "passthrough": tuple(device for device in passthrough if device.key != edit.key),
                    "nics": tuple(nic for nic in nics if nic.key != edit.key),
                    "disks": tuple(disk for disk in disks if disk.key != edit.key),
                }
            )
        case _:
            raise ValueError(edit)


def _network(backing: NicBacking) -> str:
    return backing.portgroup_key or backing.network_moid
