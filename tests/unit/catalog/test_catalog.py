"""How boards and profiles are found, what follows by rule, and what a broken board file says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.every import every
from vgpu_cfg.catalog import NVIDIA, Board, Catalog, load_catalog, resolve_profile
from vgpu_cfg.errors import DocumentError
from vgpu_cfg.model.vgpu import VgpuProfile

PROFILES = Path(__file__).resolve().parents[3] / "profiles"
PREFIXES = sorted(path.stem for path in PROFILES.glob("*.yaml"))


of_each_board = every(PREFIXES, load_catalog().board)


# ----------------------------------------------------------- finding a board


@of_each_board
def test_every_name_leads_to_its_board(board: Board) -> None:
    catalog = Catalog.from_folder(PROFILES)
    for name in (board.key, board.key.upper(), *board.prefixes, *(alias.key for alias in board.aliases)):
        assert catalog.board(name).key == board.key
    assert catalog.boards[board.key].prefix == board.prefix


@of_each_board
def test_every_pci_id_leads_to_its_board(board: Board) -> None:
    catalog = Catalog.from_folder(PROFILES)
    for pci in board.pci_ids:
        found = catalog.by_pci(NVIDIA, pci.device_id, pci.subsystem_id)
        assert found is not None
        assert found.key == board.key


def test_an_unknown_board_is_a_key_error_with_advice() -> None:
    with pytest.raises(KeyError, match="did you mean A100"):
        load_catalog().board("A1000")
    with pytest.raises(KeyError, match="vgpu-cfg profiles"):
        load_catalog().board("Voodoo2")
    assert "A1000" not in load_catalog().boards
    assert "a100" not in load_catalog().boards


@pytest.mark.parametrize(
    ("device", "subsystem", "key"),
    [
        (0x25B6, 0x14A9, "A16"),
        (0x25B6, 0x157E, "A2"),
        (0x25B6, None, None),
        (0x25B6, 0x1234, None),
        (0x1E78, 0x13D9, "RTX6000P"),
        (0x1E78, 0x13D8, "RTX8000P"),
        (0x1E78, None, None),
        (0x20F1, 0x145F, "A100"),
        (0x20F1, None, "A100"),
        (0x20F1, 0x9999, "A100"),
        (0x20B1, None, "A100"),
        (0x20F6, None, "A100"),
        (0x20B8, 0x1581, "A100D"),
        (0x20F1 - 0x10000, 0x145F, "A100"),
        (0x2333, None, None),
        (0x1AF1, None, None),
    ],
)
def test_the_subsystem_decides_where_it_must(device: int, subsystem: int | None, key: str | None) -> None:
    board = load_catalog().by_pci(NVIDIA, device, subsystem)
    assert (board.key if board else None) == key


def test_other_vendors_have_no_boards() -> None:
    assert load_catalog().by_pci(0x15B3, 0x20F1) is None


# --------------------------------------------------------- finding a profile


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("grid_a800-40c", "A100"),
        ("nvidia_a800-1-5cme", "A100"),
        ("grid_a800d-80c", "A100D"),
        ("grid_a800dx-4-40c", "A100DX"),
        ("nvidia_h800-5c", "H100"),
        ("nvidia_h800xm-80c", "H100XM"),
        ("nvidia_h800l-23c", "H100L"),
    ],
)
def test_an_aliass_profile_is_its_boards_under_the_name_that_was_asked(name: str, key: str) -> None:
    (entry,) = load_catalog().by_profile(name)
    assert entry.name == name
    assert entry.board.key == key
    assert entry.listed
    twin = resolve_profile(entry.board, entry.profile.model_copy(update={"prefix": entry.board.prefix}))
    assert twin is not None
    assert (entry.max_per_gpu, entry.framebuffer_mib, entry.mig) == (
        twin.max_per_gpu,
        twin.framebuffer_mib,
        twin.mig,
    )


@pytest.mark.parametrize(
    ("name", "is_peer"),
    [
        ("grid_a100-40c", True),
        ("grid_a100-20c", False),
        ("grid_a100-7-40c", False),
        ("grid_a800-40c", False),
        ("grid_a800dx-80c", True),
        ("nvidia_h800-80c", True),
        ("nvidia_h800-40c", False),
        ("nvidia_l40s-48c", False),
    ],
)
def test_nvlink_peers_are_documented_types(name: str, is_peer: bool) -> None:
    (entry,) = load_catalog().by_profile(name)
    assert entry.is_nvlink_p2p == is_peer


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("grid_t4-1q", 16),
        ("grid_t4-4q", 4),
        ("grid_t4-2b4", 8),
        ("grid_v100d-1q", 32),
        ("grid_rtx6000p-3q", 8),
        ("grid_rtx8000p-4q", 12),
        ("grid_rtx8000p-1q", 32),
        ("nvidia_a10-1q", 24),
        ("nvidia_a16-1b", 16),
        ("nvidia_a40-1q", 32),
        ("nvidia_a40-1b", 32),
        ("nvidia_a40-2q", 24),
        ("nvidia_a40-48q", 1),
        ("nvidia_l4-1q", 24),
        ("nvidia_l40s-12q", 4),
        ("nvidia_rtx6000-ada-3q", 16),
        ("nvidia_rtx_pro_6000_blackwell_dc-3q", 32),
        ("nvidia_rtx_pro_6000_blackwell_dc-1-2q", 48),
        ("nvidia_rtx_pro_6000_blackwell_dc-1-3q", 32),
        ("nvidia_rtx_pro_6000_blackwell_dc-1-6q", 16),
        ("nvidia_rtx_pro_6000_blackwell_dc-1-24q", 4),
        ("nvidia_rtx_pro_6000_blackwell_dc-2-12q", 8),
        ("nvidia_rtx_pro_6000_blackwell_dc-4-96q", 1),
    ],
)
def test_other_series_follow_by_rule_as_in_nvidias_own_configuration(name: str, most: int) -> None:
    (entry,) = load_catalog().by_profile(name)
    assert not entry.listed
    assert entry.max_per_gpu == most


def test_other_series_take_the_starts_of_their_size() -> None:
    (two_gb,) = load_catalog().by_profile("nvidia_a16-2q")
    assert two_gb.mixed_starts == (0, 2, 4, 6, 8, 10, 12, 14)
    assert two_gb.max_mixed == 8
    (one_gb,) = load_catalog().by_profile("nvidia_a16-1q")
    assert one_gb.mixed_starts is None
    assert one_gb.max_mixed is None


def test_a_size_of_zero_is_half_a_gb() -> None:
    (entry,) = load_catalog().by_profile("grid_t4-0b")
    assert entry.framebuffer_mib == 512
    assert entry.max_per_gpu == 32


@pytest.mark.parametrize(
    ("name", "instance", "most"),
    [
        ("nvidia_rtx_pro_6000_blackwell_dc-1-24qgfx", "1g.24gb+gfx", 4),
        ("nvidia_rtx_pro_6000_blackwell_dc-1-24cnome", "1g.24gb-me", 4),
        ("nvidia_h200x-1-18cmeall", "1g.18gb+me.all", 1),
        ("nvidia_a30-2-12cme", "2g.12gb+me", 1),
    ],
)
def test_a_suffix_names_the_instance(name: str, instance: str, most: int) -> None:
    (entry,) = load_catalog().by_profile(name)
    assert entry.mig is not None
    assert (entry.mig.instance, entry.max_per_gpu, entry.mig.max_per_gpu) == (instance, most, most)
    assert entry.listed == (name == "nvidia_a30-2-12cme")


@pytest.mark.parametrize(
    "name",
    [
        "grid_a100-41c",
        "grid_a100-7c",
        "grid_a100-80q",
        "grid_a100-1-7c",
        "grid_a100-1-2q",
        "grid_t4-1-4c",
        "grid_m60-8q",
        "nvidia_rtx_pro_6000_blackwell_dc-1-32q",
        "nvidia_rtx_pro_6000_blackwell_dc-3-24q",
        "A100-40C",
        "",
    ],
)
def test_what_no_board_has_is_nowhere(name: str) -> None:
    assert load_catalog().by_profile(name) == ()


def test_a_board_says_nothing_of_another_boards_profile() -> None:
    assert resolve_profile(load_catalog().board("A100"), VgpuProfile.parse("grid_a100x-40c")) is None


@pytest.mark.parametrize(
    ("wrong", "first"),
    [
        ("A100-40C", "grid_a100-40c"),
        ("GRID A100-40C", "grid_a100-40c"),
        ("grid_a100-41c", "grid_a100-40c"),
        ("grid_a100-1-6c", "grid_a100-1-5c"),
        ("grid_a800-41c", "grid_a800-40c"),
        ("nvidia_a100-40c", "grid_a100-40c"),
        ("l40s-40c", "nvidia_l40s-48c"),
        ("grid_a1000-40c", "grid_a100-40c"),
        ("nvidia_rtx_pro_6000_blackwell-96c", "nvidia_rtx_pro_6000_blackwell_dc-96c"),
    ],
)
def test_a_wrong_name_gets_the_closest(wrong: str, first: str) -> None:
    suggestions = load_catalog().suggest(wrong)
    assert len(suggestions) <= 3
    assert suggestions[0] == first


def test_what_is_close_to_nothing_gets_nothing() -> None:
    assert load_catalog().suggest("??") == []


# ------------------------------------------------------------- broken files


def test_a_broken_file_is_told_with_its_place(tmp_path: Path) -> None:
    text = (PROFILES / "nvidia_a40.yaml").read_text(encoding="utf-8")
    path = tmp_path / "nvidia_a40.yaml"
    path.write_text(text.replace('"2235"', "2235").replace("memory_type", "memory_kind"), encoding="utf-8")
    with pytest.raises(DocumentError) as caught:
        Catalog.from_folder(tmp_path).board("A40")
    line = text[: text.index('"2235"')].count("\n") + 1
    messages = " ".join(str(fault) for fault in caught.value.faults)
    assert f"{path}:{line}:14: 'device' must be text, not 2235" in messages
    assert 'quote it: "2235"' in messages
    assert f"{path}:6:1: unknown key 'memory_kind'" in messages


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ("prefix: grid_a100", "prefix: grid_a101", "named after its prefix"),
        ("alias: A800", "alias: A801", "there is no alias with the key 'A801'"),
        ("  20c: {", "  20q: {", "is not a time_sliced C type"),
        ("  20c: {", "  twenty: {", "is not a valid vGPU name"),
        ("    4-20c:  {", "    20c:  {", "is not a mig C type"),
        ("{p2p: 40c,", "{p2p: 41c,", "not one of the time_sliced types"),
        ("  aliases: whether", "  alibis: whether", "'alibis' is not a valid key for a board file"),
        ("starts: [0, 4]", "starts: [0, 5]", "4 memory slices starting at 5 exceed the GPU's 8"),
        ("starts: [0, 4]", "starts: []", "must not be empty"),
        ("max: 5,", "max: five,", "must be a whole number"),
        ("architecture: Ampere", "architecture: Amper", "did you mean 'Ampere'?"),
    ],
)
def test_a_contradiction_in_a_file_is_told(tmp_path: Path, before: str, after: str, complaint: str) -> None:
    text = (PROFILES / "grid_a100.yaml").read_text(encoding="utf-8")
    assert before in text
    (tmp_path / "grid_a100.yaml").write_text(text.replace(before, after), encoding="utf-8")
    with pytest.raises(DocumentError) as caught:
        Catalog.from_folder(tmp_path).boards["A100"]
    assert complaint in " ".join(str(fault) for fault in caught.value.faults)


def test_a_file_that_is_not_asked_for_may_be_broken(tmp_path: Path) -> None:
    (tmp_path / "grid_a100.yaml").write_bytes((PROFILES / "grid_a100.yaml").read_bytes())
    (tmp_path / "nvidia_broken.yaml").write_text("key: [", encoding="utf-8")
    catalog = Catalog.from_folder(tmp_path)
    assert catalog.by_profile("grid_a100-40c")
    with pytest.raises(DocumentError):
        list(catalog.boards)


def test_another_folder_may_add_a_board(tmp_path: Path) -> None:
    text = (PROFILES / "nvidia_a40.yaml").read_text(encoding="utf-8")
    own = text.replace("nvidia_a40", "nvidia_a41").replace("key: A40", "key: A41").replace("2235", "2239")
    (tmp_path / "nvidia_a41.yaml").write_text(own, encoding="utf-8")
    catalog = Catalog.from_folder(tmp_path)
    assert list(catalog.boards) == ["A41"]
    assert [entry.board.key for entry in catalog.by_profile("nvidia_a41-48c")] == ["A41"]
    assert catalog.by_profile("nvidia_a40-48c") == ()


# ------------------------------------------------------------ what it costs


def test_importing_the_catalogue_reads_no_yaml() -> None:
    program = (
        "import sys, vgpu_cfg.catalog; vgpu_cfg.catalog.load_catalog(); print('ruamel.yaml' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == "False"


def test_a_profile_reads_one_file(tmp_path: Path) -> None:
    for prefix in ("grid_a100", "grid_a100d", "nvidia_h100"):
        (tmp_path / f"{prefix}.yaml").write_bytes((PROFILES / f"{prefix}.yaml").read_bytes())
    catalog = Catalog.from_folder(tmp_path)
    (tmp_path / "grid_a100d.yaml").unlink()
    (tmp_path / "nvidia_h100.yaml").unlink()
    assert catalog.by_profile("grid_a100-40c")
    assert catalog.board("A100").key == "A100"
