"""What is asked of a guest about its clock: whether it is right, and whether something keeps it so.

A licence token, a certificate, a job's time limits and the logs of several workers all rest on it.
"""

from __future__ import annotations

from collections.abc import Generator

from vgpu_cfg.knowledge.verify_failures import VerifyCode
from vgpu_cfg.parsers.errors import UnreadableOutput
from vgpu_cfg.parsers.guest_system import Tracking, parse_time, parse_timedatectl, parse_tracking
from vgpu_cfg.ports import ShellResult
from vgpu_cfg.verification.asking import Asking, Command, ReadClock, Step, failed, passed, unproven
from vgpu_cfg.verification.views import GuestView


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
            VerifyCode.CLOCK_OFF, f"{off:.1f} s {side} vCenter's clock", f"at most {limit:g} s apart"
        )
    words = "as vCenter's" if off < 1 else f"{off:.1f} s from vCenter's"
    kept = yield from _kept()
    if view.time is not None and (kept is None or not kept.is_synchronised):
        if kept is None:
            return unproven(
                "neither chronyc nor timedatectl tells whether it is synchronised, as `guest.time` asks"
            )
        return failed(
            VerifyCode.CLOCK_OFF,
            f"{words}, and not synchronised",
            f"synchronised with {', '.join(view.time.servers)}",
            meaning="nothing keeps it right: it drifts away",
            remedy="see `chronyc sources` or `timedatectl timesync-status` in the guest, and UDP port 123",
        )
    how = (
        "not told whether synchronised"
        if kept is None
        else "synchronised"
        if kept.is_synchronised
        else "not synchronised"
    )
    by = f" with {kept.source}" if kept is not None and kept.source else ""
    return passed(f"{words}, {how}{by}", measured={"clock_off_seconds": round(off, 3)})


def _kept() -> Generator[Step, ShellResult, Tracking | None]:
    """Ask chronyd, else systemd; None where neither tells."""
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
