"""Mutants of what is announced, one at least for each kind of diary entry: the witness misses or doubts it.

Each has a case in which the thing happens. The same case without the mutant keeps the law.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.properties.witness.comparison import faults_of
from tests.properties.witness.plans import (
    DISKS,
    HOSTS,
    Case,
    estate,
    host_case,
    network_case,
    own_plan,
    training_estate,
    training_plan,
)
from tests.properties.witness.playing import played
from tests.properties.witness.stage import Shown, Stage, Witnessed
from vgpu_cfg.changes.plan import disturbed_by
from vgpu_cfg.changes.reach import Disturbed, Experience
from vgpu_cfg.planning.vms.lookup import resolved_vm
from vgpu_cfg.render.markdown import comment, runbook

Rows = Iterable[Disturbed]
Mutate = Callable[[Rows], Iterator[Disturbed]]
SERVER = "--server=lab:estate.yaml"


def without(experience: Experience, kind: str = "") -> Mutate:
    """Leave rows of the table out."""

    def mutate(rows: Rows) -> Iterator[Disturbed]:
        return (one for one in rows if one.experience is not experience or kind not in ("", one.subject.kind))

    return mutate


def unapproved(rows: Rows) -> Iterator[Disturbed]:
    """Let nothing need an approval."""
    return (one.model_copy(update={"needs": None}) for one in rows)


def also(experience: Experience) -> Mutate:
    """Say of each row that something else happens as well."""

    def mutate(rows: Rows) -> Iterator[Disturbed]:
        for one in rows:
            yield one
            yield one.model_copy(update={"experience": experience, "needs": None})

    return mutate


MTU = network_case(mtu=9000)
MIG = host_case(gpus=[{"match": {"numa": 0}, "use": "vgpu", "sharing": "mig"}])
DRAIN = Case(
    estate(drs="manual"),
    own_plan(),
    ((own_plan(), ("drain", HOSTS[0], "--yes", "--others", "--power-off=own-1", SERVER)),),
)
OFF = Case(
    estate(drs="manual", gpu_vm="on"),
    None,
    ((own_plan(), ("drain", HOSTS[0], "--yes", "--others", "--power-off=ml-1", SERVER)),),
)
WORK = Case(
    training_estate(),
    training_plan(),
    (
        (
            training_plan(site={"registry_mirrors": {"docker.io": "https://mirror.example.com"}}),
            ("apply", "--yes", "--allow=training", "plan.yaml"),
        ),
    ),
    ("serve in notebook on own-1",),
)


def destroyed(*words: str) -> Case:
    """Return a case that destroys a VM to which somebody has attached a disk."""
    command = ("destroy", "--yes", "--only=own-1", *words, "plan.yaml")
    return Case(estate(), own_plan(), ((own_plan(), command),), ("disk on own-1",))


E = Experience


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change of the table, the case that tells it, and the kind of fault that it makes."""

    case: Case
    mutate: Mutate
    fault: str


TABLE = {
    "link of a VM": Mutant(MTU, without(E.LINK_DOWN, "vm"), "link"),
    "link of a host": Mutant(MTU, without(E.LINK_DOWN, "host"), "link"),
    "move by DRS": Mutant(MIG, without(E.VMOTION), "move"),
    "power off": Mutant(OFF, without(E.POWERED_OFF), "power off"),
    "gpu mode": Mutant(MIG, without(E.GPU_MODE), "gpu mode"),
    "cluster settings": Mutant(
        host_case(cluster_options={"evacuate_vgpu": True}), without(E.OPTION, "cluster"), "cluster settings"
    ),
    "vcenter settings": Mutant(
        host_case(cluster_options={"hot_migrate": True}), without(E.OPTION, "vcenter"), "vcenter settings"
    ),
    "process end": Mutant(WORK, without(E.TRAINING_ENDED), "process end"),
    "device detach": Mutant(destroyed(), without(E.DISK_DETACHED), "device detach"),
    "disk delete": Mutant(
        destroyed(f"--delete={DISKS['disk on own-1']}"), without(E.DISK_DELETED), "disk delete"
    ),
    "approval of a link": Mutant(network_case(mtu=9000, allow=[]), unapproved, "unapproved"),
    "a made-up mode": Mutant(MTU, also(E.GPU_MODE), "no GPU mode changed"),
    "a made-up move": Mutant(MTU, also(E.VMOTION), "no vMotion"),
    "a made-up deletion": Mutant(MTU, also(E.DISK_DELETED), "no disk deleted"),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", TABLE)
def test_a_row_that_is_left_out_or_made_up_is_missed(
    name: str, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant = TABLE[name]
    assert played(stage, mutant.case) == []
    monkeypatch.setattr(
        "vgpu_cfg.changes.plan.disturbed_by", lambda *given: tuple(mutant.mutate(disturbed_by(*given)))
    )
    assert mutant.fault in {one.kind for one in played(stage, mutant.case)}


CHANGES = {
    "maintenance": (MIG, "enter_maintenance"),
    "host down": (MIG, "reboot_host"),
    "host up": (MIG, "reboot_host"),
    "reconfigure": (
        Case(
            estate(),
            own_plan(),
            ((own_plan(vms=[*own_plan()["vms"], {"name": "web-1"}]), ("import", "plan.yaml", "--yes")),),
        ),
        "mark_vm",
    ),
    "move": (DRAIN, "relocate_vm"),
}
"""What the changes themselves announce, and the kind of change that does."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("what", CHANGES)
def test_a_change_that_is_not_shown_is_missed(what: str, stage: Stage) -> None:
    case, kind = CHANGES[what]
    seen = last_of(stage, case)
    assert faults_of(seen) == []
    assert what in {one.kind for one in faults_of(blinded(seen, kind))}


def last_of(stage: Stage, case: Case) -> Witnessed:
    """Play a case, and return what its last command showed and brought."""
    if case.before is None:
        stage.build(case.estate)
    else:
        stage.build_with(case.estate, case.before)
    plan, words = case.commands[-1]
    stage.write(plan)
    return stage.run(*words)


def blinded(seen: Witnessed, kind: str) -> Witnessed:
    """Return what was seen as if a kind of change had not been in the plan."""

    def less(shown: Shown) -> Shown:
        left = {one.id: one for one in shown.plan.changes if one.kind != kind}
        disturbed = tuple(one for one in shown.plan.disturbed if one.change in left)
        plan = shown.plan.model_copy(update={"changes": tuple(left.values()), "disturbed": disturbed})
        return Shown(plan, shown.observed, shown.text, shown.done)

    return Witnessed(
        seen.ran, tuple(map(less, seen.shown)), seen.diary, seen.strangers, seen.own, seen.foreign_disks
    )


DEVICES = {
    "device detach": (
        own_plan(vms=[{"name": "own-1", "gpus": "grid_a100-10c", "nics": ["prod"]}]),
        "nic on own-1",
    ),
    "network": (own_plan(vms=[{"name": "own-2", "nics": ["vm-network", "prod"]}]), "nic on own-2"),
}


@pytest.mark.parametrize("what", DEVICES)
def test_a_device_of_others_that_is_taken_for_the_plans_is_missed(
    what: str, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, tamper = DEVICES[what]
    words = ("apply", "--yes", "--allow-power-cycle", "plan.yaml")
    case = Case(estate(), own_plan(), ((plan, words),), (tamper,))
    assert played(stage, case) == []
    monkeypatch.setattr(resolved_vm, "devices_of", lambda *_given: None)
    assert what in {one.kind for one in played(stage, case)}


@pytest.mark.parametrize(("face", "module"), [("markdown", comment), ("runbook", runbook)])
def test_an_output_that_leaves_disruption_out_is_missed(
    face: str, module: Any, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "disruption_rows", lambda _plan: ())
    assert f"unnamed in {face}" in {one.kind for one in played(stage, MTU)}
