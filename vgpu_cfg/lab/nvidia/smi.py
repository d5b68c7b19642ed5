"""nvidia-smi's command line: its options, and its error messages.

Statuses are those of its manual page: 2 a bad argument, 6 nothing found, 9 no driver to talk to. A host
whose GPUs are all passed through has no driver loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from vgpu_cfg.lab.nvidia import smi_csv, smi_mig, smi_modes, smi_report
from vgpu_cfg.lab.nvidia.gpus import Reply, say, select, uuid_of, visible
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.host import Gpu, Host

BAD_ARGUMENT, NOTHING_FOUND, NO_DRIVER = 2, 6, 9

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
            return smi_csv.table(host, gpus, asked.values["query-gpu"], asked.values["format"])
        case [], ["mig"] if asked.values["mig"] in ("0", "1"):
            return smi_modes.set_mig(lab, host, gpus, is_on=asked.values["mig"] == "1")
        case [], ["ecc"] if asked.values["ecc"] in ("0", "1"):
            return smi_modes.set_ecc(lab, host, gpus, is_on=asked.values["ecc"] == "1")
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
