"""The match of an estate with the plan file: the one answer that every command gives.

A VM of the plan that its file does not name is a difference, with GPUs or without: it holds disks and a name,
and memory once it runs. So are manual steps left by `apply`: a VM at another place than in the plan file, or
one that could not be made anew. Unreadable values are no difference: they are unknown, and reported
separately.
"""

from __future__ import annotations

from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import DIFFERENCES_OF_HOSTS, DIFFERENCES_OF_VMS

_DIFFERENCES = frozenset({Code.SETTING_DIFFERS, Code.SHELL_LEFT_OPEN})
"""Findings that report a difference which no change of the plan corrects."""

_LEFT_TO_PEOPLE = DIFFERENCES_OF_VMS | DIFFERENCES_OF_HOSTS


def is_in_sync(plan: Plan) -> bool:
    """Whether nothing differs from the plan file, as far as the plan covers it."""
    reported = any(
        found.code in _DIFFERENCES or (found.code in _LEFT_TO_PEOPLE and found.severity is not Severity.INFO)
        for found in plan.diagnostics
    )
    return not (plan.changes or plan.errors or plan.orphans or reported)


def waits_for(plan: Plan) -> str:
    """Say when a plan begins that only holds its reservation until then; "" for any other."""
    if plan.desired.begins is None or all(one.code != Code.RESERVED_FIRST for one in plan.diagnostics):
        return ""
    return f"reserved: starts {plan.desired.begins:%Y-%m-%d %H:%M} UTC"


def is_known(plan: Plan) -> bool:
    """Whether every statement of the plan file on hosts was read."""
    return not plan.unknown
