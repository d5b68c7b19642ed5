"""A table of privileges: a block for each role, with its objects and its users."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from vgpu_cfg.planning.privileges.roles import Reason, Role, Target
from vgpu_cfg.render.layout.lines import Column, both_ends, hanging, table

_COLUMNS = (Column("PRIVILEGE"), Column("COMMANDS", is_flexible=True), Column("FOR", is_flexible=True))


def render_privileges(
    roles: Sequence[Role], plan: str, server: str, commands: Sequence[str], width: int
) -> list[Text]:
    """Lay the roles out that `commands` need."""
    lines = both_ends(Text(plan, style="bold"), Text(server, style="dim"), width)
    for role in roles:
        lines += [
            Text(""),
            *hanging("ROLE", role.name or "Read-only (built into vCenter)", width, style="bold", indent=0),
        ]
        for target in role.targets:
            lines += hanging("ON", _where(target), width, indent=0)
        if role.reasons:
            lines += table(_COLUMNS, [_cells(reason, commands) for reason in role.reasons], width)
    return lines


def _where(target: Target) -> str:
    reaches = ", and all objects below it" if target.propagates else ""
    return f"{target.path}{reaches}" if target.moid else f"{target.path} in question{reaches}"


def _cells(reason: Reason, commands: Sequence[str]) -> list[str]:
    words = "; ".join(reason.uses)
    if reason.is_recalled:
        words += " (from memory; not verified)"
    if reason.without:
        words += f"; optional: without it, {reason.without}"
    return [reason.privilege, _by(reason, commands), words]


def _by(reason: Reason, commands: Sequence[str]) -> str:
    if len(reason.commands) == len(commands):
        return "all" if len(commands) > 1 else ""
    return ", ".join(reason.commands)
