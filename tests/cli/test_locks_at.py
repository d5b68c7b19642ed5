"""`locks` of a context: the folder that gets the locks, and the heartbeat's period."""

from __future__ import annotations

import json

import pytest

from tests.cli.command_line import CommandLine, Ran
from tests.cli.conftest import Serve
from tests.cli.locks import ANNA, take_for_others
from vgpu_cfg.lab.managers.authorization import PRIVILEGES
from vgpu_cfg.lab.soap.server import LabServer
from vgpu_cfg.lab.state.inventory import Alarm, Folder
from vgpu_cfg.lab.state.roles import Permission, Role
from vgpu_cfg.model.locks import LockName

AT = ("--server", "lab:two-a100")
PAIR = "plans/pair.yaml"
FOLDER = "/dc1/vm/training"
JANE = "jane@vsphere.local"
ALARMS = ("Alarm.Create", "Alarm.Delete", "Alarm.Edit")


def config(vgpu_cfg: CommandLine, server: str = "lab:two-a100", at: str = FOLDER) -> str:
    """Write a config file whose context keeps the locks in a folder; return its path."""
    text = f"contexts:\n  site: {{server: '{server}', locks: {{at: '{at}'}}}}\n"
    return str(vgpu_cfg.write("config-of-locks.yaml", text))


def home_of(vgpu_cfg: CommandLine) -> list[str]:
    """Return the folders that the lab's alarms are on."""
    state = vgpu_cfg.lab("two-a100").state
    return [state.objects[one.parent or ""].name for one in state.all(Alarm)]


def test_locks_are_made_found_and_removed_in_their_folder(vgpu_cfg: CommandLine) -> None:
    settings = config(vgpu_cfg)
    vgpu_cfg.script("two-a100", {"method": "RemoveAlarm", "kind": "call", "fault": "NoPermission"})
    vgpu_cfg("apply", "--yes", PAIR, VGPU_CFG_CONFIG=settings)
    assert set(home_of(vgpu_cfg)) == {"training"}
    lab = vgpu_cfg.lab("two-a100")
    with lab.changed:
        lab.clock.wait(lab.clock.now() + 901, lab.changed)
    with lab.transaction():
        lab.state.touch()
    # Who has no such setting finds them, too.
    for environment in ({"VGPU_CFG_CONFIG": settings}, {}):
        held = json.loads(vgpu_cfg.done("unlock", *AT, "--output", "json", **environment).out)
        assert len(held["runs"]) == 1
        assert (
            "lock held by a run that is no longer responding" in vgpu_cfg("doctor", *AT, **environment).told
        )
    assert held["runs"][0]["run"] in vgpu_cfg.done("unlock", PAIR).told
    vgpu_cfg.script("two-a100")
    vgpu_cfg.done("unlock", held["runs"][0]["run"], *AT, "--yes", VGPU_CFG_CONFIG=settings)
    assert home_of(vgpu_cfg) == []
    vgpu_cfg.done("apply", "--yes", PAIR, VGPU_CFG_CONFIG=settings)


def test_a_run_meets_the_lock_of_one_whose_settings_name_another_folder(vgpu_cfg: CommandLine) -> None:
    take_for_others(vgpu_cfg.lab("two-a100"), LockName(kind="plan", key="horovod-a100"))
    ran = vgpu_cfg("apply", "--yes", PAIR, VGPU_CFG_CONFIG=config(vgpu_cfg))
    assert ran.code == 6
    assert f"another run has locked plan horovod-a100: {ANNA.user} on {ANNA.machine}" in ran.told


@pytest.mark.parametrize("at", ["/dc1/vm/trainin", "/dc1/vm/ubuntu-22.04-efi"])
@pytest.mark.parametrize("command", ["apply --yes", "cordon host:esx-a100-01.lab --reason x"])
def test_a_folder_that_is_not_there_is_told_before_anything(
    at: str, command: str, vgpu_cfg: CommandLine
) -> None:
    before = vgpu_cfg.look("two-a100")
    words = [*command.split(), *((PAIR,) if command.startswith("apply") else AT)]
    ran = vgpu_cfg(*words, VGPU_CFG_CONFIG=config(vgpu_cfg, at=at))
    assert ran.code == 5
    assert f"the folder for locks, {at!r}, does not exist" in ran.told
    assert "correct the context's `locks: {at: …}`" in ran.told
    assert vgpu_cfg.look("two-a100") == before


@pytest.mark.enable_socket
def test_a_role_on_that_folder_suffices(serve: Serve, vgpu_cfg: CommandLine) -> None:
    server = serve("two-a100")
    _roles(server, *ALARMS)
    address = f"127.0.0.1:{server.port}"
    settings = config(vgpu_cfg, address)

    def run(*words: str) -> Ran:
        there = ("--server", address, "--thumbprint", server.thumbprint, "--user", JANE)
        return vgpu_cfg(*words, *there, VGPU_CFG_PASSWORD="lab", VGPU_CFG_CONFIG=settings)

    assert run("apply", "--yes", PAIR).code == 0
    shown = run("privileges", PAIR, "--output", "govc")
    assert "Alarm.Create" in shown.out
    of_root = [line for line in shown.out.splitlines() if line.rstrip().endswith(" /")]
    assert of_root
    assert not any("root" in line and "Alarm" in line for line in shown.out.splitlines())
    _roles(server)
    lacking = run("destroy", "--yes", PAIR)
    assert lacking.code == 5
    assert f"WHERE {FOLDER}" in lacking.told


def _roles(server: LabServer, *alarms: str) -> None:
    """Give jane everything but alarms at the root, and these for alarms on the folder."""
    state = server.lab.state
    (folder,) = [one for one in state.all(Folder) if one.name == "training"]
    rest = tuple(name for name in PRIVILEGES if not name.startswith("Alarm."))
    with server.lab.transaction():
        state.roles[1], state.roles[2] = Role("rest", rest), Role("locks", (*rest, *alarms))
        state.permissions[:] = [
            *(one for one in state.permissions if one.principal != JANE),
            Permission(state.root, JANE, 1),
            Permission(folder.moid, JANE, 2),
        ]


def test_contexts_of_one_server_name_one_folder(vgpu_cfg: CommandLine) -> None:
    text = "contexts:\n" + "".join(
        f"  {name}: {{server: 'lab:two-a100', locks: {{heartbeat_seconds: {seconds}}}}}\n"
        for name, seconds in (("a", 30), ("b", 240))
    )
    settings = str(vgpu_cfg.write("two.yaml", text))
    ran = vgpu_cfg("plan", PAIR, VGPU_CFG_CONFIG=settings)
    assert ran.code == 5
    assert "contexts a, b have different `locks` values" in ran.told


@pytest.mark.parametrize("seconds", [29, 241])
def test_a_heartbeat_is_neither_too_frequent_nor_near_to_silence(seconds: int, vgpu_cfg: CommandLine) -> None:
    text = f"contexts:\n  a: {{server: 'lab:two-a100', locks: {{heartbeat_seconds: {seconds}}}}}\n"
    ran = vgpu_cfg("plan", PAIR, VGPU_CFG_CONFIG=str(vgpu_cfg.write("one.yaml", text)))
    assert ran.code == 3
    assert "heartbeat_seconds" in ran.told


def test_a_trial_makes_its_alarms_in_the_folder_of_the_locks(vgpu_cfg: CommandLine) -> None:
    settings = config(vgpu_cfg)
    vgpu_cfg.script("two-a100", {"method": "RemoveAlarm", "kind": "call", "fault": "NoPermission"})
    ran = vgpu_cfg("trial", *AT, "--yes", "--steps", "objects", VGPU_CFG_CONFIG=settings)
    assert set(home_of(vgpu_cfg)) == {"training"}, ran.told
    vgpu_cfg.script("two-a100")
    vgpu_cfg.done("trial", "--clean", "--all", "--yes", *AT)
    assert home_of(vgpu_cfg) == []
