"""The JSON of what a plan needs of vCenter, told in docs/reference/json-output.md."""

from __future__ import annotations

from collections.abc import Sequence

from vgpu_cfg.changes.need import READ_ONLY
from vgpu_cfg.planning.privileges.roles import Reason, Role, Target
from vgpu_cfg.render.data.format import FORMAT, Data


def privileges_data(roles: Sequence[Role], plan: str, server: str) -> Data:
    """Return the roles with where each is given, and what needs each privilege."""
    return {
        "kind": "privileges",
        "format": FORMAT,
        "plan": plan,
        "server": server,
        "read_only": list(READ_ONLY),
        "roles": [
            {
                "name": role.name or None,
                "objects": [_target(target) for target in role.targets],
                "privileges": [_reason(reason) for reason in role.reasons],
            }
            for role in roles
        ],
    }


def _target(target: Target) -> Data:
    return {
        "kind": target.place.name.lower(),
        "moid": target.moid or None,
        "path": target.path if target.moid else None,
        "propagates": target.propagates,
    }


def _reason(reason: Reason) -> Data:
    return {
        "id": reason.privilege,
        "commands": [str(command) for command in reason.commands],
        "for": list(reason.uses),
        "without": reason.without or None,
        "is_recalled": reason.is_recalled,
    }
