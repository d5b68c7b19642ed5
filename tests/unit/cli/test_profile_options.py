"""Which boards a name on the command line means."""

from __future__ import annotations

import pytest

from vgpu_cfg.cli.options.hosts import select_profiles
from vgpu_cfg.errors import NotFound


def boards_of(*names: str, boards: tuple[str, ...] = ()) -> list[str]:
    entries = select_profiles(names, boards=boards, mig=False, time_sliced=False, full=True)
    return list(dict.fromkeys(entry.board.key for entry in entries))


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("A100", ["A100", "A100D", "A100DX", "A100X"]),
        ("a100", ["A100", "A100D", "A100DX", "A100X"]),
        ("A100X", ["A100X"]),
        ("A100D", ["A100D"]),
        ("A10", ["A10"]),
        ("L40", ["L40"]),
        ("H20", ["H20", "H20X"]),
        ("grid_a100-40c", ["A100"]),
        ("A100 SXM4", ["A100DX", "A100X"]),
        ("grid_a100d", ["A100D", "A100DX"]),
    ],
)
def test_a_product_means_all_its_forms_and_sizes_and_no_other(name: str, keys: list[str]) -> None:
    assert sorted(boards_of(name)) == sorted(keys)


def test_the_option_means_the_same() -> None:
    assert sorted(boards_of(boards=("A100",))) == ["A100", "A100D", "A100DX", "A100X"]


def test_a_name_that_nothing_has_is_told() -> None:
    with pytest.raises(NotFound, match="no board matches 'A1000'"):
        boards_of("A1000")
