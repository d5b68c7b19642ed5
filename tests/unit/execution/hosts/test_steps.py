from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.fakes.fake_hosts import FakeHosts
from tests.fakes.fake_locks import undisputed
from tests.unit.execution.host_makers import (
    ATS,
    ATS_IN_SHELL,
    BIOS,
    FIRMWARE,
    GRAPHICS,
    LIVE,
    MIG,
    NVIDIA,
    change,
    enter,
    estate,
    in_order,
    leave,
    only,
    restart,
    run,
    tools_for,
)
from tests.unit.execution.makers import plan_of, statuses
from vgpu_cfg.changes.kinds.change_host import EsxcliWrite, OptionWrite, ShellWrite, VmknicWrite
from vgpu_cfg.changes.report import SettingReading
from vgpu_cfg.changes.values import SettingTarget
from vgpu_cfg.errors import NotOffered, NotPermitted, Unreachable, VCenterError
from vgpu_cfg.execution import Run, RunOptions
from vgpu_cfg.execution.hosts.session import HostSession
from vgpu_cfg.execution.hosts.steps import change_host, esxcli_command
from vgpu_cfg.execution.run.session import RunSession
from vgpu_cfg.model.observed.vm import VgpuDevice, VmDetail
from vgpu_cfg.model.plan_file import AccessEntry

DOWN = {"maintenance": True, "reason": "sets ats"}


def prepared(**mark: Any) -> FakeHosts:
    """Make an estate whose one host is down under the plan's mark."""
    server = estate()
    server.host("esx-01").maintenance = True
    server.host("esx-01").set_mark(**DOWN | mark)
    return server


# ------------------------------------------------------------- one thing at a time, each with its twin


def test_what_holds_at_once_must_show_and_then_needs_nothing() -> None:
    server = estate()
    report, _ = run(server, change(LIVE))
    assert statuses(report) == {"set live on esx-01": "done"}
    assert only(report).readings == (
        SettingReading(setting="live", wanted="on", configured="on", runtime="on"),
    )
    assert server.asked() == [("write_host", "esx-01 option")]
    report, _ = run(server, change(LIVE))
    assert statuses(report) == {"set live on esx-01": "not_needed"}
    assert only(report).message == "already done"
    assert len(server.asked()) == 1


def test_what_waits_for_a_reboot_is_marked_before_it_is_written_and_must_be_configured() -> None:
    server = estate()
    report, _ = run(server, change(ATS))
    assert server.asked() == [
        ("set_host_attribute", "esx-01 vgpu_cfg.host"),
        ("write_host", "esx-01 esxcli"),
    ]
    host = server.host("esx-01")
    assert host.mark is not None
    assert host.mark.waiting == {"ats": host.boot_time}
    assert only(report).message == "pending reboot"
    (reading,) = only(report).readings
    assert (reading.configured, reading.runtime, reading.waits_for) == ("TRUE", "FALSE", "reboot")
    assert tuple(map(str, report.left_behind)) == ("esx-01: restart pending: ats",)
    report, _ = run(server, change(ATS))
    assert statuses(report) == {"set ats on esx-01": "not_needed"}
    assert only(report).message == "already set; pending reboot"
    assert len(server.asked()) == 2


def test_where_nobody_tells_what_is_in_force_the_mark_says_that_a_reboot_is_due() -> None:
    server = estate()
    report, _ = run(server, change(NVIDIA))
    assert report.tasks == 1
    (reading,) = only(report).readings
    assert (reading.configured, reading.runtime, reading.waits_for) == ("NVreg=1", "NVreg=1", "reboot")
    server.switch_on("esx-01")
    report, _ = run(server, change(NVIDIA))
    assert only(report).message == "already done"


def test_a_value_that_does_not_show_is_not_confirmed() -> None:
    server = estate()
    server.host("esx-01").deaf = {"live"}
    report, _ = run(server, change(LIVE))
    assert only(report).message == "esx-01 does not have the requested settings: live is off, not on"
    assert only(report).readings[0].configured == "off"


def test_a_value_that_is_configured_and_not_in_force_at_once_is_not_confirmed() -> None:
    server = estate()
    server.host("esx-01").stuck = {"live"}
    report, _ = run(server, change(LIVE))
    assert "live is set to on, pending reboot" in only(report).message


def test_a_refused_write_fails_in_vcenters_words_and_leaves_no_mark() -> None:
    server = estate(refused={("write_host", 1): VCenterError("not now", remedy="later")})
    report, _ = run(server, change(ATS))
    assert (only(report).message, only(report).remedy) == ("not now", "later")
    assert server.host("esx-01").mark is None


def test_a_task_that_fails_takes_its_setting_off_the_mark_and_keeps_the_others() -> None:
    server = estate(failures={("module task", 1): ("HostConfigFault", "no such module")})
    server.host("esx-01").set_mark(waiting={"ats": server.host("esx-01").boot_time})
    report, _ = run(server, change(NVIDIA))
    assert "no such module" in only(report).message
    mark = server.host("esx-01").mark
    assert mark is not None
    assert set(mark.waiting) == {"ats"}


def test_a_write_whose_answer_was_lost_stays_on_the_mark() -> None:
    server = estate(refused={("write_host", 1): Unreachable("the connection broke")})
    report, _ = run(server, change(ATS))
    assert "it is unknown whether vCenter received the request" in only(report).message
    mark = server.host("esx-01").mark
    assert mark is not None
    assert set(mark.waiting) == {"ats"}


def test_a_setting_that_cannot_be_read_is_never_written_blindly() -> None:
    server = estate()
    server.host("esx-01").silent = {"live"}
    report, _ = run(server, change(LIVE))
    assert "live could not be read: nobody tells" in only(report).message
    assert server.asked() == []


def test_several_settings_of_one_write_are_all_read_back() -> None:
    server = estate()
    write = OptionWrite(options={"live": "on", "ats": "TRUE"})
    both = change(LIVE, write=write, settings=(LIVE, ATS))
    report, _ = run(server, both)
    assert [reading.waits_for for reading in only(report).readings] == ["", "reboot"]
    mark = server.host("esx-01").mark
    assert mark is not None
    assert set(mark.waiting) == {"ats"}
    report, _ = run(server, both)
    assert statuses(report) == {"set live on esx-01": "not_needed"}


def test_a_host_that_left_maintenance_mode_between_two_steps_is_not_written_to() -> None:
    server = estate()

    def back(event: Any) -> None:
        if event.change_id == "enter esx-01" and event.status is not None:
            server.host("esx-01").maintenance = False

    plan = plan_of(*in_order(enter(), change(ATS)))
    report = Run(
        plan, server, server, server, locks=undisputed(), hosts=tools_for(server), on_event=back
    ).carry_out()
    assert "esx-01 exited maintenance mode before the work was complete" in report.outcomes[1].message
    assert server.written == []


def test_another_plans_mark_keeps_a_host_from_being_written_to() -> None:
    server = estate()
    server.host("esx-01").set_mark(plan="other")
    report, _ = run(server, change(LIVE))
    assert "plan other has been working on esx-01" in only(report).message
    assert server.written == []


def test_a_host_that_does_not_answer_is_waited_for_only_if_this_plan_took_it_down() -> None:
    server = estate()
    server.host("esx-01").connected = False
    report, _ = run(server, change(LIVE))
    assert "esx-01 is not responding (notResponding)" in only(report).message
    server = prepared()
    server.host("esx-01").connected = False
    server.host("esx-01").comes_back_at = server.time + timedelta(minutes=20)
    report, _ = run(server, change(LIVE))
    assert statuses(report) == {"set live on esx-01": "done"}


# ------------------------------------------------------------- ways


def test_the_other_way_is_taken_where_the_first_is_not_offered_and_only_then() -> None:
    other = OptionWrite(options={"ats": "TRUE"})
    server = estate(refused={("write_host", 1): NotOffered("no esxcli here")})
    report, events = run(server, change(ATS, other_way=other))
    assert statuses(report) == {"set ats on esx-01": "done"}
    assert [write.kind for _, write in server.written] == ["option"]
    assert "no esxcli here; using the alternative method" in [event.message for event in events]
    server = estate(refused={("write_host", 1): NotPermitted("you may not")})
    report, _ = run(server, change(ATS, other_way=other))
    assert statuses(report) == {"set ats on esx-01": "failed"}
    assert server.written == []


def test_esxcli_goes_over_the_shell_where_vcenter_does_not_offer_it() -> None:
    server = estate(refused={("write_host", 1): NotOffered("no esxcli here")})
    report, _ = run(server, change(ATS))
    assert statuses(report) == {"set ats on esx-01": "done"}
    assert server.commands == [
        ("esxcli", "system", "settings", "kernel", "set", "--setting=ats", "--value=TRUE")
    ]


def test_without_a_shell_and_without_another_way_what_is_not_offered_fails() -> None:
    server = estate(refused={("write_host", 1): NotOffered("no esxcli here")})
    report, _ = run(server, change(ATS), access=None)
    assert only(report).message == "no esxcli here"
    assert server.commands == []
    assert server.host("esx-01").mark is None


def test_an_option_that_is_listed_twice_is_given_twice() -> None:
    write = EsxcliWrite(command="software vib install", arguments=(("depot", "/a b"), ("depot", "/c")))
    assert esxcli_command(write) == ("esxcli", "software", "vib", "install", "--depot=/a b", "--depot=/c")


def test_commands_run_on_the_shell_and_the_first_that_fails_ends_them() -> None:
    server = estate()
    report, _ = run(server, change(MIG))
    assert statuses(report) == {"set mig on esx-01": "done"}
    assert server.commands == [("set", "mig", "on")]
    assert not server.host("esx-01").services["TSM-SSH"]
    server = estate(exit_statuses={"nvidia-smi": 3})
    commands = (("nvidia-smi", "-i", "0", "a b"), ("set", "mig", "on"))
    report, _ = run(server, change(MIG, write=ShellWrite(commands=commands)))
    said = "`nvidia-smi -i 0 'a b'` failed with status 3: nvidia-smi: it does not work"
    assert only(report).message == said
    assert server.commands == [commands[0]]


def test_a_setting_behind_a_shell_that_is_right_needs_nothing() -> None:
    server = estate()
    for states in (server.host("esx-01").configured, server.host("esx-01").runtime):
        states["mig"] = "on"
    report, _ = run(server, change(MIG))
    assert statuses(report) == {"set mig on esx-01": "not_needed"}
    assert server.commands == []


def test_a_broken_login_is_made_anew_for_the_next_command() -> None:
    server = estate()
    write = change(FIRMWARE)
    report, _ = run(server, change(MIG), write.model_copy(update={"needs": ("set mig on esx-01",)}))
    assert server.host("esx-01").logins == 1
    assert statuses(report) == {"set mig on esx-01": "done", "set firmware on esx-01": "done"}


def test_a_shell_that_the_plan_may_not_use_is_told() -> None:
    server = estate()
    report, _ = run(server, change(MIG), access=AccessEntry(ssh="off"))
    assert only(report).message == "the plan file does not allow access to the host's shell"
    assert server.asked("start_service") == []


def test_what_only_a_closed_shell_tells_is_written_by_another_way_and_not_read_back() -> None:
    server = estate()
    write = EsxcliWrite(command="graphics set", arguments=(("setting", "mig"), ("value", "on")))
    report, events = run(server, change(MIG, write=write), access=None)
    assert statuses(report) == {"set mig on esx-01": "done"}
    assert server.host("esx-01").configured["mig"] == "on"
    assert [event.message for event in events if "not verified" in event.message] == [
        "not verified because this plan has no access to the host's shell: mig"
    ]


def test_what_shows_without_the_shell_all_the_same_is_judged() -> None:
    server = estate()
    server.host("esx-01").deaf = {"ats"}
    report, _ = run(server, change(ATS_IN_SHELL, write=change(ATS).write), access=None)
    assert "ats_in_shell is FALSE, not TRUE" in only(report).message


def test_secrets_go_to_the_writer_alone() -> None:
    server = estate()
    _, events = run(server, change(LIVE))
    assert server.secrets_seen == [{"esxi": "hidden"}]
    assert not any("hidden" in event.message for event in events)


def test_a_vmknic_on_a_network_that_this_run_makes_gets_its_id() -> None:
    server = estate()
    wanted = SettingTarget(setting="live", value="dvportgroup-7")
    step = change(wanted, write=VmknicWrite(network_name="roce-111"))
    session = RunSession(
        plan_of(step),
        server,
        server,
        server,
        RunOptions(),
        undisputed(),
        networks={"roce-111": "dvportgroup-7"},
    )
    assert list(change_host(step, HostSession(session, tools_for(server)))) == []
    assert server.host("esx-01").configured["live"] == "dvportgroup-7"


# ------------------------------------------------------------- services


def test_a_restarted_service_brings_what_waited_for_it_and_a_second_one_is_not_needed() -> None:
    server = estate()
    report, _ = run(server, *in_order(change(GRAPHICS), restart()))
    assert statuses(report) == {"set graphics on esx-01": "done", "restart esx-01": "done"}
    assert report.outcomes[0].message == "pending restart of xorg"
    assert report.outcomes[1].readings[0].runtime == "sharedDirect"
    assert server.host("esx-01").mark is None
    report, _ = run(server, restart())
    assert statuses(report) == {"restart esx-01": "not_needed"}
    assert len(server.asked("restart_service")) == 1


def test_a_service_is_not_restarted_under_a_vm_that_runs_on_a_gpu() -> None:
    server = estate()
    server.gpus = {"host-1": {"0000:21:00.0": 40960, "0000:e2:00.0": 40960}}
    holder = VmDetail(vgpus=(VgpuDevice(key=1, profile="grid_a100-40c"),))
    server.add_vm("desktop", "vm-9", holder, host_moid="host-1")
    list(server.wait_for_tasks([server.power_on_vm("vm-9")], 60.0))
    report, _ = run(server, *in_order(change(GRAPHICS), restart()))
    words = "desktop runs on a GPU of esx-01, so its graphics service was not restarted"
    assert words in report.outcomes[1].message
    assert server.asked("restart_service") == []
    list(server.wait_for_tasks([server.power_off_vm("vm-9")], 60.0))
    report, _ = run(server, restart())
    assert statuses(report) == {"restart esx-01": "done"}


def test_a_service_is_not_restarted_once_the_run_is_to_stop() -> None:
    server = estate()
    report, _ = run(server, *in_order(change(GRAPHICS), restart()), stop=lambda: bool(server.written))
    assert statuses(report)["restart esx-01"] == "skipped"
    assert server.asked("restart_service") == []


def test_a_service_that_brings_nothing_is_not_confirmed() -> None:
    server = estate()
    server.host("esx-01").stuck = {"graphics"}
    report, _ = run(server, *in_order(change(GRAPHICS), restart()))
    assert "graphics is set to sharedDirect, pending restart of xorg" in report.outcomes[1].message


def test_a_service_that_the_host_does_not_have_fails() -> None:
    server = estate(refused={("restart_service", 1): NotOffered("no service xorg")})
    report, _ = run(server, restart())
    assert only(report).message == "no service xorg"


def test_nothing_is_begun_on_a_host_once_the_run_is_to_stop() -> None:
    server = estate()
    report, _ = run(server, *in_order(enter(), change(LIVE)), stop=lambda: bool(server.asked("raise_alarm")))
    assert server.written == []
    assert statuses(report) == {"enter esx-01": "done", "set live on esx-01": "skipped"}
    assert tuple(map(str, report.left_behind)) == ("esx-01: in maintenance mode: sets ats",)


def test_a_setting_that_nothing_shows_keeps_the_host_down_until_somebody_says_it_is_done() -> None:
    server = prepared()
    report, _ = run(server, leave(settles=(BIOS,)))
    assert "bios could not be read: nothing shows it" in only(report).message
    assert server.host("esx-01").maintenance
