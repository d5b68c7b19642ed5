"""Board files against what NVIDIA publishes by itself: its configuration, its pages, what its tool prints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from vgpu_cfg.catalog import NVIDIA, load_catalog
from vgpu_cfg.catalog.lookup import resolve_profile
from vgpu_cfg.model.vgpu import VgpuProfile

PUBLISHED = Path(__file__).parent / "published"
SPELLED = {"DC": "nvidia_rtx_pro_6000_blackwell_dc", "6000D": "nvidia_rtx_6000d"}
"""Where the configuration leaves out a part of the driver's name."""


def read(name: str) -> Any:
    return YAML(typ="safe").load((PUBLISHED / name).read_text(encoding="utf-8"))


CONFIGURATION = read("vgpu-device-manager.yaml")


def rows_of(text: str) -> Iterator[tuple[str, int]]:
    for row in text.split(","):
        label, most = row.split()
        yield label.lower(), int(most)


def prefix_asked(name: str) -> str:
    """Return the prefix of a board, or of the alias that has the name."""
    if name in SPELLED:
        return SPELLED[name]
    board = load_catalog().board(name)
    alias = next((one for one in board.aliases if one.key == name), None)
    return alias.prefixes[0] if alias is not None else board.prefix


@pytest.mark.parametrize("name", CONFIGURATION["types"])
def test_every_type_of_nvidias_configuration_has_its_maximum(name: str) -> None:
    catalog, prefix = load_catalog(), prefix_asked(name)
    for label, most in rows_of(CONFIGURATION["types"][name]):
        (entry,) = catalog.by_profile(f"{prefix}-{label}")
        assert (label, entry.max_per_gpu, entry.is_max_known) == (label, most, True)


def test_no_board_names_a_q_type_that_the_configuration_lacks() -> None:
    known = {
        f"{prefix_asked(name)}-{label}"
        for name, text in CONFIGURATION["types"].items()
        for label, _ in rows_of(text)
    }
    named = {
        f"{board.prefix}-{label}"
        for board in load_catalog().boards.values()
        for label in board.other_series
        if label.endswith("q")
    }
    assert named <= known


def test_device_ids_are_the_boards_of_the_configuration() -> None:
    catalog = load_catalog()
    for row in CONFIGURATION["device_ids"].split(","):
        device, name = row.split()
        board = catalog.by_pci(NVIDIA, int(device, 16))
        assert board is not None, row
        assert prefix_asked(name) in board.prefixes, row


@pytest.mark.parametrize(
    ("name", "key"),
    [
        (0x2336, "H100XM"),
        (0x26B2, "RTX5000-Ada"),
        (0x26B3, "RTX5880-Ada"),
        (0x2C3A, "RTX Pro 4500 Blackwell DC"),
    ],
)
def test_ids_that_were_missing_are_there(name: int, key: str) -> None:
    board = load_catalog().by_pci(NVIDIA, name)
    assert board is not None
    assert board.key == key


def test_the_rtx_pro_4500_is_as_nvidias_page_has_it() -> None:
    page = read("blackwell-types.yaml")
    board = load_catalog().board("RTX Pro 4500 Blackwell DC")
    entries = {entry.name.removeprefix(f"{board.prefix}-"): entry for entry in board.profiles}
    assert set(entries) == {*page["mig_backed"], *page["time_sliced"]}
    for label, (framebuffer, most, slices) in page["mig_backed"].items():
        entry = entries[label]
        # Of a type of one slice the page has the maximum for an instance, of which there are two.
        assert (entry.framebuffer_mib, entry.max_per_gpu, entry.mig_compute) == (
            framebuffer * 1024,
            most * (2 if slices == 1 else 1),
            slices,
        )
    for label, (framebuffer, most, mixed) in page["time_sliced"].items():
        entry = entries[label]
        assert (entry.framebuffer_mib, entry.max_per_gpu, entry.max_mixed) == (
            framebuffer * 1024,
            most,
            mixed,
        )


@pytest.mark.parametrize("label", ["1-4q", "1-8a", "2-4b", "1q", "8a", "16b"])
def test_what_nobody_publishes_of_it_is_a_bound_and_says_so(label: str) -> None:
    board = load_catalog().board("RTX Pro 4500 Blackwell DC")
    entry = resolve_profile(board, VgpuProfile.parse(f"{board.prefix}-{label}"))
    assert entry is not None
    assert not entry.is_max_known


def test_a_whole_gpu_is_there_once_whatever_the_series() -> None:
    for name in ("nvidia_rtx_pro_4500_blackwell_dc-32a", "grid_a100-40q"):
        (entry,) = load_catalog().by_profile(name)
        assert (entry.max_per_gpu, entry.is_max_known) == (1, True)


def test_desktops_of_the_rtx_pro_4500_are_as_the_sizing_guide_counts_them() -> None:
    catalog = load_catalog()
    for board, label, most in [
        ("nvidia_rtx_pro_4500_blackwell_dc", "2b", 16),
        ("nvidia_rtx_pro_4500_blackwell_dc", "3b", 10),
        ("nvidia_l4", "1b", 24),
        ("nvidia_a16", "3b", 5),
    ]:
        (entry,) = catalog.by_profile(f"{board}-{label}")
        assert (entry.max_per_gpu, entry.is_max_known) == (most, True)


PLACEMENT = re.compile(r"GPU\s+0 Profile ID\s+(\d+) Placements?\s*: \{([\d,]+)\}:(\d+)")


def test_places_on_an_rtx_pro_6000_are_those_that_nvidia_smi_prints() -> None:
    text = (PUBLISHED / "mig-rtx-pro-6000.txt").read_text(encoding="utf-8")
    printed = {
        int(number): (tuple(map(int, starts.split(","))), int(size))
        for number, starts, size in PLACEMENT.findall(text)
    }
    geometry = load_catalog().board("RTX Pro 6000 Blackwell DC").mig
    assert geometry is not None
    assert geometry.memory_slices == max(size for _, size in printed.values())
    for shape in geometry.profiles.values():
        assert shape.profile_id is not None
        assert (shape.starts, shape.size) == printed[shape.profile_id]


INSTANCE = re.compile(r"MIG (\S+)\s+(\d+)\s+\d+/(\d+)\s+\S+\s+No\s+(\d+)")


def test_instances_of_a_gb200_are_those_that_nvidia_smi_prints() -> None:
    text = (PUBLISHED / "mig-gb200.txt").read_text(encoding="utf-8")
    geometry = load_catalog().board("GB200").mig
    assert geometry is not None
    found = INSTANCE.findall(text)
    assert len(found) == 4
    for name, number, most, sms in found:
        shape = geometry.instances[name]
        assert (shape.profile_id, shape.max_per_gpu, shape.sms) == (int(number), int(most), int(sms))
    assert {"3g.93gb", "4g.93gb", "7g.186gb"} <= set(geometry.instances)


@pytest.mark.parametrize("key", ["RTX Pro 6000 Blackwell DC", "RTX Pro 4500 Blackwell DC"])
def test_vgpus_that_share_an_instance_need_esxi_9_0_1(key: str) -> None:
    geometry = load_catalog().board(key).mig
    assert geometry is not None
    for shape in geometry.profiles.values():
        assert (shape.min_esxi == "9.0.1") == (shape.per_instance > 1)
