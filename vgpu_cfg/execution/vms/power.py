"""Power VMs on and off, and move a VM to the NUMA node of its GPU.

ESXi alone chooses the physical GPU of a vGPU, and does so at power-on. If GPUs of several nodes are possible,
the VM is read after power-on and, if its affinity names another node, powered off, pinned to the actual node,
and powered on again: only for VMs not yet in use, a limited number of times. If the GPUs of some VMs decide
which start next, they are read, too.

Belief: esxi-chooses-the-gpu, graphics-info-shows-the-gpu, graphics-info-forgets-stopped-vms,
drs-keeps-power-on-host, customization-survives-a-short-start.
"""

from __future__ import annotations

from collections.abc import Iterable

from vgpu_cfg.changes.change import PowerOffVm, PowerOnVm
from vgpu_cfg.changes.kinds.power import NumaPin
from vgpu_cfg.changes.kinds.vm_spec import VmSpec
from vgpu_cfg.errors import NotConfirmed, StalePlan
from vgpu_cfg.execution.run.session import PLAN_AGAIN, RunSession, has_moved
from vgpu_cfg.execution.run.step import Step, StepResult, Waiting, wait
from vgpu_cfg.execution.vms.reconfigure import reconfigure
from vgpu_cfg.model.observed.vm import AFFINITY_KEY, PowerState, Vm


def power_on_vm(change: PowerOnVm, session: RunSession) -> Step:
    """Switch a VM on and see that it runs; with a pin, that it sits where its GPUs are."""
    vm = yield from session.present(change.vm, host_moid=change.host_moid)
    if vm.is_on and change.pin is None:
        _take_turn(vm, (yield from session.gpus_of(vm.moid, vm.host_moid or "")), session)
        return StepResult(vm_moid=vm.moid, is_needed=False, message="already running")
    if vm.is_on and vm.moid not in session.asked_on:
        raise StalePlan(
            f"{vm.name} was powered on by another user after planning", subject=vm.name, remedy=PLAN_AGAIN
        )
    if change.pin is None:
        host_moid, shown = yield from _switch_on(vm, change, session)
        is_elsewhere = change.host_moid is not None and host_moid != change.host_moid
        if session.start_queues.is_waiting(vm.name) and not is_elsewhere:
            _take_turn(vm, (yield from _gpus_of(vm, host_moid, shown, session)), session)
        message = "DRS started it on a different host" if is_elsewhere else ""
        return StepResult(vm_moid=vm.moid, message=message)
    return (yield from _power_on_pinned(vm, change, change.pin, session))


def _take_turn(vm: Vm, pci_ids: Iterable[str], session: RunSession) -> None:
    if session.start_queues.is_waiting(vm.name):
        session.start_queues.started(vm.name, pci_ids)


def power_off_vm(change: PowerOffVm, session: RunSession) -> Step:
    """Shut a VM down through its guest; where that cannot be, or takes too long, switch it off."""
    vm = yield from session.read_own_vm(change.vm)
    if vm is None or vm.power_state is PowerState.OFF:
        message = "already off" if vm else "no longer exists"
        return StepResult(vm_moid=vm.moid if vm else None, is_needed=False, message=message)
    if vm.moid in session.plan.others and vm.host_moid != change.host_moid:
        raise has_moved(vm.name)  # it was to be off for what is done to the host that it has left
    session.check_going_on()
    if vm.is_on and session.writer.shut_down_guest(vm.moid):
        deadline = session.now() + session.options.shutdown_seconds
        while session.now() < deadline:
            yield from wait(session.options.poll_seconds)
            session.check_going_on()
            after = yield from session.read_back(vm.moid, vm.name)
            if after.power_state is PowerState.OFF:
                return StepResult(vm_moid=vm.moid, message="shut down through the guest OS")
        if not session.options.force_power_off:
            raise NotConfirmed(
                f"the guest OS on {vm.name} did not shut down within "
                f"{session.options.shutdown_seconds:.0f} s",
                subject=vm.name,
                remedy="shut it down in the guest; then run the same command again",
            )
        session.note(change.id, "the guest did not shut down in time; powering it off")
    yield from _switch_off(vm, session)
    return StepResult(vm_moid=vm.moid)


def _power_on_pinned(vm: Vm, change: PowerOnVm, pin: NumaPin, session: RunSession) -> Step:
    nodes = _affinity_of(vm)
    for attempt in range(1, pin.attempts + 1):
        if vm.is_on:
            host_moid = vm.host_moid or ""  # by this run, in a request whose answer was lost
            shown = yield from session.gpus_of(vm.moid, host_moid)
        else:
            if attempt > 1 or vm.moid not in session.made.values():
                yield from _await_release(vm, session)
            host_moid, shown = yield from _switch_on(vm, change, session)
        _check_host(vm, host_moid, change)
        pci_ids = yield from _gpus_of(vm, host_moid, shown, session)
        seen = _nodes_of(vm, pci_ids, pin)
        where = f"GPU {', '.join(pci_ids)} on NUMA node {_node_list(seen)}"
        if seen == nodes or (seen < nodes and len(pin.nodes) > 1):
            _take_turn(vm, pci_ids, session)
            return StepResult(vm_moid=vm.moid, message=where)
        session.note(
            change.id,
            f"{where}, affinity {_node_list(nodes) or 'none'}: power-on {attempt}/{pin.attempts}; retrying",
        )
        vm = yield from _switch_off(vm, session)
        nodes = _as_wide_as(pin, seen)
        yield from _set_affinity(vm, nodes, session)
    raise NotConfirmed(
        f"{vm.name} was assigned GPUs on a NUMA node outside its affinity {pin.attempts} times, so it was "
        f"powered off with affinity {_node_list(nodes)}",
        subject=vm.name,
        remedy="run the same command again to retry, or set `numa: off` for this VM",
    )


def _switch_on(vm: Vm, change: PowerOnVm, session: RunSession) -> Waiting[tuple[str, tuple[str, ...]]]:
    """Power on; return the host of the VM and, if relevant, the GPUs that it shows there."""
    session.asked_on.add(vm.moid)
    yield from session.run_task(
        lambda: session.writer.power_on_vm(vm.moid, change.host_moid), f"power on {vm.name}", vm.name
    )
    is_counted = change.pin is not None or session.start_queues.is_waiting(vm.name)
    expected = (change.host_moid or vm.host_moid) if is_counted else None
    after, pci_ids = yield from session.look_back(vm.moid, vm.name, host_moid=expected)
    if not after.is_on:
        raise NotConfirmed(
            f"{vm.name} is {after.power_state} after the power-on task",
            subject=vm.name,
            remedy=f"check {vm.name}'s events in vCenter; then {PLAN_AGAIN}",
        )
    if after.host_moid is None:
        raise NotConfirmed(
            f"{vm.name} is running, but vCenter does not report its host", subject=vm.name, remedy=PLAN_AGAIN
        )
    return after.host_moid, pci_ids


def _check_host(vm: Vm, host_moid: str, change: PowerOnVm) -> None:
    """See that DRS left the VM where its GPUs' nodes are known."""
    if change.host_moid is not None and host_moid != change.host_moid:
        raise NotConfirmed(
            f"{vm.name} started on a different host than planned",
            subject=vm.name,
            remedy="DRS may place a VM at power-on. Set DRS to manual for this VM, power it off, then run "
            "the same command again",
        )


def _switch_off(vm: Vm, session: RunSession) -> Waiting[Vm]:
    """Power off and return the VM as read afterwards."""
    yield from session.run_task(lambda: session.writer.power_off_vm(vm.moid), f"power off {vm.name}", vm.name)
    after = yield from session.read_back(vm.moid, vm.name)
    if after.power_state is not PowerState.OFF:
        raise NotConfirmed(
            f"{vm.name} is {after.power_state} after the power-off task", subject=vm.name, remedy=PLAN_AGAIN
        )
    return after


def _await_release(vm: Vm, session: RunSession) -> Waiting[None]:
    """Wait until the host no longer shows the GPUs of a VM that is off, which would be taken for new ones."""
    if vm.host_moid is None:
        return
    deadline = session.now() + session.options.settle_seconds
    while held := (yield from session.gpus_of(vm.moid, vm.host_moid)):
        if session.now() >= deadline:
            raise NotConfirmed(
                f"{vm.name} is off, but its host still shows it as using GPU {', '.join(held)}",
                subject=vm.name,
                remedy="refresh the host's graphics devices in vCenter, then run the same command again",
            )
        yield from wait(session.options.poll_seconds)


def _gpus_of(vm: Vm, host_moid: str, shown: tuple[str, ...], session: RunSession) -> Waiting[tuple[str, ...]]:
    """Return the addresses of a VM's GPUs, once the host shows them; `shown` is the first reading.

    One that has several vGPUs and shows fewer GPUs is looked at once more: they may come one by one.
    """
    deadline = session.now() + session.options.settle_seconds
    most = len(vm.detail.vgpus) if vm.detail is not None else 1
    found, before = shown, tuple[str, ...]()
    while True:
        if found and (len(found) >= most or found == before):
            return found
        before = found
        if session.now() >= deadline:
            raise NotConfirmed(
                f"the host does not report {vm.name}'s GPU",
                subject=vm.name,
                remedy=f"{vm.name} is running; see `vgpu-cfg status`, or set `numa: off` for this VM",
            )
        yield from wait(session.options.poll_seconds)
        found = yield from session.gpus_of(vm.moid, host_moid)


def _nodes_of(vm: Vm, pci_ids: Iterable[str], pin: NumaPin) -> frozenset[int]:
    unknown = [pci_id for pci_id in pci_ids if pci_id not in pin.node_by_pci_id]
    if unknown:
        raise NotConfirmed(
            f"{vm.name} was assigned GPU {', '.join(unknown)}, whose NUMA node is not in the plan",
            subject=vm.name,
            remedy=PLAN_AGAIN,
        )
    return frozenset(pin.node_by_pci_id[pci_id] for pci_id in pci_ids)


def _as_wide_as(pin: NumaPin, seen: frozenset[int]) -> frozenset[int]:
    """Return the nodes of the GPUs, with as many of the planned ones as a VM wider than a node needs."""
    others = [node for node in pin.nodes if node not in seen]
    return seen | frozenset(others[: max(0, len(pin.nodes) - len(seen))])


def _affinity_of(vm: Vm) -> frozenset[int]:
    """Read `numa.nodeAffinity`: a comma list of node ids, absent where there is none."""
    text = vm.detail.extra_config.get(AFFINITY_KEY, "") if vm.detail else ""
    return frozenset(int(part) for part in text.split(",") if part.strip().isdigit())


def _set_affinity(vm: Vm, nodes: frozenset[int], session: RunSession) -> Waiting[None]:
    spec = VmSpec(
        extra_config={AFFINITY_KEY: _node_list(nodes)}, change_version=session.versions.get(vm.moid)
    )
    yield from reconfigure(vm, spec, f"set {AFFINITY_KEY} on {vm.name}", session)
    after = yield from session.read_back(vm.moid, vm.name)
    if _affinity_of(after) != nodes:
        raise NotConfirmed(f"{vm.name} did not keep {AFFINITY_KEY}", subject=vm.name, remedy=PLAN_AGAIN)


def _node_list(nodes: Iterable[int]) -> str:
    return ",".join(str(node) for node in sorted(nodes))
