"""How the staging of a guest reads: what is brought into it, which way, and what became of it."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from vgpu_cfg.changes.change import StageGuest
from vgpu_cfg.changes.values import Edit
from vgpu_cfg.render.views.guest_status import GuestStatus

_NAMED_ANYWAY = "host-name"
"""The module whose words only repeat the VM's name."""
_STYLES = {"staged": "green", "outdated": "yellow", "not staged": "yellow", "needs a manual step": "magenta"}


def guest_text(change: StageGuest) -> str:
    """Say what is brought: the words of each module, a default marked, and why it is brought again."""
    return ", ".join(_edit_text(edit) for edit in change.edits)


def way_text(change: StageGuest) -> str:
    """Say which way it comes into the guest."""
    if change.with_clone:
        return "cloud-init at the first boot; the run waits for its report"
    way = "guest operations" if change.spec.login.password else "ssh"
    return f"{way}, once the others have told their host keys" if change.after else way


def guest_difference(theirs: StageGuest, ours: StageGuest) -> list[str]:
    """List in words what two guests are given differently, but for their names."""
    before = {edit.key: _edit_text(edit) for edit in theirs.edits}
    after = {edit.key: _edit_text(edit) for edit in ours.edits}
    words = [text for key, text in after.items() if before.get(key) != text and key != _NAMED_ANYWAY]
    return [*words, *(f"no {key}" for key in before if key not in after)]


def _edit_text(edit: Edit) -> str:
    note = f" ({edit.note})" if edit.note else ""
    return f"{edit.after or edit.key}{'*' if edit.is_default else ''}{note}"


def guest_state(status: GuestStatus) -> Text:
    """Write the state of a guest, as a table shows it."""
    return Text(status.state, _STYLES.get(status.state, "red"))


def guest_lines(status: GuestStatus) -> Iterable[str]:
    """Yield what stands under a VM's row: what is to be staged, and what failed with its reason."""
    if status.module:
        yield f"guest: {status.module} {status.state}: {status.why or 'the guest does not say why'}"
