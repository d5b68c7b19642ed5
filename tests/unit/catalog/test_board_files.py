"""The arithmetic of every board file, and the few documented numbers that break it."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from tests.every import every
from vgpu_cfg.catalog import Board, MigGeometry, MigProfile, load_catalog
from vgpu_cfg.catalog.board_file import (
    AliasRow,
    BoardFile,
    MigRow,
    MigSection,
    NvlinkRow,
    PciRow,
    TimeSlicedRow,
)
from vgpu_cfg.model.vgpu import Sharing, VgpuProfile

PROFILES = Path(__file__).resolve().parents[3] / "profiles"
PREFIXES = sorted(path.stem for path in PROFILES.glob("*.yaml"))

FEWER_THAN_FIT = {
    "grid_rtx8000p-4c": 8,  # 12 would fit, and 12 of 4q are documented
    "nvidia_h200-8c": 16,  # 17 would fit
    "nvidia_h200x-8c": 16,
    "nvidia_h20x-8c": 16,
    "nvidia_h200-4c": 32,  # 35 would fit
    "nvidia_h200x-4c": 32,
    "nvidia_h20x-4c": 32,
}
"""Documented maxima below framebuffer divided by size."""

NAMED_OTHERWISE = {"GB200": {24: 23, 95: 93, 189: 186}}
"""Where the instance that nvidia-smi prints has other GB than NVIDIA's types."""

SHORT_OF_GB = {"nvidia_h100l-94c": 96246, "nvidia_h100xl-94c": 96246}
"""Documented framebuffers that are not 1024 MiB for each GB of the name."""

DOCUMENTED_MMIO_GB = {16: 64, 24: 64, 32: 64, 40: 128, 48: 128, 64: 256, 80: 256, 94: 256, 96: 256, 141: 512}
"""64-bit MMIO by framebuffer; the Quadro RTX 8000 has 64, and boards without a large BAR none."""


of_each_board = every(PREFIXES, load_catalog().board)


# -------------------------------------------------------------- every file


def test_all_boards_and_profiles_are_there() -> None:
    boards = load_catalog().boards
    assert len(boards) == 53
    entries = [entry for board in boards.values() for entry in board.profiles]
    assert len(entries) == len({entry.name for entry in entries}) == 396


@of_each_board
def test_a_key_is_nvidias_name_for_the_type_and_gives_the_prefix(board: Board) -> None:
    spelled = board.key.lower().replace(" ", "_")
    assert board.prefix in (f"grid_{spelled}", f"nvidia_{spelled}")


@of_each_board
def test_grid_is_for_what_came_before_and_for_the_a100(board: Board) -> None:
    is_grid = board.architecture in ("Volta", "Turing") or board.key.startswith("A100")
    assert board.prefix.startswith("grid_") == is_grid


@of_each_board
def test_every_profile_is_a_c_type_of_its_own_board(board: Board) -> None:
    for entry in board.profiles:
        assert entry.profile == VgpuProfile.parse(entry.name)
        assert (entry.profile.prefix, entry.profile.series) == (board.prefix, "C")
        assert entry.board is board
        assert entry.listed


@of_each_board
def test_profiles_stand_from_large_to_small(board: Board) -> None:
    time_sliced = [entry.profile.framebuffer_gb for entry in board.profiles if entry.mig is None]
    assert time_sliced == sorted(time_sliced, reverse=True)


@of_each_board
def test_a_framebuffer_is_what_the_name_says(board: Board) -> None:
    for entry in board.profiles:
        if entry.mig is None:
            gb = entry.profile.framebuffer_gb
            assert entry.framebuffer_mib == SHORT_OF_GB.get(entry.name, gb * 1024)
        assert entry.framebuffer_mib <= board.framebuffer_mib


@of_each_board
def test_exactly_the_largest_time_sliced_type_has_the_whole_framebuffer(board: Board) -> None:
    whole = [entry for entry in board.profiles if entry.is_full_framebuffer]
    if not board.profiles:
        return
    assert [entry.framebuffer_mib for entry in whole] == [board.framebuffer_mib]
    assert whole[0].max_per_gpu == 1
    assert whole[0].profile.framebuffer_gb == board.framebuffer_gb


@of_each_board
def test_the_maximum_of_one_size_is_what_fits(board: Board) -> None:
    for entry in board.profiles:
        if entry.mig is None:
            fitting = board.framebuffer_gb // entry.profile.framebuffer_gb
            assert entry.max_per_gpu == FEWER_THAN_FIT.get(entry.name, fitting)
            assert entry.max_per_gpu <= fitting


@of_each_board
def test_mixing_sizes_never_allows_more_than_one_size(board: Board) -> None:
    for entry in board.profiles:
        if entry.max_mixed is not None:
            assert entry.max_mixed <= entry.max_per_gpu
            assert entry.mig is None


@of_each_board
def test_mixed_size_mode_begins_with_ampere(board: Board) -> None:
    if board.architecture in ("Volta", "Turing"):
        assert not board.supports_mixed_size
        assert board.mixed_placement is None
    else:
        without = ("B200X", "B300X", "GB200", "RTX 6000D", "A10M", "L40G")
        assert board.supports_mixed_size or board.key in without or not board.profiles


@of_each_board
def test_published_starts_are_as_many_as_may_run_and_do_not_overlap(board: Board) -> None:
    for size, starts in (board.mixed_placement or {}).items():
        assert starts[0] == 0
        assert all(second - first >= size for first, second in pairwise(starts))
        assert starts[-1] + size <= board.framebuffer_gb
        for entry in board.profiles:
            if entry.mig is None and entry.profile.framebuffer_gb == size:
                assert entry.max_mixed == len(starts)
                assert entry.mixed_starts == starts


@of_each_board
def test_where_starts_are_published_every_c_type_has_them(board: Board) -> None:
    if board.mixed_placement is not None:
        assert all(entry.mixed_starts for entry in board.profiles if entry.mig is None)


@of_each_board
def test_starts_that_are_not_published_are_noted(board: Board) -> None:
    unknown = board.supports_mixed_size and board.mixed_placement is None
    assert unknown == ("Mixed-size placement is not published" in board.note)


@of_each_board
def test_mmio_is_the_documented_space_or_marked_as_unproven(board: Board) -> None:
    rule_of_thumb = 2 << (board.framebuffer_gb - 1).bit_length()
    if board.mmio_gb is None:
        assert board.key in ("T4", "A16", "A2")
    elif "mmio_gb" in board.unproven:
        assert board.mmio_gb == rule_of_thumb
    elif board.key == "RTX8000P":
        assert board.mmio_gb == 64
    else:
        assert board.mmio_gb == DOCUMENTED_MMIO_GB[board.framebuffer_gb] >= rule_of_thumb


@of_each_board
def test_only_a_whole_time_sliced_gpu_is_an_nvlink_peer(board: Board) -> None:
    peers = [entry for entry in board.profiles if entry.is_nvlink_p2p]
    assert [entry.profile for entry in peers] == (
        [board.nvlink_p2p_profile] if board.nvlink_p2p_profile else []
    )
    assert all(entry.is_full_framebuffer for entry in peers)
    assert board.nvlink_p2p_profile or not board.is_nvswitch


@of_each_board
def test_a_file_says_where_it_is_from_and_when(board: Board) -> None:
    assert {"profiles", "pci"} <= set(board.sources)
    assert (board.mixed_placement is not None) == ("mixed_placement" in board.sources)
    if board.mig is not None:
        assert "mig" in board.sources or "mig" in board.unproven
    assert re.fullmatch(r"20\d\d-[01]\d-[0-3]\d", board.date)
    assert board.source


@of_each_board
def test_what_esxi_does_not_run_on_is_noted(board: Board) -> None:
    assert board.is_esxi != ("ESXi does not run on it" in board.note)


# ------------------------------------------------------------- MIG geometry


@of_each_board
def test_a_mig_start_is_within_the_gpu_and_aligned(board: Board) -> None:
    if board.mig is None:
        return
    for shape in board.mig.profiles.values():
        assert list(shape.starts) == sorted(set(shape.starts))
        assert all(start % shape.size == 0 for start in shape.starts)
        assert shape.starts[-1] + shape.size <= board.mig.memory_slices


@of_each_board
def test_the_mig_maximum_is_the_number_that_can_stand_side_by_side(board: Board) -> None:
    for entry in board.profiles:
        if entry.mig is not None and board.mig is not None:
            assert entry.max_per_gpu == entry.mig.max_per_gpu
            fitting = _most(board.mig, entry.mig) * entry.mig.per_instance
            assert entry.max_per_gpu == FEWER_THAN_FIT.get(entry.name, fitting) <= fitting


def _most(geometry: MigGeometry, shape: MigProfile) -> int:
    """Place one instance after the other by trying: every way to choose starts that do not overlap."""
    if shape.has_media_engines:
        return 1

    def place(free_from: int, compute_left: int) -> int:
        if compute_left < shape.compute:
            return 0
        ways = [start for start in shape.starts if start >= free_from]
        return max((1 + place(start + shape.size, compute_left - shape.compute) for start in ways), default=0)

    return place(0, geometry.compute_slices)


@of_each_board
def test_slices_are_those_of_the_name_and_the_instance(board: Board) -> None:
    for entry in board.profiles:
        if entry.mig is not None:
            assert entry.profile.sharing is Sharing.MIG
            assert entry.mig_compute == entry.profile.slices == int(entry.mig.instance.split("g.")[0])
            assert entry.mig.instance.endswith("+me") == (entry.profile.suffix == "me")


@of_each_board
def test_an_instance_has_the_gb_of_the_names_that_share_it(board: Board) -> None:
    for entry in board.profiles:
        if entry.mig is not None:
            instance_gb = int(entry.mig.instance.split("g.")[1].split("gb")[0])
            named = entry.profile.framebuffer_gb * entry.mig.per_instance
            assert instance_gb == NAMED_OTHERWISE.get(board.key, {}).get(named, named)


@of_each_board
def test_boards_of_seven_slices_are_cut_alike(board: Board) -> None:
    if board.mig is None or board.mig.compute_slices != 7:
        return
    a100 = load_catalog().board("A100")
    assert a100.mig is not None
    assert board.mig.memory_slices == 8
    assert _cut(board.mig) == _cut(a100.mig)


def _cut(geometry: MigGeometry) -> list[tuple[int, int | None, int, tuple[int, ...], int]]:
    return [
        (shape.compute, shape.profile_id, shape.size, shape.starts, shape.max_per_gpu)
        for shape in geometry.profiles.values()
    ]


CUT_OTHERWISE = {
    "A30": (4, 4),
    "RTX Pro 6000 Blackwell DC": (12, 4),
    "RTX Pro 4500 Blackwell DC": (2, 2),
    "RTX 6000D": (2, 2),
}


@of_each_board
def test_all_but_a_few_have_seven_slices(board: Board) -> None:
    if board.mig is not None:
        expected = CUT_OTHERWISE.get(board.key, (8, 7))
        assert (board.mig.memory_slices, board.mig.compute_slices) == expected


@of_each_board
def test_each_instance_is_had_whole_once(board: Board) -> None:
    for name, shape in (board.mig.instances if board.mig else {}).items():
        assert shape.instance == name
        assert shape.per_instance == 1


@pytest.mark.parametrize(
    ("key", "sms"),
    [
        ("A100", [98, 56, 42, 28, 14, 14, 14]),
        ("A30", [56, 28, 28, 14, 14]),
        ("H100", [114, 62, 46, 30, 14, 14, 14]),
        ("H100XM", [132, 64, 60, 32, 26, 16, 16]),
        ("H100L", [132, 64, 60, 32, 26, 16, 16]),
    ],
)
def test_sms_are_those_that_nvidia_smi_prints(key: str, sms: list[int]) -> None:
    geometry = load_catalog().board(key).mig
    assert geometry is not None
    assert [shape.sms for shape in geometry.profiles.values()] == sms


@of_each_board
def test_media_and_double_memory_types_need_8_0_3_on_esxi(board: Board) -> None:
    if board.mig is None or (board.mig.compute_slices != 7 and board.key != "A30"):
        return
    for shape in board.mig.profiles.values():
        is_late = shape.has_media_engines or (shape.compute, shape.size) == (1, 2)
        assert (shape.min_esxi == "8.0.3") == (is_late and board.is_esxi)


# ------------------------------------------------------------------ the page


def test_every_key_of_a_board_file_is_described() -> None:
    page = (PROFILES / "README.md").read_text(encoding="utf-8")
    for row in (BoardFile, PciRow, AliasRow, NvlinkRow, TimeSlicedRow, MigSection, MigRow):
        for key in row.model_fields:
            assert f"`{key}`" in page, f"{row.__name__}.{key}"
