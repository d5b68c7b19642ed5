"""The disks that a reconfiguration adds: their UUIDs come into the owner mark, once vCenter shows them."""

from __future__ import annotations

import pytest

from tests.fakes.fake_vcenter import FakeVCenter
from tests.unit.execution.makers import add_own_vm, estate, reconfigure, run
from vgpu_cfg.changes.kinds.vm_spec import NewDisk, VmSpec
from vgpu_cfg.changes.report import OutcomeStatus
from vgpu_cfg.model.observed.vm import OwnerMark, VirtualDisk, VmDetail

GIB = 1024
FIRST = VirtualDisk(key=2000, capacity_mib=GIB, controller_key=1000, uuid="first", file="[v] a/a")
BOTH = ("first", "uuid-2001")


def detail_of(**fields: object) -> VmDetail:
    return VmDetail.model_validate({"hardware_version": 21, "cpus": 4, "memory_mib": 8192, **fields})


def spec_of(*sizes: int, disks: str = "first,+1024") -> VmSpec:
    devices = tuple(NewDisk(size_mib=size) for size in sizes)
    return VmSpec(devices=devices, extra_config={"vgpu_cfg.plan": f"demo disks={disks}", "vgpu_cfg.vm": "a"})


def mark_in(text: str) -> OwnerMark:
    found = OwnerMark.parse(text, "a")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("sizes", "disks", "recorded", "waiting", "requests"),
    [
        ((GIB,), "first,+1024", BOTH, (), 2),
        ((GIB, GIB), "first,+1024,+1024", ("first", "uuid-2001", "uuid-2002"), (), 2),
        ((GIB,), "first,+2048", ("first",), (2048,), 1),
        ((GIB,), "first", ("first",), (), 1),
        ((), "first,+1024", ("first",), (1024,), 1),
    ],
    ids=["one", "two", "of another size", "none is announced", "none is made"],
)
def test_new_disks_are_recorded_when_they_are_certain(
    sizes: tuple[int, ...], disks: str, recorded: tuple[str, ...], waiting: tuple[int, ...], requests: int
) -> None:
    server = estate()
    add_own_vm(server, "a", "vm-1", detail_of(disks=(FIRST,)))
    report, _ = run(server, reconfigure("a", "vm-1", spec_of(*sizes, disks=disks)))
    (outcome,) = report.outcomes
    assert (outcome.status, outcome.message) == (OutcomeStatus.DONE, "")
    detail = server.vm("a").detail
    assert detail is not None
    mark = mark_in(detail.extra_config["vgpu_cfg.plan"])
    assert (mark.disks, mark.new_disks) == (recorded, waiting)
    assert len(server.started("reconfigure_vm")) == requests
    assert len(outcome.tasks) == requests


class Forgetful(FakeVCenter):
    """A vCenter that reports success for a request of nothing but settings, and ignores it."""

    def reconfigure_vm(self, moid: str, spec: VmSpec) -> str:
        kept = spec if spec.devices else spec.model_copy(update={"extra_config": {}})
        return super().reconfigure_vm(moid, kept)


def test_a_mark_that_vcenter_ignores_is_not_confirmed() -> None:
    server = Forgetful()
    add_own_vm(server, "a", "vm-1", detail_of(disks=(FIRST,)))
    report, _ = run(server, reconfigure("a", "vm-1", spec_of(GIB)))
    (outcome,) = report.outcomes
    assert outcome.status is OutcomeStatus.FAILED
    assert "does not have the requested settings" in outcome.message
