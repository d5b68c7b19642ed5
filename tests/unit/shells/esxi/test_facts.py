from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.unit.parsers.printed import printed
from tests.unit.shells.esxi.scripted import ScriptedChannel
from vgpu_cfg.errors import HostShellError
from vgpu_cfg.model.observed.host_facts import (
    LINKS_UNREAD,
    MIG_UNREAD,
    SHELL_GROUPS,
    FactGroup,
    GpuShellFacts,
    MigInstance,
    ShellFacts,
)
from vgpu_cfg.ports import ShellResult
from vgpu_cfg.shells.channel import Executed
from vgpu_cfg.shells.esxi.shell import EsxiShell

SMI = "nvidia-smi -q"
MST = "/opt/mellanox/bin/mst status -vv"
GPUS = frozenset({FactGroup.SHELL_GPUS})
NICS = frozenset({FactGroup.SHELL_NICS})
TOPO = "nvidia-smi topo -m"
INDEX = "nvidia-smi --query-gpu=index,gpu_bus_id,name --format=csv"
LINKS = frozenset({FactGroup.SHELL_TOPOLOGY})
LGI = "nvidia-smi mig -lgi"
MIG = frozenset({FactGroup.SHELL_MIG})
TABLE = """\
index, pci.bus_id, name
0, 00000000:4A:00.0, NVIDIA A100 80GB PCIe
1, 00000000:61:00.0, NVIDIA A100 80GB PCIe
2, 00000000:CA:00.0, NVIDIA A100 80GB PCIe
3, 00000000:E1:00.0, NVIDIA A100 80GB PCIe
"""
PORTS = ("0000:3b:00.0", "0000:3b:00.1")


def query(device: str) -> str:
    return f"/opt/mellanox/bin/mlxconfig -d {device} -e query"


def said(name: str, status: int = 0) -> ShellResult:
    return ShellResult(status=status, stdout=printed(name))


def facts(
    answers: Mapping[str, ShellResult], groups: frozenset[FactGroup], nics: tuple[str, ...] = PORTS
) -> tuple[ShellFacts, list[str]]:
    channel = ScriptedChannel(answers)
    return EsxiShell(channel, "esx01.example").read_facts(groups, nics), channel.lines


def test_gpus_are_asked_once_for_all() -> None:
    found, lines = facts({SMI: said("query-2xa100-esxi-mig-pending.txt")}, GPUS)
    assert found.gpus["0000:36:00.0"] == GpuShellFacts(
        mig_current=False,
        mig_pending=True,
        ecc_current=True,
        ecc_pending=True,
        host_vgpu_mode="SR-IOV",
        module_id=1,
    )
    assert (found.driver_version, found.unread, found.firmware) == ("550.127.06", {}, {})
    assert lines == [SMI]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (ShellResult(status=127, stderr="sh: nvidia-smi: not found\n"), "install the NVIDIA host driver"),
        (said("query-driver-not-loaded.txt", 9), "couldn't communicate with the NVIDIA driver"),
        (said("query-no-devices.txt", 6), "No devices were found"),
        (ShellResult(status=255, stderr="Failed to initialize NVML: Unknown Error\n"), "initialize NVML"),
        (ShellResult(status=0, stdout="hello\n"), "no GPU section"),
        (ShellResult(status=0), "printed nothing"),
        (said("query-2xa100-esxi-mig-pending.txt", 15), "failed with exit code 15"),
    ],
)
def test_what_nvidia_smi_does_not_tell_has_its_reason(answer: ShellResult, reason: str) -> None:
    found, _ = facts({SMI: answer}, GPUS)
    assert reason in found.unread[""]
    assert found.gpus == {}


def test_one_gpu_that_is_not_understood_hides_no_other() -> None:
    found, _ = facts({SMI: said("query-one-gpu-with-a-new-word.txt")}, GPUS)
    assert list(found.gpus) == ["0000:d8:00.0"]
    assert list(found.unread) == ["0000:36:00.0"]
    assert "Half Way" in found.unread["0000:36:00.0"]


def test_gpus_that_are_counted_and_not_shown_are_missed() -> None:
    found, _ = facts({SMI: said("query-one-of-four.txt")}, GPUS)
    assert list(found.gpus) == ["0001:c8:00.0"]
    assert found.unread[""] == "nvidia-smi lists 1 of 4 attached GPUs"


def test_nics_are_asked_by_msts_name() -> None:
    answers = {
        MST: said("mst-status-vv-native.txt"),
        query("mt4125_pciconf0"): said("mlxconfig-query-e-cx6dx.txt"),
        query("mt4125_pciconf0.1"): said("mlxconfig-query-cx3-next-boot-only.txt"),
    }
    found, lines = facts(answers, NICS)
    assert found.firmware[PORTS[0]]["ATS_ENABLED"].current == "True"
    assert found.firmware[PORTS[1]]["SRIOV_EN"].next_boot == "True"
    assert found.unread == {}
    assert lines == [MST, query("mt4125_pciconf0"), query("mt4125_pciconf0.1")]


@pytest.mark.parametrize(("status", "has_tools"), [(126, False), (127, False), (3, True), (0, True)])
def test_whether_nvidias_firmware_tools_are_there_is_a_fact(status: int, *, has_tools: bool) -> None:
    answer = ShellResult(
        status=status, stdout="-E- Failed to open device: 24:00.0. No such file or directory"
    )
    found, _ = facts({query(PORTS[0]): answer}, NICS, PORTS[:1])
    assert found.has_firmware_tools is has_tools
    assert found.firmware == {}
    nobody_asked, _ = facts({}, NICS, ())
    assert nobody_asked.has_firmware_tools is None


def test_a_nic_that_does_not_answer_hides_no_other() -> None:
    answers = {
        query(PORTS[0]): said("mlxconfig-no-such-device.txt", 1),
        query(PORTS[1]): said("mlxconfig-query-e-cx6dx.txt"),
    }
    found, _ = facts(answers, NICS)
    assert list(found.firmware) == [PORTS[1]]
    assert "Failed to open device" in found.unread[PORTS[0]]
    assert "/opt/mellanox/bin/mst start" in found.unread[PORTS[0]]


def test_a_nic_that_tells_a_part_says_so() -> None:
    answers = {query(PORTS[0]): said("mlxconfig-query-e-some-tlvs-failed.txt", 1)}
    found, _ = facts(answers, NICS, PORTS[:1])
    assert found.firmware[PORTS[0]]["NUM_OF_VFS"].current == "8"
    assert "could not read all" in found.unread[PORTS[0]]


def test_a_nic_whose_answer_is_not_understood_has_its_reason() -> None:
    found, _ = facts({query(PORTS[0]): ShellResult(status=0, stdout="hello\n")}, NICS, PORTS[:1])
    assert "hello" in found.unread[PORTS[0]]


def test_without_the_tool_no_nic_is_read_and_one_is_asked() -> None:
    found, lines = facts({}, NICS)
    assert set(found.unread) == set(PORTS)
    assert "install NVIDIA's MFT" in found.unread[PORTS[1]]
    assert lines == [MST, query(PORTS[0])]


def test_links_are_asked_by_the_matrix_and_the_table() -> None:
    answers = {
        SMI: said("query-2xa100-esxi-mig-pending.txt"),
        TOPO: said("topo-4xa100-two-bridges.txt"),
        INDEX: ShellResult(status=0, stdout=TABLE),
    }
    found, lines = facts(answers, LINKS)
    assert found.links is not None
    assert found.links.links["0000:4a:00.0"]["0000:61:00.0"] == "NV12"
    assert found.links.numa_nodes["0000:e1:00.0"] == 1
    assert found.gpus["0000:36:00.0"].module_id == 1
    assert (found.unread, lines) == ({}, [SMI, TOPO, INDEX])


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ({}, "not installed on this host"),
        (
            {TOPO: said("topo-wrapped-by-a-terminal.txt"), INDEX: ShellResult(status=0, stdout=TABLE)},
            "NODENODE",
        ),
        (
            {TOPO: said("topo-4xa100-two-bridges.txt"), INDEX: ShellResult(status=0, stdout="oops")},
            "unknown PCI address of GPU0",
        ),
        ({TOPO: said("query-driver-not-loaded.txt", 9)}, "communicate with the NVIDIA driver"),
    ],
)
def test_links_that_are_not_told_have_their_reason(answers: dict[str, ShellResult], reason: str) -> None:
    found, _ = facts(answers, LINKS)
    assert found.links is None
    assert reason in found.unread[LINKS_UNREAD]


def test_both_groups_together_and_no_nic_asks_nothing() -> None:
    found, lines = facts({SMI: said("query-m60-old-driver-na.txt")}, GPUS | NICS, ())
    assert (list(found.gpus), lines) == (["0000:83:00.0"], [SMI])
    assert facts({}, frozenset({FactGroup.BASE})) == (ShellFacts(), [])


def test_what_all_groups_lack_stands_together() -> None:
    found, _ = facts({}, SHELL_GROUPS)
    assert set(found.unread) == {"", LINKS_UNREAD, MIG_UNREAD, *PORTS}


def test_a_connection_that_breaks_is_no_silence() -> None:
    class Broken(ScriptedChannel):
        def execute(self, line: str, timeout_seconds: float, stdin: bytes = b"") -> Executed:
            del line, timeout_seconds, stdin
            raise HostShellError("the connection broke", subject="esx01.example")

    with pytest.raises(HostShellError, match="broke"):
        EsxiShell(Broken(), "esx01.example").read_facts(SHELL_GROUPS, PORTS)


def test_where_mig_instances_stand_is_told_by_address() -> None:
    answers = {LGI: said("mig-lgi-two-instances.txt"), INDEX: ShellResult(status=0, stdout=TABLE)}
    found, lines = facts(answers, MIG)
    places = (MigInstance(start=0, size=2), MigInstance(start=4, size=2))
    assert (found.mig, found.unread) == ({"0000:ca:00.0": places}, {})
    assert lines == [LGI, INDEX]


@pytest.mark.parametrize("name", ["mig-lgi-none.txt", "mig-lgi-mig-off.txt"])
def test_a_host_without_instances_is_asked_no_addresses(name: str) -> None:
    found, lines = facts({LGI: said(name, 6)}, MIG)
    assert (found.mig, found.unread, lines) == ({}, {}, [LGI])


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ({LGI: ShellResult(status=127, stderr="sh: nvidia-smi: not found\n")}, "not installed on this host"),
        ({LGI: ShellResult(status=4, stdout="Insufficient Permissions\n")}, "Insufficient Permissions"),
        (
            {
                LGI: said("mig-lgi-two-instances.txt"),
                INDEX: ShellResult(status=0, stdout="\n".join(TABLE.splitlines()[:2])),
            },
            "no address for GPU2",
        ),
    ],
)
def test_instances_that_are_not_told_have_their_reason(answers: dict[str, ShellResult], reason: str) -> None:
    found, _ = facts(answers, MIG)
    assert found.mig is None
    assert reason in found.unread[MIG_UNREAD]
