"""The result of a command as JUnit XML, which pipelines show as tests: a case for each VM, host and finding.

Elements and attributes are those of Jenkins' schema (junit-10.xsd), of which GitLab reads some. No two cases
of a suite have one name, since GitLab keeps only the first of those.

Belief: junit-like-jenkins.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from vgpu_cfg.changes.plan import Diagnostic, Plan
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.errors import DocumentError, VgpuCfgError
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.ranges import read_members
from vgpu_cfg.model.verification import CheckResult, CheckState, Verification
from vgpu_cfg.model.wording import shown
from vgpu_cfg.render.views.status import StatusView
from vgpu_cfg.render.views.verification import verdict_text

_NOT_IN_XML = re.compile("[\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class Case:
    """A test case. `group` is the kind of its subject; `failure` is (type, first line, all its lines).

    `error` is the reason if its subject could not be read. `skipped` is the reason if it was not run; `told`
    are the lines of a passed case.
    """

    group: str
    name: str
    failure: tuple[str, str, tuple[str, ...]] | None = None
    skipped: str = ""
    error: str = ""
    told: tuple[str, ...] = ()
    seconds: float = 0.0


def render_junit(suite: str, cases: Iterable[Case], *, at: datetime | None = None) -> str:
    """Write one suite of cases as a document."""
    listed = list(_told_apart(cases))
    counts = {
        "tests": str(len(listed)),
        "failures": str(sum(case.failure is not None for case in listed)),
        "errors": str(sum(bool(case.error) for case in listed)),
        "time": f"{sum(case.seconds for case in listed):.3f}",
    }
    top = Element("testsuites", {"name": "vgpu-cfg", **counts})
    skipped = {"skipped": str(sum(bool(case.skipped) for case in listed))}
    when = {"timestamp": f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S}"} if at is not None else {}
    inner = SubElement(top, "testsuite", {"name": _clean(suite), **counts, **skipped, **when})
    for case in listed:
        own = {"classname": _clean(f"{suite}.{case.group}"), "name": _clean(case.name)}
        element = SubElement(inner, "testcase", own | {"time": f"{case.seconds:.3f}"})
        if case.failure is not None:
            kind, first, whole = case.failure
            failure = SubElement(element, "failure", {"type": _clean(kind), "message": _clean(first)})
            failure.text = _lines(whole)
        elif case.error:
            SubElement(element, "error", {"type": "not proven", "message": _clean(case.error)})
        elif case.skipped:
            SubElement(element, "skipped", {"message": _clean(case.skipped)})
        if any(case.told):
            SubElement(element, "system-out").text = _lines(case.told)
    indent(top)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(top, encoding="unicode")}\n'


def plan_cases(plan: Plan) -> Iterator[Case]:
    """Yield the cases of a plan: its VMs, its hosts, then whatever else something was found of."""
    placed = {placement.vm: f"on {placement.host_name}" for placement in plan.placements}
    vms = [vm.name for vm in plan.desired.vms]
    hosts = [change.subject.name for change in plan.changes if change.subject.kind == "host"]
    asked = [("vm", name) for name in vms] + [("host", name) for name in (*plan.hosts_in_sync, *hosts)]
    yield from _cases(asked, plan.diagnostics, placed)


def status_cases(view: StatusView) -> Iterator[Case]:
    """Yield the cases of a status: what differs fails, as `status --exit-code` has it."""
    rows = [("vm", row.name, row.drift) for row in view.vms]
    rows += [("host", host.name, (*host.drift, *host.pending)) for host in view.hosts]
    for kind, name, differs in rows:
        text = "; ".join(differs)
        yield Case(kind, name, ("differs", text, (text,)) if differs else None)
    if view.others:
        text = "; ".join(view.others)
        yield Case("plan", view.plan, ("differs", text, (text,)))
    yield from _found(view.findings)


def file_cases(desired: DesiredPlan) -> Iterator[Case]:
    """Yield the cases of a plan file without faults."""
    yield from (Case("vm", vm.name) for vm in desired.vms)
    yield from (Case("network", network.name) for network in desired.networks)
    yield Case("plan", desired.name)


def verification_cases(found: Verification) -> Iterator[Case]:
    """Yield a case for each check of each host, VM and pair, and for each guest that none was made in.

    A run without any check that came to something is an error, not a suite without tests.
    """
    yield from (_check(result) for result in found.results)
    yield from (Case("vm", f"{name}: guest", skipped="no checks ran in this guest") for name in found.unasked)
    if not (found.passes or found.failed or found.unproven):
        yield Case("plan", found.plan, error=verdict_text(found))


def error_cases(error: VgpuCfgError) -> Iterator[Case]:
    """Yield the cases of what kept a command from its answer: each fault of a file, or the one error."""
    if isinstance(error, DocumentError):
        for fault in error.shown:
            place = f"{fault.file}:{fault.line}:{fault.column}"
            yield Case("file", place, (type(error).__name__, fault.message, (str(fault),)))
        if error.left_out:
            message = f"{error.left_out} more errors"
            yield Case("file", "more errors", (type(error).__name__, message, (message,)))
        return
    whole = (error.message, error.subject, error.remedy)
    yield Case("command", error.subject or "vgpu-cfg", (type(error).__name__, error.message, whole))


def _cases(
    asked: Sequence[tuple[str, str]], findings: Sequence[Diagnostic], told: dict[str, str]
) -> Iterator[Case]:
    """Yield a case for each finding, and one that passes for each VM and host without an error."""
    failed = {(found.subject.kind, name) for found in findings if _is_error(found) for name in _names(found)}
    for kind, name in dict.fromkeys(asked):
        if (kind, name) not in failed:
            yield Case(kind, name, told=(told[name],) if kind == "vm" and name in told else ())
    yield from _found(findings)


def _found(findings: Sequence[Diagnostic]) -> Iterator[Case]:
    """Yield a case for each finding: an error fails; a warning passes and is shown."""
    for found in findings:
        whole = (found.text, found.remedy)
        failure = (found.code, found.message, whole) if _is_error(found) else None
        told = () if failure else (f"{found.severity.value} {found.code}: {found.text}", found.remedy)
        yield from (
            Case(found.subject.kind, f"{name} {found.code}", failure, told=told) for name in _names(found)
        )


def _names(found: Diagnostic) -> Iterator[str]:
    """Yield the names of those whom a finding is about; it may name several as ranges."""
    for part in found.subject.name.split(", "):
        try:
            yield from (member.name for member in read_members(part))
        except ValueError:  # a name of others may hold braces
            yield part


def _is_error(found: Diagnostic) -> bool:
    return found.severity is Severity.ERROR


def _check(result: CheckResult) -> Case:
    name = f"{result.subject.name}: {result.title}"
    match result.state:
        case CheckState.PASSED:
            return Case(result.subject.kind, name, told=(result.observed,), seconds=result.seconds)
        case CheckState.FAILED:
            failure = (result.code or result.check, result.message, (result.message, result.remedy))
            return Case(result.subject.kind, name, failure, seconds=result.seconds)
        case CheckState.UNPROVEN:
            return Case(result.subject.kind, name, error=result.why, seconds=result.seconds)
        case CheckState.NOT_ASKED | CheckState.SKIPPED:
            return Case(result.subject.kind, name, skipped=result.why or "not run")


def _told_apart(cases: Iterable[Case]) -> Iterator[Case]:
    """Yield the cases, with a number after a name that an earlier one of the group has."""
    seen: Counter[tuple[str, str]] = Counter()
    for case in cases:
        key = case.group, case.name
        seen[key] += 1
        yield replace(case, name=f"{case.name} ({seen[key]})") if seen[key] > 1 else case


def _lines(parts: Iterable[str]) -> str:
    return "\n".join(_clean(part) for part in parts if part)


def _clean(text: str) -> str:
    """Escape control characters, and replace the two others that no XML may hold."""
    return _NOT_IN_XML.sub("�", shown(text))
