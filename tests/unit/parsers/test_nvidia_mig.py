from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.parsers.printed import DISGUISES, printed
from vgpu_cfg.parsers.errors import ToolFailed, UnreadableOutput
from vgpu_cfg.parsers.nvidia_mig import (
    SwitchAnswer,
    parse_ecc_switch,
    parse_mig_instances,
    parse_mig_profiles,
    parse_mig_switch,
)


def test_profiles_with_their_engines() -> None:
    first, second, last = parse_mig_profiles(printed("mig-lgip-a100-40.txt"))
    assert (first.name, first.profile_id, first.free, first.total) == ("1g.5gb", 19, 7, 7)
    assert (second.memory_gib, second.multiprocessors, second.decoders) == (9.9, 28, 1)
    assert (last.copy_engines, last.jpeg_engines, last.optical_flow) == (7, 1, 1)
    assert not first.is_p2p


def test_a_wider_table_of_two_gpus() -> None:
    found = parse_mig_profiles(printed("mig-lgip-wide-two-gpus.txt"))
    assert [(profile.gpu, profile.name, profile.free) for profile in found] == [
        (0, "1g.24gb+me", 1),
        (1, "1g.24gb+gfx", 0),
    ]


def test_profiles_without_second_lines() -> None:
    found = parse_mig_profiles(printed("mig-lgip-without-second-lines.txt"))
    assert [(profile.name, profile.copy_engines) for profile in found] == [
        ("3g.20gb", None),
        ("4g.20gb", None),
    ]


def test_instances_with_their_places() -> None:
    found = parse_mig_instances(printed("mig-lgi-two-instances.txt"))
    assert [(one.gpu, one.name, one.instance_id, one.start, one.size) for one in found] == [
        (2, "2g.10gb", 3, 0, 2),
        (2, "2g.10gb", 5, 4, 2),
    ]


@pytest.mark.parametrize("name", ["mig-lgi-none.txt", "mig-lgi-mig-off.txt"])
def test_no_instance_is_no_error(name: str) -> None:
    assert parse_mig_instances(printed(name)) == ()


def test_a_gpu_that_cannot_be_cut_has_no_profiles() -> None:
    assert parse_mig_profiles("No MIG-supported devices found.\n") == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("|   0  MIG 1g.5gb   19   7 of 7 |", "no profile"),
        ("+-----------------------+\n+------------------------+", "no table"),
        ("|   1     0     0   |", "no profile"),
        ("", "printed nothing"),
        ("Unable to determine GPU instance profiles: Not Supported", "Not Supported"),
    ],
)
def test_a_table_that_is_not_understood_is_an_error(text: str, said: str) -> None:
    with pytest.raises(UnreadableOutput, match=said):
        parse_mig_profiles(text)


def test_rights_that_are_missing_are_the_tools_own_error() -> None:
    with pytest.raises(ToolFailed, match="Insufficient Permissions"):
        parse_mig_instances("Insufficient Permissions")


SWITCHES = [
    ("mig-on.txt", SwitchAnswer(pci_id="0000:36:00.0", is_on=True)),
    ("mig-on-persistence-warning.txt", SwitchAnswer(pci_id="0000:01:00.0", is_on=True)),
    (
        "mig-on-in-use.txt",
        SwitchAnswer(pci_id="0000:0b:00.0", is_on=True, is_pending=True, reason="In use by another client"),
    ),
    (
        "mig-off-pending.txt",
        SwitchAnswer(pci_id="0000:07:00.0", is_on=False, is_pending=True, reason="Timeout"),
    ),
    ("mig-on-not-supported.txt", SwitchAnswer(pci_id="0000:21:00.0", is_on=True, refusal="Not Supported")),
]


@pytest.mark.parametrize(("name", "answer"), SWITCHES)
def test_what_a_switch_of_mig_came_to(name: str, answer: SwitchAnswer) -> None:
    assert parse_mig_switch(printed(name)) == (answer,)


@pytest.mark.parametrize("disguise", DISGUISES)
@pytest.mark.parametrize(("name", "answer"), SWITCHES)
def test_no_disguise_changes_an_answer(
    name: str, answer: SwitchAnswer, disguise: Callable[[str], str]
) -> None:
    assert parse_mig_switch(disguise(printed(name))) == (answer,)


def test_several_gpus_answer_each_for_itself() -> None:
    text = (
        "Disabled MIG Mode for GPU 00000000:10:1C.0\nDisabled MIG Mode for GPU 00000000:10:1D.0\nAll done.\n"
    )
    assert [(answer.pci_id, answer.is_on) for answer in parse_mig_switch(text)] == [
        ("0000:10:1c.0", False),
        ("0000:10:1d.0", False),
    ]


def test_a_new_mode_of_ecc_waits_for_a_reboot() -> None:
    assert parse_ecc_switch(printed("ecc-on.txt")) == (
        SwitchAnswer(pci_id="0000:09:00.0", is_on=True, is_pending=True, reason="Reboot required"),
    )


def test_a_mode_that_is_so_already_waits_for_nothing() -> None:
    assert parse_ecc_switch("ECC support is already Enabled for GPU 00000000:09:00.0.\nAll done.\n") == (
        SwitchAnswer(pci_id="0000:09:00.0", is_on=True),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("All done.\n", "names no GPU"),
        ("Enabled MIG Mode for GPU 00000000:36:00.0\nThe GPU is on fire.\n", "on fire"),
        ("Enabled MIG Mode for GPU somewhere\n", "no PCI address"),
        ("", "printed nothing"),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "NVIDIA driver"),
    ],
)
def test_an_answer_that_is_not_understood_is_an_error(text: str, said: str) -> None:
    with pytest.raises(UnreadableOutput, match=said):
        parse_mig_switch(text)


@given(
    st.lists(
        st.tuples(st.integers(0, 7), st.integers(1, 7), st.integers(0, 99), st.integers(0, 7)), min_size=1
    )
)
def test_generated_tables_give_back_their_profiles(rows: list[tuple[int, int, int, int]]) -> None:
    text = "+-----+\n| GPU instance profiles: |\n|=====|\n"
    for gpu, slices, number, free in rows:
        text += f"|   {gpu}  MIG {slices}g.{slices * 5}gb   {number}  {free}/7  4.95  No  14  0  0 |\n"
        text += f"|          {slices}   0   0  |\n+------+\n"
    found = parse_mig_profiles(text)
    assert [(one.gpu, one.copy_engines, one.profile_id, one.free) for one in found] == rows
