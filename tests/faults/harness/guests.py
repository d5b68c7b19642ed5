"""The shells of guests: a lab that is served offers none by SSH, so its process runs their lines when asked.

What is said is what ssh would carry, with the same logins and host keys; the wire is the line that controls
the lab.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

from tests.faults.harness.mishaps import ARMED, KILLS, SIGNALS
from tests.faults.harness.wires import Place
from vgpu_cfg.cli.guest_logins import LabGuestShells
from vgpu_cfg.errors import GuestError, GuestNotReady
from vgpu_cfg.lab.guest.login import host_key_of, open_guest_shell
from vgpu_cfg.lab.vcenter import Lab
from vgpu_cfg.ports import GuestShells
from vgpu_cfg.shells.keys import PlanKeyRing

LOST = {"error": (True, "the connection has gone", "try again")}
_OPEN: dict[tuple[Any, ...], Any] = {}
"""The shells that this process has opened, by the login: who is let in stays so, whatever becomes of keys."""
WATCHERS: list[Callable[[str], object]] = []
"""Who is told of each line before it is sent, by name."""


def guest_shells(place: Callable[[], Place], keys: PlanKeyRing, secrets: Mapping[str, str]) -> GuestShells:
    """Return what logs in to the guests of a lab, wherever it is at the moment."""

    def said(do: str, **more: Any) -> Any:
        answer = place().ask(do, **more)
        if answer is None or "error" in answer:
            is_silent, message, remedy = (answer or LOST)["error"]
            raise (GuestNotReady if is_silent else GuestError)(message, subject="the guest", remedy=remedy)
        return answer["said"]

    def opened(moid: str, user: str, password: str | None, key: str | None) -> Callable[..., Any]:
        login = {"moid": moid, "user": user, "password": password, "key": key}
        said("guest_login", **login)

        def run(line: str, stdin: bytes = b"") -> tuple[int, str, str]:
            for watch in WATCHERS:
                watch(f"guest$ {line.partition(' ')[0]}")
            status, out, err = said("guest_run", line=line, stdin=base64.b64encode(stdin).decode(), **login)
            return status, out, err

        return run

    return LabGuestShells(keys, secrets, opened, lambda moid: str(said("guest_key", moid=moid)))


def answers(lab: Lab) -> dict[str, Callable[..., Any]]:
    """Return what a lab's process does for those shells, by what it is asked; one that is open stays open."""

    def key(moid: str) -> Any:
        return _told(lambda: host_key_of(lab, moid))

    def shell(moid: str, user: str, password: str | None, key: str | None) -> Any:
        return open_guest_shell(lab, moid, user, password=password, public_key=key)

    def login(**who: Any) -> Any:
        return _told(lambda: _OPEN.update({tuple(who.values()): shell(**who)}))

    def run(line: str, stdin: str, **who: Any) -> Any:
        mishap = ARMED.take()
        done = None
        if mishap in SIGNALS:
            ARMED.kill(SIGNALS[mishap])
            mishap = None
        if mishap == "fault":
            return {"said": (1, "", "refused once")}
        if mishap is None or mishap.endswith("after"):
            done = _told(lambda: _OPEN[tuple(who.values())].execute(line, base64.b64decode(stdin)))
        if mishap in KILLS:
            ARMED.kill()
        return done if mishap is None else LOST

    return {"guest_key": key, "guest_login": login, "guest_run": run}


def _told(ask: Callable[[], Any]) -> Any:
    try:
        return {"said": ask()}
    except GuestError as error:
        return {"error": (isinstance(error, GuestNotReady), error.message, error.remedy)}
