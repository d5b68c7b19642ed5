"""How the use of GPUs is read: which device is meant, what is measurable, and in how many round trips."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.vcenters import FixedClock
from vgpu_cfg.lab import open_lab
from vgpu_cfg.lab.simulation.clock import VirtualClock
from vgpu_cfg.lab.simulation.sessions import LAB_CREDENTIALS
from vgpu_cfg.model.observed.gpu_use import UseReading
from vgpu_cfg.ports import ReadScope
from vgpu_cfg.vsphere.reading.gpu_use import NO_SAMPLES, match_instances
from vgpu_cfg.vsphere.reading.reader import VCenterReader
from vgpu_cfg.vsphere.wire.session import Session

TWO = ["0000:21:00.0", "0000:e2:00.0"]
CLOSE = ["0000:10:00.0", "0000:16:00.0"]
ESTATE = """
about: hosts whose GPUs are measured
vcenter: {{statistics_level: {level}}}
clusters:
- name: gpu
  hosts:
  - names: [{names}]
    gpus:
    - {{board: A100D, pci_id: "0000:21:00.0", day: [0,0,0,0,0,0,0,90,60,60,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}}
    - {{board: A100D, pci_id: "0000:e2:00.0"}}
vms:
- name: worker
  host: esx-000.lab
  cpus: 8
  memory: 64GiB
  hardware_version: 21
  gpus: [{{profile: grid_a100d-80c, on: "0000:21:00.0"}}]
  extra_config: {{pciPassthru.use64bitMMIO: "TRUE", pciPassthru.64bitMMIOSizeGB: "512"}}
"""


def read(path: Path, *, level: int, hosts: int = 1, days: float | None = None) -> tuple[UseReading, int]:
    """Return what is read of an estate, and in how many round trips."""
    file = path / "estate.yaml"
    file.write_text(ESTATE.format(level=level, names=", ".join(f"esx-{n:03d}.lab" for n in range(hosts))))
    lab = open_lab(str(file), clock=VirtualClock())
    with Session(lab, "lab", LAB_CREDENTIALS.user, LAB_CREDENTIALS.password) as session:
        reader = VCenterReader(session, FixedClock())
        inventory = reader.read_inventory(ReadScope())
        before = session.round_trips
        return reader.read_gpu_use(inventory.hosts, days), session.round_trips - before


@pytest.mark.parametrize(
    ("names", "there", "found"),
    [
        (["000:003:00.0"], ["0000:03:00.0"], ["0000:03:00.0"]),
        (
            ["000:033:00.0", "000:226:00.0"],
            ["0000:21:00.0", "0000:e2:00.0"],
            ["0000:21:00.0", "0000:e2:00.0"],
        ),
        (
            ["000:021:00.0", "000:0e2:00.0"],
            ["0000:21:00.0", "0000:e2:00.0"],
            ["0000:21:00.0", "0000:e2:00.0"],
        ),
        (["0000:e2:00.0"], TWO, ["0000:e2:00.0"]),
        # 16 may be 0x10 or 0x16, and both are there: nobody knows which.
        (["000:016:00.0"], CLOSE, []),
        (
            ["000:016:00.0", "000:022:00.0"],
            ["0000:10:00.0", "0000:16:00.0"],
            ["0000:10:00.0", "0000:16:00.0"],
        ),
        (["000:099:00.0"], ["0000:21:00.0"], []),
        (["gpu-1"], ["0000:21:00.0"], []),
    ],
)
def test_which_gpu_a_counter_is_of(names: list[str], there: list[str], found: list[str]) -> None:
    assert list(match_instances(names, there).values()) == found


def test_now_and_over_days_where_vcenter_keeps_them(tmp_path: Path) -> None:
    found, trips = read(tmp_path, level=4, days=7)
    (use,) = found.gpus  # that of the other is not measurable, and never 0
    assert (use.pci_id, use.utilization_percent, use.memory_used_mib) == ("0000:21:00.0", 90.0, 81920)
    assert (use.memory_total_mib, use.temperature_celsius, use.power_watts) == (81920, 68, 252)
    assert use.past is not None
    assert (use.past.average_percent, use.past.peak_percent) == (8.75, 90.0)
    assert use.past.span_seconds == 7 * 86_400
    assert (found.unread, found.past_unread, trips) == ("", "", 4)


def test_at_the_default_level_an_hour_is_all_there_is(tmp_path: Path) -> None:
    found, _ = read(tmp_path, level=1, days=7)
    (use,) = found.gpus
    assert use.past is not None
    assert (use.past.span_seconds, use.past.samples) == (3600, 180)
    why = "vCenter keeps this counter only at statistics level 4 or higher, "
    why += "but no interval is set to that level"
    assert found.past_unread == why


def test_a_hundred_hosts_take_few_round_trips(tmp_path: Path) -> None:
    found, trips = read(tmp_path, level=1, hosts=100)
    assert (len(found.gpus), trips) == (100, 2)


def test_without_a_driver_nothing_is_measurable() -> None:
    lab = open_lab("one-a100", clock=VirtualClock())
    with Session(lab, "lab", LAB_CREDENTIALS.user, LAB_CREDENTIALS.password) as session:
        reader = VCenterReader(session, FixedClock())
        found = reader.read_gpu_use(reader.read_inventory(ReadScope()).hosts)
    assert (found.gpus, found.unread) == ((), NO_SAMPLES)
