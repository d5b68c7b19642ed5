"""Whatever is done to a lab in whatever order, no GPU is overfilled and nothing contradicts itself."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from pyVmomi import vim, vmodl

from tests.extent import examples
from tests.unit.lab.rig import Rig, add, change, gpu_spec, passthrough
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.lab.state.devices import vgpu_backing, vgpus_of
from vgpu_cfg.lab.state.host import Gpu
from vgpu_cfg.lab.state.inventory import Datastore, Folder, Host, Network, ResourcePool, Task, VirtualMachine
from vgpu_cfg.lab.state.store import decode_object, encode_object

PROFILES = [
    "grid_a100d-80c", "grid_a100d-40c", "grid_a100d-20c", "grid_a100d-10c", "grid_a100d-4c",
    "grid_a100d-1-10c", "grid_a100d-1-20c", "grid_a100d-2-20c", "grid_a100d-3-40c", "grid_a100d-4-40c",
    "grid_a100d-7-80c", "grid_a100d-1-10cme",
]  # fmt: skip
"""Of the board that the fleet's cluster `a100` has time-sliced, in MIG mode and handed through."""


class LabMachine(RuleBasedStateMachine):
    """Clones, powers, changes and destroys VMs at random on the mixed fleet."""

    @initialize(choice=st.sampled_from(["least_loaded", "lowest", "random"]), seed=st.integers(0, 3))
    def open(self, choice: str, seed: int) -> None:
        self.rig = Rig("mixed-fleet", gpu_choice=choice, seed=seed)
        self.lab = self.rig.lab
        self.rig.host("esx-a100-02.lab").gpus[1].vgpu_mode = "mixedSize"
        self.made = 0

    @rule(profiles=st.lists(st.sampled_from(PROFILES), min_size=1, max_size=2), power_on=st.booleans())
    def clone(self, profiles: list[str], power_on: bool) -> None:
        self.made += 1
        self.lab.call(
            **self.rig.clone_call(
                f"m{self.made}",
                *profiles,
                cluster="a100",
                power_on=power_on,
                window_gb=1024,
                memory_mib=32768,
            )
        )
        self.lab.run_until_idle()

    @precondition(lambda self: self.mine())
    @rule(data=st.data())
    def power_on(self, data: st.DataObject) -> None:
        self.rig.run(self.one(data), "PowerOnVM_Task")

    @precondition(lambda self: self.mine())
    @rule(data=st.data())
    def power_off(self, data: st.DataObject) -> None:
        self.rig.run(self.one(data), "PowerOffVM_Task")

    @precondition(lambda self: self.mine())
    @rule(data=st.data())
    def destroy(self, data: st.DataObject) -> None:
        self.rig.run(self.one(data), "Destroy_Task")

    @precondition(lambda self: self.mine())
    @rule(data=st.data(), profile=st.sampled_from(PROFILES))
    def replace_profile(self, data: st.DataObject, profile: str) -> None:
        vm = self.one(data)
        gone = [change("remove", passthrough(None, key)) for key, _ in vgpus_of(vm.devices)]
        spec = vim.vm.ConfigSpec(deviceChange=[*gone, add(passthrough(vgpu_backing(profile)))])
        self.rig.run(vm, "ReconfigVM_Task", spec=spec)

    @precondition(lambda self: self.mine())
    @rule(data=st.data())
    def unreserve(self, data: st.DataObject) -> None:
        spec = gpu_spec(reserve=False, memory_mib=1024)
        self.rig.run(self.one(data), "ReconfigVM_Task", spec=spec)

    def mine(self) -> list[VirtualMachine]:
        return [
            vm for vm in self.lab.state.all(VirtualMachine) if vm.name[0] == "m" and vm.name[1:].isdigit()
        ]

    def one(self, data: st.DataObject) -> VirtualMachine:
        name = data.draw(st.sampled_from([vm.name for vm in self.mine()]))
        return self.rig.vm(name)

    @invariant()
    def no_gpu_is_overfilled(self) -> None:
        for host in self.hosts():
            for gpu in host.gpus:
                check_gpu(gpu)

    @invariant()
    def what_runs_holds_what_it_has(self) -> None:
        for vm in self.vms():
            uses = [
                (use.device_key, use.profile, host.moid)
                for host in self.hosts()
                for gpu in host.gpus
                for use in gpu.uses
                if use.vm == vm.moid
            ]
            wanted = [(key, profile, vm.host) for key, profile in vgpus_of(vm.devices)] if vm.is_on else []
            assert sorted(uses) == sorted(wanted)

    @invariant()
    def everything_is_registered_where_it_says(self) -> None:
        for vm in self.vms():
            state = self.lab.state
            assert vm.moid in state.get(vm.parent, Folder).children
            assert vm.moid in state.get(vm.host, Host).vms
            assert vm.moid in state.get(vm.datastore, Datastore).vms
            assert vm.is_template or vm.moid in state.get(vm.resource_pool, ResourcePool).vms
        alive = {vm.moid for vm in self.vms()}
        for kind in (Host, Datastore, Network, ResourcePool):
            for place in self.all(kind):
                assert set(place.vms) <= alive

    @invariant()
    def memory_is_there(self) -> None:
        for host in self.hosts():
            running = [self.lab.state.get(moid, VirtualMachine) for moid in host.vms]
            assert sum(vm.memory_reservation_mib for vm in running if vm.is_on) < host.memory_mib

    @invariant()
    def nothing_broke(self) -> None:
        assert not any(isinstance(task.fault, vmodl.fault.SystemError) for task in self.all(Task))

    def teardown(self) -> None:
        for thing in self.lab.state.objects.values() if hasattr(self, "lab") else ():
            text = json.dumps(encode_object(thing))
            assert json.dumps(encode_object(decode_object(json.loads(text)))) == text

    def all(self, kind: Any) -> list[Any]:
        return self.lab.state.all(kind) if hasattr(self, "lab") else []

    def hosts(self) -> list[Host]:
        return self.all(Host)

    def vms(self) -> list[VirtualMachine]:
        return self.all(VirtualMachine)


def check_gpu(gpu: Gpu) -> None:
    """Count by the board's numbers alone, apart from the rules that let the vGPUs in."""
    board = load_catalog().board(gpu.board)
    entries = []
    for use in gpu.uses:
        (entry,) = [entry for entry in load_catalog().by_profile(use.profile) if entry.board.key == gpu.board]
        entries.append(entry)
    assert all((entry.mig is not None) == gpu.mig_enabled for entry in entries)
    assert (
        len(entries) <= min((entry.max_per_gpu for entry in entries), default=0)
        or gpu.mig_enabled
        or mixed(gpu)
    )
    if gpu.mig_enabled:
        taken = [
            slice_
            for use, entry in zip(gpu.uses, entries, strict=True)
            for slice_ in range(use.start or 0, (use.start or 0) + (entry.mig_size or 0))
        ]
        assert len(taken) == len(set(taken))
        assert all(slice_ < 8 for slice_ in taken)
        assert sum(entry.mig_compute or 0 for entry in entries) <= 7
        assert sum("+me" in (entry.mig.instance if entry.mig else "") for entry in entries) <= 1
        return
    assert sum(entry.framebuffer_mib for entry in entries) <= board.framebuffer_mib
    if mixed(gpu):
        spans = sorted(
            (use.start or 0, entry.profile.framebuffer_gb)
            for use, entry in zip(gpu.uses, entries, strict=True)
        )
        assert all(start + size <= following for (start, size), (following, _) in pairwise(spans))
    else:
        assert len({entry.framebuffer_mib for entry in entries}) <= 1


def mixed(gpu: Gpu) -> bool:
    return gpu.vgpu_mode == "mixedSize"


LabMachine.TestCase.settings = settings(max_examples=examples(8, 25), stateful_step_count=25)
TestLab = LabMachine.TestCase
