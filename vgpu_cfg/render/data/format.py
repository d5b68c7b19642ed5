"""The head of every JSON document, and the document of an error: what, where, and what to do."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Any, TypeAlias

from vgpu_cfg.errors import DocumentError, VgpuCfgError

FORMAT = 1
Data: TypeAlias = dict[str, Any]
_FINDING = re.compile(r"(VG\d{3}) (.*)", re.DOTALL)


def error_data(error: VgpuCfgError, *, of: str = "") -> Data:
    """Return an error; its code is that of its finding if it has one, else the error's kind.

    `of` says which of several it is of, after the subject.
    """
    found = _FINDING.fullmatch(error.message)
    return mishap_data(
        found[1] if found else type(error).__name__,
        found[2] if found else error.message,
        error.exit_code,
        subject=f"{error.subject} ({of})".lstrip() if of else error.subject,
        remedy=error.remedy,
        faults=[asdict(fault) for fault in error.shown] if isinstance(error, DocumentError) else [],
        faults_left_out=error.left_out if isinstance(error, DocumentError) else 0,
    )


def mishap_data(
    code: str,
    message: str,
    exit_code: int,
    *,
    subject: str = "",
    remedy: str = "",
    faults: list[Data] | None = None,
    faults_left_out: int = 0,
) -> Data:
    """Return what went wrong without being an error of this tool's: a mistyped command line, a bug."""
    return {
        "kind": "error",
        "format": FORMAT,
        "code": code,
        "message": message,
        "subject": subject,
        "remedy": remedy,
        "exit_code": exit_code,
        "faults": faults or [],
        "faults_left_out": faults_left_out,
    }
