from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.shells.esxi.scripted import ScriptedChannel
from vgpu_cfg.errors import HostShellError
from vgpu_cfg.ports import HostShell, ShellResult
from vgpu_cfg.shells.esxi.shell import EsxiShell

MST = "/opt/mellanox/bin/mst status -vv"
MST_LISTS = ShellResult(
    status=0,
    stdout="PCI devices:\n------------\n"
    "DEVICE_TYPE          MST                 PCI       RDMA    NET           NUMA\n"
    "ConnectX6DX(rev:0)   mt4125_pciconf0     3b:00.0           net-vmnic4\n"
    "ConnectX6DX(rev:0)   mt4125_pciconf0.1   3b:00.1           net-vmnic5\n",
)


def shell_on(channel: ScriptedChannel) -> HostShell:
    return EsxiShell(channel, "esx01.example")


@given(st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=12), min_size=1))
def test_every_argument_is_one_word_of_the_line(arguments: list[str]) -> None:
    channel = ScriptedChannel()
    shell_on(channel).run(["printf", *arguments])
    assert shlex.split(channel.lines[-1]) == ["printf", *arguments]


def test_a_status_is_returned_with_what_was_printed() -> None:
    channel = ScriptedChannel({"esxcli bad": ShellResult(status=1, stderr="Error: bad\n")})
    result = shell_on(channel).run(["esxcli", "bad"], timeout_seconds=5)
    assert (result.status, result.stderr) == (1, "Error: bad\n")
    assert channel.times == [5]


def test_a_nul_goes_nowhere() -> None:
    channel = ScriptedChannel()
    with pytest.raises(HostShellError, match="NUL") as caught:
        shell_on(channel).run(["echo", "a\0b"])
    assert (caught.value.subject, channel.lines) == ("esx01.example", [])


def test_a_command_without_words_is_a_bug() -> None:
    with pytest.raises(ValueError, match="at least one word"):
        shell_on(ScriptedChannel()).run([])


def test_closing_hangs_up() -> None:
    channel = ScriptedChannel()
    shell_on(channel).close()
    assert channel.is_closed


def test_mlxconfig_gets_msts_name_of_a_device_asked_once() -> None:
    channel = ScriptedChannel({MST: MST_LISTS})
    shell = shell_on(channel)
    shell.run(["/opt/mellanox/bin/mlxconfig", "-d", "0000:3b:00.1", "-y", "set", "ATS_ENABLED=1"])
    shell.run(["/opt/mellanox/bin/mlxconfig", "-y", "-d", "0000:3B:00.0", "set", "SRIOV_EN=1"])
    assert channel.lines == [
        MST,
        "/opt/mellanox/bin/mlxconfig -d mt4125_pciconf0.1 -y set ATS_ENABLED=1",
        "/opt/mellanox/bin/mlxconfig -y -d mt4125_pciconf0 set SRIOV_EN=1",
    ]


@pytest.mark.parametrize(
    "answers",
    [
        {},
        {MST: MST_LISTS},
        {MST: ShellResult(status=0, stdout="what is this\n")},
        {MST: ShellResult(status=1, stdout=MST_LISTS.stdout)},
    ],
)
def test_a_device_that_mst_does_not_list_stays_an_address(answers: dict[str, ShellResult]) -> None:
    channel = ScriptedChannel(answers)
    shell_on(channel).run(["mlxconfig", "-d", "0000:af:00.0", "query"])
    assert channel.lines == [MST, "mlxconfig -d 0000:af:00.0 query"]


@pytest.mark.parametrize(
    "words",
    [
        ["mlxconfig", "-d", "mt4125_pciconf0", "query"],
        ["mlxconfig", "query", "-d"],
        ["other", "-d", "0000:3b:00.0"],
    ],
)
def test_other_commands_stay_as_they_are(words: list[str]) -> None:
    channel = ScriptedChannel({MST: MST_LISTS})
    shell_on(channel).run(words)
    assert channel.lines[-1] == shlex.join(words)
