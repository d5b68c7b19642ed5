"""The format of a file of `profiles/`, and its conversion to a board.

Every key is described in profiles/README.md.

Belief: c-series-profiles, profile-prefixes, profile-prefixes-by-rule, mixed-size-starts, mig-starts,
mig-names-of-gb200, mig-starts-of-later-boards, mmio-by-architecture, mmio-not-listed, mmio-by-rule-of-thumb.
"""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Self

from pydantic import Field, StringConstraints, field_validator, model_validator

from vgpu_cfg.catalog.board import Alias, Architecture, Board, MigGeometry, MigProfile, PciId, ProfileEntry
from vgpu_cfg.documents import build, read_document
from vgpu_cfg.errors import DocumentError
from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.vgpu import Sharing, VgpuProfile

HexId = Annotated[str, StringConstraints(strict=True, pattern=r"^[0-9a-f]{4}$")]
Count = Annotated[int, Field(strict=True, ge=1)]
Branch = Annotated[str, Field(pattern=r"^(\d{3})?$")]
Start = Annotated[int, Field(strict=True, ge=0)]


class PciRow(Frozen):
    """A device id, in quotes, since 2236 and 1e78 would be numbers."""

    device: HexId
    subsystem: HexId | None = None
    name: str
    alias: str | None = None


class AliasRow(Frozen):
    """A product of the same layout, and whether it too is an NVLink peer."""

    key: str
    prefixes: tuple[str, ...]
    nvlink: bool = False


class NvlinkRow(Frozen):
    """The one type that can be an NVLink peer, and how many of it can be peers of each other."""

    p2p: str
    nvswitch: bool = False
    groups: tuple[Count, ...] = ()


class TimeSlicedRow(Frozen):
    """How many vGPUs of a type one GPU takes, all of one size and with sizes mixed."""

    max: Count
    mixed: Count | None = None


class MigRow(Frozen):
    """A MIG-backed type: its GPU instance, and the places for it."""

    instance: str
    id: Start | None = None
    size: Count
    starts: Annotated[tuple[Start, ...], Field(min_length=1)]
    max: Count
    per_instance: Count = 1
    sms: Count | None = None
    min_esxi: str | None = None


class MigSection(Frozen):
    """The cut of a GPU in MIG mode."""

    memory_slices: Count
    compute_slices: Count
    profiles: dict[str, MigRow]

    @model_validator(mode="after")
    def _within_the_gpu(self) -> Self:
        for label, row in self.profiles.items():
            if max(row.starts) + row.size > self.memory_slices:
                raise ValueError(
                    f"{label}: {row.size} memory slices starting at {max(row.starts)} "
                    f"exceed the GPU's {self.memory_slices}"
                )
        return self


class BoardFile(Frozen):
    """A whole file."""

    key: str
    prefix: str
    architecture: Architecture
    driver_since: Branch = ""
    driver_until: Branch = ""
    framebuffer_mib: Count
    memory_type: str
    gpus_per_board: Count = 1
    mmio_gb: Count | None
    nvlink: NvlinkRow | None = None
    esxi: bool = True
    pci: Annotated[tuple[PciRow, ...], Field(min_length=1)]
    aliases: tuple[AliasRow, ...] = ()
    time_sliced: dict[str, TimeSlicedRow] = Field(default_factory=dict)
    mixed_placement: dict[int, tuple[Start, ...]] | None = None
    mig: MigSection | None = None
    other_series: dict[str, Count] = Field(default_factory=dict)
    note: str = ""
    unproven: dict[str, str] = Field(default_factory=dict)
    sources: dict[str, str]
    date: str

    @field_validator("note")
    @classmethod
    def _on_one_line(cls, note: str) -> str:
        return " ".join(note.split())


def read_board(path: Path) -> Board:
    """Read one board's file; DocumentError names the line and column of every fault."""
    document = read_document(path)
    row = build(document, BoardFile)
    faults = [document.fault(loc, message) for loc, message in _contradictions(row, path.stem)]
    if faults:
        raise DocumentError(faults)
    return _board(row)


def _contradictions(row: BoardFile, stem: str) -> list[tuple[tuple[str | int, ...], str]]:
    """List the keys that are valid alone, but not together with others."""
    found: list[tuple[tuple[str | int, ...], str]] = []
    if row.prefix != stem:
        found.append((("prefix",), f"the file must be named after its prefix: {row.prefix}.yaml"))
    keys = {alias.key for alias in row.aliases}
    for index, pci in enumerate(row.pci):
        if pci.alias is not None and pci.alias not in keys:
            found.append((("pci", index, "alias"), f"there is no alias with the key {pci.alias!r}"))
    for label in row.time_sliced:
        found += _fault_of(row.prefix, label, Sharing.TIME_SLICED, ("time_sliced", label))
    for label in row.mig.profiles if row.mig else ():
        found += _fault_of(row.prefix, label, Sharing.MIG, ("mig", "profiles", label))
    for label in row.other_series:
        found += _fault_of_other(row.prefix, label)
    if row.nvlink and row.nvlink.p2p not in row.time_sliced:
        found.append((("nvlink", "p2p"), f"{row.nvlink.p2p!r} is not one of the time_sliced types"))
    for name in row.unproven:
        if name not in BoardFile.model_fields:
            found.append((("unproven", name), f"{name!r} is not a valid key for a board file"))
    return found


def _fault_of(
    prefix: str, label: str, sharing: Sharing, loc: tuple[str | int, ...]
) -> list[tuple[tuple[str | int, ...], str]]:
    try:
        profile = VgpuProfile.parse(f"{prefix}-{label}")
    except ValueError as error:
        return [(loc, str(error))]
    if profile.sharing is not sharing or profile.series != "C":
        return [(loc, f"{label!r} is not a {sharing.value} C type")]
    return []


def _fault_of_other(prefix: str, label: str) -> list[tuple[tuple[str | int, ...], str]]:
    try:
        profile = VgpuProfile.parse(f"{prefix}-{label}")
    except ValueError as error:
        return [(("other_series", label), str(error))]
    if profile.series == "C":
        return [(("other_series", label), f"{label!r} is a C type: list it under time_sliced or mig")]
    return []


def _board(row: BoardFile) -> Board:
    board = Board(
        key=row.key,
        prefix=row.prefix,
        pci_ids=tuple(_pci_id(pci) for pci in row.pci),
        aliases=tuple(Alias(alias.key, alias.prefixes, alias.nvlink) for alias in row.aliases),
        framebuffer_mib=row.framebuffer_mib,
        memory_type=row.memory_type,
        architecture=row.architecture,
        driver_since=row.driver_since,
        driver_until=row.driver_until,
        gpus_per_board=row.gpus_per_board,
        mmio_gb=row.mmio_gb,
        nvlink_p2p_profile=VgpuProfile.parse(f"{row.prefix}-{row.nvlink.p2p}") if row.nvlink else None,
        is_nvswitch=row.nvlink is not None and row.nvlink.nvswitch,
        nvlink_groups=row.nvlink.groups if row.nvlink else (),
        is_esxi=row.esxi,
        mig=_geometry(row),
        mixed_placement=MappingProxyType(row.mixed_placement) if row.mixed_placement is not None else None,
        other_series=MappingProxyType(row.other_series),
        note=row.note,
        unproven=MappingProxyType(row.unproven),
        sources=MappingProxyType(row.sources),
        date=row.date,
    )
    entries = (*_time_sliced(row, board), *_mig_backed(board))
    object.__setattr__(board, "profiles", entries)  # the entries know the board, so it had to be there first
    return board


def _pci_id(row: PciRow) -> PciId:
    subsystem_id = int(row.subsystem, 16) if row.subsystem is not None else None
    return PciId(int(row.device, 16), subsystem_id, row.name, row.alias)


def _geometry(row: BoardFile) -> MigGeometry | None:
    if row.mig is None:
        return None
    profiles = {
        f"{row.prefix}-{label}": MigProfile(
            instance=found.instance,
            profile_id=found.id,
            size=found.size,
            starts=found.starts,
            compute=VgpuProfile.parse(f"{row.prefix}-{label}").slices or 0,
            max_per_gpu=found.max,
            per_instance=found.per_instance,
            sms=found.sms,
            min_esxi=found.min_esxi,
        )
        for label, found in row.mig.profiles.items()
    }
    return MigGeometry(row.mig.memory_slices, row.mig.compute_slices, MappingProxyType(profiles))


def _time_sliced(row: BoardFile, board: Board) -> list[ProfileEntry]:
    entries: list[ProfileEntry] = []
    profiles = {label: VgpuProfile.parse(f"{row.prefix}-{label}") for label in row.time_sliced}
    whole_gb = max((profile.framebuffer_gb for profile in profiles.values()), default=0)
    for label, found in row.time_sliced.items():
        profile = profiles[label]
        entries.append(
            ProfileEntry(
                profile=profile,
                board=board,
                framebuffer_mib=_size_mib(board, profile),
                max_per_gpu=found.max,
                max_mixed=found.mixed,
                mixed_starts=(board.mixed_placement or {}).get(profile.framebuffer_gb),
                is_full_framebuffer=profile.framebuffer_gb == whole_gb,
                is_nvlink_p2p=profile == board.nvlink_p2p_profile,
            )
        )
    return entries


def _mig_backed(board: Board) -> list[ProfileEntry]:
    entries: list[ProfileEntry] = []
    for name, shape in board.mig.profiles.items() if board.mig else ():
        profile = VgpuProfile.parse(name)
        entries.append(ProfileEntry(profile, board, _size_mib(board, profile), shape.max_per_gpu, mig=shape))
    return entries


def _size_mib(board: Board, profile: VgpuProfile) -> int:
    """Take the name at its word up to what there is: the H100 NVL's 94C has 96246 MiB, not 96256."""
    return min(profile.framebuffer_gb * 1024, board.framebuffer_mib)
