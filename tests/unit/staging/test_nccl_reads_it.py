"""The topology that a guest writes, judged by NCCL itself: its own reader says which ways it sees.

What NCCL adds by itself where there is a GPU (`gpu` and `net` below their devices) is put in as it writes it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.staging.sandbox import Sandbox
from tests.unit.staging.test_nccl import NICS, TOPOLOGY, add_gpu, add_link, add_nic, module, vm
from vgpu_cfg.model.guests.modules import Wire

__all__ = ["vm"]
pytestmark = pytest.mark.long("NCCL's own reader, of three versions")

ROOT = Path(__file__).resolve().parents[3]
BETWEEN = pytest.mark.exhaustive("the versions of NCCL between the first and the last")
UNKNOWN = pytest.mark.exhaustive("the link that NCCL assumes")
VERSIONS = ("2.16.5", pytest.param("2.21.5", marks=BETWEEN), "2.32.3")
GPU = '<gpu dev="{dev}" sm="80" rank="{dev}" gdr="1"/>'
NIC = (
    '<nic>\n<net name="mlx5_{dev}" dev="{dev}" speed="100000" port="1" latency="0.000000" guid="0x{dev}1" '
    'maxconn="131072" gdr="1" rail="-1" plane="-1"/>\n</nic>'
)
CPU = 'arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85"'


@pytest.fixture(params=VERSIONS)
def library(request: pytest.FixtureRequest) -> Path:
    folder = ROOT / ".cache" / "nccl"
    if not (folder / "installed").exists():
        pytest.skip("NCCL is not built; script/build-nccl says why")
    return folder / str(request.param) / "nvidia/nccl/lib/libnccl.so.2"


def with_devices(text: str) -> str:
    """Add what NCCL adds of GPUs, NICs and processors before it makes its system of a file."""
    numbers = {"0x030200": 0, "0x020000": 0}

    def add(found: re.Match[str]) -> str:
        kind = found[1]
        inner = (GPU if kind == "0x030200" else NIC).format(dev=numbers[kind])
        numbers[kind] += 1
        return f"{found[0][:-2]}>\n{inner}\n</pci>"

    text = re.sub(r"(<cpu [^>]*)>", rf"\1 {CPU}>", text)
    return re.sub(r'<pci busid="0000:[^"]*" class="(0x030200|0x020000)"[^>]*/>', add, text)


def read(library: Path, path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.unit.staging.nccl_reader", str(library), str(path)],
        capture_output=True, text=True, check=False, timeout=120, cwd=ROOT,
    )  # fmt: skip


def graph(library: Path, guest: Sandbox) -> str:
    """Return the system that NCCL makes of the file."""
    path = guest.root.parent / "with-devices.xml"
    path.write_text(with_devices(guest.read(TOPOLOGY)))
    done = read(library, path)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def ways(library: Path, guest: Sandbox) -> list[list[str]]:
    """Return how NCCL sees the way from each GPU to each NIC, both in their order."""
    found: dict[str, list[str]] = {}
    for line in graph(library, guest).splitlines():
        gpu = re.search(r"INFO (GPU/\S+) :", line)
        if gpu:
            found[gpu[1]] = re.findall(r"NET/\S+ \([^)]*/([A-Z]+)\)", line)
    return list(found.values())


ONE = (Wire(node=0, switches=(1,)),)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("gpu", "nic", "way"),
    [
        ((0, (1,)), (0, (1,)), "PIX"),
        ((0, (1, 2)), (0, (1, 3)), "PXB"),
        ((0, (1,)), (0, (2,)), "PHB"),
        ((0, ()), (0, ()), "PHB"),
        ((0, (1,)), (1, (2,)), "SYS"),
    ],
)
def test_nccl_sees_the_way_that_the_host_has(
    vm: Sandbox,
    library: Path,
    gpu: tuple[int, tuple[int, ...]],
    nic: tuple[int, tuple[int, ...]],
    way: str,
) -> None:
    wires = [(Wire(node=node, switches=switches),) for node, switches in (gpu, nic)]
    vm.bring(vm.stage(module(gpu_wires=wires[0], nic_wires=wires[1])))
    assert ways(library, vm) == [[way]]


@pytest.mark.parametrize(
    ("speed", "width", "gigabytes"),
    [("16.0 GT/s PCIe", "16", 24.0), pytest.param("Unknown", "255", 12.0, marks=UNKNOWN)],
)
def test_nccl_knows_how_fast_the_link_of_a_gpu_is(
    vm: Sandbox, library: Path, speed: str, width: str, gigabytes: float
) -> None:
    """Without a speed, NCCL assumes generation 3 with 16 lanes."""
    add_link(vm, speed, width)
    vm.bring(vm.stage(module(gpu_wires=ONE, nic_wires=ONE)))
    seen = re.search(r"INFO GPU/\S+ :.* CPU/\S+ \(\d+/([0-9.]+)/PHB\)", graph(library, vm))
    assert seen is not None
    assert float(seen[1]) == gigabytes


def test_each_gpu_has_a_nic_of_its_own(vm: Sandbox, library: Path) -> None:
    add_gpu(vm, "0000:13:00.0")
    add_nic(vm, 1, "ens162", "0000:1b:00.0")
    near, far = Wire(node=0, switches=(1,)), Wire(node=1, switches=(2,))
    vm.bring(vm.stage(module(nics=NICS, gpu_wires=(near, far), nic_wires=(near, far))))
    assert ways(library, vm) == [["PIX", "SYS"], ["SYS", "PIX"]]


def test_it_does_not_read_everything(vm: Sandbox, library: Path) -> None:
    """Two blanks between attributes are too many for it: a judge that takes everything proves nothing."""
    vm.bring(vm.stage(module(gpu_wires=ONE, nic_wires=ONE)))
    path = vm.root.parent / "broken.xml"
    path.write_text(vm.read(TOPOLOGY).replace(" class=", "  class="))
    assert read(library, path).returncode != 0
