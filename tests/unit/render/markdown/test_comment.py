"""A comment is never longer than one may be, and says what it leaves out."""

from __future__ import annotations

from tests.unit.render.samples import everything, many_new, two_new
from vgpu_cfg.changes.plan import Diagnostic, Hindrance, Plan
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.errors import DocumentError, DocumentFault, Unreachable
from vgpu_cfg.render.markdown.comment import MOST_BYTES, render_comment, render_error_comment


def with_findings(plan: Plan, count: int) -> Plan:
    """Return a plan with findings that nothing folds, each with a long text of many bytes."""
    found = tuple(
        Diagnostic(
            code="VG103",
            severity=Severity.ERROR,
            subject=Subject(kind="vm", name="é" * 700),
            message=f"{number}: cannot be placed {'ü' * 900}",
            hindrances=tuple(Hindrance(subject=f"h{row}", reason="ö" * 900) for row in range(20)),
        )
        for number in range(count)
    )
    return plan.model_copy(update={"diagnostics": found})


def test_what_is_short_is_whole() -> None:
    text = render_comment(two_new(), command="vgpu-cfg apply plan.yaml")
    assert "Not all is shown" not in text
    assert text.endswith("Next: `vgpu-cfg apply plan.yaml`\n")


def test_every_kind_of_change_has_a_row() -> None:
    plan = everything()
    table = [line for line in render_comment(plan).splitlines() if line.startswith("| ")]
    assert {line.split(" | ")[1].partition(",")[0] for line in table[1:]} >= {"new", "changed", "removed"}


def test_many_that_are_alike_are_one_row() -> None:
    text = render_comment(many_new(400))
    assert len(text.encode()) < 4000
    assert "| VM hvd-{01..400} | new | esx-{01..200} |" in text


def test_what_is_long_is_cut_and_counted() -> None:
    text = render_comment(with_findings(two_new(), 400))
    assert len(text.encode()) <= MOST_BYTES
    assert "Rejected, 400 errors" in text
    assert "more\n\n</details>" in text
    assert "This output is truncated because comments are limited to 65,536 bytes; for the full plan" in text


def test_a_file_with_very_many_faults_is_cut_too() -> None:
    faults = [DocumentFault("plan.yaml", line, 1, "ä" * 2000) for line in range(1, 3000)]
    text = render_error_comment(DocumentError(faults))
    assert "* and 2969 more" in text
    assert len(text.encode()) <= MOST_BYTES


def test_what_cannot_be_reached_says_where_and_what_to_do() -> None:
    error = Unreachable("no response within 60 s", subject="vc01.example.com:443", remedy="try `ping` first")
    assert render_error_comment(error).splitlines() == [
        "### No plan: no response within 60 s",
        "",
        "Where: vc01.example.com:443",
        "",
        "Fix: try `ping` first",
    ]


def test_names_stay_text() -> None:
    subject = Subject(kind="vm", name="<img src=x>|`a`")
    found = Diagnostic(code="VG103", severity=Severity.WARNING, subject=subject, message="</details>")
    text = render_comment(two_new().model_copy(update={"diagnostics": (found,)}))
    assert "\\<img src=x>\\|`a`: \\</details>" in text
    assert text.replace("\\</details>", "").count("</details>") == 1
