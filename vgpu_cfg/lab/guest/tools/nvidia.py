"""nvidia-smi in a guest: the summary, the report with its license, lists, tables, links of devices.

Layouts are those of the host's printers. The lines under `vGPU Software Licensed Product` are those of
NVIDIA's client licensing guide. In a VM the PCIe topology is hidden, so devices meet at the host bridge
(PHB); that a vGPU with unified memory shows PIX where NVLink is, is seen on A100.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from vgpu_cfg.lab.guest.shell import Result, Session
from vgpu_cfg.lab.guest.staging.work import licence_refusal
from vgpu_cfg.lab.guest.system.gpus import SeenGpu, driven_gpus, newer_library
from vgpu_cfg.lab.guest.system.rdma import rdma_nics
from vgpu_cfg.lab.guest.tools.base import out
from vgpu_cfg.lab.nvidia.gpus import board_of, on_or_off
from vgpu_cfg.lab.nvidia.smi import BAD_ARGUMENT, NO_DRIVER, NOTHING_FOUND, UNREACHABLE, read_words
from vgpu_cfg.lab.nvidia.smi_mig import LICENSED_YEARS
from vgpu_cfg.lab.nvidia.smi_report import LEGEND, LINKS, block_of, device_values, line_of, table
from vgpu_cfg.lab.simulation.clock import as_datetime
from vgpu_cfg.lab.state.guest import fault_of

CUDA = {580: "13.0", 570: "12.8", 550: "12.4", 535: "12.2", 525: "12.0", 510: "11.6", 470: "11.4"}
MISMATCH = 18
"""NVML_ERROR_LIB_RM_VERSION_MISMATCH, as which nvidia-smi ends (nvml.h)."""
HOLDER = "python3"
LEFT_PID = 2211
NO_DEVICES = "No devices were found"


def run_nvidia_smi(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    """Answer one call."""
    state, vm = session.lab.state, session.vm
    if not session.guest.driver:
        return Result(127, err=b"sh: 1: nvidia-smi: not found\n")
    gpus = driven_gpus(state, vm)
    if not gpus:
        return out(UNREACHABLE, status=NO_DRIVER)
    newer = newer_library(session.guest)
    if newer:
        branch = ".".join(newer.split(".")[:2])
        text = "Failed to initialize NVML: Driver/library version mismatch"
        return out(text, f"NVML library version: {branch}", status=MISMATCH)
    asked = read_words(arguments)
    if asked is None:
        return _bad()
    wanted = asked.values.pop("id", "")
    if wanted:
        gpus = [gpu for number, gpu in enumerate(gpus) if wanted in (str(number), gpu.uuid, gpu.bus_id)]
        if not gpus:
            return out(NO_DEVICES, status=NOTHING_FOUND)
    match asked.subject, sorted(asked.flags), sorted(asked.values):
        case "", [], []:
            return _summary(session, gpus)
        case "", ["query"], []:
            return _report(session, gpus)
        case "", ["list"], []:
            return out(*(f"GPU {number}: {gpu.name} (UUID: {gpu.uuid})" for number, gpu in enumerate(gpus)))
        case "", [], ["format", "query-gpu"]:
            return _csv(session, gpus, asked.values["query-gpu"], asked.values["format"])
        case "topo", ["matrix"], []:
            return _matrix(session, gpus)
        case _:
            return _bad()


def _bad() -> Result:
    text = "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help."
    return out(text, status=BAD_ARGUMENT)


def cuda_of(driver: str) -> str:
    """Return the newest CUDA of a driver."""
    head = driver.partition(".")[0]
    return CUDA.get(int(head) if head.isdecimal() else 0, "12.2")


def _summary(session: Session, gpus: Sequence[SeenGpu]) -> Result:
    rows = [
        (number, gpu.name, gpu.bus_id, f"{_held(session)}MiB / {gpu.memory_mib}MiB", "Disabled")
        for number, gpu in enumerate(gpus)
    ]
    driver = session.guest.driver
    modes = {number: _compute_mode(session) for number, *_ in rows}
    off = {number for number, gpu in enumerate(gpus) if not gpu.gpu.ecc_enabled}
    held = [(number, LEFT_PID, HOLDER, _held(session)) for number, *_ in rows if _held(session)]
    now = session.lab.clock.now()
    return out(*table(now, driver, cuda_of(driver), rows, without_ecc=off, modes=modes, processes=held))


def _held(session: Session) -> int:
    """Return the memory of each GPU that a leftover process holds, in MiB."""
    return int(fault_of(session.guest, "held") or 0)


def _compute_mode(session: Session) -> str:
    return fault_of(session.guest, "compute") or "Default"


def is_licensed(session: Session) -> bool:
    """Whether the guest has a licence."""
    token = session.guest.licence
    runs = session.guest.services.get("nvidia-gridd", True)
    return runs and bool(token) and licence_refusal(session.lab.state.internet, token) is None


def _report(session: Session, gpus: Sequence[SeenGpu]) -> Result:
    driver = session.guest.driver
    now = as_datetime(session.lab.clock.now())
    return out(
        "",
        "==============NVSMI LOG==============",
        "",
        line_of("Timestamp", f"{now:%a %b %e %H:%M:%S %Y}", driver),
        line_of("Driver Version", driver, driver),
        line_of("CUDA Version", cuda_of(driver), driver),
        "",
        line_of("Attached GPUs", str(len(gpus)), driver),
        *(text for gpu in gpus for text in [f"GPU {gpu.bus_id}", *_block(session, gpu), ""]),
    )


SILENT = (
    "GPU Reset Status",
    "GPU Recovery Action",
    "PCI/GPU Link Info",
    "Clocks Event Reasons",
    "ECC Errors",
    "Temperature",
)
"""The sections for which a vGPU's driver prints N/A, field by field."""


def _block(session: Session, gpu: SeenGpu) -> Iterator[str]:
    held = _held(session)
    memory = int(fault_of(session.guest, "framebuffer") or gpu.memory_mib)
    values = device_values(gpu.gpu, gpu.bus_id, held, memory) | {
        "Product Name": fault_of(session.guest, "gpu") or gpu.name,
        "Product Architecture": board_of(gpu.gpu).architecture,
        "vGPU Device Capability": None,
        "MIG Mode/Current": "Disabled",
        "MIG Mode/Pending": "Disabled",
        "GPU UUID": gpu.uuid,
        "GPU Virtualization Mode/Virtualization Mode": "VGPU" if gpu.profile else "Pass-Through",
        "Compute Mode": _compute_mode(session),
    }
    if gpu.profile:
        values |= dict.fromkeys(
            ("Remapped Rows", "GPU Power Readings", "Fabric/State", "Fabric/Status"), "N/A"
        )
        values["vGPU Software Licensed Product/License Status"] = _licence(session)
    else:
        values |= {"vGPU Software Licensed Product": None, **gpu.gpu.health}
    if held:
        use = {"Process ID": str(LEFT_PID), "Process ID/Name": HOLDER}
        use["Process ID/Used GPU Memory"] = f"{held} MiB"
        values |= {f"Processes/{name}": value for name, value in use.items()}
    else:
        values["Processes"] = "None"
    for line in fault_of(session.guest, "health").splitlines():
        path, _, value = line.partition("=")
        values.pop(path.partition("/")[0], None)
        values[path] = value
    return block_of(session.guest.driver, values, SILENT if gpu.profile else ())


def _licence(session: Session) -> str:
    if not is_licensed(session):
        return "Unlicensed (Unrestricted)"
    now = as_datetime(session.lab.clock.now())
    hours = fault_of(session.guest, "licence")
    end = now + timedelta(hours=float(hours)) if hours else now.replace(year=now.year + LICENSED_YEARS)
    return f"Licensed (Expiry: {end.year}-{end.month}-{end.day} {end.hour}:{end.minute}:{end.second} GMT)"


def _csv(session: Session, gpus: Sequence[SeenGpu], fields: str, form: str) -> Result:
    names, asked = fields.split(","), set(form.split(","))
    if "csv" not in asked:
        return out('"--format=" has to contain "csv".', status=BAD_ARGUMENT)
    rows: list[str] = []
    for number, gpu in enumerate(gpus):
        values = _values(session, number, gpu, len(gpus))
        unknown = next((name for name in names if name.strip() not in values), None)
        if unknown is not None:
            return out(f'Field "{unknown}" is not a valid field to query.', "", status=BAD_ARGUMENT)
        rows.append(", ".join(_cell(name.strip(), values, asked) for name in names))
    header = [", ".join(f"{name.strip()}{' [MiB]' if 'memory' in name else ''}" for name in names)]
    return out(*([] if "noheader" in asked else header), *rows)


def _cell(name: str, values: dict[str, str], asked: set[str]) -> str:
    unit = " MiB" if name.startswith("memory.") and "nounits" not in asked else ""
    return f"{values[name]}{unit}"


def _values(session: Session, number: int, gpu: SeenGpu, count: int) -> dict[str, str]:
    return {
        "index": str(number),
        "name": gpu.name,
        "gpu_name": gpu.name,
        "uuid": gpu.uuid,
        "gpu_uuid": gpu.uuid,
        "count": str(count),
        "driver_version": session.guest.driver,
        "pci.bus_id": gpu.bus_id,
        "gpu_bus_id": gpu.bus_id,
        "memory.total": str(gpu.memory_mib),
        "memory.used": str(_held(session)),
        "memory.free": str(gpu.memory_mib - _held(session)),
        "utilization.gpu": "0",
        "temperature.gpu": "30",
        "power.draw": "50.00",
        "mig.mode.current": "Disabled",
        "ecc.mode.current": on_or_off(is_on=gpu.gpu.ecc_enabled),
        "compute_mode": _compute_mode(session),
        "pstate": "P0",
    }


def _matrix(session: Session, gpus: Sequence[SeenGpu]) -> Result:
    nics = rdma_nics(session.lab.state, session.vm)
    names = [f"GPU{number}" for number in range(len(gpus))] + [f"NIC{number}" for number in range(len(nics))]
    head = "\t".join(["", *names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])
    rows = [
        "\t".join([name, *_links(index, gpus, len(nics)), *_affinity(session, index < len(gpus))])
        for index, name in enumerate(names)
    ]
    tail = ["", "NIC Legend:", "", *(f"  NIC{number}: {nic.rdma}" for number, nic in enumerate(nics))]
    return out(head, *rows, "", *LEGEND, *(tail if nics else []))


def _links(index: int, gpus: Sequence[SeenGpu], nics: int) -> Iterator[str]:
    for other in range(len(gpus) + nics):
        if other == index:
            yield " X "
        elif index < len(gpus) and other < len(gpus):
            yield link(gpus[index], gpus[other])
        else:
            yield "PHB"


def link(one: SeenGpu, other: SeenGpu) -> str:
    """Return how two GPUs of a guest are joined."""
    in_group = one.group and one.group == other.group
    in_hand = not one.profile and not other.profile and other.gpu.pci_id in one.gpu.nvlink_peers
    if not (in_group or in_hand):
        return "PHB"
    if one.unified or other.unified:
        return "PIX"
    return f"NV{LINKS.get(board_of(one.gpu).architecture, 4)}"


def _affinity(session: Session, is_gpu: bool) -> list[str]:  # noqa: FBT001 - of a private row
    return [f"0-{session.vm.cpus - 1}", "N/A", "N/A"] if is_gpu else ["", "", ""]
