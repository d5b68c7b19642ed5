"""nvidia-smi mig: instance profiles with what still fits, and the instances that vSphere made."""

from __future__ import annotations

import pytest

from tests.unit.lab.shell.logged_in import Desk


@pytest.fixture
def mig() -> Desk:
    """One A100 in MIG mode."""
    desk = Desk("mig-a100")
    assert desk.esx.gpus[0].mig_enabled
    return desk


def counts(desk: Desk) -> dict[str, str]:
    """Return instance name → Free/Total."""
    rows = [line.split() for line in desk.lines("nvidia-smi mig -lgip -i 0") if " MIG " in line]
    return {row[3]: row[5] for row in rows}


def test_profiles_are_framed_in_two_lines_each(mig: Desk) -> None:
    lines = mig.lines("nvidia-smi mig -lgip -i 0")
    assert {len(line) for line in lines} == {79}
    assert lines[2] == "| GPU   Name             ID    Instances   Memory     P2P    SM    DEC   ENC  |"
    row = next(line for line in lines if " 1g.5gb " in line)
    assert row.split() == ["|", "0", "MIG", "1g.5gb", "19", "7/7", "5.00", "No", "14", "0", "0", "|"]


def test_every_profile_of_an_empty_gpu_fits(mig: Desk) -> None:
    assert counts(mig) == {
        "1g.5gb": "7/7",
        "1g.5gb+me": "1/1",
        "1g.10gb": "4/4",
        "2g.10gb": "3/3",
        "3g.20gb": "2/2",
        "4g.20gb": "1/1",
        "7g.40gb": "1/1",
    }


def test_what_runs_takes_its_slices(mig: Desk) -> None:
    mig.running("one", "grid_a100-3-20c", host=mig.esx.name)
    pci_id = mig.gpu_of(mig.vm("one"))[0]
    number = sorted(gpu.pci_id for gpu in mig.esx.gpus).index(pci_id)
    assert number == 0
    left = counts(mig)
    assert left["7g.40gb"] == "0/1"
    assert left["3g.20gb"] == "1/2"
    assert left["4g.20gb"] == "1/1"
    assert left["1g.5gb"] == "4/7"


def test_instances_come_and_go_with_the_vms(mig: Desk) -> None:
    assert mig.run_line("nvidia-smi mig -lgi") == (6, "No GPU instances found: Not Found\n", "")
    vm = mig.running("one", "grid_a100-3-20c", host=mig.esx.name)
    lines = mig.lines("nvidia-smi mig -lgi")
    assert {len(line) for line in lines} == {57}
    (row,) = (line for line in lines if " MIG " in line)
    assert row.split() == ["|", "0", "MIG", "3g.20gb", "9", "1", "4:4", "|"]
    mig.done(vm, "PowerOffVM_Task")
    assert mig.run_line("nvidia-smi mig -lgi")[0] == 6


@pytest.mark.parametrize("flag", ["-lgip", "-lgi"])
def test_without_mig_mode_there_is_nothing(desk: Desk, flag: str) -> None:
    assert desk.run_line(f"nvidia-smi mig {flag}") == (6, "No MIG-enabled devices found.\n", "")
