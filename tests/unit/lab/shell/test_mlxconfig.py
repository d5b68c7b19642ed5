"""mlxconfig and mst: names of NICs, firmware parameters, and when a value holds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.lab.shell.logged_in import CX6_0, CX6_1, MLXCONFIG, MST, Desk
from vgpu_cfg.lab.state.host_defaults import restart

DX = f"{MLXCONFIG} -d mt4125_pciconf0"


class TestMst:
    def test_it_starts(self, bare: Desk) -> None:
        assert bare.tell(f"{MST} start")

    def test_names_carry_the_device_id_in_decimal(self, bare: Desk) -> None:
        assert bare.lines(f"{MST} status") == [
            "MST devices:",
            "------------",
            "mt4125_pciconf0",
            "mt4127_pciconf0",
            "mt4125_pciconf1",
        ]

    def test_the_long_form_tells_addresses(self, bare: Desk) -> None:
        head, columns, first, *_ = bare.lines(f"{MST} status -vv")
        assert head == "PCI devices:"
        assert columns.split() == ["DEVICE_TYPE", "MST", "PCI", "RDMA", "NET", "NUMA"]
        assert first.split() == ["ConnectX6DX(rev:0)", "mt4125_pciconf0", "24:00.0", "net-vmnic2", "0"]
        assert first.index("24:00.0") == columns.index("PCI")

    def test_the_second_port_is_a_point_one(self, bare: Desk) -> None:
        nic = bare.nic()
        twin = replace(nic, device="vmnic9", pci=replace(nic.pci, pci_id="0000:24:00.1"))
        bare.esx.nics.append(twin)
        assert "mt4125_pciconf0.1" in bare.lines(f"{MST} status")
        assert "mt4125_pciconf1" in bare.lines(f"{MST} status")

    def test_a_nic_that_is_passed_through_is_not_reached(self, bare: Desk) -> None:
        bare.pass_through(CX6_1)
        assert "mt4125_pciconf1" not in bare.lines(f"{MST} status")

    def test_other_words_are_refused(self, bare: Desk) -> None:
        assert bare.run_line(f"{MST} dance")[0] == 1


class TestQuery:
    def test_the_table_tells_the_next_boot(self, bare: Desk) -> None:
        lines = bare.lines(f"{DX} query")
        assert lines[:3] == ["", "Device #1:", "----------"]
        assert [line.rstrip() for line in lines[4:8]] == [
            "Device type:        ConnectX6DX",
            "Name:               N/A",
            "Description:        N/A",
            "Device:             mt4125_pciconf0",
        ]
        assert lines[9].split(maxsplit=1) == ["Configurations:", "Next Boot       "]
        assert "        ATS_ENABLED                                 False(0)" in [
            line.rstrip() for line in lines
        ]

    def test_more_is_shown_on_demand(self, bare: Desk) -> None:
        bare.nic().firmware["SRIOV_EN"].next_boot = "True(1)"
        lines = bare.lines(f"{DX} -e q")
        assert lines[9].split() == ["Configurations:", "Default", "Current", "Next", "Boot"]
        row = next(line for line in lines if "SRIOV_EN" in line)
        assert row.split() == ["*", "SRIOV_EN", "False(0)", "False(0)", "True(1)"]
        assert lines[-1].startswith("The '*' shows parameters")
        assert next(line for line in lines if "ATS_ENABLED" in line).startswith("        ATS")

    def test_one_parameter_can_be_asked_for(self, bare: Desk) -> None:
        lines = bare.lines(f"{DX} q LINK_TYPE_P1")
        assert [line.split() for line in lines[10:]] == [["LINK_TYPE_P1", "ETH(2)"]]

    @pytest.mark.parametrize("device", [CX6_0, "24:00.0", "/dev/mt4125_pciconf0"])
    def test_a_nic_has_several_names(self, bare: Desk, device: str) -> None:
        assert bare.run_line(f"{MLXCONFIG} -d {device} q")[0] == 0

    def test_an_unknown_parameter_is_not_supported(self, bare: Desk) -> None:
        status, out, _ = bare.run_line(f"{DX} q NONSENSE")
        assert status != 0
        assert out.endswith("-E- The Device doesn't support NONSENSE parameter\n")

    def test_old_firmware_has_no_ats(self, bare: Desk) -> None:
        del bare.nic().firmware["ATS_ENABLED"]
        assert "ATS_ENABLED" not in bare.tell(f"{DX} q")

    @pytest.mark.parametrize("device", ["mt4125_pciconf7", "0000:ff:00.0"])
    def test_what_is_not_there_cannot_be_opened(self, bare: Desk, device: str) -> None:
        status, out, _ = bare.run_line(f"{MLXCONFIG} -d {device} q")
        assert status != 0
        assert out.startswith(f"-E- Failed to open device: {device}")

    def test_a_nic_that_is_passed_through_cannot_be_opened(self, bare: Desk) -> None:
        bare.pass_through(CX6_0)
        assert bare.run_line(f"{MLXCONFIG} -d {CX6_0} q")[0] != 0

    @pytest.mark.parametrize("words", ["", "-d x", "q", "-d x dance", "-d x set", "-d x -z q"])
    def test_bad_command_lines_are_refused(self, bare: Desk, words: str) -> None:
        status, out, _ = bare.run_line(f"{MLXCONFIG} {words}")
        assert status != 0
        assert out.startswith("-E- Invalid command line")


class TestSet:
    def test_values_wait_for_a_boot(self, bare: Desk) -> None:
        lines = bare.lines(f"{DX} -y set ATS_ENABLED=1 NUM_OF_VFS=8 LINK_TYPE_P1=IB")
        assert lines[9].split() == ["Configurations:", "Next", "Boot", "New"]
        assert lines[10].split() == ["ATS_ENABLED", "False(0)", "True(1)"]
        assert lines[-3:] == [
            " Apply new Configuration? (y/n) [n] : y",
            "Applying... Done!",
            "-I- Please reboot machine to load new configurations.",
        ]
        ats = bare.nic().firmware["ATS_ENABLED"]
        assert (ats.current, ats.next_boot) == ("False(0)", "True(1)")
        assert bare.nic().firmware["NUM_OF_VFS"].next_boot == "8"
        assert bare.nic().firmware["LINK_TYPE_P1"].next_boot == "IB(1)"
        assert bare.nic(CX6_1).firmware["ATS_ENABLED"].next_boot == "False(0)"
        restart(bare.esx, cold=False)
        assert bare.nic().is_on("ATS_ENABLED")

    def test_some_cards_want_the_power_off(self, bare: Desk) -> None:
        bare.nic().firmware_needs_cold_boot = True
        bare.tell(f"{DX} -y set ATS_ENABLED=true")
        restart(bare.esx, cold=False)
        assert not bare.nic().is_on("ATS_ENABLED")
        restart(bare.esx, cold=True)
        assert bare.nic().is_on("ATS_ENABLED")

    @pytest.mark.parametrize(
        "words",
        ["ATS_ENABLED=1 NONSENSE=1", "ATS_ENABLED=1 SRIOV_EN=maybe", "NUM_OF_VFS=many", "LINK_TYPE_P1=7"],
    )
    def test_all_are_set_or_none(self, bare: Desk, words: str) -> None:
        status, out, _ = bare.run_line(f"{DX} -y set {words}")
        assert status != 0
        assert "-E- " in out
        assert all(known.next_boot == known.current for known in bare.nic().firmware.values())

    def test_nobody_answers_the_question(self, bare: Desk) -> None:
        status, out, _ = bare.run_line(f"{DX} set ATS_ENABLED=1")
        assert status != 0
        assert "Apply new Configuration? (y/n) [n] : n" in out
        assert bare.nic().firmware["ATS_ENABLED"].next_boot == "False(0)"
