"""Machine checks of a guest: failing hardware, GPUs that slow down, room on disks, and the clock.

The clock must be right, and a service must keep it so: a licence token, a certificate, a job's time limits
and the logs of several workers all rest on it.

Belief: xids-of-programs.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import replace

from vgpu_cfg.knowledge.faults import is_machine_fault
from vgpu_cfg.knowledge.verify_failures import VerifyCode
from vgpu_cfg.model.verification import OF_PROGRAMS, CheckState, Evidence
from vgpu_cfg.parsers.guest_system import (
    Tracking,
    Xid,
    is_read_only,
    parse_kernel_log,
    parse_room,
    parse_time,
    parse_timedatectl,
    parse_tracking,
    parse_xids,
)
from vgpu_cfg.parsers.nvidia.dcgm import parse_dcgm_health
from vgpu_cfg.parsers.nvidia.gpu_health import SOUND, GpuHealth, parse_health, troubles_of
from vgpu_cfg.parsers.text import UnreadableOutput
from vgpu_cfg.ports import ShellResult
from vgpu_cfg.verification.asking import (
    Asking,
    Command,
    ReadClock,
    Step,
    Verdict,
    failed,
    is_absent,
    passed,
    said,
    skipped,
    unproven,
)
from vgpu_cfg.verification.views import GuestView, HostView

STORES = {
    "docker": "/var/lib/docker",
    "containerd": "/var/lib/containerd",
    "apptainer": "/var/lib/vgpu-cfg/images",
}
"""The folder of each runtime's images, unless the template sets another."""

LEAST_SHARE, LEAST_GIB = 0.02, 2.0
"""A file system with less than both of them free is full, for what training writes."""

_MOST_LINES = 3
HOST_LOG = "/var/log/vmkernel.log"
"""VMware, "ESXi Log File Locations"."""


def ask_gpu_health(view: GuestView) -> Asking:
    """See whether a GPU has errors of its memory, is slowed down, or has lost lanes."""
    if not view.gpus:
        return skipped("the VM has no GPU")
    answer = yield Command(("nvidia-smi", "-q"), timeout_seconds=60)
    return _assess(parse_health(answer.stdout or answer.stderr))


def ask_host_gpu_health(view: HostView) -> Asking:
    """Check the GPUs of vGPUs in the same way, if the host's shell may be used."""
    unheld = f"in passthrough mode, but not used by any running VM in the plan: {', '.join(view.unheld)}"
    if not view.vgpus:
        return unproven(unheld) if view.unheld else skipped("no VM in the plan has a vGPU on this host")
    if not view.has_shell:
        why = "readable only from the host's shell; set `access: {ssh: on}` and start the SSH service"
        return unproven(why) if view.checked else skipped(why, is_asked=True)
    answer = yield Command(("nvidia-smi", "-q"), timeout_seconds=120)
    seen = parse_health(answer.stdout or answer.stderr)
    verdict = _assess(tuple(one for one in seen if one.pci_id in view.vgpus))
    return unproven(unheld) if view.unheld and verdict.state is CheckState.PASSED else verdict


def signs_of(seen: Iterable[GpuHealth]) -> tuple[Evidence, ...]:
    """Return the troubles of GPUs as signs."""
    return tuple(
        Evidence(kind=kind, words=words, gpu=one.pci_id) for one in seen for kind, words in one.found
    )


def _assess(seen: tuple[GpuHealth, ...]) -> Verdict:
    if bad := troubles_of(seen):
        return replace(failed(VerifyCode.GPU_UNSOUND, bad, SOUND), evidence=signs_of(seen))
    capped = [f"{one.pci_id}: {one.capped}" for one in seen if one.capped]
    if capped:
        return failed(VerifyCode.GPU_CAPPED, "; ".join(capped), "the board's own power limit")
    if not any(one.is_told for one in seen):
        return skipped("vGPU drivers do not report GPU health; see the check on the host", is_asked=True)
    return passed("no memory errors, no slowdown")


def ask_kernel_log(view: GuestView) -> Asking:  # noqa: ARG001 - asked of every guest alike
    """See whether the kernel has complained of hardware since the guest's boot: Xids, PCIe, NICs, disks."""
    answer = yield Command(("dmesg",))
    if answer.status != 0:
        return unproven(f"cannot read the kernel log: {said(answer)}")
    seen = parse_kernel_log(answer.stdout, is_machine_fault)
    others = tuple(
        Evidence(kind="kernel", words=line, is_past=True) for line in seen.troubles if "NVRM: Xid" not in line
    )
    signs = (*_xid_signs(seen.xids), *others)
    if seen.troubles:
        shown = list(seen.troubles[:_MOST_LINES])
        more = len(seen.troubles) - len(shown)
        words = "; ".join([*shown, *([f"{more} more"] if more else [])])
        verdict = failed(VerifyCode.KERNEL_COMPLAINS, words, "no hardware errors in the log")
        return replace(verdict, evidence=signs)
    numbers = ", ".join(map(str, seen.of_programs))
    verdict = passed(
        f"only Xid {numbers}, caused by applications" if numbers else "no hardware errors in the log"
    )
    return replace(verdict, evidence=signs)


def _xid_signs(xids: Iterable[Xid]) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(kind=f"xid-{one.number}", words=one.line, gpu=one.gpu, is_past=True) for one in xids
    )


_NO_LINES = 1
"""The status of grep if no line matches."""


def ask_host_kernel_log(view: HostView) -> Asking:
    """Collect the Xids of the host's driver since its restart, or since the log was last rotated.

    For a cordon's check, one that is not an application's fails if it is of a checked GPU and recent.
    """
    if not view.has_shell:
        return skipped("readable only from the host's shell", is_asked=True)
    answer = yield Command(("grep", "-iE", "NVRM: Xid", HOST_LOG))
    if answer.status not in (0, _NO_LINES):
        return unproven(f"cannot read {HOST_LOG}: {said(answer)}")
    since = f"{view.since:%Y-%m-%dT%H:%M:%S}" if view.since is not None else ""
    recent = parse_xids("\n".join(line for line in answer.stdout.splitlines() if line >= since))
    bad = [one.line for one in recent if one.gpu in view.checked and one.number not in OF_PROGRAMS]
    if bad:
        expected = f"no Xids after {since or 'the last rotation'}"
        remedy = "after the repair, restart the host; log lines from before the restart no longer count"
        return failed(VerifyCode.KERNEL_COMPLAINS, "; ".join(bad[-_MOST_LINES:]), expected, remedy=remedy)
    return replace(passed("read"), evidence=_xid_signs(recent))


_DIAGNOSTICS = ("dcgmi", "diag", "-r", "2")
"""System validation of a few minutes (DCGM User Guide, "DCGM Diagnostics"): tests of memory and PCIe too."""
_DCGM_FAILED = 226
"""DCGM_ST_NVVS_ERROR as an exit status: a test failed. Others say why none ran. Belief: dcgmi-diag-status."""


def ask_diagnostics(view: GuestView) -> Asking:
    """Run DCGM's diagnostics on GPUs in passthrough that are idle; without DCGM, the readings decide."""
    gpus = view.learned.gpus.gpus if view.learned.gpus is not None else ()
    if not view.gpus or view.vgpus:
        return skipped("DCGM tests only passthrough GPUs")
    if is_absent((yield Command(("dcgmi", "--version")))):
        return skipped("DCGM is not installed in the guest; see `gpu-health` and `kernel-log` instead")
    if users := [name for gpu in gpus for name in gpu.processes]:
        return unproven(f"dcgmi diag requires idle GPUs; in use by {', '.join(users)}")
    answer = yield Command(_DIAGNOSTICS, timeout_seconds=1800)
    if answer.status == 0:
        return passed("dcgmi diag -r 2 found no errors")
    told = [line for line in answer.stdout.splitlines() if "fail" in line.casefold()]
    words = "; ".join(" ".join(line.strip("| ").split()) for line in told[:_MOST_LINES]) or said(answer)
    if answer.status != _DCGM_FAILED:
        return unproven(f"dcgmi diag could not run (status {answer.status}): {words}")
    return failed(
        VerifyCode.GPU_UNSOUND, words, "dcgmi diag -r 2 without errors", remedy="run `dcgmi diag -r 3`"
    )


def ask_dcgm_health(view: GuestView) -> Asking:
    """Collect what DCGM's health watches report; none is set here."""
    if not view.gpus:
        return skipped("the VM has no GPU")
    answer = yield Command(("dcgmi", "health", "-c", "-j"))
    if is_absent(answer):
        return skipped("DCGM is not installed in the guest", is_asked=True)
    try:
        found = parse_dcgm_health(answer.stdout)
    except UnreadableOutput:
        return skipped(f"dcgmi health reports nothing: {said(answer)}", is_asked=True)
    # DCGM numbers the GPUs itself: which one is meant is certain if there is one.
    gpu = view.host_gpus[0] if len(view.host_gpus) == 1 else ""
    signs = (Evidence(kind=f"dcgm-{health.casefold()}", words=words, gpu=gpu) for health, words in found)
    return replace(passed("read"), evidence=tuple(signs))


def ask_room(view: GuestView) -> Asking:
    """See whether the root and the store of images have room left."""
    runtime = view.containers.runtime if view.containers is not None else ""
    paths = ("/", *([STORES[runtime]] if runtime else []))
    answer = yield Command(("df", "-Pk", *paths))
    rooms = parse_room(answer.stdout)
    full = [one for one in rooms if one.free_share < LEAST_SHARE or one.free_kib < LEAST_GIB * 1024 * 1024]
    if full:
        expected = f"at least {LEAST_GIB:g} GiB and {LEAST_SHARE:.0%}"
        return failed(VerifyCode.NO_ROOM, "; ".join(one.words for one in full), expected)
    answer = yield Command(("df", "-Pi", *paths))
    inodes = parse_room(answer.stdout)
    spent = [one for one in inodes if one.size_kib and one.free_share < LEAST_SHARE]
    if spent:
        words = "; ".join(f"{one.path} has {one.free_kib} of {one.size_kib} inodes free" for one in spent)
        return failed(VerifyCode.NO_ROOM, words, f"at least {LEAST_SHARE:.0%}")
    answer = yield Command(("grep", " / ", "/proc/mounts"))
    if answer.status == 0 and is_read_only(answer.stdout):
        return failed(
            VerifyCode.NO_ROOM,
            "the root file system is read-only",
            "a writable root file system",
            meaning="the kernel makes a file system read-only when its disk fails",
            remedy="check `dmesg` in the guest and the datastore; then restart the guest",
        )
    least = min(rooms, key=lambda one: one.free_kib)
    return passed(least.words, measured={"free_gib": round(least.free_kib / 1024 / 1024, 1)})


def ask_clock(view: GuestView) -> Asking:
    """See whether the guest's clock shows what vCenter's does, and whether it is synchronised."""
    before = yield ReadClock()
    answer = yield Command(("date", "+%s.%N"))
    after = yield ReadClock()
    own = parse_time(answer.stdout)
    begun, ended = float(before.stdout), float(after.stdout)
    # The question itself takes time: the clock was read somewhere between.
    behind, ahead = begun - own, own - ended
    off = max(behind, ahead, 0.0)
    limit = view.thresholds.clock_seconds
    if off > limit:
        side = "behind" if behind > 0 else "ahead of"
        return failed(
            VerifyCode.CLOCK_OFF, f"{off:.1f} s {side} vCenter's clock", f"at most {limit:g} s difference"
        )
    words = "matches vCenter's" if off < 1 else f"{off:.1f} s from vCenter's"
    kept = yield from _kept()
    if view.time is not None and (kept is None or not kept.is_synchronised):
        if kept is None:
            return unproven(
                "neither chronyc nor timedatectl reports synchronization, which `guest.time` requires"
            )
        return failed(
            VerifyCode.CLOCK_OFF,
            f"{words}, not synchronized",
            f"synchronized with {', '.join(view.time.servers)}",
            meaning="the clock is not synchronized and will drift",
            remedy="check `chronyc sources` or `timedatectl timesync-status` in the guest, and UDP port 123",
        )
    how = (
        "synchronization unknown"
        if kept is None
        else "synchronized"
        if kept.is_synchronised
        else "not synchronized"
    )
    by = f" with {kept.source}" if kept is not None and kept.source else ""
    return passed(f"{words}, {how}{by}", measured={"clock_off_seconds": round(off, 3)})


def _kept() -> Generator[Step, ShellResult, Tracking | None]:
    """Ask chronyd, else systemd; None if neither answers."""
    for words, read in (
        (("chronyc", "-n", "tracking"), parse_tracking),
        (("timedatectl", "show"), parse_timedatectl),
    ):
        answer = yield Command(words)
        if answer.status == 0:
            try:
                return read(answer.stdout)
            except UnreadableOutput:
                continue
    return None
