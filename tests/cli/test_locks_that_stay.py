"""An account that may make locks and not remove them: what it leaves is told, does not pile up, and goes."""

from __future__ import annotations

import shutil

import pytest

from tests.cli.command_line import CommandLine, Ran, Seen
from tests.cli.conftest import Serve
from tests.cli.host_watch import ESTATE, is_reading, marks_of, put_state, state_file, watch_labs
from tests.cli.locks import still_locked
from vgpu_cfg.lab.managers.authorization import PRIVILEGES
from vgpu_cfg.lab.simulation.sessions import LAB_CREDENTIALS
from vgpu_cfg.lab.soap.server import LabServer
from vgpu_cfg.lab.state.inventory import Alarm, Datacenter, PastEvent
from vgpu_cfg.lab.state.roles import ADMIN, Permission, Role
from vgpu_cfg.model.locks import HEAD
from vgpu_cfg.vsphere.wire.session import Session
from vgpu_cfg.vsphere.writing.alarms import VCenterLocks

pytestmark = pytest.mark.enable_socket

PAIR = "plans/pair.yaml"
HOSTS = "plans/hosts-one.yaml"
JANE = "jane@vsphere.local"
NUMBER = 1


class Site:
    """A served lab, where jane has a role on everything, and `vgpu-cfg` that works there."""

    def __init__(self, server: LabServer, vgpu_cfg: CommandLine) -> None:
        self.lab = server.lab
        self._vgpu_cfg = vgpu_cfg
        self._words = ("--server", f"127.0.0.1:{server.port}", "--thumbprint", server.thumbprint)
        self.lab.state.permissions.append(Permission(self.lab.state.root, JANE, NUMBER))
        self.give()

    def give(self, *without: str) -> None:
        """Give jane's role every privilege but these."""
        with self.lab.transaction():
            privileges = tuple(name for name in PRIVILEGES if name not in without)
            self.lab.state.roles[NUMBER] = Role("runs", privileges)

    def __call__(self, *words: str, user: str = JANE) -> Ran:
        return self._vgpu_cfg(*words, *self._words, "--user", user, VGPU_CFG_PASSWORD="lab")

    def done(self, *words: str, user: str = JANE) -> Ran:
        """Run a command that must succeed."""
        ran = self(*words, user=user)
        assert ran.code == 0, ran.told
        return ran

    @property
    def locks(self) -> list[str]:
        """The names of the locks that there are."""
        return [alarm.name for alarm in self.lab.state.all(Alarm)]

    @property
    def words(self) -> list[str]:
        """The kinds of the events that runs, and whoever removes their locks, have left."""
        return [event.kind for event in self.lab.state.all(PastEvent) if event.kind == "GeneralUserEvent"]

    @property
    def seen(self) -> Seen:
        """What was ever changed there but locks."""
        return Seen.of(self.lab.state)


@pytest.fixture
def site(serve: Serve, vgpu_cfg: CommandLine) -> Site:
    return Site(serve("two-a100"), vgpu_cfg)


@pytest.mark.parametrize("lacking", [("Alarm.Delete",), ("Alarm.Delete", "Alarm.Edit")], ids=" ".join)
def test_a_lock_that_stays_is_told_and_goes_once_the_role_is_mended(
    lacking: tuple[str, ...], site: Site
) -> None:
    before = site.seen
    site.give(*lacking)
    first = site("apply", "--yes", PAIR)
    assert first.code == 5
    assert f"{JANE} lacks {', '.join(lacking)}" in first.told
    assert f"grant it on that object; `vgpu-cfg privileges {PAIR} " in first.told
    locks = site.locks
    assert locks == ["vgpu-cfg lock: plan horovod-a100"]
    # The next one meets that lock, and makes none of its own.
    second = site("apply", "--yes", PAIR)
    assert second.code == 5
    assert all(name in second.told for name in lacking)
    assert "required to lock the objects that a run changes" in second.told
    assert f"grant it on that object; `vgpu-cfg privileges {PAIR} " in second.told
    assert still_locked(second) == still_locked(first)
    assert (site.locks, site.seen) == (locks, before)
    site.give()
    mended = site.done("apply", "--yes", PAIR)
    assert f"run {still_locked(first)} " in mended.told
    assert "without releasing its locks; removing them" in mended.told
    assert not site.locks


def test_a_lock_that_stays_goes_by_the_command_that_is_told(site: Site) -> None:
    site.give("Alarm.Delete")
    run = still_locked(site("apply", "--yes", PAIR))
    for _ in range(2):
        refused = site("unlock", run, "--yes")
        assert refused.code == 5
        assert "the account lacks Alarm.Delete, required to remove locks" in refused.told
    assert not site.words
    # Making locks is nothing that it takes.
    site.give("Alarm.Create", "Alarm.Edit")
    site.done("unlock", run, "--yes")
    assert (site.locks, len(site.words)) == ([], 1)


@pytest.mark.parametrize("command", ["plan", "apply", "import", "destroy"])
def test_a_read_only_account_suffices_for_a_run_with_nothing_to_do(command: str, site: Site) -> None:
    site.done("apply", "--yes", PAIR)
    if command == "destroy":
        site.done("destroy", "--yes", PAIR)
    before = site.seen
    site.give(*(name for name in PRIVILEGES if not name.startswith("System.")))
    site.lab.counters.clear()
    site.done(command, *(() if command == "plan" else ("--yes",)), PAIR, "--output=json")
    assert all(map(is_reading, site.lab.counters.keys() - {"calls"}))
    assert (site.locks, site.seen) == ([], before)
    if command not in ("import", "plan"):
        assert site("apply" if command != "apply" else "destroy", "--yes", PAIR).code == 5


def test_what_an_earlier_run_left_on_a_host_is_taken_over_by_who_may_keep_locks(
    vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch, saved = watch_labs(monkeypatch), vgpu_cfg.folder / "saved.json"

    def save(name: str) -> None:
        if name == "UpdateGraphicsConfig":
            shutil.copyfile(state_file(vgpu_cfg), saved)

    watch.before_call = save
    vgpu_cfg.done("apply", "--yes", HOSTS)
    put_state(vgpu_cfg, saved)
    lab = vgpu_cfg.lab(ESTATE)
    # As `unlock` leaves it: the mark, and SSH that is open, without a lock.
    with Session(lab, "lab", LAB_CREDENTIALS.user, LAB_CREDENTIALS.password) as session:
        for alarm in lab.state.all(Alarm):
            if alarm.name.startswith(HEAD):
                VCenterLocks(session).remove(alarm.moid)
    lab = vgpu_cfg.lab(ESTATE)
    with lab.transaction():
        lab.state.roles[NUMBER] = Role("runs", tuple(name for name in PRIVILEGES if name != "Alarm.Delete"))
        lab.state.permissions.append(Permission(lab.state.root, JANE, NUMBER))
        lab.state.touch()
    left = marks_of(lab.state)
    assert left
    watch.forget()
    ran = vgpu_cfg("apply", "--yes", HOSTS, "--user", JANE)
    assert ran.code == 5
    assert f"{JANE} lacks Alarm.Delete" in ran.told
    assert not watch.writes
    assert marks_of(vgpu_cfg.lab(ESTATE).state) == left


def test_what_was_begun_without_leave_to_keep_locks_is_given_back(site: Site) -> None:
    before = site.seen
    site.give("Alarm.Edit")
    ran = site("apply", "--yes", PAIR)
    assert ran.code == 5
    assert f"{JANE} lacks Alarm.Edit" in ran.told
    assert "locks of run" not in ran.told
    assert (site.locks, site.seen) == ([], before)


def test_all_that_locks_take_is_told_at_once_where_none_can_be_made(site: Site) -> None:
    site.give("Alarm.Create", "Alarm.Delete")
    before, asked = site.seen, site.lab.counters["HasPrivilegeOnEntities"]
    ran = site("apply", "--yes", PAIR)
    assert ran.code == 5
    assert "the account lacks Alarm.Create, Alarm.Delete, required to lock the objects" in ran.told
    assert "WHERE vCenter's root folder" in ran.told
    assert (site.locks, site.seen) == ([], before)
    assert site.lab.counters["HasPrivilegeOnEntities"] == asked + 1


def test_all_that_locks_take_is_told_where_the_account_has_no_role_on_the_root_folder(site: Site) -> None:
    (datacenter,) = site.lab.state.all(Datacenter)
    with site.lab.transaction():
        site.lab.state.permissions[-1] = Permission(datacenter.moid, JANE, ADMIN)
    ran = site("apply", "--yes", PAIR)
    assert ran.code == 5
    assert "the account lacks Alarm.Create, Alarm.Edit, Alarm.Delete, required to lock" in ran.told
    assert not site.locks


HOST = "host:esx-a100-01.lab"


@pytest.mark.parametrize(("user", "questions"), [(JANE, 1), (LAB_CREDENTIALS.user, 0)])
def test_who_is_no_administrator_is_asked_about_once(user: str, questions: int, site: Site) -> None:
    for words in (
        ("apply", "--yes", PAIR),
        ("destroy", "--yes", PAIR),
        ("cordon", HOST, "--reason=memory"),
        ("uncordon", HOST, "--restore", "--yes"),
    ):
        asked = site.lab.counters["HasPrivilegeOnEntities"]
        site.done(*words, user=user)
        assert site.lab.counters["HasPrivilegeOnEntities"] == asked + questions, words
