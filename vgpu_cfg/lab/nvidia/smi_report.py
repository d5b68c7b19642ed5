"""nvidia-smi -q: the report of GPUs on a vGPU host, its sections in the order of a recorded one (535.129).

From R565 on a module's number stands under `Platform Info` and is written `Module Id`; from R580 on the
colons stand further right (reports of 565.57.01, 570.124.06, 575.57.08 and 580.119.02). Sections that no
reader of hosts asks for (clocks, temperatures, ECC counters) are left out. What stands in the report and
not in the lab's state is decoration.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vgpu_cfg.lab.nvidia.gpus import board_of, bus_id, mig_words, number_of, on_or_off, uuid_of, visible
from vgpu_cfg.lab.nvidia.memory import used_mib
from vgpu_cfg.lab.nvidia.replies import Reply, say
from vgpu_cfg.lab.rules.gpu_load import ESXI_8_0_3
from vgpu_cfg.lab.rules.profiles import serves_vgpus
from vgpu_cfg.lab.simulation.clock import as_datetime
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.host import POWER_LIMIT_WATTS, Gpu, Host
from vgpu_cfg.lab.state.host_defaults import release_of

WIDTH = 42
"""Column of the colon."""
WIDE = 55
"""The same from R580 on."""
WIDE_FROM = 580
PLATFORM_INFO_FROM = 565

NAMES = {"Ada": "Ada Lovelace"}
WITHOUT_SRIOV = frozenset({"Volta", "Turing"})

Tree = dict[str, "str | Tree"]


def report(lab: Simulation, host: Host, gpus: Sequence[Gpu]) -> Reply:
    """Return the report of some of the host's GPUs."""
    driver = host.driver.version if host.driver is not None else "N/A"
    width = WIDE if _branch(host) >= WIDE_FROM else WIDTH
    return say(
        "",
        "==============NVSMI LOG==============",
        "",
        line_of("Timestamp", f"{as_datetime(lab.clock.now()):%a %b %e %H:%M:%S %Y}", width),
        line_of("Driver Version", driver, width),
        line_of("CUDA Version", "Not Found", width),
        "vGPU Driver Capability",
        line_of("        Heterogenous Multi-vGPU", "Supported", width),
        "",
        line_of("Attached GPUs", str(len(visible(host))), width),
        *(
            line
            for gpu in gpus
            for line in [f"GPU {bus_id(gpu)}", *lines_of(_tree(host, gpu), width=width), ""]
        ),
    )


def line_of(name: str, value: str, width: int = WIDTH) -> str:
    """Return one line of a report, at its margin."""
    return f"{name:<{width}}: {value}"


def lines_of(tree: Tree, depth: int = 1, width: int = WIDTH) -> Iterator[str]:
    """Yield the lines of a section, each level further in."""
    blanks = "    " * depth
    for name, value in tree.items():
        if isinstance(value, str):
            yield line_of(f"{blanks}{name}", value, width)
        else:
            yield f"{blanks}{name}"
            yield from lines_of(value, depth + 1, width)


def _branch(host: Host) -> int:
    version = host.driver.version if host.driver is not None else ""
    number = version.partition(".")[0]
    return int(number) if number.isdigit() else 0


def _module(host: Host, gpu: Gpu) -> Tree:
    number = str(gpu.module_id or 1)
    if _branch(host) < PLATFORM_INFO_FROM:
        return {"Module ID": number}
    return {
        "Platform Info": {
            "Chassis Serial Number": "N/A",
            "Slot Number": "N/A",
            "Tray Index": "N/A",
            "Host ID": "N/A",
            "Peer Type": "N/A",
            "Module Id": number,
            "GPU Fabric GUID": "N/A",
        }
    }


def _tree(host: Host, gpu: Gpu) -> Tree:
    board = board_of(gpu)
    mig_now, mig_next = mig_words(gpu)
    pci = gpu.pci
    used = used_mib(gpu)
    return {
        "Product Name": gpu.name,
        "Product Brand": "NVIDIA",
        "Product Architecture": NAMES.get(board.architecture, board.architecture),
        "Display Mode": "Enabled",
        "Display Active": "Disabled",
        "Persistence Mode": "Enabled",
        "Addressing Mode": "N/A",
        "vGPU Device Capability": {
            "Fractional Multi-vGPU": "Supported",
            "Heterogeneous Time-Slice Profiles": "Supported",
            "Heterogeneous Time-Slice Sizes": _supported(
                is_so=board.mixed_placement is not None and release_of(host) >= ESXI_8_0_3
            ),
        },
        "MIG Mode": {"Current": mig_now, "Pending": mig_next},
        "Accounting Mode": "Disabled",
        "Accounting Mode Buffer Size": "4000",
        "Serial Number": "N/A",
        "GPU UUID": uuid_of(host, gpu),
        "Minor Number": str(number_of(host, gpu)),
        "MultiGPU Board": "Yes" if board.gpus_per_board > 1 else "No",
        "Board ID": f"0x{pci.bus << 8:x}",
        **_module(host, gpu),
        "GSP Firmware Version": "N/A",
        "GPU Virtualization Mode": {
            "Virtualization Mode": "Host VGPU" if serves_vgpus(host, gpu) else "None",
            "Host VGPU Mode": _host_mode(host, gpu),
        },
        "GPU Reset Status": {"Reset Required": "No", "Drain and Reset Recommended": "No"},
        "PCI": {
            "Bus": f"0x{pci.bus:02X}",
            "Device": f"0x{pci.slot:02X}",
            "Domain": f"0x{int(pci.pci_id[:4], 16):04X}",
            "Device Id": f"0x{pci.device_id:04X}{pci.vendor_id:04X}",
            "Bus Id": bus_id(gpu),
            "Sub System Id": f"0x{pci.subdevice_id:04X}{pci.subvendor_id:04X}",
        },
        "Fan Speed": "N/A",
        "Performance State": "P0",
        "FB Memory Usage": {
            "Total": f"{gpu.memory_mib} MiB",
            "Reserved": "0 MiB",
            "Used": f"{used} MiB",
            "Free": f"{gpu.memory_mib - used} MiB",
        },
        "Compute Mode": "Default",
        "Utilization": {"Gpu": "0 %", "Memory": "0 %", "Encoder": "0 %", "Decoder": "0 %"},
        "ECC Mode": {
            "Current": on_or_off(is_on=gpu.ecc_enabled),
            "Pending": on_or_off(is_on=gpu.ecc_pending),
        },
        "GPU Power Readings": power(gpu),
        "Fabric": {
            "State": "Completed" if gpu.nvswitch else "N/A",
            "Status": "Success" if gpu.nvswitch else "N/A",
        },
        "Processes": "None",
    }


def _supported(*, is_so: bool) -> str:
    return "Supported" if is_so else "Not Supported"


def power(gpu: Gpu) -> Tree:
    """Return what a GPU may draw, in the words of R535 and later."""
    return {
        "Current Power Limit": f"{gpu.power_limit_watts:.2f} W",
        "Requested Power Limit": f"{gpu.power_limit_watts:.2f} W",
        "Default Power Limit": f"{POWER_LIMIT_WATTS:.2f} W",
        "Max Power Limit": f"{POWER_LIMIT_WATTS:.2f} W",
    }


def _host_mode(host: Host, gpu: Gpu) -> str:
    if not serves_vgpus(host, gpu):
        return "N/A"
    uses_sriov = host.bios.sriov and board_of(gpu).architecture not in WITHOUT_SRIOV
    return "SR-IOV" if uses_sriov else "Non SR-IOV"
