from __future__ import annotations

import pytest

from tests.every import every
from vgpu_cfg.catalog import ProfileEntry, load_catalog
from vgpu_cfg.model.vgpu import Sharing, VgpuMode
from vgpu_cfg.planning.capacity.gpu_state import GpuState, Held, VgpuNeed, arrange, needs_of
from vgpu_cfg.planning.findings.codes import Code

CATALOG = load_catalog()
ENTRIES = {entry.name: entry for board in CATALOG.boards.values() for entry in board.profiles}


def need(name: str) -> VgpuNeed:
    (found,) = needs_of(name, CATALOG).values()
    return found


def gpu(
    board: str = "A100", *held: str, mode: VgpuMode = VgpuMode.SAME_SIZE, sharing: Sharing | None = None
) -> GpuState:
    made = GpuState("0000:21:00.0", CATALOG.board(board), sharing=sharing, mode=mode)
    for number, name in enumerate(held):
        assert made.refuse(need(name)) is None, name
        made.take(need(name), f"vm-{number}")
    return made


@every(ENTRIES, ENTRIES.__getitem__)
def test_an_idle_gpu_takes_as_many_as_documented(entry: ProfileEntry) -> None:
    sharing = entry.profile.sharing
    idle = GpuState("0000:21:00.0", entry.board, sharing=sharing)
    assert idle.room(need(entry.name)) == entry.max_per_gpu


@every([name for name, one in ENTRIES.items() if one.max_mixed], ENTRIES.__getitem__)
def test_an_idle_gpu_in_mixed_size_mode_takes_as_many_as_documented(entry: ProfileEntry) -> None:
    idle = GpuState("0000:21:00.0", entry.board, mode=VgpuMode.MIXED_SIZE)
    assert idle.room(need(entry.name)) == entry.max_mixed


@pytest.mark.parametrize(
    ("held", "wanted", "refusal"),
    [
        (["grid_a100-10c"], "grid_a100-10c", None),
        (["grid_a100-10c"] * 4, "grid_a100-10c", Code.GPU_FULL),
        (["grid_a100-10c"], "grid_a100-20c", Code.SAME_SIZE_LOCK),
        (["grid_a100-40c"], "grid_a100-40c", Code.GPU_FULL),
        (["grid_a100-40c"], "grid_a100-10c", Code.GPU_FULL),
        (["grid_a100-10c"], "grid_a100-10q", None),
        (["grid_a100-10c"], "nvidia_l40s-12c", Code.NO_SUCH_BOARD),
        (["grid_a100-10c"], "grid_a100-1-5c", Code.GPU_NOT_IN_MIG_MODE),
        (["grid_a100-1-5c"], "grid_a100-10c", Code.GPU_IN_MIG_MODE),
        (["grid_a100-3-20c"], "grid_a100-4-20c", None),
        (["grid_a100-3-20c", "grid_a100-3-20c"], "grid_a100-1-5c", Code.NO_MIG_SLICE),
        (["grid_a100-3-20c", "grid_a100-3-20c"], "grid_a100-4-20c", Code.NO_MIG_SLICE),
        (["grid_a100-4-20c", "grid_a100-3-20c"], "grid_a100-1-5c", Code.NO_MIG_SLICE),
        (["grid_a100-2-10c"] * 3, "grid_a100-1-5c", None),
        (["grid_a100-2-10c"] * 3, "grid_a100-2-10c", Code.NO_MIG_SLICE),
        (["grid_a100-1-5cme"], "grid_a100-1-5cme", Code.NO_MIG_SLICE),
        (["grid_a100-1-5cme"], "grid_a100-1-5c", None),
        (["grid_a100-7-40c"], "grid_a100-1-5c", Code.NO_MIG_SLICE),
    ],
)
def test_what_runs_decides_over_what_may_join(held: list[str], wanted: str, refusal: Code | None) -> None:
    assert gpu("A100", *held).refuse(need(wanted)) is refusal


@pytest.mark.parametrize(
    ("held", "wanted", "refusal"),
    [
        (["grid_a100-20c"], "grid_a100-10c", None),
        (["grid_a100-20c", "grid_a100-8c"], "grid_a100-8c", None),
        (["grid_a100-20c", "grid_a100-10c"], "grid_a100-4c", None),
        # 4 GB are free from 28 on, and a 4c starts at 26 or 30
        (["grid_a100-20c", "grid_a100-8c", "grid_a100-8c"], "grid_a100-4c", Code.MIXED_SIZE_NO_ROOM),
        (["grid_a100-20c", "grid_a100-8c", "grid_a100-8c"], "grid_a100-8c", Code.MIXED_SIZE_NO_ROOM),
        (["grid_a100-20c", "grid_a100-20c"], "grid_a100-4c", Code.MIXED_SIZE_NO_ROOM),
        (["grid_a100-8c"] * 4, "grid_a100-8c", Code.MIXED_SIZE_NO_ROOM),
        (["grid_a100-40c"], "grid_a100-40c", Code.GPU_FULL),
    ],
)
def test_mixed_sizes_follow_the_published_placements(
    held: list[str], wanted: str, refusal: Code | None
) -> None:
    found = gpu("A100", *held, mode=VgpuMode.MIXED_SIZE).refuse(need(wanted))
    assert found is refusal


def test_mixed_sizes_without_published_placements_are_counted_by_their_sum() -> None:
    h20 = gpu("H20", "nvidia_h20-48c", "nvidia_h20-24c", mode=VgpuMode.MIXED_SIZE)
    assert h20.refuse(need("nvidia_h20-24c")) is None
    h20.take(need("nvidia_h20-24c"), "more")
    assert h20.refuse(need("nvidia_h20-16c")) is Code.GPU_FULL


def test_a_size_without_a_mixed_maximum_is_refused_in_mixed_size_mode() -> None:
    h20 = gpu("H20", mode=VgpuMode.MIXED_SIZE)
    assert h20.refuse(need("nvidia_h20-32c")) is Code.MIXED_SIZE_NOT_SUPPORTED
    assert gpu("H20").refuse(need("nvidia_h20-32c")) is None


def test_series_share_a_gpu_only_where_the_release_lets_them() -> None:
    old = gpu("L40S", "nvidia_l40s-12q")
    old.mixes_series = False
    assert old.refuse(need("nvidia_l40s-12c")) is Code.CLASSES_CANNOT_SHARE
    assert gpu("L40S", "nvidia_l40s-12q").refuse(need("nvidia_l40s-12c")) is None


def test_the_mode_that_is_told_goes_before_what_runs() -> None:
    assert gpu(sharing=Sharing.MIG).refuse(need("grid_a100-10c")) is Code.GPU_IN_MIG_MODE
    assert gpu(sharing=Sharing.TIME_SLICED).refuse(need("grid_a100-1-5c")) is Code.GPU_NOT_IN_MIG_MODE
    assert gpu().refuse(need("grid_a100-1-5c")) is None


def test_the_first_3g_leaves_room_for_a_4g() -> None:
    state = gpu("A100", "grid_a100-3-20c")
    assert [held.start for held in state.held] == [4]
    assert state.free_mig_starts(need("grid_a100-4-20c")) == (0,)


def test_small_instances_leave_the_low_slices_free() -> None:
    state = gpu("A100", "grid_a100-1-5c", "grid_a100-2-10c")
    assert [held.start for held in state.held] == [6, 4]
    assert state.refuse(need("grid_a100-4-20c")) is None


def test_vgpus_of_one_type_share_an_instance_where_the_board_can() -> None:
    board = "RTX Pro 6000 Blackwell DC"
    prefix = "nvidia_rtx_pro_6000_blackwell_dc"
    state = gpu(board, *[f"{prefix}-2-24c"] * 3)
    assert sorted(held.start or 0 for held in state.held) == [0, 6, 6]
    assert state.refuse(need(f"{prefix}-2-24c")) is None
    assert state.refuse(need(f"{prefix}-1-24c")) is Code.NO_MIG_SLICE


def test_a_gpu_held_whole_takes_nothing() -> None:
    state = gpu()
    state.held.append(Held("unread", None))
    assert state.refuse(need("grid_a100-10c")) is Code.GPU_FULL
    assert state.free_framebuffer_mib == 0


def test_an_obstacle_refuses_everything() -> None:
    state = gpu()
    state.obstacle = Code.NOT_SHARED_DIRECT
    assert state.refuse(need("grid_a100-10c")) is Code.NOT_SHARED_DIRECT


def test_arrangements_cover_what_esxi_may_have_done() -> None:
    holders = [Held("a", need("grid_a100-3-20c")), Held("b", need("grid_a100-1-5c"))]
    starts = {tuple(held.start for held in state.held) for state in arrange(gpu(), holders)}
    assert (4, 3) in starts
    assert (0, 6) in starts
    assert (4, 6) not in starts


def test_an_impossible_arrangement_has_none() -> None:
    assert not list(arrange(gpu(), [Held(str(number), need("grid_a100-7-40c")) for number in range(2)]))


def test_a_copy_is_independent() -> None:
    first = gpu("A100", "grid_a100-10c")
    second = first.copy()
    second.take(need("grid_a100-10c"), "more")
    assert (len(first.held), len(second.held)) == (1, 2)
    assert second.signature() != first.signature()


def test_what_is_free_is_told() -> None:
    state = gpu("A100", "grid_a100-10c")
    assert state.free_framebuffer_mib == 30 * 1024
    assert state.locked_size_gb == 10
    assert gpu("A100", "grid_a100-1-5c").locked_size_gb is None
    assert gpu("A100", "grid_a100-10c", mode=VgpuMode.MIXED_SIZE).locked_size_gb is None
