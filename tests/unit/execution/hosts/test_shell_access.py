from __future__ import annotations

import pytest

from tests.fakes.fake_hosts import FakeHosts
from tests.unit.execution.host_makers import (
    FIRMWARE,
    LIVE,
    MIG,
    OPEN,
    change,
    enter,
    estate,
    in_order,
    leave,
    only,
    reboot,
    run,
    shut_down,
    tools_for,
)
from tests.unit.execution.makers import statuses
from vgpu_cfg.changes.change import Change
from vgpu_cfg.errors import HostShellError, NotPermitted, Unreachable, VCenterError
from vgpu_cfg.execution import HostTools
from vgpu_cfg.execution.hosts.shell_access import nic_addresses
from vgpu_cfg.model.observed.host_facts import SHELL_GROUPS
from vgpu_cfg.model.observed.inventory import HostNic, PciDevice
from vgpu_cfg.model.plan_file import AccessEntry
from vgpu_cfg.ports import HostShell

ONLY_IF_ON = AccessEntry(ssh="on")


def shell_of(tools: HostTools, server: FakeHosts) -> HostShell:
    (host,) = server.read_hosts(["host-1"])
    facts = server.read_facts(["host-1"], frozenset()).hosts["host-1"]
    tools.marks.take(host, facts)
    return tools.shells.shell(host, facts)


def test_a_service_that_does_not_run_is_marked_started_and_stopped_again() -> None:
    server = estate()
    with tools_for(server) as tools:
        shell_of(tools, server)
        mark = server.host("esx-01").mark
        assert mark is not None
        assert (mark.opened_ssh, mark.maintenance) == (True, False)
        opened = tools.shells.opened
    assert (opened, tools.shells.opened) == (("esx-01",), ())
    assert server.asked() == [
        ("set_host_attribute", "esx-01 vgpu_cfg.host"),
        ("start_service", "esx-01 TSM-SSH"),
        ("stop_service", "esx-01 TSM-SSH"),
        ("set_host_attribute", "esx-01 vgpu_cfg.host"),
    ]
    assert server.host("esx-01").mark is None


@pytest.mark.parametrize("access", [OPEN, ONLY_IF_ON])
def test_a_service_that_runs_already_is_used_and_left_running(access: AccessEntry) -> None:
    server = estate()
    server.host("esx-01").services["TSM-SSH"] = True
    with tools_for(server, access=access) as tools:
        shell_of(tools, server)
    assert server.asked() == []
    assert server.host("esx-01").services["TSM-SSH"]
    assert ("log_out", "esx-01") in server.calls


def test_what_a_run_that_broke_off_had_started_is_stopped_by_the_next_one() -> None:
    server = estate()
    server.host("esx-01").services["TSM-SSH"] = True
    server.host("esx-01").set_mark(opened_ssh=True)
    with tools_for(server) as tools:
        shell_of(tools, server)
    assert not server.host("esx-01").services["TSM-SSH"]
    assert server.host("esx-01").mark is None
    assert server.asked("start_service") == []


@pytest.mark.parametrize("is_running", [True, False])
def test_what_a_broken_run_owed_is_paid_by_a_run_that_needs_no_shell(is_running: bool) -> None:
    server = estate()
    server.host("esx-01").services["TSM-SSH"] = is_running
    server.host("esx-01").set_mark(opened_ssh=True)
    report, _ = run(server, change(LIVE), access=None)
    assert statuses(report) == {"set live on esx-01": "done"}
    assert not server.host("esx-01").services["TSM-SSH"]
    assert server.host("esx-01").mark is None
    assert len(server.asked("stop_service")) == is_running


def test_the_shell_can_be_read_before_there_is_a_plan() -> None:
    server = estate()
    (host,) = server.read_hosts(["host-1"])
    own = HostNic(device="vmnic2", pci_id="0000:3c:00.0")
    function = PciDevice(pci_id="0000:b0:00.0", vendor_id=0x15B3, device_id=0x101D, passthrough_active=True)
    handed_out = HostNic(device="vmnic3", pci_id="0000:b0:00.0", pci=function)
    host = host.model_copy(update={"nics": (own, handed_out)})
    assert nic_addresses(host) == ("0000:3c:00.0",)
    facts = server.read_facts(["host-1"], frozenset()).hosts["host-1"]
    with tools_for(server) as tools:
        assert tools.shells.read(host, facts, SHELL_GROUPS).driver_version == "580.95"
        tools.shells.read(host, facts, SHELL_GROUPS)
    assert server.host("esx-01").logins == 1
    assert not server.host("esx-01").services["TSM-SSH"]


def test_a_login_that_has_died_is_not_used_again() -> None:
    server = estate(refused={("read_shell", 2): HostShellError("the connection is gone")})
    report, _ = run(server, change(MIG))
    assert statuses(report) == {"set mig on esx-01": "done"}
    assert server.host("esx-01").logins == 2


@pytest.mark.parametrize(
    ("access", "words"),
    [
        (ONLY_IF_ON, "the host's SSH service is not running, and the plan file does not allow starting it"),
        (AccessEntry(ssh="off"), "the plan file does not allow access to the host's shell"),
        (None, "the plan file does not allow access to the host's shell"),
    ],
)
def test_nobody_opens_what_the_plan_file_does_not_open(access: AccessEntry | None, words: str) -> None:
    server = estate()
    with tools_for(server, access=access) as tools, pytest.raises(HostShellError, match=words):
        shell_of(tools, server)
    assert server.asked() == []


def test_without_anything_that_logs_in_there_is_no_shell() -> None:
    server = estate()
    with tools_for(server, logins=None) as tools:
        assert not tools.shells.is_allowed("host-1")
        with pytest.raises(HostShellError):
            shell_of(tools, server)


@pytest.mark.parametrize("lockdown", ["lockdownNormal", "lockdownStrict"])
def test_lockdown_mode_is_respected(lockdown: str) -> None:
    server = estate()
    server.host("esx-01").lockdown = lockdown
    server.host("esx-01").services["TSM-SSH"] = True
    report, _ = run(server, change(MIG))
    assert f"the host is in lockdown mode ({lockdown})" in only(report).message
    assert ("connect", "esx-01") not in server.calls
    assert server.asked() == []


def test_one_login_serves_all_commands_of_a_host_and_each_host_has_its_own() -> None:
    server = estate(2)
    steps = in_order(change(MIG), change(FIRMWARE))
    others = [change(MIG, "esx-02")]
    report, _ = run(server, *steps, *others)
    assert set(statuses(report).values()) == {"done"}
    assert [host.logins for host in server.hosts.values()] == [1, 1]
    assert not any(host.services["TSM-SSH"] for host in server.hosts.values())


def test_a_login_that_fails_for_good_still_closes_what_was_opened() -> None:
    server = estate(login_refusals=99)
    report, _ = run(server, change(MIG))
    assert only(report).message == "connection refused"
    assert not server.host("esx-01").services["TSM-SSH"]
    assert server.host("esx-01").mark is None


def test_a_service_that_cannot_be_started_fails_the_change() -> None:
    server = estate(refused={("start_service", 1): NotPermitted("you may not start services")})
    report, _ = run(server, change(MIG))
    assert only(report).message == "you may not start services"


def test_a_service_that_cannot_be_stopped_is_told_and_the_mark_keeps_it() -> None:
    server = estate(refused={("stop_service", n): VCenterError("not now") for n in (1, 2, 3)})
    report, _ = run(server, change(MIG))
    assert "esx-01: its SSH service is still running: not now" in map(str, report.left_behind)
    mark = server.host("esx-01").mark
    assert mark is not None
    assert mark.opened_ssh


@pytest.mark.parametrize("what", ["reboot_host", "shut_down_host"])
@pytest.mark.parametrize("how", ["refused", "failed"])
def test_a_host_that_refuses_to_go_down_has_its_shell_closed(what: str, how: str) -> None:
    server = estate()
    if how == "refused":
        server.refused = {(what, 1): VCenterError("not in this state")}
    else:
        server.failures = {(f"{what} task", 1): ("HostPowerOpFailed", "It did not go down.")}
    going = reboot(settles=(MIG,)) if what == "reboot_host" else shut_down()
    report, _ = run(server, *in_order(enter(), change(MIG), going))
    assert list(statuses(report).values()) == ["done", "done", "failed"]
    assert len(server.asked("start_service")) == len(server.asked("stop_service")) == 1
    assert not server.host("esx-01").services["TSM-SSH"]
    mark = server.host("esx-01").mark
    assert mark is not None
    assert not mark.opened_ssh


def test_a_host_that_answers_long_after_it_was_told_to_shut_down_has_its_shell_closed() -> None:
    server = estate(never_back=True)
    report, _ = run(server, *in_order(enter(), change(MIG), shut_down()))
    assert "is still responding 45 min after the shutdown request" in report.outcomes[2].message
    assert not server.host("esx-01").services["TSM-SSH"]


def test_where_nobody_knows_whether_a_host_goes_down_its_shell_is_left_to_the_next_run() -> None:
    server = estate(refused={("reboot_host", 1): Unreachable("the connection broke")})
    run(server, *in_order(enter(), change(MIG), reboot(settles=(MIG,))))
    assert server.asked("stop_service") == []
    mark = server.host("esx-01").mark
    assert mark is not None
    assert mark.opened_ssh


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), RuntimeError("a bug")])
def test_whatever_ends_a_run_the_shell_is_closed(raised: BaseException) -> None:
    server = estate(raise_at_wait=dict.fromkeys(range(1, 9), raised))
    # The enter task is what is waited for when it happens; the shell was opened before.
    changes: list[Change] = [
        change(MIG),
        enter("esx-01", "set mig on esx-01"),
        leave("esx-01", "enter esx-01"),
    ]
    if isinstance(raised, KeyboardInterrupt):
        report, _ = run(server, *changes)
        assert report.is_interrupted
    else:
        with pytest.raises(RuntimeError):
            run(server, *changes)
    assert len(server.asked("start_service")) == 1
    assert not server.host("esx-01").services["TSM-SSH"]


def test_a_host_that_leaves_maintenance_mode_has_its_shell_closed_there_and_then() -> None:
    server = estate()
    changes = in_order(enter(), change(MIG), leave(), change(LIVE))
    run(server, *changes)
    names = [method for method, _ in server.asked("stop_service", "write_host", "start_service")]
    assert names == ["start_service", "stop_service", "write_host"]
