"""The runner in the guest: order, report, restarts, its lock and its words; run for real under dash."""

from __future__ import annotations

import json
import os
import string
import subprocess
from collections.abc import Mapping
from typing import Any

import pytest

from tests.unit.staging.sandbox import Sandbox, context, spec_of, tool
from vgpu_cfg.lab.guest.staging.command import report_text
from vgpu_cfg.model.guests.guest import GuestReport
from vgpu_cfg.model.guests.modules import (
    DriverModule,
    GuestModule,
    HostNameModule,
    LicenceModule,
    LimitsModule,
    NouveauModule,
)
from vgpu_cfg.staging.bundle import RUNNER, SERVICE, bundle_files
from vgpu_cfg.staging.rendering import script_path

MODULES: tuple[GuestModule, ...] = (
    LimitsModule(),
    HostNameModule(host_name="hvd-01"),
    DriverModule(),
    NouveauModule(),
)
ORDER = ["host-name", "nouveau", "driver", "limits"]
SPEC = spec_of(*MODULES)


class Staging:
    """A guest whose modules' scripts are played: each notes its call and does what the test says."""

    def __init__(self, guest: Sandbox) -> None:
        self.guest = guest
        guest.real("flock", "timeout", "systemctl")
        guest.stand_in("vmtoolsd", 'printf "%s\\n" "$2" >>"$ROOT/guestinfo"')
        guest.put(bundle_files(context(SPEC), [one.kind for one in MODULES]))
        for kind in ORDER:
            self.play(kind)

    def play(self, kind: str, *, check: str = 'test -f "$R/have-$K"', apply: str = ': >"$R/have-$K"') -> None:
        text = (
            f'R="$VGPU_CFG_ROOT"; K={kind}; why() {{ printf "%s\\n" "$*" >>"$VGPU_CFG_WHY"; }}\n'
            f'echo "$K $1" >>"$R/calls"\ncase "$1" in\ncheck) {check} ;;\napply) {apply} ;;\nesac\n'
        )
        self.guest.write(script_path(kind), text)

    def run(self, *words: str) -> int:
        done = subprocess.run(
            [tool("dash"), str(self.guest.path(RUNNER)), *words],
            env={"PATH": str(self.guest.bin), "VGPU_CFG_ROOT": str(self.guest.root)},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        self.output = done.stdout + done.stderr
        return done.returncode

    def report(self) -> GuestReport:
        return GuestReport.model_validate_json(self.guest.read("/var/lib/vgpu-cfg/report.json"))

    def states(self) -> dict[str, str]:
        return {one.name: one.state for one in self.report().modules}

    def why(self, kind: str) -> str:
        return next(one.why for one in self.report().modules if one.name == kind)

    def calls(self) -> list[str]:
        path = self.guest.path("/calls")
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines


@pytest.fixture
def staging(guest: Sandbox) -> Staging:
    return Staging(guest)


def test_modules_are_brought_in_order(staging: Staging) -> None:
    assert staging.run("--run", "r1") == 0
    assert staging.calls() == [f"{kind} {half}" for kind in ORDER for half in ("check", "apply", "check")]
    report = staging.report()
    assert (report.state, report.run, report.spec) == ("done", "r1", SPEC.digest)
    assert [one.name for one in report.modules] == ORDER
    assert [one.digest for one in report.modules] == [
        one.digest for kind in ORDER if (one := SPEC.module(kind)) is not None
    ]
    assert set(staging.states().values()) == {"done"}
    assert not staging.guest.path("/var/lib/vgpu-cfg/pending").exists()


def test_what_is_there_is_only_looked_at(staging: Staging) -> None:
    staging.run()
    staging.calls()
    assert staging.run("--run", "r2") == 0
    assert staging.calls() == [f"{kind} check" for kind in ORDER]
    assert set(staging.states().values()) == {"present"}


def test_only_the_named_modules(staging: Staging) -> None:
    assert staging.run("--run", "r1", "limits", "host-name") == 0
    assert list(staging.states()) == ["host-name", "limits"]
    assert {line.split()[0] for line in staging.calls()} == {"host-name", "limits"}


def test_after_a_failure_the_rest_waits(staging: Staging) -> None:
    staging.play("nouveau", apply="why first; why no room; exit 3")
    assert staging.run() == 1
    assert staging.report().state == "failed"
    assert staging.states() == {
        "host-name": "done", "nouveau": "failed", "driver": "waiting", "limits": "waiting",
    }  # fmt: skip
    assert staging.why("nouveau") == "no room"
    assert not staging.guest.path("/var/lib/vgpu-cfg/pending").exists()


@pytest.mark.parametrize(
    ("played", "why"),
    [
        ({"apply": "exit 3"}, "it failed with status 3: see /var/log/vgpu-cfg.log"),
        ({"apply": "echo one; echo two >&2; exit 3"}, "it failed with status 3: two"),
        ({"check": "why still not; exit 1"}, "still not"),
        ({"check": "exit 1"}, "its check fails after it was applied: see /var/log/vgpu-cfg.log"),
        ({"apply": "kill -9 $$"}, "it did not end within 4 hours"),
    ],
)
def test_why_a_module_failed(staging: Staging, played: Mapping[str, str], why: str) -> None:
    staging.play("nouveau", **played)
    assert staging.run() == 1
    assert staging.why("nouveau") == why


def test_a_disk_that_is_full_leaves_a_valid_report(staging: Staging) -> None:
    """No file may grow here, as on a full disk; vCenter learns what the disk does not keep."""
    staging.run()
    staging.play("nouveau", check="exit 1", apply="why the reason; exit 1")
    before = staging.report()
    fifo = staging.guest.path("/told")
    os.mkfifo(fifo)
    staging.guest.stand_in("vmtoolsd", f'printf "%s\\n" "$2" >"{fifo}"')
    told = os.open(fifo, os.O_RDWR)
    limited = "trap '' XFSZ; ulimit -f 0; exec \"$@\""
    subprocess.run(
        [tool("dash"), "-c", limited, "dash", tool("dash"), str(staging.guest.path(RUNNER))],
        env={"PATH": str(staging.guest.bin), "VGPU_CFG_ROOT": str(staging.guest.root)},
        capture_output=True,
        check=False,
        timeout=120,
    )
    last = os.read(told, 65536).decode().splitlines()[-1]
    os.close(told)
    report = GuestReport.model_validate_json(last.split(" ", 2)[2])
    assert report.state == "failed"
    assert {one.name: one.why for one in report.modules}["nouveau"] == "no space left in /var/lib/vgpu-cfg"
    assert staging.report() == before


def test_a_hands_work_does_not_stop_the_rest(staging: Staging) -> None:
    staging.play("nouveau", check="exit 1", apply="why power the host off and on; exit 20")
    assert staging.run() == 20
    assert staging.report().state == "hand"
    assert staging.states()["nouveau"] == "hand"
    assert staging.states()["limits"] == "done"


def test_a_restart_and_what_comes_after_it(staging: Staging) -> None:
    staging.play("nouveau", check='test -f "$R/restarted"', apply="why nouveau runs; exit 10")
    assert staging.run("--run", "r1") == 10
    assert staging.report().state == "reboot"
    assert staging.states() == {
        "host-name": "done", "nouveau": "reboot", "driver": "waiting", "limits": "waiting",
    }  # fmt: skip
    assert staging.guest.read("/var/lib/vgpu-cfg/pending") == "--run r1 \n"
    wants = "/etc/systemd/system/multi-user.target.wants/vgpu-cfg-stage.service"
    assert staging.guest.path(wants).is_symlink()
    staging.calls()
    staging.guest.write("/restarted", "")
    assert staging.run("--resume") == 0
    assert staging.calls()[0] == "nouveau check"
    assert set(staging.states().values()) == {"done"}
    assert staging.report().run == "r1"
    assert staging.run("--resume") == 0
    assert staging.calls() == []


def test_a_restart_of_some_modules_goes_on_with_those(staging: Staging) -> None:
    staging.play("nouveau", check='test -f "$R/restarted"', apply="exit 10")
    assert staging.run("--run", "r1", "nouveau", "driver") == 10
    assert staging.guest.read("/var/lib/vgpu-cfg/pending") == "--run r1 nouveau driver\n"
    staging.guest.write("/restarted", "")
    assert staging.run("--resume") == 0
    assert staging.states() == {"nouveau": "done", "driver": "done"}


def test_a_module_cannot_restart_the_guest_for_ever(staging: Staging) -> None:
    staging.play("nouveau", check="exit 1", apply="why it runs; exit 10")
    assert staging.run() == 10
    assert [staging.run("--resume") for _ in range(3)] == [10, 10, 1]
    assert staging.why("nouveau") == "it requires another restart after 3: it runs"


def test_a_run_that_was_broken_off_goes_on(staging: Staging) -> None:
    staging.play(
        "driver", apply="kill -9 $(cut -d ' ' -f 4 /proc/$PPID/stat)"
    )  # the runner is timeout's parent
    assert staging.run("--run", "r1") == -9
    staging.play("driver")
    assert staging.run("--resume") == 0
    assert staging.states() == dict.fromkeys(ORDER, "done")


def test_a_start_reports_the_driver_and_stages_nothing(staging: Staging) -> None:
    staging.guest.stand_in("modinfo", 'test "$*" = "-F version nvidia" && echo 580.95.05')
    assert staging.run("--resume") == 0
    assert staging.guest.read("/guestinfo") == "info-set guestinfo.vgpu_cfg.driver 580.95.05\n"


def test_the_report_goes_to_guestinfo_as_it_goes_on(staging: Staging) -> None:
    staging.run("--run", "r1")
    told = staging.guest.read("/guestinfo").splitlines()
    assert all(line.startswith("info-set guestinfo.vgpu_cfg.report {") for line in told)
    reports = [GuestReport.model_validate_json(line.split(" ", 2)[2]) for line in told]
    assert [one.state for one in reports] == ["running"] * 4 + ["done"]
    assert [one.modules[1].state for one in reports] == ["waiting", "waiting", "done", "done", "done"]


@pytest.mark.parametrize("body", [None, "exit 1"])
def test_vmwares_tools_may_be_missing_or_refuse(staging: Staging, body: str | None) -> None:
    staging.guest.without("vmtoolsd")
    if body:
        staging.guest.stand_in("vmtoolsd", body)
    assert staging.run() == 0
    assert staging.report().state == "done"


@pytest.mark.parametrize(
    "said",
    [
        'a "b" c',
        r"back\slash \u0041 \n",
        "$(reboot) `x`",
        "{},[]",
        "\x1b[31mred",
        "ä€",
        "a\tb",
        "x" * 5000,
        "%s%d",
    ],
)
def test_whatever_a_module_says_the_report_is_json(staging: Staging, said: str) -> None:
    staging.guest.write("/said", said)
    staging.play("nouveau", apply='cat "$R/said" >>"$VGPU_CFG_WHY"; exit 1')
    assert staging.run() == 1
    raw: dict[str, Any] = json.loads(staging.guest.read("/var/lib/vgpu-cfg/report.json"))
    why = next(one["why"] for one in raw["modules"] if one["name"] == "nouveau")
    assert len(why) <= 200
    assert set(why) <= {*string.ascii_letters, *string.digits, *" .,:;/_+()'-=@%?&#<>!*"}
    assert GuestReport.model_validate(raw).state == "failed"


def test_a_name_with_other_signs_is_escaped(staging: Staging) -> None:
    staging.guest.write("/said", "there is no image k\u00f6ln[1]")
    staging.play("nouveau", apply='cat "$R/said" >>"$VGPU_CFG_WHY"; exit 1')
    staging.run()
    assert staging.why("nouveau") == "there is no image k%C3%B6ln%5B1%5D"


@pytest.mark.parametrize(
    "said",
    [
        "it is not set; restart the guest; then stage it again",
        "https://mirror.example/a?b=c&d=%20 answers 403",
        "nvcr.io/nvidia/x@sha256:12 is not there",
        "x (>= 2) <!-- # * -->",
    ],
)
def test_what_a_module_says_keeps_its_punctuation(staging: Staging, said: str) -> None:
    staging.guest.write("/said", said)
    staging.play("nouveau", apply='cat "$R/said" >>"$VGPU_CFG_WHY"; exit 1')
    staging.run()
    assert staging.why("nouveau") == report_text(said) == said


def test_the_largest_report_fits_into_guestinfo(staging: Staging) -> None:
    for kind in ORDER:
        staging.play(kind, apply=f': >"$R/have-$K"; why {"x" * 300}')
    staging.run("--run", "r" * 64)
    size = len(staging.guest.read("/var/lib/vgpu-cfg/report.json"))
    assert size / len(ORDER) * 21 < 60_000


@pytest.mark.parametrize(
    "words",
    [
        ["--run"],
        ["--run", "a b"],
        ["--run", 'a"b'],
        ["--run", "a\nb"],
        ["--run", "x" * 65],
        ["-x"],
        ["$(x)"],
        ["a b"],
        [""],
    ],
)
def test_wrong_words(staging: Staging, words: list[str]) -> None:
    assert staging.run(*words) == 2
    assert "usage:" in staging.output
    assert staging.calls() == []


def test_a_module_that_the_guest_has_not(staging: Staging) -> None:
    assert staging.run("--run", "r1", "worker") == 1
    assert staging.report().state == "failed"
    assert staging.calls() == []


def test_a_script_that_is_missing(staging: Staging) -> None:
    staging.guest.path(script_path("nouveau")).unlink()
    assert staging.run() == 1
    assert staging.why("nouveau").endswith("is not in the guest: stage this module again")


def test_nothing_was_staged_yet(staging: Staging) -> None:
    staging.guest.path("/var/lib/vgpu-cfg/modules.list").unlink()
    assert staging.run() == 1
    assert "nothing has been staged in this guest yet" in staging.output


def test_two_runs_do_not_meet(staging: Staging) -> None:
    """The second waits for the lock, which the played flock says it did not get."""
    staging.guest.without("flock")
    staging.guest.stand_in("flock", "exit 1")
    assert staging.run() == 1
    assert "another vgpu-cfg-stage has been running" in staging.output
    assert staging.calls() == []
    assert staging.guest.calls("flock") == ["flock -w 3600 9"]


def test_scripts_do_not_inherit_the_lock(staging: Staging) -> None:
    staging.play("nouveau", apply='ls -l /proc/self/fd >"$R/fds"; : >"$R/have-$K"')
    staging.run()
    assert "vgpu-cfg/lock" not in staging.guest.read("/fds")


def test_files_are_roots_own(staging: Staging) -> None:
    staging.guest.path("/var/lib/vgpu-cfg/secrets").mkdir(exist_ok=True)
    old = os.umask(0)
    try:
        staging.run()
    finally:
        os.umask(old)
    assert staging.guest.mode("/var/lib/vgpu-cfg/secrets") == 0o700
    assert staging.guest.mode("/var/log/vgpu-cfg.log") == 0o600
    assert staging.guest.mode("/var/lib/vgpu-cfg/report.json") == 0o644


def test_cloud_inits_copies_of_the_secrets_go(staging: Staging) -> None:
    kept = "/var/lib/cloud/instances/i-1"
    for name in ("user-data.txt", "user-data.txt.i", "cloud-config.txt", "obj.pkl"):
        staging.guest.write(f"{kept}/{name}", "secret", 0o600)
    staging.guest.write(f"{kept}/boot-finished", "x")
    assert staging.run("--run", "other") == 0
    assert staging.guest.read(f"{kept}/user-data.txt") == "secret"
    assert staging.run("--run", "first") == 0
    left = [path.name for path in staging.guest.path(kept).iterdir() if path.read_text()]
    assert left == ["boot-finished"]


def test_a_secret_is_in_no_log_and_no_report(guest: Sandbox) -> None:
    guest.real("flock", "timeout", "systemctl")
    guest.stand_in("vmtoolsd", 'printf "%s\\n" "$2" >>"$ROOT/guestinfo"')
    guest.stand_in("nvidia-smi", "echo '    License Status    : Licensed (Expiry: x)'")
    spec = spec_of(LicenceModule(token="lic"))
    guest.put(bundle_files(context(spec, lic="the-token-itself"), ["licence"]))
    guest.bin.joinpath("systemctl").unlink()
    guest.stand_in("systemctl")
    done = subprocess.run(
        [tool("dash"), str(guest.path(RUNNER)), "--run", "r1"],
        env={"PATH": str(guest.bin), "VGPU_CFG_ROOT": str(guest.root)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done
    holding = [
        str(path.relative_to(guest.root))
        for path in guest.root.rglob("*")
        if path.is_file() and b"the-token-itself" in path.read_bytes()
    ]
    assert holding == ["etc/nvidia/ClientConfigToken/client_configuration_token_vgpu-cfg.tok"]
    assert "the-token-itself" not in done.stdout + done.stderr


def test_the_unit_is_what_systemd_reads(guest: Sandbox) -> None:
    guest.put(bundle_files(context(SPEC), []))
    assert f"ExecStart={RUNNER} --resume\n" in guest.read(SERVICE)


def test_what_a_module_warns_of_is_reported_whether_it_was_there_or_not(guest: Sandbox) -> None:
    staging = Staging(guest)
    warns = 'test -f "$R/have-$K" && : >"$VGPU_CFG_WHY.warned" && why "lldpad is running"'
    staging.play("limits", check=warns)
    for _ in range(2):
        assert staging.run() == 0
        assert (staging.states()["limits"], staging.why("limits")) == ("warned", "lldpad is running")
        assert staging.report().state == "done"
    staging.play("limits")
    assert staging.run() == 0
    assert staging.states()["limits"] == "present"
