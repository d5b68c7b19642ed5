"""The JSON of explanations: stable keys, told in docs/reference/commands.md beside `vgpu-cfg explain`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from vgpu_cfg.knowledge.check_pages import CheckPage
from vgpu_cfg.knowledge.faults import WHERE_TO_LOOK, Found
from vgpu_cfg.knowledge.verify_failures import Failure
from vgpu_cfg.knowledge.vm_log import line_text
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.render.data.format import FORMAT, Data

if TYPE_CHECKING:
    from vgpu_cfg.planning.remedies.diagnosis import Diagnosis


def pages_data(pages: Iterable[tuple[Code | Failure, CheckPage]]) -> Data:
    """Return the pages of checks, divided at their headings; the texts are Markdown."""
    return _document(
        checks=[
            {
                "code": page.code,
                "title": check.summary,
                "severity": check.severity.value,
                "basis": str(check.basis),
                "sections": [section.model_dump() for section in page.sections],
            }
            for check, page in pages
        ]
    )


def explanations_data(explained: Sequence[Found]) -> Data:
    """Return known failures, each with the line of the text that shows it, "" where it spans lines."""
    return _document(
        is_known=bool(explained),
        explanations=[
            found.explanation.model_dump(mode="json")
            | {"line": "" if found.line is None else line_text(found.line), "is_likely": found.is_likely}
            for found in explained
        ],
        look_at=[] if explained else list(WHERE_TO_LOOK),
    )


def diagnosis_data(found: Diagnosis) -> Data:
    """Return what is known of a VM's failure; of the VM only its name, path and state."""
    vm = found.vm
    content = found.model_dump(mode="json", exclude={"vm", "host"})
    return _document(
        vm={
            "name": vm.name,
            "moid": vm.moid,
            "inventory_path": vm.inventory_path,
            "power_state": vm.power_state.value,
            "host": found.host,
            "plan": None if vm.mark is None else vm.mark.plan,
        },
        **content,
    )


def _document(**content: object) -> Data:
    return {"kind": "explain", "format": FORMAT, **content}
