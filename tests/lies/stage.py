"""One folder with an estate that lies and a plan, the commands that a user types there, and the lab behind.

Each command is judged by what the lab holds, never by what the program says of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyVmomi import vim

from tests.cli.colleague import Colleague
from tests.cli.command_line import CommandLine, Ran
from vgpu_cfg.lab.simulation.clock import VIRTUAL_START, VirtualClock
from vgpu_cfg.lab.state.devices import disks_of, network_of, nics_of, vgpus_of
from vgpu_cfg.lab.state.inventory import Cluster, Datastore, Group, Host, LabState, Network, VirtualMachine
from vgpu_cfg.lab.state.managed import Entry
from vgpu_cfg.lab.state.tags import attached_to, objects_of, tags_of
from vgpu_cfg.model.observed.vm import MARK_PLAN_KEY

HERE = Path(__file__).parent
ESTATE, PLAN = "estate.yaml", "plan.yaml"
SERVER = f"lab:{ESTATE}"
OWN = ("train-01", "train-02", "idle-1")
FOREIGN_DISK = "[vsan] fcd/data.vmdk"
"""A disk that a colleague adds to one of the plan's VMs."""
LONGEST_SECONDS = 3600
"""Longer than this, by the lab's clock, no command waits for something that never comes."""
_ASKED_KEYS = ("pcipassthru.", "numa.", "svga.")
"""The keys that the plan or what it asks for sets; the template's own are not asked for."""
_AFFINITY = "numa.nodeaffinity"
Facts = dict[str, Any]


@dataclass(slots=True)
class Stage:
    """The commands typed so far, by the name of each step, and what VMs of others experienced meanwhile."""

    vgpu_cfg: CommandLine
    lies: tuple[str, ...] = ()
    estate: str = ESTATE
    ran: dict[str, Ran] = field(default_factory=dict)
    harmed: list[Entry] = field(default_factory=list)
    _read: int = 0

    @classmethod
    def build(cls, vgpu_cfg: CommandLine, *lies: str) -> Stage:
        text = (HERE / ESTATE).read_text(encoding="utf-8")
        vgpu_cfg.write(ESTATE, f"{text}lies: [{', '.join(lies)}]\n")
        vgpu_cfg.write(PLAN, (HERE / PLAN).read_text(encoding="utf-8"))
        lab = vgpu_cfg.lab(ESTATE)
        [image] = [tag for tag, one in tags_of(lab.state).items() if one["name"] == "image"]
        [template] = [vm for vm in lab.state.all(VirtualMachine) if vm.is_template]
        with lab.transaction():
            objects_of(lab.state, image).append([template.wsdl_type, template.moid])
            lab.state.cluster_of(lab.state.all(Host)[0]).groups.append(
                Group("live", "host", tuple(host.moid for host in lab.state.all(Host)[:2]))
            )
            lab.state.touch(*lab.state.all(Cluster))
        return cls(vgpu_cfg, lies)

    def elsewhere(self, name: str, estate: str, plan: str) -> Stage:
        """Return a stage with these lies on another estate, which has its name, with another plan file."""
        name = name.replace(" ", "-")
        self.vgpu_cfg.write(f"{name}.yaml", f"{estate}lies: [{', '.join(self.lies)}]\n")
        self.vgpu_cfg.write(PLAN, f"version: 1\nname: {name}\nvcenter: lab:{name}.yaml\n{plan}")
        return Stage(self.vgpu_cfg, self.lies, f"{name}.yaml", self.ran, self.harmed)

    def edit(self, *pairs: tuple[str, str]) -> None:
        """Change words of the plan file."""
        path = self.vgpu_cfg.folder / PLAN
        text = path.read_text(encoding="utf-8")
        for before, after in pairs:
            assert before in text
            text = text.replace(before, after)
        path.write_text(text, encoding="utf-8")

    def see_no_harm(self) -> None:
        """See that no VM or disk of others experienced anything, and that no command waited for ever."""
        assert self.harmed == []
        clock = VirtualClock()
        self.vgpu_cfg.lab(self.estate, clock)
        assert clock.now() - VIRTUAL_START < LONGEST_SECONDS

    def type(self, step: str, *words: str | Path) -> Ran:
        """Run a command, and note what VMs of others experienced."""
        ran = self.ran[step] = self.vgpu_cfg(*words)
        self.look()
        return ran

    def look(self) -> LabState:
        """Return the lab's state, and note what is new in its diary."""
        lab = self.vgpu_cfg.lab(self.estate)
        lab.settle()
        for entry in lab.state.diary[self._read :]:
            is_disk = entry.what == "disk delete" and entry.about.endswith("/data.vmdk")
            if is_disk or (entry.kind == "VirtualMachine" and entry.name.startswith("other")):
                self.harmed.append(entry)
        self._read = len(lab.state.diary)
        return lab.state

    def attach_foreign_disk(self, file: str = FOREIGN_DISK) -> None:
        """Let a colleague add a disk to a VM of the plan."""
        flat: Any = vim.vm.device.VirtualDisk.FlatVer2BackingInfo
        disk: Any = vim.vm.device.VirtualDisk(
            key=-1,
            controllerKey=1000,
            capacityInKB=1 << 20,
            backing=flat(fileName=file, diskMode="persistent"),
        )
        spec: Any = vim.vm.device.VirtualDeviceSpec(operation="add", fileOperation="create", device=disk)
        lab = self.vgpu_cfg.lab(ESTATE)
        Colleague(lab).reconfigures("train-01", lambda _vm: vim.vm.ConfigSpec(deviceChange=[spec]))

    def verdict(self, belief: str) -> str:
        """Return what doctor says of a belief."""
        tried = json.loads(self.ran["doctor"].out or "{}").get("beliefs", ())
        return next((one["verdict"] for one in tried if one["id"] == belief), "not tried")


def facts_of(state: LabState) -> Facts:
    """Return what a plan asks for, of the VMs that there are: equal in any two labs where it is fulfilled."""
    vms = {vm.name: vm for vm in state.all(VirtualMachine) if not vm.is_template}
    names = {vm.moid: vm.name for vm in vms.values()}
    [cluster] = [one for one in state.all(Cluster) if one.name == "gpu"]
    files = next(iter(state.all(Datastore))).files
    return {
        "vms": {name: dict(_facts(state, vm)) for name, vm in sorted(vms.items())},
        "rules": sorted((one.name, sorted(names[moid] for moid in one.vms)) for one in cluster.rules),
        "overrides": {
            names.get(moid, "gone"): (one.drs_behavior, getattr(one.das_settings, "restartPriority", None))
            for moid, one in sorted(cluster.overrides.items())
        },
        "files": sorted(path for path in files if not path.endswith("/")),
    }


def _facts(state: LabState, vm: VirtualMachine) -> Iterator[tuple[str, Any]]:
    yield "power", vm.power_state
    yield "cpus", vm.cpus
    yield "memory", (vm.memory_mib, vm.memory_reservation_locked)
    yield "marked", MARK_PLAN_KEY in vm.extra_config
    kept = {key.casefold(): value for key, value in vm.extra_config.items()}
    asked = {key: value for key, value in kept.items() if key.startswith(_ASKED_KEYS) and key != _AFFINITY}
    yield "options", {key: value for key, value in asked.items() if value != "FALSE"}
    if vm.is_on:
        held = [one for one in state.get(vm.host, Host).gpus if vm.moid in {use.vm for use in one.uses}]
        nodes = {str(one.numa_node) for one in held}
        yield "is_bound", kept.get(_AFFINITY) in nodes or not vm.name.startswith("train")
    yield "gpus", [profile for _, profile in vgpus_of(vm.devices)]
    yield "disks", sorted(disk.capacityInKB for disk in disks_of(vm.devices))
    yield "nics", [state.get(network_of(nic), Network).name for nic in nics_of(vm.devices)]
    macs = [nic.macAddress for nic in nics_of(vm.devices) if nic.addressType == "manual"]
    yield "macs", macs if vm.name == "idle-1" else len(macs)  # the plan file names none of the others
    if vm.name.startswith("train"):  # no tag is asked for of the others
        yield "tags", [tags_of(state)[tag]["name"] for tag in attached_to(state, vm.wsdl_type, vm.moid)]
    values = state.custom_values.get("values", {}).get(vm.moid, {})
    names = {str(one["key"]): one["name"] for one in state.custom_values.get("fields", [])}
    yield "attributes", {names[key]: value for key, value in values.items()}
    yield "policies", (vm.home_policy != "", sorted(bool(one) for one in vm.disk_policies.values()))


def is_left(state: LabState) -> list[str]:
    """Return the plan's VMs that are there."""
    return sorted(vm.name for vm in state.all(VirtualMachine) if vm.name in OWN)
