"""Make the fixtures of this folder with the release they come from; see the README.

Each fixture is a folder in which jane, on desk-01, has run some commands; `--at N` kills the process of a
command when the lab writes its state for the N-th time.
"""

from __future__ import annotations

import io
import lzma
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
SECRETS = {"TOKEN": "tok-SECRET-licence", "NGC": "ngc-SECRET-registry", "ESXI_PASSWORD": "lab"}
AROUND = {
    "VGPU_CFG_STATE_FOLDER": "state",
    "VGPU_CFG_CONFIG": "config.yaml",
    "VGPU_CFG_LAB_SPEED": "0",
    "COLUMNS": "110",
    "TZ": "UTC",
}


def run_here(at: int, words: list[str]) -> None:
    """Run one command in this process, and end it at the lab's `at`-th write."""
    from vgpu_cfg import execution
    from vgpu_cfg.cli.app import main
    from vgpu_cfg.lab.state.inventory import LabState
    from vgpu_cfg.lab.state.store import Store

    setattr(execution, "this_user", lambda: "jane")  # noqa: B010 - mypy knows it for a function
    setattr(execution, "this_machine", lambda: "desk-01")  # noqa: B010 - as above, a function
    save, writes = Store.save, 0

    def counted(store: Store, state: LabState, now: float) -> None:
        nonlocal writes
        save(store, state, now)
        writes += 1
        if writes == at:
            os.kill(os.getpid(), signal.SIGKILL)

    setattr(Store, "save", counted)  # noqa: B010 - as above, a function
    sys.argv = ["vgpu-cfg", *words]
    try:
        main()
    finally:
        Path("writes").write_text(str(writes), encoding="ascii")


@dataclass(frozen=True)
class Place:
    """A folder that commands run in."""

    folder: Path

    def run(self, *words: str, at: int = 0) -> None:
        """Run a command that must end well, or be killed `at` a write."""
        command = [sys.executable, __file__, "--at", str(at), *words]
        environment = {**os.environ, **AROUND, **SECRETS, "PYTHONPATH": os.environ["PYTHONPATH"]}
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        if done.returncode != (-signal.SIGKILL if at else 0):
            sys.exit(f"{words}: {done.returncode}\n{done.stdout}{done.stderr}")

    def writes(self) -> int:
        """Return how often the lab wrote its state in the last command."""
        return int((self.folder / "writes").read_text(encoding="ascii"))


Steps = Callable[[Place], object]


def killed(before: Steps, *words: str) -> list[Steps]:
    """Return what leaves a command killed at a quarter, the middle and three quarters of its writes."""

    def share(part: int) -> Steps:
        def steps(place: Place) -> None:
            before(place)
            copy = Place(place.folder.with_name("undisturbed"))
            shutil.copytree(place.folder, copy.folder)
            copy.run(*words)
            place.run(*words, at=max(1, copy.writes() * part // 4))

        return steps

    return [share(part) for part in (1, 2, 3)]


def nothing(_: Place) -> None:
    """Begin with an estate as it was built."""


def made(place: Place) -> None:
    place.run("apply", "--yes", "plain.yaml")


def trained(place: Place) -> None:
    place.run("apply", "--yes", "training.yaml")


def saved(place: Place) -> None:
    """Save a plan that nothing has applied, signed, and one that deletes."""
    key = place.folder / "jane"
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "jane", "-f", str(key)]
    subprocess.run(words, check=True, timeout=60)
    public = key.with_suffix(".pub").read_text(encoding="ascii").rsplit(" ", 1)[0]
    signers = f'jane@example.com namespaces="vgpu-cfg" {public}\n'
    (place.folder / "signers").write_text(signers, encoding="ascii")
    place.run("plan", "plain.yaml", "-o", "plan.json", "--sign", "jane")
    key.unlink()
    key.with_suffix(".pub").unlink()


def reserved(place: Place) -> None:
    text = (place.folder / "plain.yaml").read_text(encoding="utf-8")
    timed = text.replace("vms:", "from: 2098-01-01T08:00Z\nuntil: 2099-01-31T18:00Z\nvms:")
    (place.folder / "plain.yaml").write_text(timed, encoding="utf-8")
    place.run("apply", "--yes", "plain.yaml")


LAB = "--server=lab:estates/work-on-hosts.yaml"


def cordoned(place: Place) -> None:
    made(place)
    place.run("cordon", "gpu:esx-02.lab/21:00.0", "--reason", "Xid 79", LAB)


DRAIN = ("drain", "esx-01.lab", LAB, "--yes", "--power-off=plain-db")


def drained(place: Place) -> None:
    made(place)
    place.run(*DRAIN)


def imported(place: Place) -> None:
    place.run("import", "taken.yaml", "--yes")


SITUATIONS: dict[str, list[Steps]] = {
    "made": [made],
    "trained": [trained],
    "prepared": [lambda place: place.run("apply", "--yes", "hosts.yaml")],
    "saved": [saved],
    "reserved": [reserved],
    "cordoned": [cordoned],
    "drained": [drained],
    "imported": [imported],
    "killed-making": killed(nothing, "apply", "--yes", "plain.yaml"),
    "killed-training": killed(nothing, "apply", "--yes", "training.yaml"),
    "killed-preparing": killed(nothing, "apply", "--yes", "hosts.yaml"),
    "killed-destroying": killed(made, "destroy", "--yes", "plain.yaml"),
    "killed-draining": killed(made, *DRAIN),
    "killed-uncordoning": killed(drained, "uncordon", "host:esx-01.lab", LAB, "--yes"),
    "killed-importing": killed(nothing, "import", "taken.yaml", "--yes"),
}


def packed(folder: Path) -> bytes:
    """Pack a folder; the same files give the same bytes."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for one in sorted(folder.rglob("*")):
            entry = tar.gettarinfo(one, str(one.relative_to(folder)))
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mtime = 0
            if one.is_file():
                with one.open("rb") as file:
                    tar.addfile(entry, file)
            else:
                tar.addfile(entry)
    return lzma.compress(out.getvalue())


def main(target: Path) -> None:
    target.mkdir(exist_ok=True)
    for name, each in SITUATIONS.items():
        for number, steps in enumerate(each, 1):
            with tempfile.TemporaryDirectory() as scratch:
                place = Place(Path(scratch) / "work")
                shutil.copytree(HERE / "begin", place.folder)
                steps(place)
                (place.folder / "writes").unlink(missing_ok=True)
                whole = f"{name}-{number}" if len(each) > 1 else name
                (target / f"{whole}.tar.xz").write_bytes(packed(place.folder))
                sys.stdout.write(f"{whole}\n")


if __name__ == "__main__":
    if sys.argv[1] == "--at":
        run_here(int(sys.argv[2]), sys.argv[3:])
    else:
        main(Path(sys.argv[1]))
