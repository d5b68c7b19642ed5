"""What stands in a plan's way is moved as proposed, and the plan succeeds however ESXi chooses GPUs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.properties.estates import open_estate
from tests.properties.moving import Desk, desk
from tests.properties.test_rebalance import CHOICES, WINDOW, Choice, desired_of, estate, host, vm
from vgpu_cfg.lab.building.builder import build_state
from vgpu_cfg.lab.estates.files import read_estate
from vgpu_cfg.lab.simulation.clock import VirtualClock
from vgpu_cfg.lab.state.inventory import Task
from vgpu_cfg.lab.vcenter import Lab
from vgpu_cfg.planning.moves.rebalance import MoveMethod, RebalanceResult

A, B = "0000:21:00.0", "0000:22:00.0"
A100, MIG = {"board": "A100D"}, {"board": "A100", "mode": "mig"}


def plan_of(*gpus: dict[str, Any], memory: str = "8GiB", **more: Any) -> dict[str, Any]:
    row = {
        "name": "wanted",
        "template": "ubuntu",
        "cluster": "gpu",
        "folder": "training",
        "cpus": 2,
        "memory": memory,
        "gpus": list(gpus),
        "numa": "off",
    }
    return {"version": 1, "name": "demo", "vcenter": "lab", "vms": [row | more]}


def same_size_locks(*, hot: bool = True, **more: Any) -> dict[str, Any]:
    """Two hosts of a GPU each that a small VM locks."""
    hosts = [host(name, [A100 | {"pci_id": A}]) for name in ("esx-1.lab", "esx-2.lab")]
    vms = [vm(f"small-{n}", f"esx-{n}.lab", "grid_a100d-10c", A, **more) for n in (1, 2)]
    made = estate(hosts, vms)
    return made | {"vcenter": {"settings": {"vgpu.hotmigrate.enabled": hot}}}


def moved(seat: Desk) -> int:
    """Count the moves that the lab was asked for."""
    kinds = ("VirtualMachine.migrate", "VirtualMachine.relocate")
    return sum(task.description_id in kinds for task in seat.lab.state.all(Task))


def carried_out(seat: Desk, how: MoveMethod, count: int = 1) -> None:
    """Make the moves that are proposed, which must be so many and without a doubt; then apply."""
    found = seat.propose()
    assert (found.outcome, found.uncertain_starts) == (RebalanceResult.MOVES, ())
    assert [move.how for move in found.moves] == [how] * count, found
    seat.make(found.moves)
    assert all(seat.where(move.vm) == move.target for move in found.moves)
    seat.apply()
    assert moved(seat) == count


@pytest.mark.parametrize("choice", CHOICES)
def test_a_small_vm_that_locks_a_gpu_goes_to_its_like(choice: Choice, tmp_path: Path) -> None:
    plan = plan_of({"profile": "grid_a100d-80c"})
    with desk(open_estate(same_size_locks(), gpu_choice=choice), desired_of(plan, tmp_path)) as seat:
        carried_out(seat, MoveMethod.VMOTION)


@pytest.mark.parametrize("choice", CHOICES)
def test_with_unified_memory_it_goes_there_switched_off(choice: Choice, tmp_path: Path) -> None:
    made = same_size_locks(extra_config=WINDOW | {"pciPassthru0.cfg.enable_uvm": "1"})
    for row in made["vms"]:
        row["gpus"][0]["profile"] = "grid_a100d-80c"
    made["clusters"][0]["hosts"].append(host("esx-3.lab", [A100 | {"pci_id": A}, A100 | {"pci_id": B}]))
    made["vms"][1]["host"] = "esx-3.lab"
    plan = plan_of({"profile": "grid_a100d-80c", "count": 2})
    with desk(open_estate(made, gpu_choice=choice), desired_of(plan, tmp_path)) as seat:
        carried_out(seat, MoveMethod.COLD)


def test_apply_itself_moves_nothing(tmp_path: Path) -> None:
    plan = plan_of({"profile": "grid_a100d-80c"})
    with desk(open_estate(same_size_locks()), desired_of(plan, tmp_path)) as seat:
        refused = seat.plan()
        assert refused.errors
        assert not any("move" in change.kind or "migrate" in change.kind for change in refused.changes)
        carried_out(seat, MoveMethod.VMOTION)
        assert moved(seat) == 1  # the one that was made by hand


def mig(*on_the_second: str) -> dict[str, Any]:
    """Two hosts of a GPU in MIG mode each: on the first a 4g, on the second what is said."""
    hosts = [host(name, [MIG | {"pci_id": A}]) for name in ("esx-1.lab", "esx-2.lab")]
    vms = [vm(f"slices-{n}", "esx-2.lab", profile, A) for n, profile in enumerate(on_the_second)]
    return estate(hosts, [vm("half", "esx-1.lab", "grid_a100-4-20c", A), *vms])


@pytest.mark.parametrize("choice", CHOICES)
def test_a_small_instance_leaves_a_gpu_whole(choice: Choice, tmp_path: Path) -> None:
    plan = plan_of({"profile": "grid_a100-7-40c"})
    made = mig("grid_a100-2-10c")
    with desk(open_estate(made, gpu_choice=choice), desired_of(plan, tmp_path)) as seat:
        carried_out(seat, MoveMethod.VMOTION)


def test_which_instance_cuts_off_the_start_of_a_4g_is_not_told_and_so_in_doubt(tmp_path: Path) -> None:
    plan = plan_of({"profile": "grid_a100-4-20c"})
    with desk(open_estate(mig(*["grid_a100-3-20c"] * 2)), desired_of(plan, tmp_path)) as seat:
        found = seat.propose()
    assert (found.outcome, len(found.moves)) == (RebalanceResult.MOVES, 1)
    assert found.uncertain_starts == (
        "on esx-2.lab, the placement of slices-0 on GPU 0000:21:00.0 is unknown and may block other VMs",
    )


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("is_short", [True, False])
def test_a_vm_without_gpus_makes_room_where_memory_is_short(
    choice: Choice, tmp_path: Path, *, is_short: bool
) -> None:
    hosts = [host("esx-1.lab", [A100 | {"pci_id": A}], memory="96GiB"), host("esx-2.lab", [], memory="96GiB")]
    big = {
        "name": "big",
        "host": "esx-1.lab",
        "memory": "64GiB" if is_short else "16GiB",
        "reserve_memory": True,
    }
    plan = plan_of({"profile": "grid_a100d-40c"}, memory="48GiB")
    with desk(open_estate(estate(hosts, [big]), gpu_choice=choice), desired_of(plan, tmp_path)) as seat:
        if is_short:
            carried_out(seat, MoveMethod.VMOTION)
        else:
            assert seat.propose().outcome is RebalanceResult.FITS
            seat.apply()
            assert moved(seat) == 0


def hgx(choice: Choice, pairs: int) -> Lab:
    """Open the estate of two HGX servers, with so many pairs in the halves of the second as well."""
    source = read_estate("hgx-2xh100")
    more = [
        vm.model_copy(update={"name": f"more-{number}", "host": "esx-hgx-02.lab"})
        for number, vm in enumerate(source.estate.vms[:pairs])
    ]
    made = source.estate.model_copy(update={"vms": (*source.estate.vms, *more)})
    return Lab(build_state(replace(source, estate=made)), clock=VirtualClock(), gpu_choice=choice)


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize(("size", "pairs"), [(8, 1), (4, 2)])
def test_a_pair_leaves_an_hgx_server_for_a_larger_group(
    choice: Choice, size: int, pairs: int, tmp_path: Path
) -> None:
    group = {"profile": "nvidia_h100xm-80c", "count": size, "nvlink": True}
    plan = plan_of(group, memory="64GiB", cluster="hgx", template="ubuntu-22.04-efi", numa="follow-gpu")
    with desk(hgx(choice, pairs), desired_of(plan, tmp_path)) as seat:
        carried_out(seat, MoveMethod.VMOTION)


def test_a_group_of_four_fits_where_one_half_is_whole(tmp_path: Path) -> None:
    group = {"profile": "nvidia_h100xm-80c", "count": 4, "nvlink": True}
    plan = plan_of(group, memory="64GiB", cluster="hgx", template="ubuntu-22.04-efi", numa="follow-gpu")
    with desk(hgx("random", 1), desired_of(plan, tmp_path)) as seat:
        assert seat.propose().outcome is RebalanceResult.FITS
        seat.apply()
        assert moved(seat) == 0
