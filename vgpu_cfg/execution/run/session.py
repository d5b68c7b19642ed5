"""The state of a run: the VMs it made, the change versions it left, and whether to stop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from vgpu_cfg.changes.change import MarkVm, ReconfigureVm
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.report import SettingReading
from vgpu_cfg.changes.values import VmRef
from vgpu_cfg.errors import Interrupted, NotConfirmed, StalePlan, TaskFailed, Unreachable
from vgpu_cfg.execution.records.lock import RunLocks
from vgpu_cfg.execution.run.scheduler import StartQueues
from vgpu_cfg.execution.run.step import Looked, Waiting, look, wait_for
from vgpu_cfg.knowledge.faults import explain_fault
from vgpu_cfg.model.choices import PARALLEL, PER_HOST, Approval
from vgpu_cfg.model.identity import new_id
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.vm import AFFINITY_KEY, MARK_PLAN_KEY, MARK_VM_KEY, Vm
from vgpu_cfg.model.runs import OnFailure
from vgpu_cfg.ports import ChangeWriter, InventoryReader, MakeId, ReadScope, RunClock, TaskState, TaskUpdate

T = TypeVar("T")

FRESH_SECONDS = 5.0
"""The maximum age of a VM's readback that still counts as current before the next write."""
PLANNED_SECONDS = 60.0
"""The maximum age of the planning data if no other change can be lost by it: vCenter refuses a request with
an outdated change version, and the content of a template is read once per run at most.
"""

PLAN_AGAIN = "run the same command again to plan from the current state"


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a run goes."""

    parallel: int = PARALLEL
    """How many changes are under way at once."""
    per_host: int = PER_HOST
    """How many of those that burden one host."""
    on_failure: OnFailure = OnFailure.GO_ON
    """The effect of the first failure on the rest."""
    done_by_hand: frozenset[str] = frozenset()
    """Manual steps that count as done."""
    allow: frozenset[Approval] = frozenset()
    """Approvals in addition to those of the plan file."""
    shutdown_seconds: float = 300.0
    """How long a guest may take to shut down."""
    force_power_off: bool = True
    """Whether it is switched off then."""
    settle_seconds: float = 30.0
    """Seconds for a host to show which GPU a VM got, or a written value."""
    poll_seconds: float = 2.0
    wait_seconds: float = 10.0
    """The longest wait for news of tasks."""
    gather_part: float = 0.1
    """News of several tasks is gathered for this part of the time that the longest of them has taken."""
    gather_seconds: float = 5.0
    """The longest time for which news is gathered."""
    restart_seconds: float = 2700.0
    """How long a host may take to go down, or to come back."""
    host_poll_seconds: float = 20.0
    """How often it is asked meanwhile; more rarely the longer it takes."""
    host_poll_most_seconds: float = 30.0
    """The longest pause between two questions."""
    boot_settle_seconds: float = 120.0
    """Seconds for a host to show the values that it booted with."""
    command_seconds: float = 600.0
    """How long a command on a host's shell may take."""
    guest_poll_seconds: float = 10.0
    """How often a guest at work is asked."""
    guest_retry_seconds: float = 30.0
    """How often one that does not answer is asked."""
    guest_silence_seconds: float = 300.0
    """After so long without a report the first boot of a guest is looked into through a shell."""
    guest_start_seconds: float = 120.0
    """Seconds for a program started in a guest to begin."""
    guest_quiet_seconds: float = 900.0
    """How long an earlier staging may take to end."""


@dataclass(frozen=True, slots=True)
class _JustRead:
    """A VM as it was read back, with the extraConfig keys that were asked for."""

    vm: Vm
    keys: frozenset[str]
    at: datetime


@dataclass(slots=True)
class RunSession:
    """The state that the steps of one run share."""

    plan: Plan
    reader: InventoryReader
    writer: ChangeWriter
    clock: RunClock
    options: RunOptions
    locks: RunLocks
    user: str = ""
    """The account at vCenter, which owner marks name."""
    make_id: MakeId = new_id
    """Makes the instance UUIDs of new VMs."""
    observed: Inventory | None = None
    """The inventory that the plan was made from."""
    note: Callable[[str, str], None] = lambda _change_id, _message: None
    is_stopping: bool = False
    made: dict[str, str] = field(default_factory=dict)
    """Moids of the VMs that this run made, by their names."""
    versions: dict[str, str] = field(default_factory=dict)
    """Change versions of VMs after this run's last change to them, by moid."""
    seen: dict[str, Vm] = field(default_factory=dict)
    """How these VMs were read then."""
    just_read: dict[str, _JustRead] = field(default_factory=dict)
    """VMs that were read back since the run last waited."""
    half_made: dict[str, str] = field(default_factory=dict)
    """The missing parts of VMs that were made and do not yet show all that was asked, by their names."""
    asked: dict[str, tuple[str, datetime]] = field(default_factory=dict)
    """Instance UUIDs and times of the requests to make VMs, by their names."""
    asked_on: set[str] = field(default_factory=set)
    """Moids of the VMs that vCenter was asked to switch on."""
    half_staged: dict[str, str] = field(default_factory=dict)
    """How far guests are that are being set up, by the names of their VMs."""
    templates: dict[str, Vm | None] = field(default_factory=dict)
    networks: dict[str, str] = field(default_factory=dict)
    """Moids of the switches and portgroups that this run made, by their names."""
    readings: dict[str, tuple[SettingReading, ...]] = field(default_factory=dict)
    """The settings that a change showed, by its id."""
    planned_versions: Mapping[str, str] = field(init=False)
    planned_keys: frozenset[str] = field(init=False)
    start_queues: StartQueues = field(init=False)
    """The VM that starts next, if that depends on the GPUs of other VMs."""

    def __post_init__(self) -> None:
        self.planned_versions = {
            change.vm.moid: change.spec.change_version
            for change in self.plan.changes
            if isinstance(change, ReconfigureVm | MarkVm) and change.vm.moid and change.spec.change_version
        }
        self.planned_keys = _with_own(key for vm in self.plan.desired.vms for key in vm.extra_config)
        self.start_queues = StartQueues(self.plan.contests)

    def check_going_on(self) -> None:
        """Raise Interrupted where the run is to start no more tasks, LockLost where its lock has gone."""
        if self.is_stopping:
            raise Interrupted("the run was stopped before this step was complete", remedy=PLAN_AGAIN)
        self.locks.beat()

    def begin(self, start: Callable[[], T]) -> T:
        """Ask vCenter for something and return its answer, a task's moid; the only way by which steps do.

        Raises Interrupted where the run is to start no more tasks.
        """
        self.check_going_on()
        try:
            return start()
        except Unreachable as lost:
            raise type(lost)(
                f"{lost.message}; it is unknown whether vCenter received the request",
                subject=lost.subject,
                remedy=lost.remedy or PLAN_AGAIN,
            ) from lost

    def run_task(self, start: Callable[[], str], what: str, subject: str) -> Waiting[TaskUpdate]:
        """Have vCenter begin a task, and wait for its end. Raises TaskFailed where it fails."""
        task = self.begin(start)
        return succeeded((yield from wait_for(task)), what, subject)

    def now(self) -> float:
        """Return the time, in seconds."""
        return self.clock.now().timestamp()

    def moid_of(self, vm: VmRef) -> str:
        """Return the moid of a VM, that of one made in this run if need be."""
        moid = vm.moid or self.made.get(vm.name)
        if moid is None:
            raise StalePlan(f"the VM {vm.name} was not created", subject=vm.name, remedy=PLAN_AGAIN)
        return moid

    def read_vm(self, moid: str, keys: Iterable[str] = ()) -> Waiting[Vm | None]:
        """Read one VM again, None where it has gone."""
        return (yield from look(moid, _with_own(keys))).vm

    def gpus_of(self, moid: str, host_moid: str) -> Waiting[tuple[str, ...]]:
        """Return the addresses of the GPUs of a host that a VM holds now."""
        return (yield from look(moid, _with_own(()), host_moid)).pci_ids

    def _read_before(self, moid: str, keys: Iterable[str], *, is_guarded: bool = False) -> Waiting[Vm | None]:
        """Read a VM before a write; a readback since the run last waited is used once.

        If the request `is_guarded` by the change version that the VM was planned at, so are the planning
        data: vCenter refuses it if the VM has changed since.
        """
        known = self.just_read.pop(moid, None)
        if known is not None and _with_own(keys) <= known.keys:
            age = (self.clock.now() - known.at).total_seconds()
            if age <= FRESH_SECONDS:
                return known.vm
        planned = self._as_planned(moid) if is_guarded else None
        if planned is not None and _with_own(keys) <= self.planned_keys:
            return planned
        return (yield from self.read_vm(moid, keys))

    def _as_planned(self, moid: str) -> Vm | None:
        """Return a VM as the plan was made of it, unless this run has changed it since, or it is old."""
        found = self._observed(moid)
        if found is None or found.detail is None or found.called or moid in self.versions:
            return None
        return found if found.detail.change_version == self.planned_versions.get(moid) else None

    def _observed(self, moid: str) -> Vm | None:
        observed = self.observed
        if observed is None or (self.clock.now() - observed.read_at).total_seconds() > PLANNED_SECONDS:
            return None
        return observed.vm_by_moid.get(moid)

    def find_asked_for(self, name: str) -> Vm | None:
        """Return the VM that an earlier request of this run has made, whose answer was lost; None for none.

        It is known by the instance UUID that the request gave it, or wrote into its mark.
        """
        if name not in self.asked:
            return None
        uuid, _ = self.asked[name]
        scope = ReadScope(plan=self.plan.desired.identity, vm_names=frozenset({name}))
        for vm in self.reader.read_inventory(scope).vms:
            marked = vm.mark.instance_uuid if vm.mark is not None else ""
            if vm.name == name and uuid in (vm.instance_uuid.lower(), (marked or "").lower()):
                return vm
        return None

    def read_own_vm(
        self, vm: VmRef, keys: Iterable[str] = (), *, is_guarded: bool = False
    ) -> Waiting[Vm | None]:
        """Read a VM again before it is written to, and see that it is still this plan's.

        Returns None where it has gone. Raises StalePlan if its owner mark is another's, if it has been made a
        template, or if it has changed since it was planned. Its name counts only if the mark holds no id; if
        the name differs, `called` has it.
        """
        found = yield from self._read_before(self.moid_of(vm), keys, is_guarded=is_guarded)
        if found is None:
            return None
        mark, plan = found.mark, self.plan.desired.identity
        if found.moid in self.plan.others:
            return self._as_lent(found, vm)
        is_own = mark is not None and mark.is_named(plan) and not found.is_copy
        if mark is not None and not mark.id:
            former = {old for old, new in self.plan.desired.moved.items() if new == vm.name}
            is_own = is_own and {mark.vm, found.name} <= {vm.name, *former}
        if not is_own:
            raise StalePlan(
                f"{found.name} no longer belongs to this plan: {_whose(found)}",
                subject=vm.name,
                remedy=f"check who changed it; in this plan, its owner mark is {self.plan.name}/{vm.name}",
            )
        self._check_as_planned(found, vm)
        if found.name != vm.name:
            found = found.model_copy(update={"name": vm.name, "called": found.name})
        return found

    def unmarked(self, vm: VmRef) -> Waiting[Vm]:
        """Read a VM to be imported, and check that it still has no owner and is unchanged."""
        found = yield from self.read_vm(self.moid_of(vm))
        if found is None:
            raise StalePlan(f"the VM {vm.name} no longer exists", subject=vm.name, remedy=PLAN_AGAIN)
        if found.name != vm.name or found.mark is not None:
            raise StalePlan(
                f"{found.name} is no longer the VM to be imported: {_whose(found)}",
                subject=vm.name,
                remedy=PLAN_AGAIN,
            )
        self._check_as_planned(found, vm)
        return found

    def _check_as_planned(self, found: Vm, vm: VmRef) -> None:
        if found.is_template:
            raise StalePlan(
                f"{vm.name} was converted to a template after planning",
                subject=vm.name,
                remedy="ask the user who converted it; then plan again",
            )
        planned = self.planned_versions.get(found.moid)
        seen = found.detail.change_version if found.detail else ""
        if found.moid not in self.versions and planned and seen and planned != seen:
            raise StalePlan(
                f"{vm.name} was changed by another user after it was read", subject=vm.name, remedy=PLAN_AGAIN
            )

    def _as_lent(self, found: Vm, vm: VmRef) -> Vm:
        """Return another's VM that the plan is permitted to change, if it is still the planned one."""
        mark = found.mark.text if found.mark is not None else ""
        if found.name != vm.name or mark != self.plan.others[found.moid] or found.is_template:
            raise StalePlan(
                f"{found.name} has changed since it was read: its name or its owner mark differs",
                subject=vm.name,
                remedy=PLAN_AGAIN,
            )
        return found

    def read_to_delete(self, vm: VmRef, *, is_imported: bool) -> Waiting[Vm | None]:
        """Read an own VM right before it is deleted, and see that its mark proves that it is this plan's.

        Returns None where it has gone. Raises StalePlan as `read_own_vm`, for a mark without an id, and for
        an imported VM unless the plan knew that.
        """
        found = yield from self.read_own_vm(vm)
        if found is None:
            return None
        if found.mark is None or not found.mark.id:
            raise StalePlan(
                (
                    f"{found.name} was not deleted: its owner mark has no plan ID, and VMs are not deleted "
                    "by name alone"
                ),
                subject=vm.name,
                remedy="run `vgpu-cfg apply`, which completes the owner mark; then delete the VM",
            )
        if found.mark.is_imported and not is_imported:
            raise StalePlan(
                f"{found.name} was not deleted: it was imported after the plan was made",
                subject=vm.name,
                remedy=PLAN_AGAIN,
            )
        return found

    def check_members(self, moids: Iterable[str], what: str) -> None:
        """Raise StalePlan where a rule or a group that is to go holds a VM of another plan, or a copy."""
        plan = self.plan.desired.identity
        found = self.reader.read_vms(moids)
        others = [vm for vm in found if vm.mark is not None and not vm.is_of(plan)]
        if others:
            raise StalePlan(
                f"{what} was not removed: it contains {others[0].name}, which is not a VM in this plan: "
                f"{_whose(others[0])}",
                subject=others[0].name,
                remedy=(
                    "remove that VM from the rule or group in vCenter, or keep the rule; then run the "
                    "same command again"
                ),
            )

    def present(
        self, vm: VmRef, keys: Iterable[str] = (), *, host_moid: str | None = None, is_guarded: bool = False
    ) -> Waiting[Vm]:
        """Read an own VM that must be there, on `host_moid` if given; `is_guarded`: see `_read_before`."""
        found = yield from self.read_own_vm(vm, keys, is_guarded=is_guarded)
        if found is None:
            raise StalePlan(f"the VM {vm.name} no longer exists", subject=vm.name, remedy=PLAN_AGAIN)
        if host_moid is not None and found.host_moid != host_moid:
            raise has_moved(vm.name)
        return found

    def check_not_made(self, update: TaskUpdate, name: str) -> Waiting[None]:
        """Raise StalePlan where a VM could not be made since another run of this plan has made it."""
        found = (yield from self.read_vm(update.taken_by)) if update.taken_by else None
        if found is not None and found.is_of(self.plan.desired.identity):
            raise StalePlan(
                f"another run of this plan created {found.name} after this run read vCenter",
                subject=name,
                remedy=f"wait for that run to end; then {PLAN_AGAIN}",
            )

    def read_back(self, moid: str, name: str, keys: Iterable[str] = ()) -> Waiting[Vm]:
        """Read a VM after a task of ours, and keep its change version for the next request."""
        return (yield from self.look_back(moid, name, keys))[0]

    def look_back(
        self, moid: str, name: str, keys: Iterable[str] = (), host_moid: str | None = None
    ) -> Waiting[tuple[Vm, tuple[str, ...]]]:
        """Read a VM back, and which GPUs of a host it holds."""
        seen: Looked = yield from look(moid, _with_own(keys), host_moid)
        found = seen.vm
        if found is None:
            raise NotConfirmed(f"{name} cannot be found after the task", subject=name, remedy=PLAN_AGAIN)
        if found.detail is not None and found.detail.change_version:
            self.versions[moid] = found.detail.change_version
            self.seen[moid] = found
        self.just_read[moid] = _JustRead(found, _with_own(keys), self.clock.now())
        return found, seen.pci_ids

    def template(self, moid: str) -> Vm | None:
        """Return a template, read once per run; the planning data are used for a moment."""
        if moid not in self.templates:
            known = self._observed(moid)
            if known is None or known.detail is None:
                known = next(iter(self.reader.read_vms([moid])), known)
            self.templates[moid] = known
        return self.templates[moid]


def has_moved(name: str) -> StalePlan:
    """Return what to raise for a VM that is on another host than it was."""
    message = f"{name} has moved to another host since planning"
    return StalePlan(message, subject=name, remedy=PLAN_AGAIN)


def _with_own(keys: Iterable[str]) -> frozenset[str]:
    return frozenset(keys) | {AFFINITY_KEY, MARK_PLAN_KEY, MARK_VM_KEY}


def _whose(vm: Vm) -> str:
    """Say whose VM one is by its mark."""
    mark = vm.mark
    if mark is None:
        return "it has no owner mark"
    if vm.is_copy:
        return (
            f"its owner mark contains the instance UUID of another VM, {mark.instance_uuid}, so it is a copy"
        )
    return f"its owner mark is {mark.plan}/{mark.vm}" + (f", with the plan ID {mark.id}" if mark.id else "")


def succeeded(update: TaskUpdate, what: str, subject: str) -> TaskUpdate:
    """Return an ended task's update, or raise TaskFailed with vCenter's own words."""
    if update.state is TaskState.SUCCESS:
        return update
    words = update.error or update.fault or "vCenter gave no reason"
    found = explain_fault(words, update.fault)
    raise TaskFailed(
        f"{what}: {words}",
        subject=subject,
        remedy=found.remedy if found else "",
        cause=found.cause if found else "",
    )
