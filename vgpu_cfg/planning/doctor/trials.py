"""A trial as data: its experiments with calls, privileges and cost, and the mark of its throw-away objects.

A name alone proves no VM: it also has the mark in its extraConfig, or the instance UUID that follows from its
name.
"""

from __future__ import annotations

import re
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Literal, Self

from vgpu_cfg.changes import privileges as table
from vgpu_cfg.changes.privileges import Need

PREFIX = "vgpu-cfg-trial-"
MARK_KEY = "vgpu_cfg.trial"
"""The key in a VM's extraConfig that holds the name it was given."""
_NAME = re.compile(rf"{PREFIX}(?P<id>[0-9a-f]{{6}})-(?P<until>\d{{8}}T\d{{4}}Z)-(?P<part>[a-z0-9-]+)")
_UNTIL = "%Y%m%dT%H%MZ"
_SPACE = uuid.UUID("5a1f2c1e-90f3-4a27-9d0b-6f6f0b6d2f5e")


@dataclass(frozen=True, slots=True)
class TrialMark:
    """A trial: its ID of six hexadecimal digits, and the time from which anyone may remove its objects."""

    id: str
    until: datetime

    def name(self, part: str) -> str:
        """Return the name of one of its objects."""
        return f"{self.start}{part}"

    def part(self, name: str) -> str:
        """Return the part of the name of one of its objects."""
        return name.removeprefix(self.start)

    @property
    def start(self) -> str:
        """The beginning of the names of all its objects."""
        return f"{PREFIX}{self.id}-{self.until.astimezone(UTC):{_UNTIL}}-"

    @classmethod
    def of(cls, name: str) -> Self | None:
        """Return the trial that a name belongs to, None for another name."""
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        try:
            return cls(found["id"], datetime.strptime(found["until"], _UNTIL).replace(tzinfo=UTC))
        except ValueError:
            return None


def instance_uuid(name: str) -> str:
    """Return the instance UUID that a VM of this name is requested with."""
    return str(uuid.uuid5(_SPACE, name))


@dataclass(frozen=True, slots=True)
class Left:
    """An object of a trial; `is_proven` is whether more than its name shows that a trial made it."""

    kind: Literal["alarm", "VM", "attribute"]
    moid: str
    """The key, for an attribute."""
    name: str
    mark: TrialMark
    is_on: bool = False
    is_proven: bool = True

    def is_due(self, now: datetime) -> bool:
        """Whether it may be removed without asking its owner."""
        return self.is_proven and now >= self.mark.until


Remaining = tuple[Left, str]
"""An object that was not removed, with the reason."""


class Step(StrEnum):
    """A step of a trial, by the throw-away objects that it makes."""

    OBJECTS = "objects"
    """Alarms and events."""
    GLOBAL = "global"
    """A definition that every object of a vCenter shows."""
    VM = "vm"
    """VMs without a GPU."""
    GPU = "gpu"
    """VMs with a vGPU."""
    SHELL = "shell"
    """Nothing: it reads."""
    READING = "reading"
    """Nothing: it reads what `doctor` leaves out, since that takes more requests."""

    @property
    def trial(self) -> str:
        """The word for it in the rows of beliefs."""
        return "object" if self is Step.GLOBAL else self.value.removesuffix("s")

    @property
    def makes_vms(self) -> bool:
        """Whether it makes VMs."""
        return self in {Step.VM, Step.GPU}


@dataclass(frozen=True, slots=True)
class Experiment:
    """Some calls, and the beliefs that they try.

    `calls` has the methods that change something, each with the most times that it is called, removal
    included.
    """

    step: Step
    does: str
    calls: Mapping[str, int] = field(hash=False)
    needs: tuple[Need, ...]
    beliefs: tuple[str, ...]


ALARM = Experiment(
    Step.OBJECTS,
    "Creates the same alarm twice in the lock folder, changes its text, and removes it.",
    {"CreateAlarm": 2, "ReconfigureAlarm": 1, "RemoveAlarm": 2},
    (table.TRIAL_ALARMS,),
    ("disabled-alarm-expression", "alarm-names-are-unique", "alarms-are-visible-at-once",
     "alarm-description-400", "alarm-time-is-its-creation", "alarm-time-moves"),
)  # fmt: skip
ALARMS_AT_ONCE = Experiment(
    Step.OBJECTS,
    "Creates two alarms with the same name in the lock folder at the same time, then removes them.",
    {"CreateAlarm": 2, "RemoveAlarm": 2},
    (table.TRIAL_ALARMS,),
    ("alarm-names-are-unique-at-once",),
)
EVENTS = Experiment(
    Step.OBJECTS,
    "Writes two events to the root folder.",
    {"LogUserEvent": 2},
    (table.TRIAL_EVENTS,),
    ("user-events", "event-type-spelling", "event-filter-takes-bare-names", "event-filter-by-type-id",
     "event-collector-reads-backwards"),
)  # fmt: skip
ATTRIBUTE = Experiment(
    Step.GLOBAL,
    "Defines a custom attribute for folders, sets it on the root folder, and removes the definition.",
    {"AddCustomFieldDef": 1, "SetField": 1, "RemoveCustomFieldDef": 1},
    (table.TRIAL_ATTRIBUTE,),
    ("custom-attribute-holds-255",),
)
_MADE = (
    table.BASIC_SETTINGS,
    table.OF_SETTINGS["VirtualMachine.Config.CPUCount"],
    table.OF_SETTINGS["VirtualMachine.Config.Memory"],
    table.ADVANCED,
    table.CHANGE_DEVICES,
    table.ADD_DISK,
    table.ASSIGN_TO_POOL,
    table.ALLOCATE_SPACE,
    table.ASSIGN_NETWORK,
    table.DELETE,
)
_OF_NEW_VM = ("recent-tasks", "task-reason-spells-the-account", "creation-events-name-the-creator")
NEW_VM = Experiment(
    Step.VM,
    "Creates a VM with a disk, and deletes it.",
    {"CreateVM_Task": 1, "Destroy_Task": 1},
    (table.CREATE, *_MADE),
    _OF_NEW_VM,
)
CLONED_VM = Experiment(
    Step.VM,
    "Clones the template to a VM, and deletes it.",
    {"CloneVM_Task": 1, "Destroy_Task": 1},
    (table.CLONE_TEMPLATE, table.CREATE_FROM_EXISTING, *_MADE),
    (*_OF_NEW_VM, "clone-keeps-hardware-version"),
)
TAGS = Experiment(
    Step.VM,
    "Attaches two tags from an existing category to the VM; they are removed with the VM.",
    {"attach-multiple-tags-to-object": 2},
    (table.TRIAL_TAGS,),
    ("tag-batches-report-each", "tag-batch-messages"),
)
COPY = Experiment(
    Step.VM,
    "Clones the VM with different settings, keys, and an instance UUID, and deletes the copy.",
    {"CloneVM_Task": 1, "Destroy_Task": 1},
    (table.CLONE_VM, table.CREATE_FROM_EXISTING, *_MADE),
    ("clone-honours-config-spec", "clone-accepts-instance-uuid",
     "extra-config-is-copied", "clone-disk-names", "nic-keys-are-lowest-free", "clone-has-no-tags",
     "new-filter-reports-at-the-next-wait", "disk-uuid-exists"),
)  # fmt: skip
TWIN = Experiment(
    Step.VM,
    "Clones the VM with a different MAC address and no instance UUID, and deletes the clone.",
    {"CloneVM_Task": 1, "Destroy_Task": 1},
    (*COPY.needs, table.EDIT_NIC),
    ("clone-device-change", "instance-uuid-is-unique", "clone-sets-mac"),
)
EDIT = Experiment(
    Step.VM,
    "Reconfigures the copy twice, the second time with the old change version, and renames it.",
    {"ReconfigVM_Task": 2, "Rename_Task": 1},
    (table.ADVANCED, table.RENAME),
    ("filter-reports-new-change-version", "edits-move-change-version", "disk-uuid-keeps-its-value",
     "old-change-version-is-rejected",
     "identity-survives-rename-and-move"),
)  # fmt: skip
POWER = Experiment(
    Step.VM,
    "Powers the copy on, sets a key while it runs, and powers it off.",
    {"PowerOnVM_Task": 1, "ReconfigVM_Task": 1, "PowerOffVM_Task": 1},
    (table.POWER_ON, table.POWER_OFF),
    ("power-on-moves-change-version", "running-vm-takes-extra-config", "power-off-moves-change-version",
     "nic-keeps-automatic-mac", "power-events"),
)  # fmt: skip
CUSTOMIZED = Experiment(
    Step.VM,
    "Powers the VM on, and powers it off after guest customization.",
    {"PowerOnVM_Task": 1, "PowerOffVM_Task": 1},
    (table.CUSTOMIZE, table.POWER_ON, table.POWER_OFF),
    ("clone-takes-customization-and-nics", "deploy-pkg-means-pending", "customization-spec-format"),
)
GPU_ON = Experiment(
    Step.GPU,
    "Clones the VM with a vGPU, powers the clone on, and deletes it.",
    {"CloneVM_Task": 1, "PowerOnVM_Task": 1, "Destroy_Task": 1},
    (*COPY.needs, table.OF_SETTINGS["VirtualMachine.Config.Resource"], table.POWER_ON),
    ("vgpu-needs-efi-memory-mmio", "mmio-of-one-gpu", "drs-keeps-power-on-host", "drs-keeps-numa-affinity",
     "graphics-info-shows-the-gpu", "esxi-chooses-the-gpu", "vgpus-follow-assignment-policy"),
)  # fmt: skip
GPU_MOVE = Experiment(
    Step.GPU,
    "Migrates the running clone to another host with vMotion.",
    {"RelocateVM_Task": 1},
    (table.MIGRATE, table.MIGRATE_RUNNING),
    ("relocate-moves-like-migrate", "relocate-moves-running-vgpu-vms", "numa-affinity-format"),
)
GPU_OFF = Experiment(
    Step.GPU,
    "Powers the clone off.",
    {"PowerOffVM_Task": 1},
    (table.POWER_OFF,),
    ("graphics-info-forgets-stopped-vms",),
)
SHELLS = Experiment(
    Step.SHELL,
    "Runs nvidia-smi and mlxconfig over SSH on the hosts of the plan file; changes nothing.",
    {},
    (),
    ("nvidia-smi-topo-on-esxi", "nvidia-smi-mig-on-esxi", "numa-info-counts-like-nvidia-smi",
     "mlxconfig-takes-pci-addresses"),
)  # fmt: skip
PAST = Experiment(
    Step.READING,
    "Reads the newest events; changes nothing.",
    {},
    (),
    ("event-pages-of-1000", "clone-event-is-of-the-new-vm", "reconfigured-event-has-old-values",
     "cluster-event-names-the-override"),
)  # fmt: skip
COUNTERS = Experiment(
    Step.READING,
    "Reads the GPUs' performance counters; changes nothing.",
    {},
    (),
    ("gpu-counter-device-base", "mig-gpus-have-counters", "max-query-metrics"),
)
IMAGES = Experiment(
    Step.READING,
    "Reads the clusters' images; changes nothing.",
    {},
    (),
    ("driver-component-names", "base-image-ends-in-build"),
)
POLICIES = Experiment(
    Step.READING,
    "Reads the storage policies of VMs and disks; changes nothing.",
    {},
    (table.TRIAL_POLICIES,),
    ("policy-key-of-a-disk", "policy-answer-omits-objects"),
)
REST = Experiment(
    Step.READING,
    "Reads the tags of a VM; changes nothing.",
    {},
    (),
    ("rest-below-rest",),
)
EXPERIMENTS = (
    *(ALARM, ALARMS_AT_ONCE, EVENTS, ATTRIBUTE),
    *(NEW_VM, CLONED_VM, TAGS, COPY, TWIN, EDIT, POWER, CUSTOMIZED),
    *(GPU_ON, GPU_MOVE, GPU_OFF, SHELLS),
    *(PAST, COUNTERS, IMAGES, POLICIES, REST),
)


@dataclass(frozen=True, slots=True)
class Outline:
    """A trial before it begins: its calls, its duration, and its cost for a site."""

    server: str
    mark: TrialMark
    steps: Sequence[Step]
    experiments: Sequence[Experiment]
    minutes: int
    datastore_mib: int = 0

    @property
    def calls(self) -> Counter[str]:
        """Return the most calls by method, those that only read left out."""
        total: Counter[str] = Counter()
        for one in self.experiments:
            total.update(one.calls)
        return total

    @property
    def tasks(self) -> int:
        """Return the most tasks that vCenter then lists."""
        return sum(count for method, count in self.calls.items() if method.endswith("_Task"))


def experiments_of(steps: Iterable[Step], left_out: Collection[Experiment] = ()) -> tuple[Experiment, ...]:
    """Return the experiments of these steps, in their order; those with a vGPU clone a VM, too."""
    wanted = frozenset(steps)
    sources = {NEW_VM, CLONED_VM} if Step.GPU in wanted else set()
    return tuple(one for one in EXPERIMENTS if (one.step in wanted or one in sources) and one not in left_out)


def needs_of(experiments: Iterable[Experiment]) -> tuple[Need, ...]:
    """Return the privileges of experiments, each need once."""
    return tuple(dict.fromkeys(need for one in experiments for need in one.needs))
