"""A wave that keeps the spare by the plan keeps it in the lab, whatever host and GPU DRS and ESXi choose."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.extent import examples
from tests.properties.estates import GPUS, PROFILES, open_estate
from tests.properties.moving import CATALOG, desk
from tests.properties.test_rebalance import CHOICES, Choice, desired_of, estate, host, vm
from vgpu_cfg.lab.operations.hosts.power import VGPU_OPTION
from vgpu_cfg.lab.state.inventory import Host, Task
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.reservations import Spare
from vgpu_cfg.planning.capacity.host_capacity import CapacityReader
from vgpu_cfg.planning.pool.spare import Spares

NO_VMS = {"version": 1, "name": "demo", "vcenter": "lab", "vms": []}
DRS = {"drs": "fullyAutomated", "drs_options": {VGPU_OPTION: "-1"}}


@st.composite
def waves(draw: st.DrawFn) -> tuple[dict[str, Any], Spare, list[int]]:
    """Make a cluster of two to four like hosts with GPU VMs, its spare, and the hosts of a wave in order."""
    kind = draw(st.sampled_from(["same", "mixed", "mig"]))
    number = draw(st.integers(2, 4))
    count = draw(st.integers(1, 3))
    gpus = [GPUS[kind] | {"pci_id": f"0000:{0x20 + place:02x}:00.0"} for place in range(count)]
    vms = [
        vm(f"vm-{at}-{place}-{nth}", f"esx-{at}.lab", profile, gpu["pci_id"])
        for at in range(number)
        for place, gpu in enumerate(gpus)
        for profile in [draw(st.sampled_from(["", *PROFILES[kind]]))]
        for nth in range(bool(profile) + (profile in PROFILES[kind][2:] and draw(st.integers(0, 1))))
    ]
    made = estate([host(f"esx-{at}.lab", gpus) for at in range(number)], vms, **DRS)
    order = draw(st.permutations(range(number)))
    return made, Spare(hosts=draw(st.integers(1, 2)), origin="quotas.yaml:1"), order


def spare_of(observed: Inventory, spare: Spare, emptied: Sequence[str] = ()) -> int:
    """Return how many VMs have no other host, now or after these hosts were emptied."""
    spares = Spares(observed, CapacityReader(observed, CATALOG), emptied=emptied)
    return spares.of(observed.clusters[0], spare).count


@pytest.mark.sampled(3)
@pytest.mark.parametrize("choice", CHOICES)
@settings(
    max_examples=examples(10, 600),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(waves())
def test_after_a_wave_each_cluster_keeps_its_spare(
    choice: Choice, tmp_path: Path, case: tuple[dict[str, Any], Spare, list[int]]
) -> None:
    assert keeps_spare(tmp_path, *case, choice=choice)


def keeps_spare(
    tmp_path: Path, made: dict[str, Any], spare: Spare, order: Sequence[int], *, choice: Choice
) -> bool:
    """Empty the hosts in turn; whether every VM has another host at the end, if the plan promised it."""
    with desk(open_estate(made, gpu_choice=choice), desired_of(NO_VMS, tmp_path)) as seat:
        before = seat.read()
        emptied = [before.hosts[at].moid for at in order]
        if spare_of(before, spare) or spare_of(before, spare, emptied):
            return True  # there is none to keep, or the wave is refused: VG163
        for at in order:
            one = seat.lab.state.get(before.hosts[at].moid, Host)
            task = seat.lab.call(one, "EnterMaintenanceMode_Task", timeout=0)
            seat.lab.run_until_idle()
            if seat.lab.state.get(task.moid, Task).state != "success":
                return True  # refused: VG512
            seat.lab.call(one, "ExitMaintenanceMode_Task", timeout=0)
            seat.lab.run_until_idle()
        return not spare_of(seat.read(), spare)


@pytest.mark.xfail(strict=True, reason="DRS may spread VMs over hosts that the plan leaves free")
def test_vms_that_drs_spreads_leave_the_spare(tmp_path: Path) -> None:
    gpu = GPUS["same"] | {"pci_id": "0000:20:00.0"}
    vms = [
        vm("a", "esx-2.lab", "grid_a100d-20c", gpu["pci_id"]),
        vm("b", "esx-2.lab", "grid_a100d-20c", gpu["pci_id"]),
        vm("c", "esx-3.lab", "grid_a100d-80c", gpu["pci_id"]),
    ]
    made = estate([host(f"esx-{at}.lab", [gpu]) for at in range(4)], vms, **DRS)
    assert keeps_spare(tmp_path, made, Spare(hosts=2), (0, 1, 3, 2), choice="least_loaded")
