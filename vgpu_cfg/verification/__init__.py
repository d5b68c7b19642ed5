"""Checks inside hosts and guests: their order, their verdicts, and the meaning of failures.

    from vgpu_cfg.verification import Choice, HostView, GuestView, verify
    found = verify(hosts, guests, channels, Choice())

A check says what to ask (argument lists), how to read the answer (a parser) and what to make of it; it is a
generator that never touches a machine itself.
"""

from __future__ import annotations

from vgpu_cfg.verification.learned import baseline_of, figures_of, past_run
from vgpu_cfg.verification.run import Channels, verify
from vgpu_cfg.verification.table import CHECKS, Choice
from vgpu_cfg.verification.views import GuestView, HostView, make_guest_views, make_host_views
from vgpu_cfg.verification.watching import watch_choice

__all__ = [
    "CHECKS",
    "Channels",
    "Choice",
    "GuestView",
    "HostView",
    "baseline_of",
    "figures_of",
    "make_guest_views",
    "make_host_views",
    "past_run",
    "verify",
    "watch_choice",
]
