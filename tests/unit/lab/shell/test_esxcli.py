"""esxcli on the shell: tables, paragraphs, options, and what it refuses."""

from __future__ import annotations

import pytest

from tests.unit.lab.shell.logged_in import CX6_0, GPU_0, Desk

BUNDLE = "/vmfs/volumes/vsan/NVD-AIE-800_580.95.02.zip"


def test_graphics_host_get_is_two_lines(desk: Desk) -> None:
    assert desk.lines("esxcli graphics host get") == [
        "   Default Graphics Type: SharedPassthru",
        "   Shared Passthru Assignment Policy: Performance",
    ]


def test_graphics_host_set_configures_and_waits(desk: Desk) -> None:
    line = "esxcli graphics host set --default-type Shared --shared-passthru-assignment-policy=Consolidation"
    assert desk.tell(line) == ""
    assert desk.esx.configured_default_graphics_type == "shared"
    assert desk.esx.configured_assignment_policy == "consolidation"
    assert desk.gpu().graphics_type == "sharedDirect"
    desk.tell("/etc/init.d/xorg restart")
    assert "   Graphics Type: Shared" in desk.lines("esxcli graphics device list")


@pytest.mark.parametrize("option", ["--default-type Direct", "--shared-passthru-assignment-policy Best"])
def test_graphics_host_set_refuses_other_words(desk: Desk, option: str) -> None:
    status, out, err = desk.run_line(f"esxcli graphics host set {option}")
    assert (status, out) == (1, "")
    assert err.startswith("Invalid value")
    assert desk.esx.configured_default_graphics_type == "sharedDirect"


def test_graphics_device_list_is_a_paragraph_per_gpu(desk: Desk) -> None:
    assert desk.lines("esxcli graphics device list")[:8] == [
        "0000:21:00.0",
        "   Vendor Name: NVIDIA Corporation",
        "   Device Name: NVIDIA A100 PCIe 40GB",
        "   Module Name: nvidia",
        "   Graphics Type: Shared Passthru",
        "   Memory Size in KB: 41943040",
        "   Number of VMs: 0",
        "",
    ]


def test_graphics_device_list_leaves_out_what_is_passed_through(desk: Desk) -> None:
    desk.pass_through(GPU_0)
    assert [line for line in desk.lines("esxcli graphics device list") if line[:1].isdigit()] == [
        "0000:e2:00.0"
    ]


def test_graphics_device_list_without_a_driver(bare: Desk) -> None:
    lines = bare.lines("esxcli graphics device list")
    assert "   Module Name: None" in lines
    assert "   Graphics Type: Basic" in lines
    assert "   Memory Size in KB: 0" in lines


def test_pci_list_tells_owner_and_node(desk: Desk) -> None:
    desk.pass_through(CX6_0)
    part = desk.tell("esxcli hardware pci list").split(f"\n\n{CX6_0}\n")[1].split("\n\n", maxsplit=1)[0]
    assert f"   Address: {CX6_0}\n" in part
    assert "   VMkernel Name: \n" in part
    assert "   Module Name: pciPassthru\n" in part
    assert "   Current Owner: VM Passthru\n" in part
    assert part.endswith("   NUMA Node: 0")


def test_kernel_settings_are_a_table_two_blanks_apart(desk: Desk) -> None:
    assert desk.lines("esxcli system settings kernel list -o atsSupport") == [
        "Name        Type  Configured  Runtime  Default  Description",
        "----------  ----  ----------  -------  -------  ----------------------------",
        "atsSupport  Bool  TRUE        TRUE     TRUE     Enable Support for PCIe ATS.",
    ]
    assert len(desk.lines("esxcli system settings kernel list")) == 2 + len(desk.esx.kernel)


@pytest.mark.parametrize(
    "options", ["-s atsSupport -v FALSE", "-s=atsSupport -v=FALSE", "--setting atsSupport --value=false"]
)
def test_a_kernel_setting_waits_for_a_boot(desk: Desk, options: str) -> None:
    assert desk.tell(f"esxcli system settings kernel set {options}") == ""
    assert desk.lines("esxcli system settings kernel list --option=atsSupport")[2].split()[2:4] == [
        "FALSE",
        "TRUE",
    ]


def test_module_parameters_are_replaced_or_added_to(desk: Desk) -> None:
    base = "esxcli system module parameters"
    assert desk.tell(f"{base} set -m nmlx5_core -p 'pfctx=0x08 pfcrx=0x08'") == ""
    assert desk.tell(f"{base} set --module nmlx5_core -a -p 'trust_state=2'") == ""
    assert desk.esx.modules["nmlx5_core"].configured == "pfctx=0x08 pfcrx=0x08 trust_state=2"
    table = desk.lines(f"{base} list -m nmlx5_core")
    assert table[0] == "Name         Type           Value  Description"
    assert ["pfctx", "uint", "0x08"] in [line.split() for line in table]
    desk.tell(f"{base} set -m nmlx5_core -p dcbx=1")
    assert desk.esx.modules["nmlx5_core"].configured == "dcbx=1"


def test_flow_control_is_that_of_the_boot(desk: Desk) -> None:
    desk.tell("esxcli system module parameters set -m nmlx5_core -p pfctx=0x08")
    line = "esxcli network nic dcb status get -n vmnic2"
    assert "   PFC Configuration: 0 0 0 0 0 0 0 0" in desk.lines(line)
    desk.esx.modules["nmlx5_core"].at_boot = "pfctx=0x08"
    assert desk.lines(line)[-2:] == ["   PFC Enabled: true", "   PFC Configuration: 0 0 0 1 0 0 0 0"]


def test_packages_are_listed(desk: Desk) -> None:
    lines = desk.lines("esxcli software vib list")
    assert lines[0].split("  ")[-1] == "Platforms"
    assert any(line.startswith("NVD-AIE_ESXi_8.0.0_Driver  580.95.02-1OEM") for line in lines)
    assert desk.tell("esxcli software vib list --rebooting-image") == ""


def test_a_bundle_is_installed_for_the_next_boot(bare: Desk) -> None:
    bare.esx.in_maintenance = True
    lines = bare.lines(f"esxcli software vib install -d {BUNDLE}")
    assert lines[0] == "Installation Result"
    assert lines[1].startswith(
        "   Message: The update completed successfully, but the system needs to be rebooted"
    )
    assert "   Reboot Required: true" in lines
    assert any(line.startswith("   VIBs Installed: NVIDIA_bootbank_NVD-AIE") or "_bootbank_NVD-AIE" in line
               for line in lines)  # fmt: skip
    assert bare.esx.driver is None
    assert list(bare.esx.staged) == ["NVD-AIE_ESXi_8.0.0_Driver"]
    daemon = BUNDLE.replace("NVD-AIE-800", "nvd-gpu-mgmt-daemon")
    bare.lines(f"esxcli software vib install -d {daemon}")
    assert list(bare.esx.staged) == ["NVD-AIE_ESXi_8.0.0_Driver", "nvdgpumgmtdaemon"]


def test_a_bundle_needs_maintenance_mode(bare: Desk) -> None:
    status, _, err = bare.run_line(f"esxcli software vib install -d {BUNDLE}")
    assert status == 1
    assert "[MaintenanceModeError]" in err
    assert not bare.esx.staged


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("esxcli foo bar", "Error: Unknown command or namespace foo bar"),
        ("esxcli", "Error: Unknown command or namespace"),
        ("esxcli graphics", "Error: Unknown command or namespace graphics"),
        ("esxcli system settings kernel set -s atsSupport", "Error: Missing required parameter -v|--value"),
        ("esxcli system settings kernel list -x y", "Error: Invalid option -x"),
        ("esxcli system settings kernel list -o", "Error: Option -o needs a value"),
        ("esxcli system settings kernel list -o nonsense", "Unable to find kernel setting 'nonsense'"),
        ("esxcli system settings kernel set -s atsSupport -v maybe", "Invalid value 'maybe'"),
        ("esxcli system module parameters list -m nonsense", "Unknown module 'nonsense'"),
        ("esxcli network nic dcb status get -n vmnic9", "Unable to find nic vmnic9"),
    ],
)
def test_what_cannot_be_is_refused(desk: Desk, line: str, said: str) -> None:
    status, out, err = desk.run_line(line)
    assert (status, out) == (1, "")
    assert err.startswith(said)
    assert desk.esx.kernel["atsSupport"].configured == "TRUE"
