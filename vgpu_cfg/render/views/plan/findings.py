"""Findings as a reader counts them: what is said of several hosts or VMs alike is one."""

from __future__ import annotations

from collections.abc import Sequence

from vgpu_cfg.changes.plan import Diagnostic
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.wording import as_counted


def alike(findings: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Return every finding once, its subjects as ranges, errors first."""
    names: dict[Diagnostic, dict[str, None]] = {}
    for found in findings:
        shared = found.model_copy(update={"subject": found.subject.model_copy(update=_NOBODY)})
        names.setdefault(shared, {})[found.subject.name] = None
    merged = [
        found.model_copy(
            update={
                "subject": found.subject.model_copy(update={"name": fold_names(sorted(own, key=as_counted))})
            }
        )
        for found, own in names.items()
    ]
    return sorted(merged, key=lambda one: tuple(Severity).index(one.severity))


_NOBODY = {"name": "", "moid": None}


def error_count(findings: Sequence[Diagnostic]) -> int:
    """Count the errors as they are shown."""
    return sum(found.severity is Severity.ERROR for found in alike(findings))
