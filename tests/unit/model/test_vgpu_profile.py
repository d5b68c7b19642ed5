"""vGPU names: what each part of a name means, and what is said of a name that is none."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, ValidationError

from vgpu_cfg.model.vgpu import Sharing, VgpuProfile

NAMES = {
    "grid_a100-40c": ("grid_a100", None, 40, "C", ""),
    "grid_a100-4c": ("grid_a100", None, 4, "C", ""),
    "grid_a100-4-20c": ("grid_a100", 4, 20, "C", ""),
    "grid_a100-1-5cme": ("grid_a100", 1, 5, "C", "me"),
    "grid_a100dx-80c": ("grid_a100dx", None, 80, "C", ""),
    "grid_t4-2b4": ("grid_t4", None, 2, "B", "4"),
    "nvidia_a40-1b": ("nvidia_a40", None, 1, "B", ""),
    "nvidia_a40-1a": ("nvidia_a40", None, 1, "A", ""),
    "nvidia_l40s-48q": ("nvidia_l40s", None, 48, "Q", ""),
    "grid_m60-0q": ("grid_m60", None, 0, "Q", ""),
    "nvidia_rtx6000-ada-4c": ("nvidia_rtx6000-ada", None, 4, "C", ""),
    "nvidia_rtx_pro_6000_blackwell_dc-96q": ("nvidia_rtx_pro_6000_blackwell_dc", None, 96, "Q", ""),
    "nvidia_rtx_pro_6000_blackwell_dc-4-96q": ("nvidia_rtx_pro_6000_blackwell_dc", 4, 96, "Q", ""),
    "nvidia_rtx_pro_6000_blackwell_dc-1-24qgfx": ("nvidia_rtx_pro_6000_blackwell_dc", 1, 24, "Q", "gfx"),
    "nvidia_h200x-1-18cmeall": ("nvidia_h200x", 1, 18, "C", "meall"),
    "nvidia_h200x-1-18cnome": ("nvidia_h200x", 1, 18, "C", "nome"),
}


@pytest.mark.parametrize(("text", "parts"), NAMES.items(), ids=NAMES)
def test_a_name_has_parts(text: str, parts: tuple[str, int | None, int, str, str]) -> None:
    profile = VgpuProfile.parse(text)
    found = (profile.prefix, profile.slices, profile.framebuffer_gb, profile.series, profile.suffix)
    assert found == parts


@pytest.mark.parametrize("text", NAMES)
def test_a_parsed_name_prints_as_it_was(text: str) -> None:
    profile = VgpuProfile.parse(text)
    assert str(profile) == profile.name == text


def test_slices_make_it_mig_backed() -> None:
    assert VgpuProfile.parse("grid_a100-1-5c").sharing is Sharing.MIG
    assert VgpuProfile.parse("grid_a100-5c").sharing is Sharing.TIME_SLICED


def test_the_label_leaves_out_prefix_and_slices() -> None:
    assert VgpuProfile.parse("grid_a100-1-5cme").label == "5cme"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "it must begin with 'grid_' or 'nvidia_'"),
        ("a100-40c", "it must begin with 'grid_' or 'nvidia_'"),
        ("A100-40C", "it must begin with 'grid_' or 'nvidia_'"),
        ("10c", "does not include a board\nuse 10GiB for any board"),
        ("3g.20gb", "or a name that `vgpu-cfg fit 3g.20gb --server ADDRESS` lists"),
        ("40GB", "use 40GiB for any board"),
        ("GRID A100-40C", "is spelled 'grid_a100-40c'"),
        ("NVIDIA RTX Pro 6000 Blackwell DC-4-96Q", "is spelled 'nvidia_rtx_pro_6000_blackwell_dc-4-96q'"),
        (" grid_a100-40c", "is spelled 'grid_a100-40c'"),
        ("grid_a100", "it must end with a size in GB and a series"),
        ("grid_a100-40", "the series is missing"),
        ("grid_a100-40x", "it must end with a size in GB and a series"),
        ("grid_a100-040c", "it must end with a size in GB and a series"),
        ("grid_a100-40c-40c", "it must end with a size in GB and a series"),
        ("grid_a100-0-40c", "it must end with a size in GB and a series"),
        ("grid_a100-40cme", "a time-sliced profile does not have the suffix 'me'"),
        ("grid_a100-1-5c4", "a MIG-backed profile does not have the suffix '4'"),
        ("grid_a100-\u0664\u0660c", "it must end with a size in GB and a series"),
    ],
)
def test_what_is_no_name_is_refused_with_a_reason(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        VgpuProfile.parse(text)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    "parts",
    [
        {"prefix": "grid_a100-4", "series": "C", "framebuffer_gb": 20},
        {"prefix": "A100", "series": "C", "framebuffer_gb": 40},
        {"prefix": "grid_a100", "series": "C", "framebuffer_gb": -40},
        {"prefix": "grid_a100", "series": "C", "framebuffer_gb": 40, "slices": 12},
        {"prefix": "grid_a100", "series": "C", "framebuffer_gb": 40, "suffix": "me"},
    ],
)
def test_parts_that_make_no_name_are_refused(parts: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        VgpuProfile.model_validate(parts)


def test_a_profile_counts_in_sets() -> None:
    assert len({VgpuProfile.parse("grid_a100-40c"), VgpuProfile.parse("grid_a100-40c")}) == 1
    assert VgpuProfile.parse("grid_a100-40c") != VgpuProfile.parse("grid_a100x-40c")


class Holder(BaseModel):
    profile: VgpuProfile


def test_plain_text_stands_for_a_profile_in_a_model() -> None:
    holder = Holder.model_validate({"profile": "grid_a100-1-5c"})
    assert holder.profile.slices == 1
    assert holder.model_dump() == {"profile": "grid_a100-1-5c"}
    assert Holder.model_validate_json(holder.model_dump_json()) == holder


def test_text_that_is_no_name_is_refused_in_a_model() -> None:
    with pytest.raises(ValidationError, match="the series is missing"):
        Holder.model_validate({"profile": "grid_a100-40"})
