"""Assertions on a plan for a vCenter, and their failure messages: the findings, missing resources, a fix.

Each takes the plan file and the vCenter, which is planned for once. Assertions on a plan's outcome require a
plan without errors, so that none holds because planning failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from vgpu_cfg.testing.subjects import WIDTH

if TYPE_CHECKING:
    from vgpu_cfg.changes.plan import Diagnostic, Plan
    from vgpu_cfg.testing.subjects import PlanFile, Site


def assert_fits(plan: PlanFile, site: Site) -> None:
    """Assert that a plan has no errors: `apply` would carry it out.

    A failure shows the errors with their obstacles and a fix.
    """
    __tracebackhide__ = True
    made = site.planned(plan).plan
    if made.errors:
        _fail(plan, site, "it does not fit", _findings(made.errors), site.fixes(plan))


def assert_in_sync(plan: PlanFile, site: Site) -> None:
    """Assert that nothing differs from the plan file, as `plan --exit-code` has it."""
    __tracebackhide__ = True
    from vgpu_cfg.planning.sync import is_in_sync

    made = site.planned(plan).plan
    if not is_in_sync(made):
        _fail(plan, site, "it is not in sync", _shown(made))


def assert_no_disruption(plan: PlanFile, site: Site) -> None:
    """Assert that a plan fits, and that nothing that runs is stopped, cut off, restarted, moved or deleted.

    It is planned as with `--allow-power-cycle` and `--allow-move`, so that a failure shows what would be.
    """
    __tracebackhide__ = True
    from vgpu_cfg.changes.reach import Experience
    from vgpu_cfg.changes.values import Impact
    from vgpu_cfg.render.layout.lines import plain
    from vgpu_cfg.render.layout.most import ALL
    from vgpu_cfg.render.text.plan.whole import render_disruption

    made = site.planned(plan, with_leave=True).plan
    if made.errors:
        _fail(plan, site, "it does not fit", _findings(made.errors))
    disturbs = any(change.impact is not Impact.NONE or change.deletes for change in made.changes)
    if disturbs or any(one.experience is not Experience.OPTION for one in made.disturbed):
        _fail(plan, site, "it disrupts workloads", plain(render_disruption(made, WIDTH, most=ALL)))


def assert_placed(plan: PlanFile, site: Site, vm: str, host: str) -> None:
    """Assert that VMs go, or stay, on certain hosts; both are names or globs, and some VM must match."""
    __tracebackhide__ = True
    assert_fits(plan, site)
    placements = site.planned(plan).plan.placements
    asked = [placement for placement in placements if fnmatchcase(placement.vm, vm)]
    rows = "\n".join(
        f"  {one.vm}  {one.host_name}  {', '.join(one.gpu_pci_ids)}".rstrip() for one in placements
    )
    if not asked:
        _fail(plan, site, f"no VM {vm} can be placed", rows)
    elsewhere = [one.vm for one in asked if not fnmatchcase(one.host_name, host)]
    if elsewhere:
        _fail(plan, site, f"it does not place {', '.join(elsewhere)} on {host}", rows)


def assert_no_findings(plan: PlanFile, site: Site, *, but: Iterable[str] = ()) -> None:
    """Assert that there is neither an error nor a warning, but for those with the codes that are named."""
    __tracebackhide__ = True
    from vgpu_cfg.changes.severity import Severity

    known = frozenset(but)
    found = [
        one
        for one in site.planned(plan).plan.diagnostics
        if one.severity is not Severity.INFO and one.code not in known
    ]
    if found:
        _fail(plan, site, "it has findings", _findings(found))


def assert_finding(plan: PlanFile, site: Site, code: str, subject: str = "*") -> None:
    """Assert that something is found, as "VG501", of a VM, host or other thing whose name matches a glob."""
    __tracebackhide__ = True
    found = site.planned(plan).plan.diagnostics
    if not any(one.code == code and fnmatchcase(one.subject.name, subject) for one in found):
        of = "" if subject == "*" else f" for {subject}"
        _fail(plan, site, f"it has no finding {code}{of}", _findings(found) or "no findings")


def assert_changes(plan: PlanFile, site: Site, count: int) -> None:
    """Assert how many changes a plan makes, as it numbers them."""
    __tracebackhide__ = True
    assert_fits(plan, site)
    made = site.planned(plan).plan
    if len(made.changes) != count:
        _fail(plan, site, f"it makes {len(made.changes)} changes, not {count}", _shown(made))


def assert_unchanged(plan: PlanFile, site: Site, *names: str) -> None:
    """Assert that no change is about these VMs, hosts or clusters; names or globs, all without any.

    A name that nothing there bears, nor anything of the plan, fails.
    """
    __tracebackhide__ = True
    assert_fits(plan, site)
    made, observed = site.planned(plan).plan, site.planned(plan).observed
    things = [thing.name for group in (observed.hosts, observed.vms, observed.clusters) for thing in group]
    things += [change.subject.name for change in made.changes]
    if strangers := [name for name in names if not any(fnmatchcase(thing, name) for thing in things)]:
        _fail(plan, site, f"no object is named {', '.join(strangers)}")
    changed = [
        change.id
        for change in made.changes
        if any(fnmatchcase(change.subject.name, name) for name in names or ("*",))
    ]
    if changed:
        _fail(plan, site, "it changes unexpected objects", "\n".join(f"  {change}" for change in changed))


def plan_json(plan: PlanFile, site: Site) -> dict[str, Any]:
    """Return what `plan --output json` prints, for what no assertion here asks."""
    __tracebackhide__ = True
    from vgpu_cfg.render.data.documents import plan_data

    return plan_data(site.planned(plan).plan)


def _fail(plan: PlanFile, site: Site, what: str, *parts: str) -> None:
    __tracebackhide__ = True
    told = "\n\n".join(part.strip("\n") for part in parts if part)
    raise AssertionError(f"{plan.path} on {site.name}: {what}\n\n{told}".rstrip())


def _findings(found: Sequence[Diagnostic]) -> str:
    from vgpu_cfg.render.layout.lines import plain
    from vgpu_cfg.render.layout.most import ALL
    from vgpu_cfg.render.text.plan.findings import render_findings

    return plain(render_findings(found, WIDTH, most=ALL))


def _shown(made: Plan) -> str:
    from vgpu_cfg.render.layout.lines import plain
    from vgpu_cfg.render.text.plan.whole import render_plan

    return plain(render_plan(made, WIDTH))
