"""What an earlier release left is read, retried and removed by this one: tests/earlier/*/README.md."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine, Ran
from tests.extent import each
from vgpu_cfg.lab.simulation.clock import VIRTUAL_START, VirtualClock
from vgpu_cfg.lab.state.inventory import Alarm, Host, VirtualMachine
from vgpu_cfg.model.locks import parse_lock

HERE = Path(__file__).resolve().parent
HOSTS, TEAM = "estates/work-on-hosts.yaml", "estates/team.yaml"
LAB = f"--server=lab:{HOSTS}"
DRAIN = ("drain", "esx-01.lab", LAB, "--yes", "--power-off=plain-db")
UNCORDON = ("uncordon", "host:esx-01.lab", LAB, "--restore", "--yes")
PARTS = ("1", "2", "3")


class Left(CommandLine):
    """A command line in a folder that an earlier release left, with the secrets that its plans name."""

    def put(self, name: str, release: str = "c9a0b44b") -> None:
        packed = HERE / release / "left" / f"{name}.tar.xz"
        command = ["tar", "--extract", "--file", str(packed)]
        subprocess.run(command, cwd=self.folder, check=True, timeout=60)

    def vms(self, estate: str = HOSTS) -> dict[str, bool]:
        """Return the names of all VMs, and whether each runs."""
        return {vm.name: vm.is_on for vm in self.lab(estate).state.all(VirtualMachine) if not vm.is_template}

    def hosts(self) -> set[str]:
        """Return the names of the hosts that VMs are on."""
        state = self.lab(HOSTS).state
        return {state.get(vm.host, Host).name for vm in state.all(VirtualMachine) if not vm.is_template}

    def locks(self, estate: str = HOSTS) -> set[str]:
        """Return the ids of the runs that hold locks."""
        parsed = (parse_lock(one.name, one.spec.description) for one in self.lab(estate).state.all(Alarm))
        return {one[1].run for one in parsed if one is not None and one[1] is not None}

    def settled(self, *words: str, estate: str = HOSTS) -> Ran:
        """Run a command that must end well and leave no lock."""
        ran = self.done(*words)
        assert self.locks(estate) == set(), ran.told
        return ran


@pytest.fixture
def left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Left:
    for name, value in (
        ("TOKEN", "tok-SECRET-licence"),
        ("NGC", "ngc-SECRET-registry"),
        ("ESXI_PASSWORD", "lab"),
    ):
        monkeypatch.setenv(name, value)
    folder = tmp_path / "work"
    folder.mkdir()
    return Left(folder, monkeypatch)


# ---------------------------------------------------------------- runs that ended


def test_vms_are_read_kept_and_destroyed(left: Left) -> None:
    left.put("made")
    assert left("plan", "plain.yaml").code == 0
    assert left("status", "plain.yaml").code == 0
    assert "apply" in left.done("history", "plain.yaml", LAB).out
    left.settled("apply", "--yes", "plain.yaml")
    assert left("plan", "plain.yaml", "--exit-code").code == 0
    left.settled("destroy", "--yes", "plain.yaml")
    assert left.vms() == {"plain-db": True}


def test_vms_are_forgotten_and_taken_back(left: Left) -> None:
    left.put("made")
    left.settled("forget", "--yes", "plain.yaml")
    assert left.vms() == {"plain-db": True, "t1": True, "t2": True}
    left.settled("import", "--yes", "plain.yaml")
    left.settled("apply", "--yes", "plain.yaml")


@pytest.mark.parametrize("first", [(), ("--rotate", "keys")], ids=["kept", "rotated"])
def test_a_guest_whose_keys_are_in_the_state_folder_is_reached(first: tuple[str, ...], left: Left) -> None:
    left.put("trained")
    kept = sorted(one.name for one in (left.state_folder / "keys").iterdir())
    left.settled("apply", "--yes", "training.yaml", *first, estate=TEAM)
    assert sorted(one.name for one in (left.state_folder / "keys").iterdir()) == kept
    assert left("plan", "training.yaml", "--exit-code").code == 0
    left.settled("destroy", "--yes", "training.yaml", estate=TEAM)
    assert left.vms(TEAM) == {}


def test_hosts_that_were_prepared_stay_so(left: Left) -> None:
    left.put("prepared")
    left.settled("apply", "--yes", "hosts.yaml", estate="estates/hosts.yaml")
    assert left("plan", "hosts.yaml", "--exit-code").code == 0


def test_a_saved_plan_is_applied_with_its_signature(left: Left) -> None:
    left.put("saved")
    signed = left.settled("apply", "--yes", "plan.json", "--require-signature", "signers")
    assert "signed by jane@example.com" in signed.told
    assert left.vms() == {"plain-db": True, "t1": True, "t2": True}
    assert "t1" in left.settled("destroy", "--yes", "plan.json").told
    assert left.vms() == {"plain-db": True}


def test_a_reservation_is_given_back(left: Left) -> None:
    left.put("reserved")
    assert "plain" in left.done("inventory", "--reservations", LAB).out
    left.settled("apply", "--yes", "plain.yaml")
    left.settled("destroy", "--yes", "plain.yaml")
    assert "plain" not in left.done("inventory", "--reservations", LAB).out.replace("plain-db", "")


def test_a_cordon_is_read_and_given_back(left: Left) -> None:
    left.put("cordoned")
    assert "Xid 79" in left.done("inventory", LAB).told
    left.settled("uncordon", "gpu:esx-02.lab/21:00.0", LAB)
    assert "Xid 79" not in left.done("inventory", LAB).told
    left.settled("destroy", "--yes", "plain.yaml")


def test_a_drained_host_gets_its_vms_back(left: Left) -> None:
    left.put("drained")
    assert left.hosts() == {"esx-02.lab"}
    left.settled(*UNCORDON)
    assert left.vms() == {"plain-db": True, "t1": True, "t2": True}
    assert left.hosts() == {"esx-01.lab"}


def test_an_imported_vm_is_forgotten(left: Left) -> None:
    left.put("imported")
    left.settled("apply", "--yes", "taken.yaml")
    left.settled("forget", "--yes", "taken.yaml")
    assert left.vms()["plain-db"]


# ---------------------------------------------------------------- runs that were killed

KILLED = {
    "making": (HOSTS, ("apply", "--yes", "plain.yaml")),
    "training": (TEAM, ("apply", "--yes", "training.yaml")),
    "preparing": ("estates/hosts.yaml", ("apply", "--yes", "hosts.yaml")),
    "destroying": (HOSTS, ("destroy", "--yes", "plain.yaml")),
    "draining": (HOSTS, DRAIN),
    "uncordoning": (HOSTS, UNCORDON),
    "importing": (HOSTS, ("import", "taken.yaml", "--yes")),
}
CELLS = [(kind, part) for kind in KILLED for part in PARTS]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("kind", "part"), CELLS)
def test_the_same_command_ends_what_a_killed_run_began(kind: str, part: str, left: Left) -> None:
    left.put(f"killed-{kind}-{part}")
    estate, words = KILLED[kind]
    left.settled(*words, estate=estate)
    if words[0] == "apply":
        assert left("plan", words[-1], "--exit-code").code == 0


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("kind", "part"),
    each(CELLS, "a killed run of an earlier release, by another part", lambda _, part: part == "2", one_of=5),
)
def test_another_machine_unlocks_what_a_killed_run_holds(kind: str, part: str, left: Left) -> None:
    left.put(f"killed-{kind}-{part}")
    left.machine = "desk-02"
    estate, words = KILLED[kind]
    for run in left.locks(estate):
        left.done("unlock", run, f"--server=lab:{estate}", "--yes", "--force")
    left.lab(estate, VirtualClock(VIRTUAL_START + 86_400))  # tasks of the killed run end meanwhile
    left.settled(*words, estate=estate)
