from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.fake_guests import SECRET, SEED_KEY, FakeGuest, FakeGuests, GuestVCenter
from tests.fakes.fake_locks import undisputed
from tests.unit.execution.guest_makers import (
    NAMES,
    guests_of,
    new_with_guest,
    options_of,
    run_guests,
    running,
    spec_of,
    stage,
)
from tests.unit.execution.makers import create, plan_of, statuses
from vgpu_cfg.changes.kinds.vm_spec import VmSpec
from vgpu_cfg.changes.report import EventKind
from vgpu_cfg.changes.values import VmRef
from vgpu_cfg.errors import GuestError, GuestNotReady
from vgpu_cfg.execution import Run, exit_code_of
from vgpu_cfg.model.guests.guest import (
    AWAITED,
    BEGUN,
    DERIVED,
    GUEST_MARK_KEY,
    HOST_KEY_KEY,
    GuestReport,
    parse_mark,
)
from vgpu_cfg.model.observed.vm import PowerState

# ------------------------------------------------------------- the first boot


def test_a_new_vm_is_staged_by_cloud_init_marked_and_rid_of_its_secrets() -> None:
    server, guests = guests_of("hvd-01", module_seconds=10.0)
    report, events = run_guests(server, guests, *new_with_guest("hvd-01"))
    assert set(statuses(report).values()) == {"done"}
    options = options_of(server, "hvd-01")
    assert tuple(parse_mark(options[GUEST_MARK_KEY])) == tuple(sorted(NAMES))
    assert BEGUN not in options[GUEST_MARK_KEY]
    assert (options[SEED_KEY], options[f"{SEED_KEY}.encoding"]) == ("---", " ")
    assert options["guestinfo.metadata"] == "meta"
    assert guests.connections == []
    assert report.left_behind == ()
    # One clone, one power-on, one mark.
    assert [method for method, _ in server.calls] == ["create_vm", "power_on_vm", "reconfigure_vm"]
    told = [event.message for event in events if event.kind is EventKind.NOTE]
    assert told == ["host-name (1 of 3)", "nouveau (2 of 3)", "driver (3 of 3)", "3 of 3 modules"]


def test_what_the_guest_has_redacted_is_redacted_in_the_vms_configuration_too() -> None:
    specs: list[VmSpec] = []

    class Noting(GuestVCenter):
        def reconfigure_vm(self, moid: str, spec: VmSpec) -> str:
            specs.append(spec)
            return super().reconfigure_vm(moid, spec)

    server, guests = guests_of("hvd-01", kind=Noting)
    run_guests(server, guests, *new_with_guest("hvd-01"))
    (spec,) = specs
    assert (spec.extra_config[SEED_KEY], spec.extra_config[f"{SEED_KEY}.encoding"]) == ("---", " ")


def test_what_a_clone_carries_stands_in_no_event_and_no_report() -> None:
    server, guests = guests_of("hvd-01")
    report, events = run_guests(server, guests, *new_with_guest("hvd-01"))
    assert SECRET not in report.model_dump_json()
    assert not [event for event in events if SECRET in event.model_dump_json()]


def test_a_server_that_drops_extra_config_gets_the_seed_with_the_rest_and_tells_of_none_of_it() -> None:
    server, guests = guests_of("hvd-01")
    server.drops = frozenset({"extra_config"})
    report, events = run_guests(server, guests, *new_with_guest("hvd-01"))
    assert set(statuses(report).values()) == {"done"}
    assert guests.connections == []
    assert not [event for event in events if "guestinfo" in event.message]


def test_a_template_that_was_once_staged_hands_no_mark_down() -> None:
    server, guests = guests_of("hvd-01", has_cloud_init=False, answers_from=10_000)
    template = server.vm("ubuntu-22.04-efi")
    assert template.detail is not None
    server.change_vm(
        template.name,
        detail=template.detail.model_copy(update={"extra_config": {GUEST_MARK_KEY: "driver:0123456789"}}),
    )
    run_guests(server, guests, create("hvd-01"), stage("hvd-01", needs=("create hvd-01",)))
    assert options_of(server, "hvd-01")[GUEST_MARK_KEY] == BEGUN


def test_a_guest_that_restarts_is_waited_for() -> None:
    server, guests = guests_of("hvd-01", outcomes={"nouveau": ("reboot", "")})
    report, events = run_guests(server, guests, *new_with_guest("hvd-01"))
    assert statuses(report)["stage hvd-01"] == "done"
    assert "restart required: nouveau (2 of 3)" in [event.message for event in events]


def test_what_failed_is_told_with_module_reason_and_remedy_and_the_rest_is_marked() -> None:
    server, guests = guests_of("hvd-01", outcomes={"driver": ("failed", "branch 470, the host takes 580")})
    report, _ = run_guests(server, guests, *new_with_guest("hvd-01"))
    found = report.outcomes[-1]
    assert found.message == (
        "hvd-01: driver could not be set up in the guest: branch 470, the host takes 580"
    )
    assert "guest.driver" in found.remedy
    assert "/var/log/vgpu-cfg.log" in found.remedy
    assert exit_code_of(report) == 6
    options = options_of(server, "hvd-01")
    assert sorted(parse_mark(options[GUEST_MARK_KEY])) == ["host-name", "nouveau"]
    assert options[GUEST_MARK_KEY].startswith(f"{BEGUN} ")
    assert options[SEED_KEY] == "---"
    assert tuple(map(str, report.left_behind)) == ("hvd-01: guest setup incomplete: driver (3 of 3)",)


def test_what_a_guest_says_is_shown_as_one_plain_line() -> None:
    why = "no\x1b[2J space\nleft" + "x" * 500
    server, guests = guests_of("hvd-01", outcomes={"driver": ("failed", why)})
    report, _ = run_guests(server, guests, *new_with_guest("hvd-01"))
    message = report.outcomes[-1].message
    assert "\n" not in message
    assert len(message) < 300


def test_a_hand_that_is_needed_is_waited_for_with_exit_code_7() -> None:
    server, guests = guests_of("hvd-01", outcomes={"driver": ("hand", "switch the host off and on")})
    report, _ = run_guests(server, guests, *new_with_guest("hvd-01"))
    assert exit_code_of(report) == 7
    assert report.waiting_for == ("stage hvd-01",)
    assert report.outcomes[-1].remedy.startswith("switch the host off and on")
    assert options_of(server, "hvd-01")[SEED_KEY] == "---"


def test_several_guests_are_staged_at_once() -> None:
    names = tuple(f"hvd-0{number}" for number in range(1, 5))
    server, guests = guests_of(*names, module_seconds=200.0)
    begun = server.time
    # All on one host, of whose VMs no more than two are made or switched on at once.
    changes = [change for name in names for change in new_with_guest(name, host_moid="host-1")]
    report, _ = run_guests(server, guests, *changes)
    assert set(statuses(report).values()) == {"done"}
    # One after the other they would take 2,400 s.
    assert (server.time - begun).total_seconds() < 900


def test_what_cannot_be_sent_stops_the_run_before_anything_is_touched() -> None:
    server, guests = guests_of("hvd-01")
    guests.too_large = True
    with pytest.raises(GuestError, match="70000"):
        run_guests(server, guests, *new_with_guest("hvd-01"))
    assert server.calls == []


def test_a_plan_with_guests_takes_what_reaches_them() -> None:
    server, _ = guests_of("hvd-01")
    with pytest.raises(ValueError, match="sets up guests requires `guests`"):
        Run(plan_of(*new_with_guest("hvd-01")), server, server, server, locks=undisputed()).carry_out()


# ------------------------------------------------------------- where cloud-init does not answer


def test_without_cloud_init_the_bundle_goes_through_a_shell() -> None:
    server, guests = guests_of("hvd-01", has_cloud_init=False)
    report, events = run_guests(server, guests, *new_with_guest("hvd-01"))
    assert statuses(report)["stage hvd-01"] == "done"
    assert "cloud-init is not responding; using a shell instead" in [event.message for event in events]
    options = options_of(server, "hvd-01")
    assert len(parse_mark(options[GUEST_MARK_KEY])) == 3
    assert options[SEED_KEY] == "---"
    assert guests.closed


def test_a_guest_without_tools_is_asked_through_a_shell() -> None:
    server, guests = guests_of("hvd-01", has_tools=False)
    report, _ = run_guests(server, guests, *new_with_guest("hvd-01"))
    assert statuses(report)["stage hvd-01"] == "done"
    # What cloud-init brought is not brought again.
    assert server.guests["hvd-01"].files == {}
    assert server.guests["hvd-01"].run == "first"


def test_a_guest_that_nobody_hears_of_is_told_of_with_what_to_do_and_keeps_no_secret() -> None:
    server, guests = guests_of("hvd-01", has_cloud_init=False)
    guests.refuses["hvd-01"] = GuestError("the guest does not let vgpu-cfg in", subject="x", remedy="y")
    report, _ = run_guests(server, guests, *new_with_guest("hvd-01"))
    found = report.outcomes[-1]
    assert found.message == (
        "hvd-01: no report from the guest within 30 min: cloud-init is not responding, and no shell is "
        "available: the guest does not let vgpu-cfg in"
    )
    assert "datasource_list" in found.remedy
    assert options_of(server, "hvd-01")[SEED_KEY] == "---"


def test_a_guest_that_is_late_says_where_it_is() -> None:
    server, guests = guests_of("hvd-01", module_seconds=1000.0)
    report, _ = run_guests(server, guests, *new_with_guest("hvd-01"))
    assert report.outcomes[-1].message == "hvd-01: after 30 min, guest setup is still at nouveau (2 of 3)"


# ------------------------------------------------------------- guests that run


def staged_vm(**fields: Any) -> tuple[GuestVCenter, FakeGuests]:
    server, guests = guests_of("hvd-01", **fields)
    running(server, "hvd-01", "vm-7")
    return server, guests


def test_a_guest_that_runs_gets_the_bundle_and_the_mark() -> None:
    server, guests = staged_vm()
    report, _ = run_guests(server, guests, stage("hvd-01", moid="vm-7", modules=("driver",)))
    assert statuses(report) == {"stage hvd-01": "done"}
    assert report.outcomes[0].message == "1 set up, 0 already present"
    guest = server.guests["hvd-01"]
    assert guest.files == {"/var/lib/vgpu-cfg/secrets/driver": (SECRET.encode(), 0o600)}
    assert (guest.run, guest.modules) == ("run-0", ("driver",))
    assert list(parse_mark(options_of(server, "hvd-01")[GUEST_MARK_KEY])) == ["driver"]
    assert guests.connections[0].addresses[:2] == ("10.0.0.5", "10.0.0.7")
    assert server.started("reconfigure_vm") == ["hvd-01"]


@pytest.mark.parametrize("has_tools", [True, False])
def test_a_guest_that_restarts_meanwhile_is_logged_in_to_again(has_tools: bool) -> None:
    server, guests = staged_vm(outcomes={"nouveau": ("reboot", "")}, has_tools=has_tools)
    report, _ = run_guests(server, guests, stage("hvd-01", moid="vm-7"))
    assert statuses(report) == {"stage hvd-01": "done"}
    assert (len(guests.connections) > 1) is not has_tools


def test_a_guest_that_is_booting_is_waited_for() -> None:
    server, guests = staged_vm(answers_from=100.0)
    report, events = run_guests(server, guests, stage("hvd-01", moid="vm-7"))
    assert statuses(report) == {"stage hvd-01": "done"}
    assert "the guest is not responding yet: no SSH service is listening" in [
        event.message for event in events
    ]


def test_a_guest_that_has_been_up_for_long_is_not_waited_for_as_long_as_a_boot() -> None:
    server, guests = staged_vm(booted_at=0.0)
    guests.refuses["hvd-01"] = GuestNotReady("no response within 10 s", subject="hvd-01", remedy="see")
    begun = server.time
    report, _ = run_guests(server, guests, stage("hvd-01", moid="vm-7"))
    assert report.outcomes[0].message == "no response within 10 s"
    assert 300 <= (server.time - begun).total_seconds() < 400


def test_a_login_that_is_refused_is_not_tried_again() -> None:
    server, guests = staged_vm()
    guests.refuses["hvd-01"] = GuestError("the guest does not let anna in", subject="hvd-01", remedy="check")
    report, _ = run_guests(server, guests, stage("hvd-01", moid="vm-7"))
    assert (report.outcomes[0].message, len(guests.connections)) == ("the guest does not let anna in", 1)
    assert exit_code_of(report) == 6


def test_what_does_not_begin_is_told() -> None:
    server, guests = staged_vm(starts=False)
    report, _ = run_guests(server, guests, stage("hvd-01", moid="vm-7"))
    assert "guest setup did not start" in report.outcomes[0].message


def test_an_earlier_staging_is_let_come_to_its_end() -> None:
    server, guests = staged_vm()
    guest = server.guests["hvd-01"]
    guest.begin("earlier", NAMES, server.time.timestamp())
    report, events = run_guests(server, guests, stage("hvd-01", moid="vm-7"))
    assert statuses(report) == {"stage hvd-01": "done"}
    assert "setup from an earlier run is still in progress in the guest; waiting for it" in [
        e.message for e in events
    ]
    assert report.outcomes[0].message == "0 set up, 3 already present"


def test_what_a_run_left_unmarked_is_marked_and_redacted_by_the_next() -> None:
    server, guests = guests_of("hvd-01", present=set(NAMES))
    running(server, "hvd-01", "vm-7", **{SEED_KEY: SECRET})
    server.guests["hvd-01"].has_cloud_init = False
    report, _ = run_guests(server, guests, stage("hvd-01", moid="vm-7"))
    assert report.outcomes[0].message == "0 set up, 3 already present"
    assert options_of(server, "hvd-01")[SEED_KEY] == "---"


def test_a_mark_that_does_not_show_is_not_confirmed() -> None:
    server, guests = staged_vm()
    apply = server._apply
    server._apply = lambda moid, spec: apply(moid, spec.model_copy(update={"extra_config": {}}))  # type: ignore[method-assign]  # the fake is bent for this test
    report, _ = run_guests(server, guests, stage("hvd-01", moid="vm-7"))
    assert "does not have the guest setup mark" in report.outcomes[0].message


def test_a_guest_that_says_done_without_a_module_is_not_believed() -> None:
    server, guests = staged_vm()
    guest = server.guests["hvd-01"]
    guest.spec = spec_of("hvd-01")
    told = guest.report

    def report_less(now: float) -> GuestReport | None:
        report = told(now)
        return None if report is None else report.model_copy(update={"modules": report.modules[:-1]})

    guest.report = report_less  # type: ignore[method-assign]  # the fake is bent for this test
    report, _ = run_guests(server, guests, stage("hvd-01", moid="vm-7"))
    assert "modules are missing: driver" in report.outcomes[0].message


def test_a_vm_that_is_off_is_not_staged() -> None:
    server, guests = staged_vm()
    server.change_vm("hvd-01", power_state=PowerState.OFF)
    report, _ = run_guests(server, guests, stage("hvd-01", moid="vm-7"))
    assert "its guest can be set up only while it is running" in report.outcomes[0].message
    assert guests.connections == []


# ------------------------------------------------------------- being stopped


def test_a_stop_leaves_the_guest_to_itself_and_names_it() -> None:
    server, guests = guests_of("hvd-01", module_seconds=100.0)
    report, _ = run_guests(
        server,
        guests,
        *new_with_guest("hvd-01"),
        stop=lambda: (
            "driver" in str(server.guests["hvd-01"].report(server.time.timestamp()))
            and (server.time.timestamp() - (server.guests["hvd-01"].begun_at or server.time.timestamp()))
            > 150
        ),
    )
    assert report.is_interrupted
    assert tuple(map(str, report.left_behind)) == ("hvd-01: guest setup incomplete: nouveau (2 of 3)",)
    # The guest may still be reading it; the next run takes it out.
    assert options_of(server, "hvd-01")[SEED_KEY] == SECRET


def test_the_next_run_goes_on_with_a_guest_that_was_left_to_itself() -> None:
    server, guests = guests_of("hvd-01", module_seconds=100.0)
    run_guests(
        server,
        guests,
        *new_with_guest("hvd-01"),
        stop=lambda: server.guests["hvd-01"].begun_at is not None,
    )
    moid = server.vm("hvd-01").moid
    report, _ = run_guests(server, guests, stage("hvd-01", moid=moid, with_clone=True))
    assert statuses(report) == {"stage hvd-01": "done"}
    assert guests.connections == []
    assert options_of(server, "hvd-01")[SEED_KEY] == "---"


def test_shells_are_closed_however_the_run_ends() -> None:
    server, guests = staged_vm(module_seconds=100.0)
    run_guests(
        server,
        guests,
        stage("hvd-01", moid="vm-7"),
        stop=lambda: server.guests["hvd-01"].begun_at is not None,
    )
    assert guests.closed == ["hvd-01"]


def test_a_guest_works_by_itself() -> None:
    guest = FakeGuest(spec_of("hvd-01"), module_seconds=10.0)
    guest.begin("x", NAMES, 0.0)
    states = [(guest.report(now) or pytest.fail("no report")).state for now in (0.0, 25.0, 30.0)]
    assert states == ["running", "running", "done"]


# ------------------------------------------------------------- host keys


def test_the_host_key_that_a_guest_tells_is_waited_for_and_kept() -> None:
    server, guests = guests_of("hvd-01")
    run_guests(server, guests, create("hvd-01"), stage("hvd-01", needs=("create hvd-01",)))
    assert options_of(server, "hvd-01")[HOST_KEY_KEY] == AWAITED
    server, guests = guests_of("hvd-01")
    run_guests(server, guests, *new_with_guest("hvd-01"))
    assert options_of(server, "hvd-01")[HOST_KEY_KEY] == server.guests["hvd-01"].host_key


def test_what_was_kept_is_not_replaced_by_what_a_guest_tells_later() -> None:
    kept = f"ssh-ed25519 {'B' * 68}"
    server, guests = guests_of("hvd-01")
    running(server, "hvd-01", "vm-1", **{HOST_KEY_KEY: kept, GUEST_MARK_KEY: "users:0123456789"})
    run_guests(server, guests, stage("hvd-01", moid="vm-1"))
    assert options_of(server, "hvd-01")[HOST_KEY_KEY] == kept
    assert guests.connections[0].host_key == kept


def test_a_guest_of_an_earlier_release_is_known_by_its_derived_key_and_keeps_none() -> None:
    server, guests = guests_of("hvd-01")
    running(server, "hvd-01", "vm-1", **{GUEST_MARK_KEY: "users:0123456789"})
    run_guests(server, guests, stage("hvd-01", moid="vm-1"))
    assert HOST_KEY_KEY not in options_of(server, "hvd-01")
    assert guests.connections[0].host_key == DERIVED


@pytest.mark.parametrize("fails", [False, True])
def test_a_second_part_comes_after_the_others_first_well_or_not(*, fails: bool) -> None:
    server, guests = guests_of("hvd-01", "hvd-02")
    if fails:
        server.guests["hvd-02"].outcomes = {"driver": ("failed", "no")}
        server.guests["hvd-02"].host_key = ""
    second = stage(
        "hvd-01",
        id="finish hvd-01",
        modules=("driver",),
        needs=("stage hvd-01",),
        after=("stage hvd-02",),
        peers=tuple(VmRef(name=name, moid=None) for name in ("hvd-01", "hvd-02")),
    )
    report, _ = run_guests(server, guests, *new_with_guest("hvd-01"), *new_with_guest("hvd-02"), second)
    assert statuses(report)["finish hvd-01"] == "done"
    (told,) = guests.host_keys
    assert told == {"hvd-01": server.guests["hvd-01"].host_key, "hvd-02": server.guests["hvd-02"].host_key}
