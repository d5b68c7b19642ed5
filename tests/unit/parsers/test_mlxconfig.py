from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.parsers.printed import DISGUISES, printed
from vgpu_cfg.model.observed.host_facts import FirmwareValue
from vgpu_cfg.parsers.rdma.mlxconfig import parse_all_firmware, parse_firmware, parse_mst_status
from vgpu_cfg.parsers.text import ToolFailed, UnreadableOutput

CX6DX = "mlxconfig-query-e-cx6dx.txt"


def test_default_current_and_next_boot_are_told_apart() -> None:
    found = parse_firmware(printed(CX6DX)).parameters
    assert found["SRIOV_EN"] == FirmwareValue(default="False", current="False", next_boot="True")
    assert found["NUM_OF_VFS"] == FirmwareValue(default="0", current="0", next_boot="8")
    assert found["ATS_ENABLED"] == FirmwareValue(default="False", current="True", next_boot="True")
    assert found["LINK_TYPE_P1"] == FirmwareValue(default=None, current="ETH", next_boot="ETH")
    assert found["HOST_CHAINING_DESCRIPTORS"].current == "Array[0..7]"
    assert found["PCI_DOWNSTREAM_PORT_OWNER"].next_boot == "Array[0..15]"
    assert found["MEMIC_SIZE_LIMIT"].current == "_256KB"
    assert found["PCI_ATOMIC_MODE"].current == "PCI_ATOMIC_DISABLED_EXT_ATOMIC_ENABLED"
    assert "EXP_ROM_UEFI_x86_ENABLE" in found


def test_the_device_says_what_it_is() -> None:
    found = parse_firmware(printed(CX6DX))
    assert (found.device, found.name) == ("mt4125_pciconf0", "MCX623106AN-CDA_Ax")
    assert found.description.startswith("ConnectX-6 Dx EN adapter card; 100GbE")
    assert not found.is_partial


def test_without_e_only_next_boot_is_known() -> None:
    found = parse_firmware(printed("mlxconfig-query-cx3-next-boot-only.txt"))
    assert found.parameters["LINK_TYPE_P2"] == FirmwareValue(next_boot="ETH")
    assert found.name == ""


def test_a_firmware_that_does_not_tell_what_is_in_force() -> None:
    found = parse_firmware(printed("mlxconfig-query-e-firmware-without-current.txt"))
    assert found.parameters["SRIOV_EN"] == FirmwareValue(default="True", next_boot="True")


def test_elements_of_arrays_and_what_cannot_be_written() -> None:
    found = parse_firmware(printed("mlxconfig-query-e-read-only-and-arrays.txt")).parameters
    assert found["ESWITCH_HAIRPIN_DESCRIPTORS[0]"].current == "128"
    assert found["FLEX_PARSER_PROFILE_ENABLE"].next_boot == "4"
    assert found["ATS_ENABLED"].current == "False"


def test_a_parameter_that_the_firmware_lacks_is_not_there() -> None:
    found = parse_firmware(printed("mlxconfig-query-cx3-next-boot-only.txt"))
    assert "ATS_ENABLED" not in found.parameters
    assert not found.is_partial


def test_some_that_could_not_be_read_hide_no_others() -> None:
    found = parse_firmware(printed("mlxconfig-query-e-some-tlvs-failed.txt"))
    assert found.parameters["NUM_OF_VFS"] == FirmwareValue(default=None, current="8", next_boot="8")
    assert found.is_partial


def test_a_device_that_is_not_there_is_the_tools_own_error() -> None:
    with pytest.raises(ToolFailed, match="Failed to open device"):
        parse_firmware(printed("mlxconfig-no-such-device.txt"))


def test_several_devices_answer_each_for_itself() -> None:
    found = parse_all_firmware(printed("mlxconfig-two-devices.txt"))
    assert [(one.device, one.parameters["SRIOV_EN"].next_boot) for one in found] == [
        ("mt4119_pciconf0", "True"),
        ("mt4123_pciconf0", "False"),
    ]
    with pytest.raises(UnreadableOutput, match="2 devices responded, but only one was queried"):
        parse_firmware(printed("mlxconfig-two-devices.txt"))


HEAD = "Configurations:   Default   Current   Next Boot\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "printed nothing"),
        ("hello\n", "unknown format"),
        (HEAD, "no parameter"),
        (HEAD + "   SRIOV_EN   True(1)   True(1)\n", "not a parameter with 3 values"),
        (HEAD + "   SRIOV_EN   a b   True(1)   True(1)\n", "not a parameter with 3 values"),
        (HEAD + "   SRIOV_EN   0   0   0\n   SRIOV_EN   0   0   0\n", "duplicate parameter"),
        ("Configurations:   Today   Tomorrow\n", "columns"),
        ("Device type:    ConnectX5\n", "no parameter"),
    ],
)
def test_a_query_that_is_not_understood_is_an_error(text: str, said: str) -> None:
    with pytest.raises(UnreadableOutput, match=said):
        parse_firmware(text)


@pytest.mark.parametrize("disguise", DISGUISES)
def test_no_disguise_changes_a_query(disguise: Callable[[str], str]) -> None:
    assert parse_firmware(disguise(printed(CX6DX))) == parse_firmware(printed(CX6DX))


def test_mst_names_devices_by_address() -> None:
    found = parse_mst_status(printed("mst-status-vv-native.txt"))
    assert [(device.pci_id, device.name) for device in found] == [
        ("0000:3b:00.0", "mt4125_pciconf0"),
        ("0000:3b:00.1", "mt4125_pciconf0.1"),
        ("0000:05:00.0", "mt4103_pciconf0"),
    ]


def test_mst_may_list_nothing() -> None:
    assert parse_mst_status(printed("mst-status-no-devices.txt")) == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no device table"),
        ("hello\n", "no device table"),
        ("DEVICE_TYPE MST PCI RDMA NET NUMA\nConnectX5 somewhere 02:00.0\n", "not a device"),
        ("-E- mst is not loaded\n", "mst is not loaded"),
    ],
)
def test_mst_that_is_not_understood_is_an_error(text: str, said: str) -> None:
    with pytest.raises(UnreadableOutput, match=said):
        parse_mst_status(text)


VALUES = st.sampled_from(
    [("True", "True(1)"), ("8", "8"), (None, "N/A"), ("ETH", "ETH(2)"), ("Array[0..15]", "Array[0..15]")]
)
NAMES = st.from_regex(r"[A-Z][A-Z0-9_]{1,30}", fullmatch=True).filter(lambda name: name != "RO")


@given(
    st.dictionaries(NAMES, st.tuples(VALUES, VALUES, VALUES), min_size=1, max_size=9),
    st.sampled_from([16, 20]),
)
def test_generated_tables_give_back_their_values(
    table: dict[str, tuple[tuple[str | None, str], tuple[str | None, str], tuple[str | None, str]]],
    width: int,
) -> None:
    text = f"Configurations:{'Default':>30}{'Current':>{width}}{'Next Boot':>{width}}\n"
    for name, values in table.items():
        mark = "*" if values[1] != values[2] else " "
        text += f"{mark}        {name:<36}" + "".join(f" {value[1]:<{width}}" for value in values) + "\n"
    found = parse_firmware(text).parameters
    assert found == {
        name: FirmwareValue(default=default[0], current=current[0], next_boot=following[0])
        for name, (default, current, following) in table.items()
    }
