"""A VM is switched on or off."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Literal

from pydantic import Field

from vgpu_cfg.changes import privileges
from vgpu_cfg.changes.base import ChangeBase, Face, Timing
from vgpu_cfg.changes.by_hand import Part, command
from vgpu_cfg.changes.places import Places
from vgpu_cfg.changes.privileges import Needed
from vgpu_cfg.changes.reach import Disturbed, Experience, Reach
from vgpu_cfg.changes.tables import Tables
from vgpu_cfg.changes.values import Edit, Impact, Placement, Row, VmRef, is_nothing, plain
from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.observed.vm import PowerState, Vm
from vgpu_cfg.model.ranges import fold_names


class NumaPin(Frozen):
    """The rule by which `numa.nodeAffinity` follows the GPUs that ESXi chose at power-on.

    `node_by_pci_id` covers every GPU of the host that could have been chosen; `nodes` is the VM's present
    affinity. If they disagree after power-on, the VM is powered off, pinned anew and powered on again, at
    most `attempts` times in all.
    """

    node_by_pci_id: Mapping[str, int]
    nodes: tuple[int, ...]
    attempts: int = 8

    @property
    def text(self) -> str:
        """The manual steps after power-on."""
        nodes = ", ".join(f"{pci_id} is on node {node}" for pci_id, node in self.node_by_pci_id.items())
        now = ",".join(str(node) for node in self.nodes)
        return (
            f" Then check which GPU it uses: {nodes}. If its node differs from numa.nodeAffinity ({now}), "
            "shut the VM down, set numa.nodeAffinity to the GPU's node, and power it on again."
        )


class PowerOnVm(ChangeBase):
    """Power on a VM; with `pin`, see that it sits on the NUMA node of its GPUs."""

    face = Face(
        "make", "powered on", done="powered on", sign=" ", brings_back=True, needs_host=True, stays_at_vm=True
    )

    kind: Literal["power_on_vm"] = "power_on_vm"
    vm: VmRef
    pin: NumaPin | None = None

    @property
    def starts(self) -> VmRef:
        return self.vm

    def vm_then(self, vm: Vm, nics: Collection[tuple[int, int]]) -> Vm | None:
        return vm.model_copy(update={"power_state": PowerState.ON})

    @property
    def came_to(self) -> tuple[str, ...]:
        return (f"{self.vm.name}: started",)

    @property
    def differing(self) -> tuple[Edit, ...]:
        """Return nothing if it is only switched off for other changes."""
        return () if self.impact is Impact.POWER_CYCLE else self.edits

    def likeness(self, name: str) -> object:
        return self.pin is not None

    def head(self, place: Placement | None) -> Row:
        if self.pin is not None:
            return "power on", plain("then pinned to the NUMA node of the GPU that ESXi selects", "dim")
        if place is not None and place.gpu_pci_ids and not place.is_certain:
            return "power on", plain("ESXi selects the GPU", "dim")
        return "power on", plain("")

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        name = self.vm.name
        pin = "" if self.pin is None else self.pin.text
        return (
            Part(
                what=f"Power on {name}.{pin}{_turn(tables.started_with(name))}",
                client=f"{name} > Actions > Power > Power On",
                commands=(command("govc", "vm.power", "-on", name),),
                expected=f"{name} is powered on, and its guest boots",
                verify=(command("govc", "vm.info", name), command("govc", "gpu.vm.info", "-vm", name)),
                undo=(command("govc", "vm.power", "-s", name),),
            ),
        )

    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        return ()

    def privileges(self, at: Places) -> Iterator[Needed]:
        moid = at.vm(self.vm)
        yield Needed(privileges.POWER_ON, moid)
        if self.pin is not None:
            yield Needed(privileges.POWER_OFF, moid)
            yield Needed(privileges.ADVANCED, moid)


def _turn(others: tuple[str, ...]) -> str:
    """Say what to look out for if the VMs of a host start one by one."""
    if not others:
        return ""
    return (
        f" Do not start it together with {fold_names(others)}: start one VM at a time, and check which GPU "
        f"each one uses. "
        "Start a VM of a given size only if that size still needs an idle GPU, or if all sizes "
        "have their GPUs; `vgpu-cfg apply` determines this automatically."
    )


class PowerOffVm(ChangeBase):
    """Shut a VM down through its guest where that is possible, else power it off.

    `windows` are those of the host of a VM that is started again; it is not begun where one closes within
    `takes_seconds`.
    """

    face = Face("down", "powered off", done="powered off", sign=" ", stays_at_vm=True, takes_away=True)

    kind: Literal["power_off_vm"] = "power_off_vm"
    vm: VmRef
    windows: tuple[str, ...] = Field(default=(), exclude_if=is_nothing)
    takes_seconds: int = Field(default=0, exclude_if=is_nothing)

    @property
    def stops(self) -> VmRef:
        return self.vm

    def vm_then(self, vm: Vm, nics: Collection[tuple[int, int]]) -> Vm | None:
        return vm.model_copy(update={"power_state": PowerState.OFF})

    @property
    def timing(self) -> Timing:
        return Timing(self.takes_seconds, self.windows)

    @property
    def came_to(self) -> tuple[str, ...]:
        return (f"{self.vm.name}: powered off",)

    @property
    def differing(self) -> tuple[Edit, ...]:
        """Return nothing if it is only switched off for other changes."""
        return () if self.impact is Impact.POWER_CYCLE else self.edits

    def head(self, place: Placement | None) -> Row:
        return "shut down", plain("through the guest OS; powered off if that fails", "dim")

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        name = self.vm.name
        forced = command("govc", "vm.power", "-off", "-force", name)
        return (
            Part(
                what=f"Shut {name} down through its guest OS; power it off if that does not complete "
                "within five minutes.",
                client=f"{name} > Actions > Power > Shut Down Guest OS",
                commands=(
                    command("govc", "vm.power", "-s", name),
                    f"{forced}   # only if it did not shut down",
                ),
                expected=f"{name} is powered off",
                verify=(command("govc", "vm.info", name),),
                undo=(command("govc", "vm.power", "-on", name),),
            ),
        )

    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        if self.vm.moid is not None and self.vm.moid not in reach.own:
            yield reach.thing("vm", self.vm.name, self.vm.moid, Experience.POWERED_OFF)

    def privileges(self, at: Places) -> Iterator[Needed]:
        yield Needed(privileges.POWER_OFF, at.vm(self.vm))
