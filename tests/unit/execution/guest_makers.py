"""Short ways to write guests, and the plans that set them up."""

from __future__ import annotations

from typing import Any

from tests.fakes.fake_guests import FakeGuest, FakeGuests, GuestVCenter
from tests.unit.execution.makers import TEMPLATE, TEMPLATE_DETAIL, add_own_vm, create, plan_of, power_on, run
from vgpu_cfg.changes.change import Change, StageGuest
from vgpu_cfg.changes.report import Event, Report
from vgpu_cfg.changes.values import Subject, VmRef
from vgpu_cfg.execution import GuestTools
from vgpu_cfg.model.guests.guest import GuestSpec
from vgpu_cfg.model.guests.modules import DriverModule, HostNameModule, NouveauModule
from vgpu_cfg.model.observed.vm import PowerState, VmDetail

NAMES = ("host-name", "nouveau", "driver")


def spec_of(name: str, **fields: Any) -> GuestSpec:
    made: dict[str, Any] = {
        "plan": "demo",
        "vm": name,
        "modules": (HostNameModule(host_name=name), NouveauModule(), DriverModule(branches=("580",))),
        "addresses": ("10.0.0.5/24",),
    }
    return GuestSpec(**(made | fields))


def stage(name: str, *, spec: GuestSpec | None = None, **fields: Any) -> StageGuest:
    made: dict[str, Any] = {
        "id": f"stage {name}",
        "subject": Subject(kind="vm", name=name),
        "vm": VmRef(name=name, moid=fields.pop("moid", None)),
        "spec": spec or spec_of(name),
        "modules": NAMES,
    }
    return StageGuest(**(made | fields))


def new_with_guest(name: str, **fields: Any) -> tuple[Change, ...]:
    """Make, power on and stage a VM, by cloud-init unless told otherwise."""
    made: dict[str, Any] = {"with_clone": True, "needs": (f"power on {name}",)}
    return (create(name), power_on(name), stage(name, **(made | fields)))


def guests_of(
    *names: str, kind: type[GuestVCenter] = GuestVCenter, **fields: Any
) -> tuple[GuestVCenter, FakeGuests]:
    """Make a vCenter on which VMs of these names have guests."""
    gpus = {"host-1": {f"0000:{number:02x}:00.0": 0 for number in range(1, 9)}}
    server = kind(gpus=gpus)
    server.add_vm(TEMPLATE.name, "vm-template", TEMPLATE_DETAIL, is_template=True)
    server.guests = {name: FakeGuest(**({"spec": spec_of(name)} | fields)) for name in names}
    return server, FakeGuests(server)


def running(server: GuestVCenter, name: str, moid: str, **options: str) -> None:
    """Add a VM of the plan's that runs."""
    add_own_vm(server, name, moid, VmDetail(extra_config=options), power_state=PowerState.ON)


def run_guests(
    server: GuestVCenter, guests: FakeGuests, *changes: Change, **fields: Any
) -> tuple[Report, list[Event]]:
    words = iter(f"run-{number}" for number in range(99))
    tools = GuestTools(stager=guests, shells=guests, new_run=lambda: next(words))
    return run(server, *changes, guests=tools, **fields)


def options_of(server: GuestVCenter, name: str) -> dict[str, str]:
    detail = server.vm(name).detail
    assert detail is not None
    return dict(detail.extra_config)


__all__ = [
    "NAMES",
    "guests_of",
    "new_with_guest",
    "options_of",
    "plan_of",
    "run_guests",
    "running",
    "spec_of",
    "stage",
]
