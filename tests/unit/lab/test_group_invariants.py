"""Whatever is done to VMs with device groups, a group that runs has one whole partition to itself."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from pyVmomi import vim, vmodl

from tests.extent import examples
from tests.unit.lab.group_rig import (
    CHOICES,
    H100XM,
    GroupRig,
    config,
    hgx_group,
    of_groups,
    single,
    taken_out,
)
from vgpu_cfg.lab.rules.gpu_load import GpuChoice
from vgpu_cfg.lab.state.devices import groups_of, vgpus_of
from vgpu_cfg.lab.state.inventory import Host, Task, VirtualMachine
from vgpu_cfg.lab.state.store import decode_object, encode_object

PARTITIONS = (
    {1, 3}, {2, 4}, {5, 7}, {6, 8}, {1, 2, 3, 4}, {5, 6, 7, 8}, {1, 2, 3, 4, 5, 6, 7, 8},
)  # fmt: skip
HOSTS = st.sampled_from(["esx-hgx-01.lab", "esx-hgx-02.lab"])
SIZES = st.sampled_from([2, 4, 8])


class GroupMachine(RuleBasedStateMachine):
    """Makes, starts, stops, moves and changes VMs on two HGX hosts."""

    @initialize(choice=st.sampled_from(CHOICES), seed=st.integers(0, 3))
    def open(self, choice: GpuChoice, seed: int) -> None:
        self.rig = GroupRig("hgx-2xh100", choice, seed)
        self.made = 0

    @rule(sizes=st.lists(SIZES, min_size=1, max_size=2), alone=st.booleans(), host=HOSTS)
    def make(self, sizes: list[int], alone: bool, host: str) -> None:
        self.made += 1
        devices = [single(H100XM)] if alone else []
        groups = [hgx_group(size) for size in sizes]
        self.rig.create(f"m{self.made}", of_groups(*groups, devices=devices), host=host, version=21)

    @rule(gb=st.sampled_from([10, 20, 80]), host=HOSTS)
    def make_single(self, gb: int, host: str) -> None:
        self.made += 1
        self.rig.create(f"m{self.made}", config(single(f"nvidia_h100xm-{gb}c")), host=host)

    @precondition(lambda self: self.names())
    @rule(data=st.data(), method=st.sampled_from(["PowerOnVM_Task", "PowerOffVM_Task", "Destroy_Task"]))
    def switch(self, data: st.DataObject, method: str) -> None:
        self.rig.end(getattr(self.one(data), method)())

    @precondition(lambda self: self.names())
    @rule(data=st.data(), host=HOSTS)
    def move(self, data: st.DataObject, host: str) -> None:
        self.rig.end(self.one(data).MigrateVM_Task(None, self.rig.host(host), "defaultPriority"))

    @precondition(lambda self: self.names())
    @rule(data=st.data(), count=st.integers(1, 9))
    def take_out(self, data: st.DataObject, count: int) -> None:
        vm = self.one(data)
        self.rig.reconfigured(vm, deviceChange=taken_out(vm)[:count])

    def teardown(self) -> None:
        for vm in self.vms():
            text = json.dumps(encode_object(vm))
            again = decode_object(json.loads(text))
            assert isinstance(again, VirtualMachine)
            assert again.device_groups == vm.device_groups
            assert json.dumps(encode_object(again)) == text

    def names(self) -> list[str]:
        return [vm.name for vm in self.vms() if not vm.is_template]

    def one(self, data: st.DataObject) -> Any:
        return self.rig.seen(data.draw(st.sampled_from(self.names())))

    def vms(self) -> list[VirtualMachine]:
        return self.rig.lab.state.all(VirtualMachine) if hasattr(self, "rig") else []

    @invariant()
    def a_group_has_a_partition(self) -> None:
        for vm in self.vms():
            groups = groups_of(vm.devices)
            assert set(groups) == set(vm.device_groups)
            if not vm.is_on:
                continue
            host = self.rig.lab.state.get(vm.host, Host)
            at = {use.device_key: gpu for gpu in host.gpus for use in gpu.uses if use.vm == vm.moid}
            assert sorted(at) == [key for key, _ in vgpus_of(vm.devices)]
            for key, members in groups.items():
                gpus = [at[member] for member in members]
                assert vm.device_groups[key] == hgx_group(len(gpus))
                assert {gpu.module_id for gpu in gpus} in PARTITIONS
                assert all(len(gpu.uses) == 1 for gpu in gpus)

    @invariant()
    def nothing_is_held_by_what_is_off(self) -> None:
        running = {vm.moid for vm in self.vms() if vm.is_on}
        hosts = self.rig.lab.state.all(Host) if hasattr(self, "rig") else []
        assert {use.vm for host in hosts for gpu in host.gpus for use in gpu.uses} <= running

    @invariant()
    def nothing_broke(self) -> None:
        tasks = self.rig.lab.state.all(Task) if hasattr(self, "rig") else []
        assert not any(isinstance(task.fault, vmodl.fault.SystemError) for task in tasks)
        assert not any(isinstance(task.fault, vim.fault.InvalidDeviceSpec) for task in tasks)


GroupMachine.TestCase.settings = settings(max_examples=examples(5, 15), stateful_step_count=20, deadline=None)
TestGroups = GroupMachine.TestCase
