from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.parsers.printed import DISGUISES, printed
from vgpu_cfg.model.observed.host_facts import MigInstance
from vgpu_cfg.parsers.nvidia.smi import parse_mig_instances
from vgpu_cfg.parsers.text import ToolFailed, UnreadableOutput


def at(start: int, size: int) -> MigInstance:
    return MigInstance(start=start, size=size)


@pytest.mark.parametrize("disguise", [str, *DISGUISES])
def test_instances_with_their_places(disguise: Callable[[str], str]) -> None:
    found = parse_mig_instances(disguise(printed("mig-lgi-two-instances.txt")))
    assert found == {2: (at(0, 2), at(4, 2))}


@pytest.mark.parametrize("name", ["mig-lgi-none.txt", "mig-lgi-mig-off.txt"])
def test_no_instance_is_no_error(name: str) -> None:
    assert parse_mig_instances(printed(name)) == {}


def test_a_gpu_that_cannot_be_cut_has_none() -> None:
    assert parse_mig_instances("No MIG-supported devices found.\n") == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("|   0  MIG 1g.5gb   19   1   0 of 1 |", "not a GPU instance"),
        ("+-----------------------+\n+------------------------+", "no table"),
        ("|   1     0     0   |", "not a GPU instance"),
        ("", "printed nothing"),
        ("Unable to determine GPU instances: Not Supported", "Not Supported"),
    ],
)
def test_a_table_that_is_not_understood_is_an_error(text: str, said: str) -> None:
    with pytest.raises(UnreadableOutput, match=said):
        parse_mig_instances(text)


def test_rights_that_are_missing_are_the_tools_own_error() -> None:
    with pytest.raises(ToolFailed, match="Insufficient Permissions"):
        parse_mig_instances("Insufficient Permissions")


@given(
    st.lists(
        st.tuples(st.integers(0, 7), st.integers(0, 7), st.integers(1, 8), st.integers(0, 99)), min_size=1
    )
)
def test_generated_tables_give_back_their_instances(rows: list[tuple[int, int, int, int]]) -> None:
    text = "+-----+\n| GPU instances: |\n|=====|\n"
    for gpu, start, size, number in rows:
        text += f"|   {gpu}  MIG {size}g.{size * 5}gb   {number}  {number}   {start}:{size} |\n+------+\n"
    found = parse_mig_instances(text)
    for gpu in {row[0] for row in rows}:
        assert found[gpu] == tuple(at(start, size) for of, start, size, _ in rows if of == gpu)
