"""How many GPU-hours VMs held: by their power events, by their uptime, and as far as either tells."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.plans.estate import make_inventory
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.past import Past, PastEvent
from vgpu_cfg.planning.pool.summary import Hours, count_hours
from vgpu_cfg.render.data.pool import hours_csv
from vgpu_cfg.render.layout.lines import plain
from vgpu_cfg.render.text.pool.use import render_hours

A = "0000:21:00.0"
ON, OFF = "VmPoweredOnEvent", "VmPoweredOffEvent"


def estate(**vms: dict[str, Any]) -> Inventory:
    gpus = [{"board": "A100D", "pci": A, "node": 0}]
    shared = {"host": "esx-01", "gpus": ["grid_a100d-40c"], "on": [A], "memory_gib": 16}
    wanted = {name: shared | more for name, more in vms.items()}
    return make_inventory({"hosts": {"esx-01": {"gpus": gpus}}, "vms": wanted})


def hours(
    observed: Inventory,
    *events: tuple[str, str, float],
    by: str = "vm",
    reaches_hours: float | None = None,
    **more: Any,
) -> Hours:
    """Count a hundred hours; events are of a VM, a kind, and so many hours ago."""
    now: datetime = observed.read_at
    moids = {vm.name: vm.moid for vm in observed.vms}
    told = tuple(
        PastEvent(kind=kind, moid=moids[name], name=name, at=now - timedelta(hours=ago))
        for name, kind, ago in events
    )
    since = None if reaches_hours is None else now - timedelta(hours=reaches_hours)
    past = Past(events=told, since=since, **more)
    return count_hours(observed, load_catalog(), past, now - timedelta(hours=100), by)


@pytest.mark.parametrize(
    ("events", "vm", "held"),
    [
        ([], {"uptime": 1_000_000}, 100),
        ([], {"uptime": 36_000}, 10),
        ([], {"power": "poweredOff"}, 0),
        ([(ON, 30)], {}, 30),
        ([(OFF, 30)], {"power": "poweredOff"}, 70),
        ([(ON, 90), (OFF, 80), (ON, 20)], {}, 30),
        ([(ON, 90), ("VmSuspendedEvent", 80), ("VmResumingEvent", 20)], {}, 30),
        ([(ON, 90), (ON, 80)], {}, 90),  # an HA restart says so twice
    ],
)
def test_a_vm_holds_its_gpus_while_it_is_on(
    events: list[tuple[str, float]], vm: dict[str, Any], held: float
) -> None:
    found = hours(estate(a=vm), *(("a", kind, ago) for kind, ago in events))
    assert [(row.gpu_hours, row.device_hours) for row in found.rows] == ([(held / 2, held)] if held else [])


def test_how_far_vcenters_history_reaches_is_said() -> None:
    observed = estate(a={"power": "poweredOff"})
    found = hours(observed, ("a", OFF, 30), reaches_hours=50)
    (row,) = found.rows
    assert row.device_hours == 20  # what it was before the oldest event, nobody knows
    assert "The oldest vCenter event is from" in plain(render_hours(found, "vm", 100, server="vc"))
    whole = hours(observed, ("a", OFF, 30), reaches_hours=500)
    assert (whole.reaches, whole.rows[0].device_hours) == (None, 70)
    assert "oldest vCenter event" not in plain(render_hours(whole, "vm", 100, server="vc"))


def test_by_plan_folder_and_attribute() -> None:
    observed = estate(
        a={"mark": "one/a", "uptime": 36_000}, b={"uptime": 72_000, "attributes": {"Team": "ml"}}
    )
    by_plan = {row.name: (row.vms, row.device_hours) for row in hours(observed, by="plan").rows}
    assert by_plan == {"": (("b",), 20), "one": (("a",), 10)}
    assert [row.name for row in hours(observed, by="folder").rows] == ["/dc1/vm/training"]
    assert [row.name for row in hours(observed, by="attribute:Team").rows] == ["ml", ""]
    with pytest.raises(ValueError, match="no VM has the custom attribute 'team'; did you mean 'Team'"):
        hours(observed, by="attribute:team")
    with pytest.raises(ValueError, match="'plans' is not one of plan, folder, vm, owner or attribute:NAME"):
        hours(observed, by="plans")


def test_no_name_becomes_a_formula() -> None:
    observed = estate(a={"mark": "one/a", "uptime": 36_000})
    found = hours(observed, by="plan")
    (row,) = found.rows
    named = replace(found, rows=(replace(row, name="=1+1"),))
    _, line = hours_csv(named, "plan").splitlines()
    assert line.startswith("'=1+1,5.0,10.0,1,")
