"""No plan deletes what is not its own, whatever clones, restores, second files and second machines did.

The tests know whose a VM is by what they did themselves: not by its mark.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.cli.command_line import CommandLine
from tests.extent import examples
from vgpu_cfg.lab.operations.vms.drafts import draft_of
from vgpu_cfg.lab.state.inventory import Folder, Host, VirtualMachine
from vgpu_cfg.lab.vcenter import Lab

ESTATE = "two-a100"
NAMES = ("a", "b", "c")
COPY = "desk-02/first.yaml"
"""The first file as a colleague has it, on a machine with a state folder of its own."""
FILES = ("first.yaml", "other.yaml", COPY)
PLAN = """\
version: 1
name: {name}
vcenter: lab:two-a100
defaults: {{template: ubuntu-22.04-efi, cluster: gpu, folder: training, cpus: 2, memory: 4GiB, power: "off"}}
vms:
{vms}
"""


@dataclass
class Owned:
    """What the test knows: which file made each VM, by its moid; "" for a person's copy."""

    made_by: dict[str, str] = field(default_factory=dict)
    kept: list[tuple[VirtualMachine, str]] = field(default_factory=list)
    """Backups: a VM as it was, and who had made it."""


class Foreign(RuleBasedStateMachine):
    """Two plan files that may bear one name, a colleague's copy, and a person with the vSphere Client."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.place = tempfile.TemporaryDirectory()
        self.run = CommandLine(Path(self.place.name), self.patch)
        self.owned = Owned()
        self.plans: dict[str, tuple[str, tuple[str, ...]]] = {}
        self.is_same_plan = False
        colleague = self.run.folder / "desk-02" / "state"
        colleague.mkdir(parents=True)
        self.run.state_folder.joinpath("lab").mkdir(parents=True)
        colleague.joinpath("lab").symlink_to(self.run.state_folder / "lab")
        self.count = 0

    def teardown(self) -> None:
        """Let both files take away what they can, at the end of whatever has happened."""
        try:
            for file in self.plans:
                self.destroy(file, [])
        finally:
            self.patch.undo()
            self.place.cleanup()

    # ------------------------------------------------------------- the plans

    @initialize(same=st.booleans())
    def begin(self, same: bool) -> None:
        self.write("first.yaml", "shared", ("a", "b"))
        self.write("other.yaml", "shared" if same else "another", ("c",))
        self.apply("first.yaml")

    def write(self, file: str, name: str, vms: tuple[str, ...]) -> None:
        self.plans[file] = (name, vms)
        lines = "\n".join(f"- {json.dumps({'name': vm})}" for vm in vms)
        self.run.write(file, PLAN.format(name=name, vms=lines))

    @rule(file=st.sampled_from(FILES))
    def apply(self, file: str) -> None:
        self.command(file, "apply")

    def command(self, file: str, command: str, *flags: str) -> None:
        """Run a command on a file's own machine; it deletes nothing that another plan has made."""
        if file not in self.plans:
            return
        before = self.vms()
        folder, _, name = file.rpartition("/")
        self.run.machine = folder or "desk-01"
        self.patch.chdir(self.run.folder / folder)
        self.run(command, "--yes", name, *flags)
        self.patch.chdir(self.run.folder)
        for moid in self.vms().keys() - before.keys():
            self.owned.made_by[moid] = self.plan_of(file)
        self.check_deleted(file, before)

    def plan_of(self, file: str) -> str:
        """Name the plan that a file is of: a copy with the id is the same one."""
        return "first.yaml" if file == COPY and self.is_same_plan else file

    @rule(with_id=st.booleans())
    def a_colleague_takes_the_file_along(self, with_id: bool) -> None:
        """With its id it is the same plan; without, it is another that looks like it."""
        if COPY in self.plans:
            return
        id_file = self.run.folder / "first.yaml.id"
        self.is_same_plan = with_id and id_file.exists()
        if self.is_same_plan:
            shutil.copy(id_file, self.run.folder / f"{COPY}.id")
        self.write(COPY, *self.plans["first.yaml"])

    @rule(file=st.sampled_from(FILES), named=st.lists(st.sampled_from(NAMES), max_size=2))
    def destroy(self, file: str, named: list[str]) -> None:
        flags = [word for name in named for word in ("--delete", name)]
        self.command(file, "destroy", *flags)

    @rule(file=st.sampled_from(FILES), name=st.sampled_from(NAMES))
    def apply_with_delete(self, file: str, name: str) -> None:
        self.command(file, "apply", "--delete", name)

    def check_deleted(self, file: str, before: dict[str, str]) -> None:
        gone = before.keys() - self.vms().keys()
        foreign = {
            before[moid]: self.owned.made_by[moid]
            for moid in gone
            if self.owned.made_by[moid] != self.plan_of(file)
        }
        assert not foreign, f"{file} has deleted {foreign}"

    @rule(
        file=st.sampled_from(FILES),
        name=st.sampled_from(["shared", "another"]),
        vms=st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True),
    )
    def edit(self, file: str, name: str, vms: list[str]) -> None:
        """Somebody renames a plan, or changes which VMs it names."""
        if file in self.plans:
            self.write(file, name, tuple(vms))

    # ------------------------------------------------------------- a person

    @rule(which=st.integers(0, 9), name=st.sampled_from((*NAMES, "copy")))
    def clone(self, which: int, name: str) -> None:
        lab = self.lab()
        with lab.transaction():
            vm = self.chosen(lab, which)
            if vm is not None and self.is_free(lab, name):
                self.add(lab, vm, name, "", keeps_uuid=False)

    @rule(which=st.integers(0, 9))
    def put_a_clone_in_its_place(self, which: int) -> None:
        lab = self.lab()
        with lab.transaction():
            vm = self.chosen(lab, which)
            if vm is not None:
                name, vm.name = vm.name, f"{vm.name}-{self.count}"
                lab.state.touch(vm)
                self.add(lab, vm, name, "", keeps_uuid=False)

    @rule(which=st.integers(0, 9), name=st.sampled_from((*NAMES, "renamed")))
    def rename(self, which: int, name: str) -> None:
        lab = self.lab()
        with lab.transaction():
            vm = self.chosen(lab, which)
            if vm is not None and self.is_free(lab, name):
                vm.name = name
                lab.state.touch(vm)

    @rule(which=st.integers(0, 9))
    def back_up(self, which: int) -> None:
        vm = self.chosen(self.lab(), which)
        if vm is not None:
            self.owned.kept.append((draft_of(vm), self.owned.made_by[vm.moid]))

    @precondition(lambda self: bool(self.owned.kept))
    @rule(which=st.integers(0, 9), keeps_uuid=st.booleans())
    def restore(self, which: int, keeps_uuid: bool) -> None:
        """A restored VM has its old mark; its instance UUID only where it is in place of the lost one."""
        lab = self.lab()
        vm, made_by = self.owned.kept[which % len(self.owned.kept)]
        with lab.transaction():
            is_lost = vm.instance_uuid not in {one.instance_uuid for one in lab.state.all(VirtualMachine)}
            keeps = keeps_uuid and is_lost
            if self.is_free(lab, vm.name):
                self.add(lab, vm, vm.name, made_by if keeps else "", keeps_uuid=keeps)

    # ------------------------------------------------------------- the lab

    def lab(self) -> Lab:
        return self.run.lab(ESTATE)

    def vms(self) -> dict[str, str]:
        """Return the names of the VMs in the plans' folder, by moid."""
        return {vm.moid: vm.name for vm in self.in_folder(self.lab())}

    def in_folder(self, lab: Lab) -> list[VirtualMachine]:
        """Return the VMs of the folder that both plans make theirs in."""
        vms = (vm for vm in lab.state.all(VirtualMachine) if not vm.is_template)
        return [vm for vm in vms if lab.state.get(vm.parent or "", Folder).name == "training"]

    def is_free(self, lab: Lab, name: str) -> bool:
        return name not in {vm.name for vm in self.in_folder(lab)}

    def chosen(self, lab: Lab, which: int) -> VirtualMachine | None:
        vms = sorted(self.in_folder(lab), key=lambda vm: vm.moid)
        return vms[which % len(vms)] if vms else None

    def add(self, lab: Lab, vm: VirtualMachine, name: str, made_by: str, *, keeps_uuid: bool) -> None:
        """Add a VM like another, as a clone or a restore does: its extraConfig comes along."""
        self.count += 1
        uuid = vm.instance_uuid if keeps_uuid else str(uuid5(NAMESPACE_URL, f"{vm.moid}.{self.count}"))
        moid = lab.state.new_moid("vm")
        made = draft_of(vm, moid=moid, name=name, instance_uuid=uuid, home=f"{name}-{self.count}")
        lab.state.add(made)
        lab.state.get(made.parent or "", Folder).children[moid] = None
        lab.state.get(made.host, Host).vms[moid] = None
        lab.state.touch(made)
        self.owned.made_by[moid] = made_by

    @invariant()
    def two_vms_never_have_one_instance_uuid(self) -> None:
        uuids = [vm.instance_uuid for vm in self.lab().state.all(VirtualMachine)]
        assert len(uuids) == len(set(uuids))


Foreign.TestCase.settings = settings(
    max_examples=examples(3, 10),
    stateful_step_count=12,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestForeign = Foreign.TestCase


def test_a_clone_in_the_place_of_a_vm_stays_and_the_vm_is_known_under_another_name() -> None:
    machine = Foreign()
    try:
        machine.begin(same=True)
        machine.put_a_clone_in_its_place(0)
        before = machine.vms()
        machine.destroy("first.yaml", [])
        assert sorted(before.values()) == ["a", "a-0", "b"]
        assert sorted(machine.vms().values()) == ["a"]
    finally:
        machine.teardown()


@pytest.mark.parametrize(("with_id", "left"), [(False, ["a", "b"]), (True, [])])
def test_a_colleagues_copy_deletes_only_where_the_id_came_along(with_id: bool, left: list[str]) -> None:
    machine = Foreign()
    try:
        machine.begin(same=False)
        machine.a_colleague_takes_the_file_along(with_id=with_id)
        machine.destroy(COPY, [])
        assert sorted(machine.vms().values()) == left
    finally:
        machine.teardown()
