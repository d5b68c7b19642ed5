"""What `history` tells of runs by their locks and events: killed early, at work, short, and long."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.command_line import CommandLine
from tests.cli.conftest import Serve
from tests.cli.host_watch import watch_labs
from tests.cli.locks import ANNA, take_for_others
from tests.cli.test_process import end_of, started
from vgpu_cfg.lab.soap import server as soap_server
from vgpu_cfg.lab.soap.server import LabServer
from vgpu_cfg.lab.state.inventory import Alarm, PastEvent
from vgpu_cfg.model.locks import HEAD, LockName
from vgpu_cfg.model.runs import RunEntry, parse_entry

ESTATE = "two-a100"
AT_LAB = ("--server", f"lab:{ESTATE}")
PLAN = """\
version: 1
name: depts
defaults: {template: ubuntu-22.04-efi, cluster: gpu, folder: training, cpus: 4, memory: 16GiB}
vms: [{name: vm-01, gpus: grid_a100-10c}]
"""
OF_HOSTS = """
version: 1
name: pair
hosts:
- names: [esx-roce-01.lab]
  gpus: {use: vgpu, scheduler: equal_share}
  disruption: {allow: [maintenance, reboot]}
"""
SAID = ("--change", "CHG0042", "--reason", "the new course")
HERE, THERE = "state-of-desk-01", "state-of-desk-02"
"""The state folders of two machines."""


class Site:
    """A served lab with two machines beside it; the first one's runs are processes."""

    def __init__(self, vgpu_cfg: CommandLine, server: LabServer) -> None:
        self.server = server
        self._vgpu_cfg = vgpu_cfg
        address = f"127.0.0.1:{server.port}"
        self._environment = {
            "VGPU_CFG_SERVER": address,
            "VGPU_CFG_USER": "administrator@vsphere.local",
            "VGPU_CFG_PASSWORD": "lab",
            "VGPU_CFG_THUMBPRINT": server.thumbprint,
        }
        vgpu_cfg.machine = socket.gethostname()
        self.plan = str(vgpu_cfg.write("depts.yaml", f"vcenter: {address}\n{PLAN}"))

    def starts(self, *words: str) -> Any:
        """Start a command on the first machine, as a process."""
        return started(*words, **self._environment, VGPU_CFG_STATE_FOLDER=HERE)

    def on(self, folder: str, *words: str) -> str:
        """Run a command on a machine, told by its state folder; return what it prints."""
        ran = self._vgpu_cfg.done(*words, **self._environment, VGPU_CFG_STATE_FOLDER=folder)
        return ran.out if "json" in words else ran.told

    def history(self, folder: str, *words: str) -> list[dict[str, Any]]:
        """Return what a machine knows of."""
        return list(json.loads(self.on(folder, "history", *words, "--output", "json"))["runs"])


def killed_at(method: str, start: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Start a run, and kill its process when it asks for this, before anything has been done for it."""
    asking: list[subprocess.Popen[str]] = []
    answer = soap_server._Handler._answer

    def killing(handler: Any, verb: str, body: bytes) -> None:
        if f"<{method} ".encode() in body:
            asking[0].kill()
            handler.close_connection = True
            return
        answer(handler, verb, body)

    with monkeypatch.context() as patched, start() as process:
        asking.append(process)
        patched.setattr(soap_server._Handler, "_answer", killing)
        code, told = end_of(process)
    assert code == -9, told


@pytest.fixture
def site(vgpu_cfg: CommandLine, serve: Serve) -> Site:
    return Site(vgpu_cfg, serve(ESTATE))


def runs_told(vgpu_cfg: CommandLine, estate: str) -> list[dict[str, Any]]:
    """Return what `history` tells of a lab."""
    told = vgpu_cfg.done("history", f"--server=lab:{estate}", "--output", "json").out
    return list(json.loads(told)["runs"])


def words_of(lab: Any) -> list[RunEntry]:
    """Return what runs have left among a lab's events, the oldest first."""
    texts = [str(one.values["message"]) for one in lab.state.all(PastEvent) if one.kind == "GeneralUserEvent"]
    return [entry for text in texts if (entry := parse_entry(text)) is not None]


@pytest.mark.enable_socket
def test_a_run_killed_in_its_first_minute_is_known_on_every_machine_before_and_after_unlock(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_at("CloneVM_Task", lambda: site.starts("apply", "--yes", site.plan, *SAID), monkeypatch)
    (there,) = site.history(THERE)
    (here,) = site.history(HERE)
    assert (there["known_from"], here["known_from"]) == (["locks"], ["locks", "here"])
    assert (there["run"], there["plan"], there["machine"]) == (here["run"], "depts", socket.gethostname())
    assert there["occasion"] == {"change": "CHG0042", "reason": "the new course"}
    assert (there["result"], there["ended_at"], there["changes"]) == (None, None, None)
    assert (here["result"], here["ended_at"], here["changes"]) == (None, None, 2)
    assert here["began_at"] >= there["began_at"]  # the lock is taken before the estate is read
    assert "end unknown" in site.on(THERE, "history")

    site.on(THERE, "unlock", there["run"], "--force", "--yes")
    assert site.history(THERE) == [there | {"known_from": ["vCenter"]}]
    assert site.history(HERE) == [here | {"known_from": ["vCenter", "here"]}]
    assert "steps are in a journal" in site.on(THERE, "history", "--run", there["run"])


@pytest.mark.exhaustive("longer runs of what the tests beside them try")
@pytest.mark.enable_socket
def test_a_run_whose_lock_the_next_one_takes_away_is_known_afterwards(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_at("CloneVM_Task", lambda: site.starts("apply", "--yes", site.plan), monkeypatch)
    (dead,) = site.history(THERE)
    site.on(HERE, "apply", "--yes", site.plan)
    done, again = site.history(THERE)
    assert again == dead | {"known_from": ["vCenter"]}
    assert (done["result"], done["known_from"], done["done"]) == ("done", ["vCenter"], 2)
    assert not [one for one in site.server.lab.state.all(Alarm) if one.name.startswith(HEAD)]


def test_a_run_that_works_is_known_and_its_end_is_of_the_same_line(
    vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = watch_labs(monkeypatch)
    plan = vgpu_cfg.write("depts.yaml", f"vcenter: lab:{ESTATE}\n{PLAN}")
    seen: list[dict[str, Any]] = []

    def look(name: str) -> None:
        if name == "CloneVM_Task":
            seen.extend(runs_told(vgpu_cfg, ESTATE))

    watch.before_call = look
    vgpu_cfg.done("apply", "--yes", plan)
    (works,), (ended,) = seen, runs_told(vgpu_cfg, ESTATE)
    assert (works["known_from"], works["result"], works["changes"]) == (["locks", "here"], None, 2)
    assert (ended["known_from"], ended["result"], ended["changes"]) == (["vCenter", "here"], "done", 2)
    assert (works["run"], works["began_at"]) == (ended["run"], ended["began_at"])


def test_a_short_run_leaves_its_end_alone_which_tells_when_it_began(vgpu_cfg: CommandLine) -> None:
    plan = vgpu_cfg.write("depts.yaml", f"vcenter: lab:{ESTATE}\n{PLAN}")
    vgpu_cfg.done("apply", "--yes", plan)
    (entry,) = words_of(vgpu_cfg.lab(ESTATE))
    (journal,) = (vgpu_cfg.state_folder / "journals").glob("*.jsonl")
    begun = json.loads(journal.read_text(encoding="utf-8").splitlines()[0])["header"]["started_at"]
    (both,) = runs_told(vgpu_cfg, ESTATE)
    journal.unlink()
    (alone,) = runs_told(vgpu_cfg, ESTATE)
    assert both == alone | {"known_from": ["vCenter", "here"]}
    assert alone["began_at"] == begun.replace("Z", "+00:00")
    assert alone["ended_at"] == entry.at.isoformat()


def test_a_run_longer_than_a_minute_leaves_both(
    vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = watch_labs(monkeypatch)
    calls: list[str] = []
    watch.before_call = calls.append
    estate = "two-hosts-roce"
    vgpu_cfg.done("apply", "--yes", vgpu_cfg.write("pair.yaml", f"vcenter: lab:{estate}\n{OF_HOSTS}"))
    began, ended = words_of(vgpu_cfg.lab(estate))
    assert (began.result, ended.result) == (None, "done")
    assert began.run == ended.run
    assert ended.began_at == began.at
    assert began.late_seconds >= 60
    assert calls.index("LogUserEvent") == calls.index("lock ReconfigureAlarm") + 1  # the first heartbeat
    (run,) = runs_told(vgpu_cfg, estate)
    assert (run["began_at"], run["ended_at"]) == (began.at.isoformat(), ended.at.isoformat())


def test_an_account_that_may_log_no_events_removes_locks_and_is_told(vgpu_cfg: CommandLine) -> None:
    take_for_others(vgpu_cfg.lab(ESTATE), LockName(kind="plan", key="demo"))
    vgpu_cfg.script(ESTATE, lacking=["Global.LogEvent"])
    told = vgpu_cfg.done("unlock", ANNA.run, "--force", "--yes", *AT_LAB).told
    assert f"the start of run {ANNA.run} was not recorded as a vCenter event" in told
    assert "Global.LogEvent" in told
    assert "REMOVED" in told
    assert "no run holds locks" in vgpu_cfg.done("unlock", *AT_LAB).told


def test_locks_that_cannot_be_read_are_a_note(vgpu_cfg: CommandLine) -> None:
    take_for_others(vgpu_cfg.lab(ESTATE), LockName(kind="plan", key="demo"))
    assert "anna on ci-7" in vgpu_cfg.done("history", *AT_LAB).told
    vgpu_cfg.script(ESTATE, {"method": "GetAlarm", "kind": "call", "fault": "NoPermission"})
    told = vgpu_cfg.done("history", *AT_LAB).told
    assert "cannot read run locks" in told
    assert "anna" not in told


def test_events_that_cannot_be_read_hide_no_lock(vgpu_cfg: CommandLine) -> None:
    take_for_others(vgpu_cfg.lab(ESTATE), LockName(kind="plan", key="demo"))
    vgpu_cfg.script(ESTATE, {"method": "CreateCollectorForEvents", "kind": "drop_before"})
    ran = vgpu_cfg("history", *AT_LAB)
    assert ran.code == 5
    assert "anna on ci-7" in ran.told
