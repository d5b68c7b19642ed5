from __future__ import annotations

import pytest

from tests.unit.planning.desired_plans import plan_for, vm
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.planning.findings.codes import Basis, Code, code_of
from vgpu_cfg.planning.findings.collection import Findings


def test_every_code_says_something_else() -> None:
    assert len({code.summary for code in Code}) == len(Code)


def test_an_unknown_code_is_none() -> None:
    assert code_of("VG999") is None
    assert code_of("VG101") is Code.PROFILE_UNKNOWN


def one(findings: Findings) -> tuple[str, Severity]:
    (found,) = findings.diagnostics()
    return found.code, found.severity


@pytest.mark.parametrize(
    ("code", "desired", "severity"),
    [
        (Code.NUMA_TOO_SMALL, None, Severity.ERROR),
        (Code.NUMA_TOO_SMALL, "warning", Severity.WARNING),
        (Code.NUMA_TOO_SMALL, "info", Severity.INFO),
        (Code.EXPIRED, "error", Severity.ERROR),
    ],
)
def test_a_plan_file_gives_findings_another_severity(
    code: Code, desired: str | None, severity: Severity
) -> None:
    findings = Findings.for_plan(plan_for(vm("a"), checks={code: desired} if desired else {}))
    findings.add_vm(code, vm("a"), "something")
    assert one(findings) == (code, severity)


def test_a_documented_finding_keeps_its_weight_and_the_wish_is_a_fault() -> None:
    findings = Findings.for_plan(plan_for(vm("a"), checks={"VG203": "warning"}))
    findings.add_vm(Code.TEMPLATE_IS_BIOS, vm("a"), "something")
    found = {(one.code, one.severity) for one in findings.diagnostics()}
    assert found == {("VG203", Severity.ERROR), ("VG008", Severity.ERROR)}


def test_a_wish_for_an_unknown_code_is_a_fault() -> None:
    assert one(Findings.for_plan(plan_for(checks={"VG999": "info"}))) == ("VG008", Severity.ERROR)


def test_what_leaves_a_vm_without_a_plan_is_an_error_whatever_the_wish() -> None:
    findings = Findings.for_plan(plan_for(vm("a"), checks={"VG301": "info"}))
    findings.refuse_vm(Code.HOST_MEMORY, vm("a"), "no place")
    assert one(findings) == ("VG301", Severity.ERROR)


@pytest.mark.parametrize(
    ("names", "subject"),
    [(["a-1", "a-2"], "a-{1..2}"), (["a-2"], "a-2")],
)
def test_like_findings_of_a_line_are_one(names: list[str], subject: str) -> None:
    line = [vm(f"a-{number}", line="a-{1..2}") for number in (1, 2)]
    findings = Findings.for_plan(plan_for(*line))
    for wanted in line:
        if wanted.name in names:
            findings.add_vm(Code.EXPIRED, wanted, "past its date")
    (found,) = findings.diagnostics()
    assert found.subject == Subject(kind="vm", name=subject)


def test_findings_are_sorted_by_weight_and_can_be_narrowed() -> None:
    findings = Findings.for_plan(plan_for(vm("a"), vm("b")))
    findings.add_vm(Code.EXPIRED, vm("a"), "x")
    findings.add_vm(Code.DISK_SHRINKS, vm("b"), "y")
    assert [one.code for one in findings.diagnostics()] == ["VG210", "VG010"]
    assert [one.code for one in findings.diagnostics({"a"})] == ["VG010"]


def test_verified_checks_cannot_be_relaxed() -> None:
    nothing_to_plan = {Code.PROFILE_UNKNOWN, Code.MIXED_SIZE_NOT_SUPPORTED, Code.UNDECIDED}
    for code in Code:
        is_unsure = code.basis in {Basis.RECALLED, Basis.FIELD}
        assert code.is_relaxable is (is_unsure and code not in nothing_to_plan)
