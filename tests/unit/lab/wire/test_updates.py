from __future__ import annotations

from typing import Any

import pytest
from pyVmomi import vim, vmodl

from tests.unit.lab.wire.client import connect, everything, filter_spec, one, open_virtual
from vgpu_cfg.lab.state.inventory import VirtualMachine
from vgpu_cfg.lab.vcenter import Lab

Collector: Any = vmodl.query.PropertyCollector
WaitOptions: Any = Collector.WaitOptions


@pytest.fixture
def lab() -> Lab:
    return open_virtual("two-a100")


@pytest.fixture
def instance(lab: Lab) -> Any:
    return connect(lab)


def watch(instance: Any, things: list[Any], kind: Any, paths: list[str]) -> Any:
    collector = instance.content.propertyCollector.CreatePropertyCollector()
    collector.CreateFilter(filter_spec(things, kind, paths), partialUpdates=False)
    return collector


def told(update: Any) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (found.kind, found.obj._moId, {change.name: change.val for change in found.changeSet})
        for each in update.filterSet
        for found in each.objectSet
    ]


def test_first_everything_enters_then_nothing_comes(lab: Lab, instance: Any) -> None:
    vms = everything(instance, vim.VirtualMachine)
    collector = watch(instance, vms, vim.VirtualMachine, ["name", "runtime.powerState"])
    update = collector.WaitForUpdatesEx("", WaitOptions(maxWaitSeconds=0))
    (vm,) = lab.state.all(VirtualMachine)
    assert told(update) == [("enter", vm.moid, {"name": vm.name, "runtime.powerState": "poweredOff"})]
    assert collector.WaitForUpdatesEx(update.version, WaitOptions(maxWaitSeconds=0)) is None
    assert collector.CheckForUpdates(update.version) is None


def test_only_what_changed_is_told(lab: Lab, instance: Any) -> None:
    (vm,) = lab.state.all(VirtualMachine)
    vms = everything(instance, vim.VirtualMachine)
    collector = watch(instance, vms, vim.VirtualMachine, ["name", "config.annotation"])
    first = collector.CheckForUpdates("")
    vm.annotation = "changed"
    lab.state.touch(vm)
    second = collector.CheckForUpdates(first.version)
    assert told(second) == [("modify", vm.moid, {"config.annotation": "changed"})]


def test_a_property_that_is_unset_is_told_without_a_value(lab: Lab, instance: Any) -> None:
    (vm,) = lab.state.all(VirtualMachine)
    vm.extra_config["a"] = "1"
    vms = everything(instance, vim.VirtualMachine)
    collector = watch(instance, vms, vim.VirtualMachine, ['config.extraConfig["a"].value'])
    first = collector.CheckForUpdates("")
    del vm.extra_config["a"]
    lab.state.touch(vm)
    assert told(collector.CheckForUpdates(first.version)) == [
        ("modify", vm.moid, {'config.extraConfig["a"].value': None})
    ]


def test_objects_enter_and_leave_a_container(lab: Lab, instance: Any) -> None:
    content = instance.content
    view = content.viewManager.CreateContainerView(content.rootFolder, [vim.VirtualMachine], True)
    spec = Collector.FilterSpec(
        objectSet=[
            Collector.ObjectSpec(
                obj=view,
                skip=True,
                selectSet=[Collector.TraversalSpec(type=vim.view.ContainerView, path="view", skip=False)],
            )
        ],
        propSet=[Collector.PropertySpec(type=vim.VirtualMachine, pathSet=["name"])],
    )
    collector = content.propertyCollector
    collector.CreateFilter(spec, False)
    first = collector.CheckForUpdates("")
    (vm,) = lab.state.all(VirtualMachine)
    lab.state.remove(vm)
    second = collector.CheckForUpdates(first.version)
    assert told(second) == [("leave", vm.moid, {})]
    lab.state.add(vm)
    third = collector.CheckForUpdates(second.version)
    assert told(third) == [("enter", vm.moid, {"name": vm.name})]


def test_what_the_client_puts_into_a_list_view_enters(lab: Lab, instance: Any) -> None:
    content = instance.content
    view = content.viewManager.CreateListView([])
    spec = Collector.FilterSpec(
        objectSet=[
            Collector.ObjectSpec(
                obj=view,
                skip=True,
                selectSet=[Collector.TraversalSpec(type=vim.view.ListView, path="view", skip=False)],
            )
        ],
        propSet=[Collector.PropertySpec(type=vim.VirtualMachine, pathSet=["name"])],
    )
    collector = content.propertyCollector.CreatePropertyCollector()
    collector.CreateFilter(spec, False)
    assert collector.CheckForUpdates("") is None
    view.ModifyListView(add=everything(instance, vim.VirtualMachine))
    update = collector.CheckForUpdates("")
    assert [kind for kind, _, _ in told(update)] == ["enter"]
    view.ResetListView([])
    assert [kind for kind, _, _ in told(collector.CheckForUpdates(update.version))] == ["leave"]


def test_waiting_jumps_the_virtual_clock_from_event_to_event(lab: Lab, instance: Any) -> None:
    task = one(instance, vim.VirtualMachine, "ubuntu-22.04-efi").CreateSnapshot_Task("s", "", False, False)
    collector = watch(instance, [task], vim.Task, ["info.state", "info.progress"])
    version = ""
    states: list[str] = []
    while not states or states[-1] not in ("success", "error"):
        update = collector.WaitForUpdatesEx(version, WaitOptions())
        version = update.version
        states += [values["info.state"] for _, _, values in told(update) if "info.state" in values]
    assert states == ["running", "success"]
    assert lab.clock.now() == lab.state.objects[task._moId].ended_at  # type: ignore[attr-defined]  # any kind of object


def test_a_wait_without_events_ends_when_the_client_said(lab: Lab, instance: Any) -> None:
    collector = watch(instance, everything(instance, vim.VirtualMachine), vim.VirtualMachine, ["name"])
    version = collector.WaitForUpdatesEx("", None).version
    before = lab.clock.now()
    assert collector.WaitForUpdatesEx(version, WaitOptions(maxWaitSeconds=42)) is None
    assert lab.clock.now() == before + 42


def test_a_lost_answer_is_given_again_and_a_foreign_version_refused(lab: Lab, instance: Any) -> None:
    vms = everything(instance, vim.VirtualMachine)
    collector = watch(instance, vms, vim.VirtualMachine, ["config.annotation"])
    first = collector.CheckForUpdates("")
    (vm,) = lab.state.all(VirtualMachine)
    vm.annotation = "x"
    lab.state.touch(vm)
    second = collector.CheckForUpdates(first.version)
    assert told(collector.CheckForUpdates(first.version)) == told(second)
    with pytest.raises(vmodl.query.InvalidCollectorVersion):
        collector.CheckForUpdates("99")


def test_many_updates_come_in_parts() -> None:
    instance = connect(open_virtual("fleet-4x8-10vms"))
    hosts = everything(instance, vim.HostSystem)
    collector = watch(instance, hosts, vim.HostSystem, ["name"])
    first = collector.WaitForUpdatesEx("", WaitOptions(maxObjectUpdates=3))
    second = collector.WaitForUpdatesEx(first.version, WaitOptions(maxObjectUpdates=3))
    assert (len(told(first)), first.truncated) == (3, True)
    assert (len(told(second)), bool(second.truncated)) == (1, False)


def test_a_bad_path_is_refused_when_the_filter_is_made(instance: Any) -> None:
    with pytest.raises(vmodl.query.InvalidProperty):
        watch(instance, everything(instance, vim.VirtualMachine), vim.VirtualMachine, ["nope"])


def test_objects_that_are_gone_are_refused_or_told_once(instance: Any) -> None:
    ghost = vim.VirtualMachine("vm-999", instance._stub)
    collector = instance.content.propertyCollector.CreatePropertyCollector()
    spec = filter_spec([ghost], vim.VirtualMachine, ["name"])
    with pytest.raises(vmodl.fault.ManagedObjectNotFound):
        collector.CreateFilter(spec, partialUpdates=False)
    spec.reportMissingObjectsInResults = True
    collector.CreateFilter(spec, partialUpdates=False)
    update = collector.CheckForUpdates("")
    (missing,) = update.filterSet[0].missingSet
    assert (missing.obj, missing.fault.obj) == (ghost, ghost)
    assert collector.CheckForUpdates(update.version) is None
    # Whoever begins anew is told again.
    assert len(collector.CheckForUpdates("").filterSet[0].missingSet) == 1


def test_a_destroyed_filter_tells_nothing_and_a_destroyed_collector_is_gone(instance: Any) -> None:
    collector = instance.content.propertyCollector.CreatePropertyCollector()
    spec = filter_spec(everything(instance, vim.VirtualMachine), vim.VirtualMachine, ["name"])
    made = collector.CreateFilter(spec, False)
    made.DestroyPropertyFilter()
    assert collector.CheckForUpdates("") is None
    collector.DestroyPropertyCollector()
    with pytest.raises(vmodl.fault.ManagedObjectNotFound):
        collector.CheckForUpdates("")


def test_collectors_and_filters_belong_to_one_session(lab: Lab, instance: Any) -> None:
    collector = instance.content.propertyCollector.CreatePropertyCollector()
    stranger = connect(lab)
    with pytest.raises(vmodl.fault.ManagedObjectNotFound):
        vmodl.query.PropertyCollector(collector._moId, stranger._stub).CheckForUpdates("")
    instance.content.propertyCollector.CreateFilter(
        filter_spec(everything(instance, vim.VirtualMachine), vim.VirtualMachine, ["name"]), False
    )
    assert stranger.content.propertyCollector.CheckForUpdates("") is None


def test_the_elder_wait_gives_up_instead_of_hanging(instance: Any) -> None:
    collector = instance.content.propertyCollector.CreatePropertyCollector()
    with pytest.raises(vmodl.fault.RequestCanceled):
        collector.WaitForUpdates("")


def test_two_who_wait_do_not_wake_each_other(lab: Lab, instance: Any) -> None:
    notified: list[int] = []
    lab.changed.notify_all = lambda: notified.append(1)  # type: ignore[method-assign]  # the fake is bent for this test
    collector = watch(instance, everything(instance, vim.VirtualMachine), vim.VirtualMachine, ["name"])
    version = collector.CheckForUpdates("").version
    notified.clear()
    assert collector.WaitForUpdatesEx(version, WaitOptions(maxWaitSeconds=5)) is None
    assert notified == []
