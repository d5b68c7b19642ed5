"""How the staging of a guest reads: what is brought into it, which way, and what became of it."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from vgpu_cfg.render.views.guest_status import GuestStatus

_STYLES = {"staged": "green", "outdated": "yellow", "not staged": "yellow", "needs a manual step": "magenta"}


def guest_state(status: GuestStatus) -> Text:
    """Write the state of a guest, as a table shows it."""
    return Text(status.state, _STYLES.get(status.state, "red"))


def guest_lines(status: GuestStatus) -> Iterable[str]:
    """Yield what stands under a VM's row: what is to be staged, and what failed with its reason."""
    if status.module:
        yield f"guest: {status.module} {status.state}: {status.why or 'the guest does not say why'}"
