"""Work on hosts: closed to new VMs for everybody, emptied, patched, and filled again as it was."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from tests.cli.command_line import CommandLine, Ran
from tests.cli.locks import ANNA, leave_proofs, take_for_others
from vgpu_cfg.lab.state.inventory import Host, VirtualMachine
from vgpu_cfg.lab.state.tags import set_attribute
from vgpu_cfg.model.locks import LockHolder, LockName

ESTATE = "estates/work-on-hosts.yaml"
SERVER = f"--server=lab:{ESTATE}"
PLAN = "plans/work-on-hosts.yaml"
FIRST, SECOND = "esx-01.lab", "esx-02.lab"


def places(vgpu_cfg: CommandLine) -> dict[str, tuple[str, bool]]:
    """Return of each VM the host and whether it runs."""
    state = vgpu_cfg.lab(ESTATE).state
    return {
        vm.name: (state.get(vm.host, Host).name, vm.is_on)
        for vm in state.all(VirtualMachine)
        if not vm.is_template
    }


def is_in_sync(vgpu_cfg: CommandLine) -> bool:
    return vgpu_cfg("plan", PLAN, "--exit-code").code == 0


def as_json(ran: Ran) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ran.out)
    return found


# ---------------------------------------------------------------- cordons


def test_what_is_cordoned_is_closed_to_every_command_until_it_is_given_back(vgpu_cfg: CommandLine) -> None:
    told = vgpu_cfg.done("cordon", "host:esx-0*", "--reason", "new DIMM", SERVER).told
    assert f"{FIRST}: cordoned: new DIMM" in told
    assert f"{SECOND}: cordoned: new DIMM" in told
    before = vgpu_cfg.look(ESTATE).revision
    again = vgpu_cfg.done("cordon", f"host:{FIRST}", "--reason", "new DIMM", SERVER)
    assert "Nothing to do for cordon" in again.told
    assert vgpu_cfg.look(ESTATE).revision == before
    refused = vgpu_cfg("plan", PLAN)
    assert refused.code == 4
    assert "VG543" in refused.told
    assert "new DIMM (administrator@vsphere.local, since" in refused.told
    assert f"vgpu-cfg uncordon host:{FIRST}" in refused.told
    assert as_json(vgpu_cfg.done("fit", "grid_a100-40c", SERVER, "--output=json"))["total"] == 0
    shown = as_json(vgpu_cfg.done("inventory", SERVER, "--output=json"))
    assert [(row["host"], row["gpu"], row["reason"]) for row in shown["cordons"]] == [
        (FIRST, "", "new DIMM"),
        (SECOND, "", "new DIMM"),
    ]
    assert "CORDONED" in vgpu_cfg.done("inventory", "--gpus", SERVER, COLUMNS="60").out
    assert "uncordoned" in vgpu_cfg.done("uncordon", "host:esx-0*", SERVER).told
    assert "Nothing to do for uncordon" in vgpu_cfg.done("uncordon", "host:esx-0*", SERVER).told
    assert vgpu_cfg("plan", PLAN).code == 0


def test_a_gpu_is_cordoned_by_its_address_beside_others(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("cordon", f"gpu:{FIRST}/21:00.0", f"gpu:{FIRST}/e2:00.0", "--reason", "Xid 79", SERVER)
    other = vgpu_cfg.done("cordon", f"gpu:{FIRST}/0000:21:00.0", "--reason", "fan", SERVER)
    assert "cordoned: fan; previously: Xid 79" in other.told
    vgpu_cfg.done("apply", PLAN, "--yes")
    assert {host for host, _ in places(vgpu_cfg).values()} == {FIRST, SECOND}
    assert places(vgpu_cfg)["t1"] == places(vgpu_cfg)["t2"] == (SECOND, True)
    vgpu_cfg.done("uncordon", f"gpu:{FIRST}/0000:21:00.0", SERVER)
    left = as_json(vgpu_cfg.done("inventory", "--gpus", SERVER, "--output=json"))
    assert [row["gpu"] for row in left["cordons"]] == ["0000:e2:00.0"]


MISTYPED = (
    (("cordon", "host:esx-1.lab", "--reason=x"), 5, "did you mean 'esx-01.lab'"),
    (("cordon", "gpu:esx-01.lab", "--reason=x"), 5, "use `gpu:esx-01.lab/PCI`"),
    (("cordon", "gpu:esx-01.lab/21:00.1", "--reason=x"), 5, "did you mean '0000:21:00.0'"),
    (("cordon", "host:esx-01.lab"), 2, "specify a short reason"),
    (("cordon", "host:esx-01.lab", f"--reason={'x' * 200}"), 2, "the reason has 200 characters"),
    (("uncordon", "host:esx-1.lab"), 5, "did you mean 'esx-01.lab'"),
    (("drain", "esx-*"), 5, "matches 2 hosts"),
    (("drain", "esx-01.lab", "--power-off=plain-dB"), 5, "did you mean 'plain-db'"),
)


def test_what_is_mistyped_is_refused_and_changes_nothing(vgpu_cfg: CommandLine) -> None:
    before = vgpu_cfg.look(ESTATE)
    for words, code, told in MISTYPED:
        ran = vgpu_cfg(*words, SERVER)
        assert ran.code == code, ran.told
        assert told in ran.told
    assert vgpu_cfg.look(ESTATE) == before


def test_a_text_that_somebody_typed_in_the_client_closes_the_host(vgpu_cfg: CommandLine) -> None:
    lab = vgpu_cfg.lab(ESTATE)
    set_attribute(lab.state, next(iter(lab.state.all(Host))), "vgpu_cfg.cordon", "do not use, ask Anna")
    lab.save()
    assert "do not use, ask Anna" in vgpu_cfg.done("inventory", SERVER).told
    assert "uncordoned" in vgpu_cfg.done("uncordon", f"host:{FIRST}", SERVER).told


def test_a_bare_name_is_a_host_or_a_cluster(vgpu_cfg: CommandLine) -> None:
    assert "esx-01.lab: cordoned" in vgpu_cfg.done("cordon", "esx-01.lab", "--reason=x", SERVER).told
    told = vgpu_cfg.done("cordon", "gpu", "--reason=y", SERVER).told
    assert "esx-01.lab: cordoned" in told
    assert "esx-02.lab: cordoned" in told


class TerminalText(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_refusal_stands_once_on_a_terminal(vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    vgpu_cfg.done("apply", PLAN, "--yes")
    words = ("drain", FIRST, SERVER, "--dry-run")
    apart = vgpu_cfg(*words)
    assert "ERROR  VG547" in apart.err
    monkeypatch.setattr("tests.cli.command_line.io.StringIO", TerminalText)
    ran = vgpu_cfg(*words, TERM="dumb", COLUMNS="100")
    assert (ran.code, (ran.out + ran.err).count("VG547")) == (4, 1)


# ---------------------------------------------------------------- drains


def test_a_host_is_emptied_patched_and_filled_again(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", PLAN, "--yes")
    before = places(vgpu_cfg)
    assert {host for host, _ in before.values()} == {FIRST}
    refused = vgpu_cfg("drain", FIRST, SERVER, "--yes")
    assert refused.code == 4
    assert "VG547 plain-db: the VM does not belong to a plan" in refused.told
    assert places(vgpu_cfg) == before
    shown = vgpu_cfg.done("drain", FIRST, SERVER, "--others", "--dry-run")
    assert "by vMotion, while running, paused for about" in shown.told
    assert "plan team, created by administrator@vsphere.local" in shown.told
    assert places(vgpu_cfg) == before
    asked = vgpu_cfg("drain", FIRST, SERVER, "--others")
    assert asked.code != 0
    assert "confirmation requires a terminal" in asked.told
    assert places(vgpu_cfg) == before
    done = vgpu_cfg.done("drain", FIRST, SERVER, "--others", "--yes", "--reason", "patch 8.0.3e")
    assert f"no VMs are running on {FIRST}, so it can enter maintenance mode" in done.told
    assert set(places(vgpu_cfg).values()) == {(SECOND, True)}
    revision = vgpu_cfg.look(ESTATE).revision
    assert "Nothing to do for drain" in vgpu_cfg.done("drain", FIRST, SERVER).told
    assert vgpu_cfg.look(ESTATE).revision == revision
    assert is_in_sync(vgpu_cfg)
    lab = vgpu_cfg.lab(ESTATE)
    next(host for host in lab.state.all(Host) if host.name == FIRST).build = "24999999"
    lab.save()
    back = vgpu_cfg.done("uncordon", f"host:{FIRST}", SERVER, "--restore", "--yes")
    assert "was cordoned: patch 8.0.3e" in back.told
    assert places(vgpu_cfg) == before
    assert "Nothing to do for uncordon" in vgpu_cfg.done("uncordon", f"host:{FIRST}", SERVER).told
    assert is_in_sync(vgpu_cfg)


def test_what_must_be_off_is_named_first_and_comes_home_by_name(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.write("cold.yaml", (vgpu_cfg.folder / PLAN).read_text("utf-8").replace("t{1..2}", "t1"))
    lab = vgpu_cfg.lab(ESTATE)
    lab.state.settings["vgpu.hotmigrate.enabled"] = False
    lab.state.touch()
    lab.save()
    vgpu_cfg.done("apply", "cold.yaml", "--yes")
    refused = vgpu_cfg("drain", FIRST, SERVER, "--yes", "--others")
    assert refused.code == 4
    assert "VG546" in refused.told
    assert "--power-off=t1" in refused.told
    # The start on the other host fails: the next drain goes on, and asks for no leave again.
    vgpu_cfg.script(ESTATE, {"method": "PowerOnVM_Task", "message": "no"})
    assert vgpu_cfg("drain", FIRST, SERVER, "--yes", "--others", "--power-off=t1").code == 6
    vgpu_cfg.script(ESTATE)
    assert places(vgpu_cfg)["t1"] == (SECOND, False)
    assert "t1: started" in vgpu_cfg.done("drain", FIRST, SERVER, "--yes").told
    assert set(places(vgpu_cfg).values()) == {(SECOND, True)}
    stays = vgpu_cfg.done("uncordon", f"host:{FIRST}", SERVER, "--restore", "--yes")
    assert stays.told.count("VG548") == 1
    assert places(vgpu_cfg) == {"plain-db": (FIRST, True), "t1": (SECOND, True)}
    vgpu_cfg.done("uncordon", f"host:{FIRST}", SERVER, "--restore", "--yes", "--power-off=t1")
    assert set(places(vgpu_cfg).values()) == {(FIRST, True)}


def cold_and_drained(vgpu_cfg: CommandLine) -> None:
    """Let a drain move a VM of a plan that must be off for it."""
    vgpu_cfg.write("cold.yaml", (vgpu_cfg.folder / PLAN).read_text("utf-8").replace("t{1..2}", "t1"))
    lab = vgpu_cfg.lab(ESTATE)
    lab.state.settings["vgpu.hotmigrate.enabled"] = False
    lab.state.touch()
    lab.save()
    vgpu_cfg.done("apply", "cold.yaml", "--yes")
    vgpu_cfg.done("drain", FIRST, SERVER, "--yes", "--others", "--power-off=t1")


def test_a_vm_whose_shutdown_is_refused_once_comes_home_the_next_time(vgpu_cfg: CommandLine) -> None:
    cold_and_drained(vgpu_cfg)
    home = ("uncordon", f"host:{FIRST}", SERVER, "--restore", "--yes", "--power-off=t1")
    vgpu_cfg.script(
        ESTATE,
        {"method": "ShutdownGuest", "kind": "call", "fault": "SystemError"},
        {"method": "PowerOffVM_Task", "message": "no"},
    )
    assert vgpu_cfg(*home).code == 6
    vgpu_cfg.script(ESTATE)
    assert "uncordoned" not in vgpu_cfg.done(*home).told
    assert set(places(vgpu_cfg).values()) == {(FIRST, True)}


def test_a_drain_undoes_what_an_uncordon_began(vgpu_cfg: CommandLine) -> None:
    cold_and_drained(vgpu_cfg)
    vgpu_cfg.script(ESTATE, {"method": "PowerOnVM_Task", "message": "no"})
    assert vgpu_cfg("uncordon", f"host:{FIRST}", SERVER, "--restore", "--yes", "--power-off=t1").code == 6
    vgpu_cfg.script(ESTATE)
    assert places(vgpu_cfg)["t1"] == (FIRST, False)
    vgpu_cfg.done("drain", FIRST, SERVER, "--yes", "--others")
    assert set(places(vgpu_cfg).values()) == {(SECOND, True)}


def _lock(vgpu_cfg: CommandLine, holder: LockHolder) -> None:
    """Let a run hold the locks of a host and of its cluster."""
    lab = vgpu_cfg.lab(ESTATE)
    host = next(host for host in lab.state.all(Host) if host.name == FIRST)
    pool = LockName(kind="cluster", key=str(host.parent))
    take_for_others(lab, pool, LockName(kind="host", key=host.moid, label=FIRST), holder=holder)
    lab.save()


COMMANDS = (
    ("cordon", f"host:{FIRST}", "--reason", "DIMM", SERVER),
    ("drain", FIRST, SERVER, "--yes", "--others"),
    ("uncordon", f"host:{FIRST}", SERVER, "--restore", "--yes"),
)


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_locks_of_a_dead_run_are_taken_over_before_nothing_is_to_do(
    words: tuple[str, ...], vgpu_cfg: CommandLine
) -> None:
    vgpu_cfg.done(*words)
    _lock(vgpu_cfg, ANNA.model_copy(update={"machine": "desk-01"}))
    leave_proofs(vgpu_cfg.state_folder, vgpu_cfg.lab(ESTATE).state)
    told = vgpu_cfg.done(*words).told
    assert "ended without releasing its locks; removing them" in told
    assert f"Nothing to do for {words[0]}" in told, told
    assert vgpu_cfg.lab(ESTATE).state.alarms == []


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_nothing_is_said_to_be_so_already_while_another_run_works_on_the_host(
    words: tuple[str, ...], vgpu_cfg: CommandLine
) -> None:
    vgpu_cfg.done(*words)
    _lock(vgpu_cfg, ANNA)
    ran = vgpu_cfg(*words)
    assert (ran.code, f"another run has locked host {FIRST}" in ran.told) == (6, True)


def test_a_vm_bound_to_its_host_is_switched_off_and_started_again(vgpu_cfg: CommandLine) -> None:
    text = (vgpu_cfg.folder / PLAN).read_text("utf-8").partition("vms:")[0]
    pinned = vgpu_cfg.write(
        "pinned.yaml",
        f"{text}vms: [{{name: p, gpus: [{{pin: '0000:e3:00.0'}}], place: {{hosts: {FIRST}}}}}]\n",
    )
    vgpu_cfg.done("apply", pinned, "--yes")
    assert "VG546" in vgpu_cfg("drain", FIRST, SERVER, "--yes", "--others").told
    vgpu_cfg.done("drain", FIRST, SERVER, "--yes", "--others", "--power-off=p")
    assert places(vgpu_cfg) == {"p": (FIRST, False), "plain-db": (SECOND, True)}
    assert "VG543" in vgpu_cfg("plan", pinned).told  # nothing is started on a host that is cordoned
    # Somebody moves the database home meanwhile: it is left alone.
    lab = vgpu_cfg.lab(ESTATE)
    database = next(vm for vm in lab.state.all(VirtualMachine) if vm.name == "plain-db")
    database.host = next(host.moid for host in lab.state.all(Host) if host.name == FIRST)
    lab.state.touch(database)
    lab.save()
    tasks = len(vgpu_cfg.look(ESTATE).tasks)
    assert "p: started" in vgpu_cfg.done("uncordon", f"host:{FIRST}", SERVER, "--restore", "--yes").told
    assert len(vgpu_cfg.look(ESTATE).tasks) == tasks + 1
    assert vgpu_cfg("plan", pinned, "--exit-code").code == 0


def test_what_is_only_shown_is_given_nothing_that_can_write(
    vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vgpu_cfg.cli.compose.connect_writer", None)
    shown = vgpu_cfg.done("drain", FIRST, SERVER, "--others", "--dry-run")
    assert "cordon" in shown.out
