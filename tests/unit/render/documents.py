"""All outputs for programs and browsers, as text: JSON, pages without scripts, JUnit XML and role scripts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from tests.plans.planned import inventory_of, plan_of
from tests.unit.render import (
    estate_displays,
    host_reports,
    host_samples,
    plan_displays,
    pool_displays,
    run_displays,
    work_displays,
)
from tests.unit.render.page_data import DATA, data_in
from tests.unit.render.pool_displays import CATALOG, SERVER, SITE
from vgpu_cfg import __version__
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.report import Report
from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.model.choices import Occasion
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.planning.upkeep.absence import Absence, think_away
from vgpu_cfg.planning.upkeep.away import AwayHost
from vgpu_cfg.render import junit
from vgpu_cfg.render.data import documents as data
from vgpu_cfg.render.data import history
from vgpu_cfg.render.data import pool as pool_documents
from vgpu_cfg.render.data.documents import several_data
from vgpu_cfg.render.data.format import error_data
from vgpu_cfg.render.data.upkeep import (
    absence_data,
    clean_data,
    health_data,
    ours_data,
    trial_data,
    upgrade_data,
)
from vgpu_cfg.render.data.verification import (
    branch_plan_data,
    verification_data,
    watch_data,
    watch_metrics,
)
from vgpu_cfg.render.markdown.comment import render_comment, render_error_comment
from vgpu_cfg.render.markdown.runbook import as_run_data
from vgpu_cfg.render.page.estate import render_absence_page, render_inventory_page, render_reservations_page
from vgpu_cfg.render.page.plan import render_plan_page, render_run_page, render_status_page
from vgpu_cfg.render.page.verification import render_branch_page, render_verification_page
from vgpu_cfg.render.text.estate.privileges import govc_script, powercli_script
from vgpu_cfg.render.views.estate.inventory import view_inventory
from vgpu_cfg.render.views.pictures.estate_map import view_map
from vgpu_cfg.render.views.pictures.plan_picture import view_absence_picture, view_plan_picture
from vgpu_cfg.render.views.status import StatusView, view_status
from vgpu_cfg.render.views.verification import view_report

CASE = "rdma-guide-two-vms"
OUR_OWN = re.compile(r"<style>.*?</style>|<script type=\"module\">.*?</script>|<meta .*?>\n", re.DOTALL)


def as_json(told: Any) -> str:
    return json.dumps(told, indent=1, ensure_ascii=False) + "\n"


def page(text: str) -> str:
    """Return a page without styles and scripts, its data indented, without the document that it holds."""
    told = as_json({key: value for key, value in data_in(text).items() if key not in ("told", "verify")})
    bare = OUR_OWN.sub("", DATA.sub("", text)).replace(f"vgpu-cfg {__version__}", "vgpu-cfg VERSION")
    return "\n".join(line.rstrip() for line in bare.splitlines() if line.strip()) + "\n" + told


def without(told: dict[str, Any], *keys: str) -> dict[str, Any]:
    """Return a document without what is the value itself, as it is saved."""
    return {key: value for key, value in told.items() if key not in keys}


def suite(name: str, cases: Any) -> str:
    return junit.render_junit(name, cases)


def status() -> StatusView:
    plan = plan_of(CASE)
    return view_status(plan, inventory_of(CASE), plan_displays.differences(plan))


def drifted() -> StatusView:
    return view_status(host_samples.left_standing(), host_reports.standing_estate())


def plan_page() -> str:
    plan, observed = plan_of(CASE), inventory_of(CASE)
    told = data.plan_data(plan, estate_displays.FIXES)
    return render_plan_page(plan, told, view_plan_picture(plan, observed, CATALOG))


def failed_run() -> tuple[Plan, Report]:
    plan = host_samples.two_with_one_reboot()
    report = host_reports.failed_report(plan)
    more = {"rollback": run_displays.HALF, "canaries": run_displays.CANARIES, "put_off": ("esx-09",)}
    return plan, report.model_copy(update=more)


def run_page() -> str:
    plan, report = failed_run()
    return render_run_page(plan, report, data.report_data(plan, report), host_reports.events(report))


def absence() -> Absence:
    desired = DesiredPlan(name="fit", vcenter=SERVER)
    return think_away(AwayHost(SITE.hosts[0]), SITE, CATALOG, desired)


def absence_page() -> str:
    found = absence()
    told = absence_data(found, SERVER, SITE.read_at.isoformat())
    return render_absence_page(found, told, view_absence_picture(found, SITE, CATALOG))


def reservations_page() -> str:
    calendar = pool_displays.calendar()
    return render_reservations_page(calendar, SERVER, pool_documents.reservations_data(calendar, SERVER))


def verification_page() -> str:
    view = view_report(
        estate_displays.VERIFIED,
        estate_displays.OWN_RUN,
        exit_code=9,
        baseline=estate_displays.BASELINE,
        earlier=(estate_displays.EARLIER,),
    )
    found = estate_displays.VERIFIED
    return render_verification_page(found, verification_data(found), view)


def as_run() -> dict[str, Any]:
    plan, report = failed_run()
    events = host_reports.events(report)
    return as_run_data(plan, events, report, by="anna", run="0123456789ab", occasion=Occasion("CHG0042"))


FAULTS = DocumentError([DocumentFault("plan.yaml", line, 3, "no size", "64GiB") for line in range(1, 103)])

DOCUMENTS: dict[str, Callable[[], str]] = {
    "comment.md": lambda: render_comment(
        plan_of(CASE), fixes=estate_displays.FIXES, command="vgpu-cfg plan x"
    ),
    "comment-refused.md": lambda: render_comment(plan_of("guest-without-a-way-in")),
    "comment-in-sync.md": lambda: render_comment(plan_of("orphan-stays")),
    "comment-faults.md": lambda: render_error_comment(FAULTS),
    "comment-error.md": lambda: render_error_comment(plan_displays.ERRORS[2]),
    "roles.sh": lambda: govc_script(estate_displays.ROLES, title="Roles of horovod-a100"),
    "roles.ps1": lambda: powercli_script(estate_displays.ROLES, title="Roles of horovod-a100"),
    "usage.csv": lambda: pool_documents.hours_csv(pool_displays.hours(by="plan"), "plan"),
    "junit-plan.xml": lambda: suite("plan", junit.plan_cases(plan_of(CASE))),
    "junit-plan-refused.xml": lambda: suite("plan", junit.plan_cases(plan_of("guest-without-a-way-in"))),
    "junit-status.xml": lambda: suite(
        "status", (*junit.status_cases(status()), *junit.status_cases(drifted()))
    ),
    "junit-file.xml": lambda: suite("validate", junit.file_cases(plan_of(CASE).desired)),
    "junit-verify.xml": lambda: suite("verify", junit.verification_cases(estate_displays.VERIFIED)),
    "junit-verify-none.xml": lambda: suite("verify", junit.verification_cases(estate_displays.NONE_RAN)),
    "junit-errors.xml": lambda: suite(
        "plan", (case for error in plan_displays.ERRORS for case in junit.error_cases(error))
    ),
    "page-plan.html": lambda: page(plan_page()),
    "page-run.html": lambda: page(run_page()),
    "page-status.html": lambda: page(render_status_page(status(), data.status_data(status()))),
    "page-absence.html": lambda: page(absence_page()),
    "page-inventory.html": lambda: page(render_inventory_page(view_map(SITE, CATALOG))),
    "page-reservations.html": lambda: page(reservations_page()),
    "page-branches.html": lambda: page(
        render_branch_page(estate_displays.BRANCH, branch_plan_data(estate_displays.BRANCH))
    ),
    "page-verification.html": lambda: page(verification_page()),
    "plan.json": lambda: as_json(without(data.plan_data(plan_of(CASE), estate_displays.FIXES), "plan")),
    "report.json": lambda: as_json(without(data.report_data(*failed_run()), "outcomes", "rollback")),
    "status.json": lambda: as_json([data.status_data(status()), data.status_data(drifted())]),
    "absence.json": lambda: as_json(absence_data(absence(), SERVER, SITE.read_at.isoformat())),
    "as-run.json": lambda: as_json(as_run()),
    "found.json": lambda: as_json(data.as_found_data(estate_displays.AS_FOUND, "plan.yaml", is_written=True)),
    "inventory.json": lambda: as_json(data.inventory_data(view_inventory(inventory_of(CASE), CATALOG))),
    "profiles.json": lambda: as_json(data.profiles_data(CATALOG.board("grid_a100").profiles[::6])),
    "history.json": lambda: as_json(history.history_data(run_displays.RUNS, SERVER, run_displays.NOTES)),
    "history-run.json": lambda: as_json(
        history.run_data(
            run_displays.RUNS[0], run_displays.steps()[-2:], SERVER, (), journal=run_displays.LOG
        )
    ),
    "history-run-alone.json": lambda: as_json(
        history.run_data(run_displays.RUNS[-1], None, "", run_displays.NOTES, journal="")
    ),
    "locks.json": lambda: as_json(history.locks_data(run_displays.LOCKS)),
    "explain.json": lambda: as_json(
        [
            data.diagnosis_data(run_displays.FOUND),
            data.explanations_data(run_displays.EXPLAINED, ""),
            data.explanations_data((), ""),
            data.pages_data(run_displays.PAGES),
        ]
    ),
    "privileges.json": lambda: as_json(data.privileges_data(estate_displays.ROLES, "horovod-a100", SERVER)),
    "pool.json": lambda: as_json(
        pool_documents.pool_data(
            pool_displays.POOL, plan_displays.in_use(), pool_displays.CORDONS, pool_displays.SHARES
        )
    ),
    "usage.json": lambda: as_json(pool_documents.hours_data(pool_displays.hours(), "vm", SERVER)),
    "fit.json": lambda: as_json(pool_documents.fit_data(pool_displays.GROWN)),
    "site-changes.json": lambda: as_json(
        pool_documents.site_changes_data(pool_displays.LATER, SITE, pool_displays.site(is_later=True))
    ),
    "size.json": lambda: as_json(pool_documents.size_data(pool_displays.MODEL, 16, pool_displays.CANDIDATES)),
    "size-framebuffer.json": lambda: as_json(pool_documents.size_data(None, 4, pool_displays.PARTS)),
    "room.json": lambda: as_json(pool_documents.room_data(pool_displays.ROOM, ("gpu",), SERVER)),
    "several.json": lambda: as_json(several_data(pool_displays.SEVERAL, [{"kind": "pool"}, {}, None, None])),
    "health.json": lambda: as_json(
        [health_data(work_displays.HEALTH, work_displays.ILL), ours_data(work_displays.OURS)]
    ),
    "trial.json": lambda: as_json(
        [
            trial_data(work_displays.OUTLINE, work_displays.TRIED, work_displays.REMAINING),
            clean_data(work_displays.LEFT, work_displays.LEFT[:2], work_displays.REMAINING, SERVER),
        ]
    ),
    "watch.json": lambda: as_json([watch_data(work_displays.WATCH), watch_data(work_displays.NOTED)]),
    "watch.prom": lambda: watch_metrics(work_displays.WATCH),
    "upgrade.json": lambda: as_json(
        upgrade_data(
            work_displays.UPGRADE,
            work_displays.WAVES,
            work_displays.TIMES,
            "Sat 22:00-04:00 Europe/Berlin",
            SITE,
            work_displays.PLAYED,
        )
    ),
    "freezes.json": lambda: as_json(history.locks_data(work_displays.FREEZES)),
    "errors.json": lambda: as_json(
        [error_data(error, of=of) for error in plan_displays.ERRORS[1:] for of in ("", "prod-a")]
    ),
}
