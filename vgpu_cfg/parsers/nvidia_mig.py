"""What `nvidia-smi mig -lgip` and `-lgi` list, and what `-mig 0|1` and `-e 0|1` answer.

Sources: NVIDIA Multi-Instance GPU User Guide; NVIDIA AI Enterprise User Guide, chapter on MIG-backed
vGPUs. The refusals, the pending warnings and the ECC answers are as people report them in public.
"""

from __future__ import annotations

import re

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.parsers.errors import UnreadableOutput
from vgpu_cfg.parsers.nvidia_tree import raise_failure
from vgpu_cfg.parsers.text import Line, lines_with_content, pci_id_or_error

PROFILES = "nvidia-smi mig -lgip"
INSTANCES = "nvidia-smi mig -lgi"
SWITCH = "nvidia-smi -mig"
ECC_SWITCH = "nvidia-smi -e"

_RULE = re.compile(r"[+|]?[-=+]{5,}[+|]?")
_PROFILE = re.compile(
    r"\|\s*(?P<gpu>\d+)\s+MIG\s+(?P<name>\S+)\s+(?P<id>\d+)\s+(?P<free>\d+)/(?P<total>\d+)"
    r"\s+(?P<memory>\d+(?:\.\d+)?)\s+(?P<p2p>Yes|No)\s+(?P<sm>\d+)\s+(?P<dec>\d+)\s+(?P<enc>\d+)\s*\|"
)
_ENGINES = re.compile(r"\|\s*(?P<ce>\d+)\s+(?P<jpeg>\d+)\s+(?P<ofa>\d+)\s*\|")
_INSTANCE = re.compile(
    r"\|\s*(?P<gpu>\d+)\s+MIG\s+(?P<name>\S+)\s+(?P<profile>\d+)\s+(?P<instance>\d+)"
    r"\s+(?P<start>\d+):(?P<size>\d+)\s*\|"
)
_PROFILE_HEADS = ("GPU instance profiles", "GPU ", "Free/Total", "(MIG)")
_INSTANCE_HEADS = ("GPU instances", "GPU ", "ID ")
_NONE = ("No MIG-enabled devices found", "No MIG-supported devices found", "No GPU instances found")

_SET = re.compile(r"(?P<state>Enabled|Disabled) (?:MIG Mode|ECC support) for GPU (?P<gpu>\S+?)\.?")
_ALREADY = re.compile(
    r"(?:MIG mode|ECC support) is already (?P<state>enabled|disabled) for GPU (?P<gpu>\S+?)\.?", re.IGNORECASE
)
_PENDING = re.compile(
    r"Warning: MIG mode is in pending (?P<state>enable|disable) state for GPU (?P<gpu>[0-9A-Fa-f:]+\.[0-7])"
    r"\s*:\s*(?P<reason>.+)"
)
_REFUSED = re.compile(
    r"Unable to (?P<state>enable|disable) MIG mode for GPU (?P<gpu>\S+?)\s*:\s+(?P<reason>.+)", re.IGNORECASE
)
_REBOOT = "Reboot required"
_REMARKS = (
    "All done.",
    _REBOOT,
    "Reboot the system or try",
    "Treating as warning and moving on.",
    "Warning: persistence mode is disabled",
)
_IN_USE = re.compile(r"\S+ is currently being used by one or more other processes.*")


class MigProfile(Frozen):
    """A GPU instance profile that a GPU offers. `gpu` is its index, `name` as "1g.5gb+me".

    The engines are None where the tool prints no second line.
    """

    gpu: int
    name: str
    profile_id: int
    free: int
    total: int
    memory_gib: float
    is_p2p: bool
    multiprocessors: int
    decoders: int
    encoders: int
    copy_engines: int | None = None
    jpeg_engines: int | None = None
    optical_flow: int | None = None


class MigInstance(Frozen):
    """A GPU instance that exists. `start` and `size` are memory slices."""

    gpu: int
    name: str
    profile_id: int
    instance_id: int
    start: int
    size: int


class SwitchAnswer(Frozen):
    """What switching a mode of one GPU came to.

    `is_on` is what was asked; `is_pending` says that it waits for a reset or a reboot, `refusal` why it
    was refused altogether.
    """

    pci_id: str
    is_on: bool
    is_pending: bool = False
    reason: str = ""
    refusal: str = ""


def parse_mig_profiles(text: str) -> tuple[MigProfile, ...]:
    """Read `mig -lgip`; empty where no GPU can be cut.

    Raises UnreadableOutput for a row that is not understood.
    """
    found: list[MigProfile] = []
    for line in _table(PROFILES, text, _PROFILE_HEADS):
        row = _PROFILE.fullmatch(line.text.strip())
        engines = _ENGINES.fullmatch(line.text.strip())
        if row is not None:
            found.append(
                MigProfile(
                    gpu=_int(PROFILES, row["gpu"], line),
                    name=row["name"],
                    profile_id=_int(PROFILES, row["id"], line),
                    free=_int(PROFILES, row["free"], line),
                    total=_int(PROFILES, row["total"], line),
                    memory_gib=float(row["memory"]),
                    is_p2p=row["p2p"] == "Yes",
                    multiprocessors=_int(PROFILES, row["sm"], line),
                    decoders=_int(PROFILES, row["dec"], line),
                    encoders=_int(PROFILES, row["enc"], line),
                )
            )
        elif engines is not None and found and found[-1].copy_engines is None:
            found[-1] = found[-1].model_copy(
                update={
                    "copy_engines": _int(PROFILES, engines["ce"], line),
                    "jpeg_engines": _int(PROFILES, engines["jpeg"], line),
                    "optical_flow": _int(PROFILES, engines["ofa"], line),
                }
            )
        else:
            raise UnreadableOutput(PROFILES, "no profile", line=line.text, number=line.number)
    return tuple(found)


def parse_mig_instances(text: str) -> tuple[MigInstance, ...]:
    """Read `mig -lgi`; empty where there are none, as where MIG is off.

    Raises UnreadableOutput for a row that is not understood.
    """
    found: list[MigInstance] = []
    for line in _table(INSTANCES, text, _INSTANCE_HEADS):
        row = _INSTANCE.fullmatch(line.text.strip())
        if row is None:
            raise UnreadableOutput(INSTANCES, "no GPU instance", line=line.text, number=line.number)
        found.append(
            MigInstance(
                gpu=_int(INSTANCES, row["gpu"], line),
                name=row["name"],
                profile_id=_int(INSTANCES, row["profile"], line),
                instance_id=_int(INSTANCES, row["instance"], line),
                start=_int(INSTANCES, row["start"], line),
                size=_int(INSTANCES, row["size"], line),
            )
        )
    return tuple(found)


def parse_mig_switch(text: str) -> tuple[SwitchAnswer, ...]:
    """Read what `nvidia-smi -mig 0|1` says, one answer per GPU.

    Raises ToolFailed where the tool failed, UnreadableOutput for a line that is not understood.
    """
    return _switch(SWITCH, text)


def parse_ecc_switch(text: str) -> tuple[SwitchAnswer, ...]:
    """Read what `nvidia-smi -e 0|1` says, one answer per GPU; a new mode waits for a reboot.

    Raises as `parse_mig_switch`. What is printed where the mode is already so is unproven for `-e`; the
    wording accepted is that of `-pm`.
    """
    return _switch(ECC_SWITCH, text)


def _switch(tool: str, text: str) -> tuple[SwitchAnswer, ...]:
    lines = lines_with_content(text)
    first = next(iter(lines), None)
    # "Unable to" is an answer here: it names the GPU.
    if first is None or not first.text.strip().startswith("Unable to"):
        raise_failure(tool, lines)
    answers: list[SwitchAnswer] = []
    is_reboot_needed = False
    for line in lines:
        said = line.text.strip()
        is_reboot_needed |= said.startswith(_REBOOT)
        answer = _answer(tool, said, line)
        if answer is not None:
            answers.append(answer)
        elif not said.startswith(_REMARKS) and not _IN_USE.fullmatch(said):
            raise UnreadableOutput(tool, "no answer", line=line.text, number=line.number)
    if not answers:
        raise UnreadableOutput(tool, "names no GPU", line=lines[0].text, number=lines[0].number)
    if is_reboot_needed:
        answers = [
            answer if answer.refusal else answer.model_copy(update={"is_pending": True, "reason": _REBOOT})
            for answer in answers
        ]
    return tuple(answers)


def _answer(tool: str, said: str, line: Line) -> SwitchAnswer | None:
    if found := _SET.fullmatch(said) or _ALREADY.fullmatch(said):
        return SwitchAnswer(
            pci_id=pci_id_or_error(tool, found["gpu"], line), is_on=found["state"].lower() == "enabled"
        )
    if found := _PENDING.fullmatch(said):
        return SwitchAnswer(
            pci_id=pci_id_or_error(tool, found["gpu"], line),
            is_on=found["state"] == "enable",
            is_pending=True,
            reason=found["reason"],
        )
    if found := _REFUSED.fullmatch(said):
        return SwitchAnswer(
            pci_id=pci_id_or_error(tool, found["gpu"], line),
            is_on=found["state"].lower() == "enable",
            refusal=found["reason"],
        )
    return None


def _table(tool: str, text: str, heads: tuple[str, ...]) -> tuple[Line, ...]:
    """Return the rows between the rules; none where the tool says that there are none."""
    lines = lines_with_content(text)
    if lines and lines[0].text.strip().startswith(_NONE):
        return ()
    raise_failure(tool, lines)
    rows: list[Line] = []
    for line in lines:
        shown = line.text.strip()
        inner = shown.strip("|").strip()
        is_frame = bool(_RULE.fullmatch(shown)) or not inner or inner.startswith(heads)
        if not is_frame and not shown.startswith("Warning:"):
            rows.append(line)
    if not rows:
        raise UnreadableOutput(tool, "no table", line=lines[0].text, number=lines[0].number)
    return tuple(rows)


def _int(tool: str, digits: str, line: Line) -> int:
    if len(digits) > 18 or not digits.isascii():
        raise UnreadableOutput(tool, "no number", line=line.text, number=line.number)
    return int(digits)
