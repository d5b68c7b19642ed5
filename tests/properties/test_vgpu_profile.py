"""Parsing and printing a vGPU name undo each other, whatever the parts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.model.vgpu import VgpuProfile

words = st.from_regex(r"[a-z0-9]{1,6}", fullmatch=True)
prefixes = st.builds(
    lambda family, name, tail: f"{family}_{'_'.join(name)}{tail}",
    st.sampled_from(["grid", "nvidia"]),
    st.lists(words, min_size=1, max_size=4),
    st.sampled_from(["", "-ada", "-s2"]),
)
time_sliced = st.builds(
    VgpuProfile,
    prefix=prefixes,
    series=st.sampled_from(["A", "B", "C", "Q"]),
    framebuffer_gb=st.integers(0, 999),
    suffix=st.sampled_from(["", "4"]),
)
mig_backed = st.builds(
    VgpuProfile,
    prefix=prefixes,
    series=st.sampled_from(["A", "B", "C", "Q"]),
    slices=st.integers(1, 9),
    framebuffer_gb=st.integers(0, 999),
    suffix=st.sampled_from(["", "me", "nome", "meall", "gfx"]),
)


@given(time_sliced | mig_backed)
def test_parse_undoes_print(profile: VgpuProfile) -> None:
    assert VgpuProfile.parse(str(profile)) == profile


@given(st.from_regex(r"(grid|nvidia)_[a-z0-9_]{1,9}(-[1-9])?-[0-9]{1,3}[abcq](me)?", fullmatch=True))
def test_print_undoes_parse(text: str) -> None:
    try:
        profile = VgpuProfile.parse(text)
    except ValueError as error:
        assert repr(text) in str(error)  # noqa: PT017 - hypothesis finds names of both kinds
    else:
        assert str(profile) == text


@given(st.text(max_size=40))
def test_any_text_is_a_name_or_a_readable_refusal(text: str) -> None:
    try:
        assert str(VgpuProfile.parse(text)) == text
    except ValueError as error:
        assert "vGPU name" in str(error)  # noqa: PT017 - as above


@given(st.data())
def test_what_a_board_is_said_to_hold_fits_its_framebuffer(data: st.DataObject) -> None:
    catalog = load_catalog()
    board = catalog.board(data.draw(st.sampled_from(["A40", "T4", "A16", "L4", "H100L", "RTX8000P"])))
    size = data.draw(st.integers(0, 2 * board.framebuffer_gb))
    series = data.draw(st.sampled_from("abq"))
    for entry in catalog.by_profile(f"{board.prefix}-{size}{series}"):
        assert not entry.listed
        assert 1 <= entry.max_per_gpu <= 32
        assert entry.max_per_gpu * entry.profile.framebuffer_gb <= board.framebuffer_gb
        assert entry.framebuffer_mib <= board.framebuffer_mib
        assert entry.is_full_framebuffer == (size == board.framebuffer_gb)
