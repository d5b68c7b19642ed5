"""What a failed script says: the package manager's, the unit's, and the download's own last words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.staging.training.sandbox import Sandbox

ROOT = Path(__file__).resolve().parents[4]
HEAD = ROOT / "vgpu_cfg/staging/templates/head.sh.j2"
PAGE = ROOT / "docs/reference/guest-bundle.md"
LEAST_PROBLEMS = 20
LISTS_HELD = """\
E: Could not get lock /var/lib/apt/lists/lock. It is held by process 812 (apt-get)
E: Unable to lock directory /var/lib/apt/lists/
"""
ARCHIVES_HELD = """\
E: Could not get lock /var/cache/apt/archives/lock. It is held by process 812 (unattended-upgr)
E: Unable to lock the download directory
"""
NOT_FOUND = "Reading package lists...\nE: Unable to locate package docker.io\n"
UNPACKED = """\
dpkg: error processing archive /var/cache/apt/archives/docker.io_20.10.deb (--unpack):
 cannot copy extracted data for './usr/bin/docker': failed to write (No space left on device)
Errors were encountered while processing:
 /var/cache/apt/archives/docker.io_20.10.deb
E: Sub-process /usr/bin/dpkg returned an error code (1)
"""
INSTALL = "pkg_install docker.io || fail 'docker.io could not be installed'"
START = "unit restart nfs-server.service || fail 'the NFS server does not start'"


def done(guest: Sandbox, text: str) -> tuple[int, list[str]]:
    """Run lines behind the head of all scripts; return the status, and the reasons that they gave."""
    why = guest.write("/why", "")
    script = guest.write("/script", f"set -eu\n{HEAD.read_text(encoding='utf-8')}\n{text}\n")
    ended = guest.command(["sh", str(script)], VGPU_CFG_WHY=str(why))
    return ended.returncode, why.read_text(encoding="utf-8").splitlines()


@pytest.fixture
def guest(tmp_path: Path) -> Sandbox:
    """A Debian guest whose `sleep` returns at once."""
    found = Sandbox(tmp_path)
    found.stand_in("sleep")
    found.stand_in("apt-get")
    return found


def says(text: str, status: int = 100) -> str:
    return f"cat <<'END'\n{text}END\nexit {status}"


@pytest.mark.parametrize(
    ("said", "word", "why"),
    [
        (NOT_FOUND, "install", "Unable to locate package docker.io"),
        (
            UNPACKED,
            "install",
            "cannot copy extracted data for './usr/bin/docker': failed to write (No space left on device)",
        ),
    ],
)
def test_packages_that_are_not_installed(guest: Sandbox, said: str, word: str, why: str) -> None:
    guest.stand_in("apt-get", f'case "$*" in *{word}*) ;; *) exit 0 ;; esac\n{says(said)}')
    assert done(guest, INSTALL) == (1, [f"docker.io could not be installed: {why}"])


@pytest.mark.parametrize(("said", "word"), [(LISTS_HELD, "update"), (ARCHIVES_HELD, "install")])
def test_a_lock_that_another_holds_is_waited_for(guest: Sandbox, said: str, word: str) -> None:
    held = f'case "$*" in *{word}*) ;; *) exit 0 ;; esac\n[ "$(grep -c "{word}" calls)" -gt 3 ] && exit 0\n'
    guest.stand_in("apt-get", held + says(said))
    assert done(guest, INSTALL) == (0, [])
    assert len([call for call in guest.calls if call.startswith("sleep")]) == 3


def test_a_lock_that_is_never_let_go_is_told(guest: Sandbox) -> None:
    guest.stand_in("apt-get", says(LISTS_HELD))
    status, why = done(guest, INSTALL)
    assert status == 1
    assert why[-1] == "docker.io could not be installed: Unable to lock directory /var/lib/apt/lists/"
    # Ten minutes each.
    assert len([call for call in guest.calls if call.startswith("sleep 5")]) == 2 * 119


def test_a_unit_says_itself_why_it_does_not_start(guest: Sandbox) -> None:
    guest.stand_in("systemctl", "echo 'Job for nfs-server.service failed.' >&2; exit 1")
    journal = "Starting nfs-server.service - NFS server...\nrpc.nfsd: unable to bind any sockets\n"
    journal += "nfs-server.service: Main process exited, code=exited, status=1/FAILURE\n"
    guest.stand_in("journalctl", says(journal, 0))
    assert done(guest, START) == (1, ["the NFS server does not start: rpc.nfsd: unable to bind any sockets"])
    guest.stand_in("journalctl", "exit 1")
    assert done(guest, START) == (1, ["the NFS server does not start: journalctl -u nfs-server says why"])
    guest.stand_in("systemctl")
    assert done(guest, START) == (0, [])


def test_a_download_says_why_it_failed(guest: Sandbox) -> None:
    guest.stand_in("curl", "echo 'curl: (6) Could not resolve host: mirror.example' >&2; exit 6")
    status, why = done(guest, f"fetch https://mirror.example/x {guest.root}/x || exit 1")
    assert (status, why) == (
        1,
        ["the download of https://mirror.example/x failed: curl: (6) Could not resolve host: mirror.example"],
    )


def test_the_page_has_the_sentences_of_problems_that_tests_cause() -> None:
    """The page's first words of each are a script's, and a test has seen all of them."""
    _, table = PAGE.read_text(encoding="utf-8").split('id="common-problems"')
    rows = [line for line in table.split("\n## ")[0].splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= LEAST_PROBLEMS
    programs = "\n".join(one.read_text(encoding="utf-8") for one in HEAD.parent.glob("*.j2"))
    tests = "\n".join(one.read_text(encoding="utf-8") for one in Path(__file__).parents[1].rglob("*.py"))
    for row in rows:
        for sentence in re.findall("`([^`]+)`", row):
            parts = [part.strip() for part in sentence.split("…") if part.strip(" :")]
            assert parts[0].partition(":")[0] in programs, row
            assert [part for part in parts if part not in tests] == [], row
