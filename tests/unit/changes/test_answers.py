"""Every kind of change answers every question as stored; `estate.yaml` is what was read."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter

from tests.sections import left_over, section
from tests.unit.answers import own_properties, samples, told
from vgpu_cfg.changes.base import ChangeBase
from vgpu_cfg.changes.change import KINDS, Change
from vgpu_cfg.changes.kinds.vm_spec import VmSpec
from vgpu_cfg.changes.places import Places
from vgpu_cfg.changes.plan import StartQueue, disturbed_by
from vgpu_cfg.changes.values import Placement
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.described import PlanTables
from vgpu_cfg.planning.vms.settings.table import rows_of

HERE = Path(__file__).parent
ANSWERS = HERE / "answers.txt"
OBSERVED = Inventory.model_validate(samples(HERE / "estate.yaml"))
SAMPLES = samples(HERE / "changes.yaml")
ADAPTER: TypeAdapter[Any] = TypeAdapter(Change)
OWN = {"vm-1", "vm-2"}
PLACES = Places(OBSERVED, {("vm", "new-01"): "group-v3", ("network", "made"): "datacenter-2"}, rows_of)
PLACE = Placement(
    vm="hvd-01", host_moid="host-1", host_name="esx-01", gpu_pci_ids=("0000:21:00.0",), choice="least memory"
)
QUEUE = StartQueue(host_moid="host-1", gpus=(), starts={"hvd-01": (), "hvd-03": (), "hvd-02": ()})


class Tables(PlanTables):
    """The tables of a plan whose VMs start one by one."""

    def started_with(self, vm: str) -> tuple[str, ...]:
        return tuple(sorted(one for one in QUEUE.starts if one != vm)) if vm in QUEUE.starts else ()


TABLES = Tables()
QUESTIONS = sorted(
    name
    for name, value in inspect.getmembers(ChangeBase)
    if isinstance(value, property) and not (name.startswith("_") or hasattr(BaseModel, name))
)


def change_of(name: str) -> Any:
    words = dict(SAMPLES[name])
    vm = words.get("vm", {})
    host = words.get("host")
    subject = {"kind": "host", **host} if host else {"kind": "vm", "name": "hvd-01", "moid": "vm-1", **vm}
    return ADAPTER.validate_python({"id": f"do {subject['name']}", "subject": subject, **words})


def answers(change: Any) -> Iterator[tuple[str, object]]:
    """Yield the questions with the answers to them, those of methods with the arguments of this module."""
    vm = OBSERVED.vm_by_moid.get(change.subject.moid or "")
    for name in sorted({*QUESTIONS, *own_properties(type(change))}):
        found, usual = getattr(change, name), getattr(ChangeBase, name, None)
        if usual is None or found != usual.fget(change):
            yield name, found
    yield "ended_in", change.ended_in(vm)
    yield "spares_pool", change.spares_pool(OBSERVED)
    new = change.new_vm("vm-99", "p", OBSERVED)
    yield "new_vm", new
    if new is not None or vm is not None:
        then = change.vm_then(new or vm, {(4318, 9009)})
        yield "vm_then", "gone" if then is None else None if then in (vm, new) else then
    yield "parts", [(one.subject, one.edits) for one in change.parts() if one is not change]
    yield "for hvd-01 alone", kept_for(change, ["hvd-01"])
    yield "for none", kept_for(change, [])
    yield "head", change.head(PLACE)
    for name, place in {"certain": PLACE.model_copy(update={"is_certain": True}), "nowhere": None}.items():
        if change.head(place) != change.head(PLACE):
            yield f"head, {name}", change.head(place)
    yield "rows", list(change.rows(PLACE, TABLES))
    yield "by hand", change.by_hand(TABLES)
    yield "disturbs", disturbed_by(change, OBSERVED, OWN)
    yield "needs", needs_of(change)
    yield "no way back", list(change.no_way_back(TABLES))
    yield "home", change.home()
    yield from parts_of(change)
    yield "likeness", change.likeness("hvd-01")


def parts_of(change: Any) -> Iterator[tuple[str, object]]:
    """Yield the answers of a request's devices, and of a write to a host."""
    spec = getattr(change, "spec", None)
    if isinstance(spec, VmSpec):
        yield "leaves", spec.leaves()
        yield "is empty", spec.is_empty
        yield "disk policies", spec.disk_policies
        for number, device in enumerate(spec.devices):
            for name in own_properties(type(device)):
                value = getattr(device, name)
                yield f"device.{number}.{name}", value.what if name == "need" else value
            yield f"device.{number}.made", device.made(number, {(4318, 9009)})
    write = getattr(change, "write", None)
    if write is not None:
        for name in own_properties(type(write)):
            yield f"write.{name}", getattr(write, name)
        yield "write.sets_gpu_mode", write.sets_gpu_mode(OBSERVED.host_by_moid.get(change.host.moid))
        yield "write.on_network", None if write.on_network("net-5") == write else write.on_network("net-5")


def kept_for(change: Any, names: Iterable[str]) -> object:
    kept = change.part_for(list(names), {"hvd-02": "create hvd-02"})
    return "nothing" if kept is None else None if kept == change else (kept.edits, kept.needs, kept.overrides)


def needs_of(change: Any) -> list[str]:
    """Return what it needs, on which object, with the custom attributes that it defines."""
    return [
        " ".join((one.need.what, "@", one.moid, *(name for _, name in sorted(one.attributes))))
        for one in change.privileges(PLACES)
    ]


@pytest.mark.parametrize("name", SAMPLES)
def test_a_change_answers_every_question(name: str) -> None:
    text = told(answers(change_of(name)))
    assert text == section(ANSWERS, name, text)


def test_every_kind_has_a_sample() -> None:
    assert left_over(ANSWERS, SAMPLES) == []
    assert {one["kind"] for one in SAMPLES.values()} == {one.model_fields["kind"].default for one in KINDS}
