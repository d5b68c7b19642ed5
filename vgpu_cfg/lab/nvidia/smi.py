"""nvidia-smi's command line: its options, queries and modes, and its error messages.

Statuses are those of its manual page: 2 a bad argument, 6 nothing found, 9 no driver to talk to. A host
whose GPUs are all passed through has no driver loaded.

In a table of `--query-gpu` a header is the field's name, with its unit in brackets; values carry the unit
unless `nounits` is asked.

Words about MIG mode (`-mig`) are recorded: from ESXi with an A100 (pending until a reboot), from NVIDIA's MIG
guide (a GPU in use), from a board without MIG, and of ECC. The MIG guide states that Ampere boards need
ESXi's reboot and later ones do not; the status 0 without a change is reported for other settings of
nvidia-smi.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from vgpu_cfg.lab.nvidia import smi_mig, smi_report
from vgpu_cfg.lab.nvidia.gpus import (
    Reply,
    board_of,
    bus_id,
    mig_words,
    number_of,
    on_or_off,
    say,
    select,
    used_mib,
    uuid_of,
    visible,
)
from vgpu_cfg.lab.simulation.simulation import Simulation, watched_gpus
from vgpu_cfg.lab.state.host import POWER_LIMIT_WATTS, Gpu, Host

BAD_ARGUMENT = 2

Read = Callable[[Host, Gpu], str]

FIELDS: dict[str, Read] = {
    "index": lambda host, gpu: str(number_of(host, gpu)),
    "name": lambda _host, gpu: gpu.name,
    "gpu_name": lambda _host, gpu: gpu.name,
    "uuid": uuid_of,
    "gpu_uuid": uuid_of,
    "count": lambda host, _gpu: str(len(visible(host))),
    "driver_version": lambda host, _gpu: host.driver.version if host.driver is not None else "N/A",
    "pci.bus_id": lambda _host, gpu: bus_id(gpu),
    "gpu_bus_id": lambda _host, gpu: bus_id(gpu),
    "pci.device_id": lambda _host, gpu: f"0x{gpu.pci.device_id:04X}{gpu.pci.vendor_id:04X}",
    "mig.mode.current": lambda _host, gpu: mig_words(gpu)[0],
    "mig.mode.pending": lambda _host, gpu: mig_words(gpu)[1],
    "ecc.mode.current": lambda _host, gpu: on_or_off(is_on=gpu.ecc_enabled),
    "ecc.mode.pending": lambda _host, gpu: on_or_off(is_on=gpu.ecc_pending),
    "power.limit": lambda _host, gpu: f"{gpu.power_limit_watts:.2f}",
    "power.default_limit": lambda _host, _gpu: f"{POWER_LIMIT_WATTS:.2f}",
    "memory.total": lambda _host, gpu: str(gpu.memory_mib),
    "memory.used": lambda _host, gpu: str(used_mib(gpu)),
    "memory.free": lambda _host, gpu: str(gpu.memory_mib - used_mib(gpu)),
}

UNITS = {
    "power.limit": "W",
    "power.default_limit": "W",
    **dict.fromkeys(("memory.total", "memory.used", "memory.free"), "MiB"),
}
FORMS = frozenset({"csv", "noheader", "nounits"})


def table(host: Host, gpus: Sequence[Gpu], fields: str, form: str) -> Reply:
    """Return one line per GPU, below a header."""
    names = fields.split(",")
    unknown = next((name for name in names if name not in FIELDS), None)
    if unknown is not None:
        return say(f'Field "{unknown}" is not a valid field to query.', "", status=BAD_ARGUMENT)
    asked = set(form.split(","))
    if "csv" not in asked or not asked <= FORMS:
        return say('"--format=" has to contain "csv".', status=BAD_ARGUMENT)
    units = {} if "nounits" in asked else UNITS
    header = [", ".join(f"{name} [{UNITS[name]}]" if name in UNITS else name for name in names)]
    rows = (
        ", ".join(f"{FIELDS[name](host, gpu)} {units.get(name, '')}".rstrip() for name in names)
        for gpu in gpus
    )
    return say(*([] if "noheader" in asked else header), *rows)


def set_mig(lab: Simulation, host: Host, gpus: Sequence[Gpu], *, is_on: bool) -> Reply:
    """Switch MIG mode: at once, or from the next restart on, or not at all."""
    with watched_gpus(lab, host):
        lines = [line for gpu in gpus for line in _set_mig(lab, gpu, is_on=is_on)]
    lab.state.touch(host)
    return say(*lines, "All done.")


def _set_mig(lab: Simulation, gpu: Gpu, *, is_on: bool) -> Iterator[str]:
    board, where = board_of(gpu), bus_id(gpu)
    waits = board.architecture == "Ampere" and not lab.state.denies("settings-change-at-boot-only")
    waits |= board.architecture != "Ampere" and lab.state.denies("mig-mode-from-hopper")
    verb = "enable" if is_on else "disable"
    if board.mig is None:
        yield f"Unable to {verb} MIG Mode for GPU {where}: Not Supported"
        yield "Treating as warning and moving on."
        return
    gpu.mig_pending = is_on
    pending = f"Warning: MIG mode is in pending {verb} state for GPU {where}"
    if gpu.mig_enabled == is_on:
        yield f"{on_or_off(is_on=is_on)} MIG Mode for GPU {where}"
    elif gpu.uses:
        yield f"{pending}:In use by another client"
        yield (
            f"{where} is currently being used by one or more other processes (e.g. CUDA application or a "
            "monitoring application such as another instance of nvidia-smi). Please first kill all processes "
            "using the device and retry the command or reboot the system to make MIG mode effective."
        )
    elif waits:
        yield f"{pending}:Not Supported"
        yield f"Reboot the system or try nvidia-smi --gpu-reset to make MIG mode effective on GPU {where}"
    else:
        gpu.mig_enabled = is_on
        yield f"{on_or_off(is_on=is_on)} MIG Mode for GPU {where}"


def set_ecc(lab: Simulation, host: Host, gpus: Sequence[Gpu], *, is_on: bool) -> Reply:
    """Switch ECC from the next restart on."""
    is_at_once = lab.state.denies("settings-change-at-boot-only")
    for gpu in gpus:
        gpu.ecc_pending = is_on
        gpu.ecc_enabled = is_on if is_at_once else gpu.ecc_enabled
    lab.state.touch(host)
    lines = [f"{on_or_off(is_on=is_on)} ECC support for GPU {bus_id(gpu)}." for gpu in gpus]
    waits = any(gpu.ecc_enabled != is_on for gpu in gpus)
    return say(*lines, "All done.", *(["Reboot required."] if waits else []))


NOTHING_FOUND, NO_DRIVER = 6, 9

UNREACHABLE = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running."
)

VALUED = {
    "-i": "id",
    "--id": "id",
    "--query-gpu": "query-gpu",
    "--format": "format",
    "-mig": "mig",
    "--multi-instance-gpu": "mig",
    "-e": "ecc",
    "--ecc-config": "ecc",
}
PLAIN = {
    "-q": "query",
    "--query": "query",
    "-L": "list",
    "--list-gpus": "list",
    "-m": "matrix",
    "--matrix": "matrix",
    "-lgip": "lgip",
    "--list-gpu-instance-profiles": "lgip",
    "-lgi": "lgi",
    "--list-gpu-instances": "lgi",
    "-s": "supported",
    "--supported": "supported",
    "-c": "creatable",
    "--creatable": "creatable",
}
SUBJECTS = frozenset({"", "topo", "mig", "vgpu"})


@dataclass(slots=True)
class Asked:
    """A command line, taken apart."""

    subject: str = ""
    flags: set[str] = field(default_factory=set)
    values: dict[str, str] = field(default_factory=dict)


Show = Callable[["Simulation", Host, Sequence[Gpu]], Reply]

REPORTS: dict[tuple[str, frozenset[str]], Show] = {
    ("topo", frozenset({"matrix"})): smi_report.matrix,
    ("mig", frozenset({"lgip"})): smi_mig.list_profiles,
    ("mig", frozenset({"lgi"})): smi_mig.list_instances,
    ("vgpu", frozenset({"supported"})): smi_mig.supported,
    ("vgpu", frozenset({"creatable"})): smi_mig.creatable,
    ("vgpu", frozenset({"query"})): smi_mig.running,
}
"""Subject and flags → what answers, for the selected GPUs."""


def run_nvidia_smi(lab: Simulation, host: Host, arguments: Sequence[str]) -> Reply:
    """Answer one call."""
    if not visible(host):
        return say(UNREACHABLE, status=NO_DRIVER)
    asked = read_words(arguments)
    if asked is None:
        return _bad()
    gpus = select(host, asked.values.pop("id", ""))
    if gpus is None:
        return say("No devices were found", status=NOTHING_FOUND)
    report = REPORTS.get((asked.subject, frozenset(asked.flags)))
    if report is not None and not asked.values:
        return report(lab, host, gpus)
    return _bad() if asked.subject else _general(lab, host, gpus, asked)


def _general(lab: Simulation, host: Host, gpus: Sequence[Gpu], asked: Asked) -> Reply:
    match sorted(asked.flags), sorted(asked.values):
        case [], []:
            return smi_report.summary(lab, host, gpus)
        case ["query"], []:
            return smi_report.report(lab, host, gpus)
        case ["list"], []:
            return say(
                *(
                    f"GPU {number}: {gpu.name} (UUID: {uuid_of(host, gpu)})"
                    for number, gpu in enumerate(visible(host))
                    if gpu in gpus
                )
            )
        case [], ["format", "query-gpu"]:
            return table(host, gpus, asked.values["query-gpu"], asked.values["format"])
        case [], ["mig"] if asked.values["mig"] in ("0", "1"):
            return set_mig(lab, host, gpus, is_on=asked.values["mig"] == "1")
        case [], ["ecc"] if asked.values["ecc"] in ("0", "1"):
            return set_ecc(lab, host, gpus, is_on=asked.values["ecc"] == "1")
        case _:
            return _bad()


def read_words(words: Sequence[str]) -> Asked | None:
    """Take a command line apart; None where it makes no sense."""
    asked = Asked()
    rest = iter(words)
    for at, word in enumerate(rest):
        option, equals, value = word.partition("=")
        if option in VALUED:
            taken = value if equals else next(rest, None)
            if taken is None:
                return None
            asked.values[VALUED[option]] = taken
        elif word in PLAIN:
            asked.flags.add(PLAIN[word])
        elif at == 0 and word in SUBJECTS:
            asked.subject = word
        else:
            return None
    return asked


def _bad() -> Reply:
    return say(
        "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.", status=BAD_ARGUMENT
    )
