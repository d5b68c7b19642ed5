"""What whole commands ask of a vCenter: each question once, and none that nothing depends on."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.cli.command_line import CommandLine
from tests.cli.host_watch import Watch, watch_labs
from tests.cli.locks import take_for_others
from vgpu_cfg.model.locks import LockName

ONE = "examples/full-vgpu.yaml"
OF_KINDS = (
    "QueryConfigOptionDescriptor",
    "QueryConfigOptionEx",
    "RetrieveVgpuProfileInfo",
    "RetrieveVendorDeviceGroupInfo",
)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    return watch_labs(monkeypatch)


def test_a_run_asks_once_what_it_cannot_change(vgpu_cfg: CommandLine, watch: Watch) -> None:
    vgpu_cfg.done("apply", "--yes", ONE)
    asked = dict.fromkeys(OF_KINDS, 1)
    # One vGPU any VM may have.
    assert {name: watch.calls[name] for name in OF_KINDS} == asked | {"QueryConfigOptionEx": 0}
    # A new plan is locked before it is read, and a freeze is looked for before that.
    assert (watch.calls["GetAlarm"], watch.calls["CreateContainerView"]) == (2, 1)


def test_a_run_asks_for_reservations_again_where_there_are_any(vgpu_cfg: CommandLine, watch: Watch) -> None:
    text = (vgpu_cfg.folder / ONE).read_text(encoding="utf-8").replace("name: full-vgpu", "name: later")
    when = "from: 2098-01-01T08:00Z\nuntil: 2099-01-01T08:00Z\nvms:"
    vgpu_cfg.done("apply", "--yes", vgpu_cfg.write("later.yaml", text.replace("vms:", when)))
    watch.forget()
    vgpu_cfg.done("apply", "--yes", ONE)
    assert watch.calls["GetAlarm"] == 3


def test_an_inventory_does_not_ask_what_only_placing_needs(vgpu_cfg: CommandLine, watch: Watch) -> None:
    lab = ("--server", "lab:two-a100")
    vgpu_cfg.done("inventory", *lab)
    whole = watch.calls.copy()
    assert whole["QueryConfigOptionDescriptor"] == whole["QueryConfigOptionEx"] == 0
    watch.forget()
    vgpu_cfg.done("inventory", "--gpus", *lab)
    assert watch.calls["QueryConfigOptionDescriptor"] == watch.calls["QueryConfigOptionEx"] == 0
    # Counters come along with what is read anyway, and their newest values are one question. What kinds of
    # hosts tell besides is not asked.
    assert watch.calls - whole == {"QueryPerf": 1}
    assert whole - watch.calls == {"RetrieveVgpuProfileInfo": 1, "RetrieveVendorDeviceGroupInfo": 1}
    assert watch.calls.total() == 7
    watch.forget()
    vgpu_cfg.done("inventory", "--gpus", "-v", *lab)
    assert watch.calls - whole == {"QueryPerf": 1}
    watch.forget()
    vgpu_cfg.done("fit", "grid_a100-10c", *lab)
    assert watch.calls["QueryConfigOptionDescriptor"] == watch.calls["QueryConfigOptionEx"] == 1


CHANGED = """
version: 1
name: one
vcenter: lab:fleet-8x8
vms:
- {{name: a, template: ubuntu-22.04-efi, cpus: 4, memory: {memory}GiB, gpus: {profile}, power: {power}}}
"""
SMALL, LARGE = "grid_a100-10c", "grid_a100-20c"
NOTHING = {
    # The session, and the roots of the API before it.
    "RetrieveServiceContent": 1,
    "Login": 1,
    "Logout": 1,
    # Reading. Alarms come beside a pass.
    "CreateContainerView": 1,
    "GetAlarm": 1,
    "RetrievePropertiesEx": 2,
}
"""No lock is made."""
PLACED = {
    # Of four kinds of hosts one has a board for the plan's profile. Who places nothing asks none.
    "QueryConfigOptionDescriptor": 1,
    "RetrieveVgpuProfileInfo": 1,
    "RetrieveVendorDeviceGroupInfo": 1,
}
LOCKED = {"lock CreateAlarm": 1, "lock RemoveAlarm": 1}
RUN = Counter(LOCKED) + Counter(
    {
        # The event of the run's end, and a task that is watched.
        "LogUserEvent": 1,
        "CreateFilter": 1,
        # Once the plan is locked, the estate is read again: VMs that have not changed are left out.
        "GetAlarm": 1,
        "RetrievePropertiesEx": 2,
    }
)
"""A plan that was applied before is locked once it turns out to have changes."""
POOL = {"lock CreateAlarm": 1, "lock RemoveAlarm": 1}
"""The lock of the cluster."""
WAITS = "WaitForUpdatesEx"
"""How often is waited depends on how long the lab takes."""


def test_changing_one_vm_asks_once_what_it_needs(vgpu_cfg: CommandLine, watch: Watch) -> None:
    def asked(memory: int, profile: str, power: str) -> Counter[str]:
        watch.forget()
        text = CHANGED.format(memory=memory, profile=profile, power=power)
        vgpu_cfg.done("apply", "--yes", "--allow-power-cycle", vgpu_cfg.write("one.yaml", text))
        return Counter({name: count for name, count in watch.calls.items() if name != WAITS})

    made = asked(16, SMALL, "on")
    tasks = {"CloneVM_Task": 1, "PowerOnVM_Task": 1, "CreateFilter": 1}
    # Both tasks are read back, and the host at the end. A template, and what was read back, are read again
    # after a while. A freeze is looked for, by vCenter's time, before a new plan is locked.
    reads = Counter(RetrievePropertiesEx=3 + 2, CurrentTime=1)
    assert made <= Counter(NOTHING) + Counter(PLACED) + RUN + Counter(POOL) + Counter(tasks) + reads
    assert asked(16, SMALL, "on") == NOTHING
    # Off, changed, on: it keeps its GPU. While it starts, how it was changed is of no interest any more.
    restarted = asked(24, SMALL, "on")
    assert not restarted.keys() & PLACED
    assert restarted["DestroyPropertyFilter"] == 1
    off = asked(24, SMALL, "off")
    # Power has no change version: the VM is looked at before and after, and the host is at the end.
    power = Counter(PowerOffVM_Task=1, ShutdownGuest=1, RetrievePropertiesEx=3)
    assert off == Counter(NOTHING) + RUN + Counter(POOL) + power
    # A reconfiguration is guarded by the change version that was read: the VM is not read before, and comes
    # along with the task's end.
    once = Counter(NOTHING) + RUN + Counter(ReconfigVM_Task=1)
    assert asked(32, SMALL, "off") == once
    # A device's edit says how the device is now, and takes of the cluster's GPUs.
    assert asked(32, LARGE, "off") == once + Counter(PLACED) + Counter(POOL) + Counter(RetrievePropertiesEx=1)
    assert asked(32, LARGE, "on").keys() >= PLACED.keys()


def test_history_asks_twice_for_locks(vgpu_cfg: CommandLine, watch: Watch) -> None:
    take_for_others(vgpu_cfg.lab("two-a100"), LockName(kind="plan", key="demo"))
    vgpu_cfg.done("history", "--server", "lab:two-a100")
    assert watch.calls["GetAlarm"] == watch.calls["RetrievePropertiesEx"] == 1
    assert watch.calls["CurrentTime"] == 0


def test_how_many_vgpus_a_vm_may_have_is_asked_for_several_of_them(
    vgpu_cfg: CommandLine, watch: Watch
) -> None:
    for count in (1, 2):
        watch.forget()
        gpus = f"{{profile: {SMALL}, count: {count}}}"
        text = CHANGED.replace("8x8", "8x4").format(memory=16, profile=gpus, power="on")
        plan = vgpu_cfg.write("one.yaml", text)
        vgpu_cfg.done("plan", plan)
        assert watch.calls["QueryConfigOptionEx"] == count - 1
    # Nor of a VM that runs with several.
    vgpu_cfg.done("apply", "--yes", plan)
    watch.forget()
    for command in ("plan", "status"):
        assert "in sync" in vgpu_cfg.done(command, plan).told
    assert not watch.calls.keys() & {*OF_KINDS}
