"""`cordon --check`: DCGM tests idle GPUs; without it the driver's readings decide; unread is not healthy."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.fakes.answering_guests import Answer, FakeGuest, FakeGuests
from tests.unit.verification.health_plants import QUIET, SOUND, changed, xid
from tests.unit.verification.two_workers import GPU, Scene, failing, make_scene
from vgpu_cfg.model.verification import CheckState, Thresholds, Verification
from vgpu_cfg.ports import ShellResult
from vgpu_cfg.verification.watching import health_choice

VERSION, DIAG = ("dcgmi", "--version"), ("dcgmi", "diag", "-r", "2")
FAIL = "| Pulse Test | Fail |\n+-----+\n"
USED = SOUND.replace(
    "    Processes                             : None\n",
    "    Processes\n        Process ID : 2211\n            Type : C\n            Name : python3\n"
    "            Used GPU Memory : 9 MiB\n",
)


def scene() -> Scene:
    found = make_scene()
    found.hosts.clear()
    del found.views["hvd-02"]
    found.change(vgpus=0, wanted=((),), profiles=(), host_gpus=(GPU,))
    found.answer("dmesg", by=QUIET)
    found.answer("nvidia-smi", "-q", by=SOUND)
    found.answer(*VERSION, by="dcgmi  version: 4.2.3\n")
    found.answer(*DIAG, by="")
    return found


def state(found: Verification, check: str) -> tuple[str, str]:
    (one,) = [one for one in found.results if one.check == check]
    return one.state.value, one.why or one.observed


def checked(found: Scene) -> Verification:
    return found.run(health_choice(Thresholds()))


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({}, ("passed", "dcgmi diag -r 2 found no errors")),
        ({DIAG: ShellResult(status=226, stdout=FAIL)}, ("failed", "Pulse Test | Fail")),
        ({DIAG: failing("unable to connect", 235)}, ("unproven", "status 235")),
        ({VERSION: failing("not found", 127)}, ("skipped", "DCGM is not installed")),
        ({("nvidia-smi", "-q"): USED}, ("unproven", "in use by python3 (2211)")),
    ],
)
def test_dcgm_decides_if_it_can_run(
    answers: dict[tuple[str, ...], object], expected: tuple[str, str]
) -> None:
    found = scene()
    for words, by in answers.items():
        found.answer(*words, by=by)  # type: ignore[arg-type]  # as in a table of answers
    seen = state(checked(found), "diagnostics")
    assert (seen[0], expected[1] in seen[1]) == (expected[0], True), seen


def test_readings_stand_for_it() -> None:
    pending = changed("Pending : No", "Pending : Yes")
    for plant in (("nvidia-smi", "-q", pending), ("dmesg", QUIET + xid(79, "x"))):
        found = scene()
        found.answer(*VERSION, by=failing("not found", 127))
        assert checked(found).passes
        found.answer(*plant[:-1], by=plant[-1])
        assert checked(found).failed
    found = scene()
    found.change(vgpus=1)
    assert state(checked(found), "diagnostics") == ("skipped", "DCGM tests only passthrough GPUs")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("2026-01-01T00:00:00.1Z NVRM: Xid (PCI:0000:17:00): 79, off the bus", CheckState.PASSED),
        ("2026-03-01T00:00:00.1Z NVRM: Xid (PCI:0000:17:00): 79, off the bus", CheckState.FAILED),
        ("2026-03-01T00:00:00.1Z NVRM: Xid (PCI:0000:17:00): 31, pid=1, MMU", CheckState.PASSED),
        ("2026-03-01T00:00:00.1Z NVRM: Xid (PCI:0000:31:00): 79, off the bus", CheckState.PASSED),
    ],
)
def test_only_recent_xids_of_the_cordoned_gpu_count(line: str, expected: CheckState) -> None:
    found = make_scene()
    (host,) = found.hosts
    found.views.clear()
    view = replace(
        host, vms=(), has_shell=True, checked=("0000:17:00.0",), since=datetime(2026, 2, 1, tzinfo=UTC)
    )
    found.hosts[:] = [view]
    smi = SOUND.replace("00000000:02:01.0", "00000000:17:00.0")
    answers: dict[tuple[str, ...], Answer] = {
        ("nvidia-smi", "-q"): smi,
        ("grep", "-iE", "NVRM: Xid", "/var/log/vmkernel.log"): f"{line}\n",
    }
    found.host_shells = FakeGuests({view.name: FakeGuest(view.name, answers)})
    seen = {one.check: one for one in checked(found).results}
    assert seen["host-kernel-log"].state is expected
    assert seen["host-gpu-health"].state is CheckState.PASSED, seen


def test_a_gpu_in_passthrough_that_no_vm_has_is_not_proven() -> None:
    found = make_scene()
    (host,) = found.hosts
    found.views.clear()
    found.hosts[:] = [replace(host, vms=(), unheld=("0000:17:00.0",))]
    told = checked(found)
    assert not told.passes
    assert "not used by any running VM in the plan: 0000:17:00.0" in state(told, "host-gpu-health")[1]
