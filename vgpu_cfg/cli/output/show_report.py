"""A pipeline's report of a command: JUnit XML for its page of tests, Markdown for a comment."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from vgpu_cfg.cli.options.shared import PlanFormat

if TYPE_CHECKING:
    from vgpu_cfg.changes.plan import Plan
    from vgpu_cfg.changes.suggestion import Suggestion
    from vgpu_cfg.errors import VgpuCfgError
    from vgpu_cfg.model.desired import DesiredPlan
    from vgpu_cfg.model.observed.inventory import Inventory
    from vgpu_cfg.model.verification import Verification


def validated(desired: DesiredPlan) -> None:
    """Print the cases of a plan file without faults."""
    from vgpu_cfg.render import junit

    _print(junit.render_junit(f"validate {desired.name}", junit.file_cases(desired)))


def plan(made: Plan, output: PlanFormat, *, command: str, fixes: Suggestion | None) -> None:
    """Print a plan as cases, or as a comment that names the `command` to type next."""
    from vgpu_cfg.render import junit

    if output is PlanFormat.JUNIT:
        _print(junit.render_junit(f"plan {made.name}", junit.plan_cases(made), at=made.read_at))
        return
    from vgpu_cfg.render.markdown.comment import render_comment

    _print(render_comment(made, fixes=fixes, command=command))


def status(made: Plan, observed: Inventory) -> None:
    """Print a plan's VMs as cases."""
    from vgpu_cfg.render import junit
    from vgpu_cfg.render.views.status import view_status

    cases = junit.status_cases(view_status(made, observed))
    _print(junit.render_junit(f"status {made.name}", cases, at=made.read_at))


def verification(found: Verification) -> None:
    """Print each check as a case."""
    from vgpu_cfg.render import junit

    _print(junit.render_junit(f"verify {found.plan}", junit.verification_cases(found), at=found.begun))


def error(error: VgpuCfgError, *, command: str) -> None:
    """Print why a command has no report as cases that fail."""
    from vgpu_cfg.render import junit

    _print(junit.render_junit(command, junit.error_cases(error)))


def error_comment(error: VgpuCfgError) -> None:
    """Print why there is no plan as a comment."""
    from vgpu_cfg.render.markdown.comment import render_error_comment

    _print(render_error_comment(error))


def _print(text: str) -> None:
    sys.stdout.write(text)
