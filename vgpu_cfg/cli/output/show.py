"""A command's output: text for people, JSON for programs, and for a pipeline JUnit XML or a comment."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from vgpu_cfg.cli.options import typed
from vgpu_cfg.cli.options.shared import OutputFormat, PlanFormat
from vgpu_cfg.model.choices import NO_OCCASION, Occasion
from vgpu_cfg.model.wording import as_json, shown
from vgpu_cfg.render.layout.console import make_console, print_lines, width_of
from vgpu_cfg.render.layout.lines import fold

if TYPE_CHECKING:
    from rich.text import Text

    from vgpu_cfg.catalog import Board, ProfileEntry
    from vgpu_cfg.changes.plan import Plan
    from vgpu_cfg.changes.report import Report
    from vgpu_cfg.changes.suggestion import AsFound, Suggestion
    from vgpu_cfg.cli.labs import ServedLab
    from vgpu_cfg.errors import VgpuCfgError
    from vgpu_cfg.execution import HostTools
    from vgpu_cfg.model.desired import DesiredPlan
    from vgpu_cfg.model.observed.inventory import Host, Inventory
    from vgpu_cfg.model.verification import Verification


def lines(make: Callable[[int], Iterable[Text]], stream: TextIO | None = None) -> None:
    """Print a renderer's layout for the width of a stream, standard output if none is given."""
    console = make_console(stream or sys.stdout)
    print_lines(console, make(width_of(console)))


def say(text: str) -> None:
    """Print a message for people on standard error, so that it cannot get into a program's input."""
    lines(lambda width: fold(_text(text), width, hang=2), sys.stderr)


@contextmanager
def working(server: str) -> Iterator[Callable[[str], None]]:
    """Show the progress of a reading on a temporary line, if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _doing: None
        return
    with make_console(sys.stderr).status(_text(shown(server))) as status:
        yield lambda doing: status.update(_text(shown(f"{server}: {doing}")))


def data(value: Any) -> None:
    """Print a value as JSON."""
    sys.stdout.write(as_json(value, indent=2) + "\n")


def error(found: VgpuCfgError, output: OutputFormat, *, of: str = "") -> None:
    """Print an error on standard error: problem, place and remedy, a line each, or as JSON.

    `of` names its subject among several.
    """
    found.remedy = typed.completed(found.remedy)
    if output is OutputFormat.JSON:
        from vgpu_cfg.render.data.format import error_data

        sys.stderr.write(as_json(error_data(found, of=of)) + "\n")
        return
    from vgpu_cfg.render.text.errors import render_error

    lines(lambda width: render_error(found, width, of=of), sys.stderr)


def document(kind: str, **values: Any) -> None:
    """Print values as a JSON document that names its kind."""
    from vgpu_cfg.render.data.format import FORMAT

    data({"kind": kind, "format": FORMAT, **values})


def plan(
    made: Plan,
    output: OutputFormat,
    *,
    command: str,
    verbose: bool,
    is_only_shown: bool = True,
    fixes: Suggestion | None = None,
    occasion: Occasion = NO_OCCASION,
) -> None:
    """Print a plan; `command` is the next one to type, `fixes` would let a refused one be carried out.

    `occasion` is the run's occasion.
    """
    from vgpu_cfg.render.text.plan.whole import PlanShown, render_plan

    made = typed.advised(made)
    if output is OutputFormat.JSON:
        from vgpu_cfg.render.data.documents import plan_data

        data(plan_data(made, fixes))
        return
    shown = PlanShown(
        next_command=command or typed.in_earnest(),
        approved_command=typed.approved(made),
        again=typed.saved_again(),
        is_only_shown=is_only_shown,
        with_all=verbose,
        occasion=occasion,
    )
    lines(lambda width: render_plan(made, width, shown))


def plan_after(then: Plan) -> None:
    """Print the changes of `apply` after those shown before."""
    from vgpu_cfg.render.text.plan.whole import PlanShown, render_plan

    then, shown = typed.advised(then), PlanShown(is_only_shown=True)
    head = "THEN   what `apply` would change next; errors below do not affect the changes above"
    lines(lambda width: [_text(""), *fold(_text(head), width, hang=7), _text("")])
    lines(lambda width: render_plan(then, width, shown))


def marking(verb: str, made: Plan, then: Plan | None) -> None:
    """Print as JSON whose VMs would be another's, and what `apply` would do after it."""
    document(
        verb,
        digest=made.digest,
        errors=len(made.errors),
        plan=made.model_dump(mode="json"),
        then=then.model_dump(mode="json") if then is not None else None,
    )


def fixes(found: Suggestion, *, command: str, is_written: str) -> None:
    """Print what would let a refused plan be carried out."""
    from vgpu_cfg.render.text.plan.findings import render_fixes

    lines(lambda width: render_fixes(found, width, command=command, is_written=is_written))


def plan_to_decide_on(made: Plan, occasion: Occasion) -> None:
    """Print a plan for people on standard error, if standard output belongs to a program."""
    from vgpu_cfg.render.text.plan.whole import PlanShown, render_plan

    shown = PlanShown(next_command="", is_only_shown=False, with_all=False, occasion=occasion)
    lines(lambda width: render_plan(typed.advised(made), width, shown), sys.stderr)


def rollback(made: Plan, *, is_json: bool) -> None:
    """Print the changes that roll a run back; on standard error, if standard output is a program's."""
    from vgpu_cfg.render.text.plan.whole import PlanShown, render_plan

    shown = PlanShown(next_command="", is_only_shown=False)
    head = "ROLLBACK  undoing this run's changes as far as possible"
    file = sys.stderr if is_json else sys.stdout
    lines(lambda width: [_text(""), *fold(_text(head), width, hang=10)], file)
    lines(lambda width: render_plan(made, width, shown), file)


def report(
    made: Plan,
    ended: Report,
    after: Inventory | None,
    output: OutputFormat,
    *,
    journal: str,
    next_command: str,
    check_command: str,
    prove_command: str = "",
    undo_command: str = "",
) -> None:
    """Print what became of a run."""
    from vgpu_cfg.render.text.run.summary import render_summary

    if output is OutputFormat.JSON:
        from vgpu_cfg.render.data.documents import report_data

        data(report_data(made, ended, after))
        return
    lines(
        lambda width: render_summary(
            made,
            ended,
            width,
            after=after,
            journal=journal,
            next_command=next_command,
            check_command=check_command,
            prove_command=prove_command,
            undo_command=undo_command,
        )
    )


def upkeep(
    made: Plan,
    ended: Report | None,
    output: OutputFormat,
    *,
    after: Inventory | None = None,
    drained: Host | None = None,
    back: str = "",
    journal: str = "",
    is_shown: bool = False,
) -> None:
    """Print what became of work on hosts; without a report there was nothing to do.

    Of a plan that `is_shown` before, the findings are not repeated.
    """
    from vgpu_cfg.changes.report import Report
    from vgpu_cfg.render.text.run.summary import Drained, render_upkeep

    made = typed.advised(made)
    if output is OutputFormat.JSON:
        from vgpu_cfg.render.data.documents import report_data

        data(report_data(made, ended or Report(plan=made.name, digest=made.digest), after))
        return
    seen = Drained.of(drained, after, back) if drained is not None and after is not None else None
    told = made.model_copy(update={"diagnostics": ()}) if is_shown else made
    lines(lambda width: render_upkeep(told, ended, width, drained=seen, journal=journal))


def found(written: AsFound, path: str, *, is_only_shown: bool) -> None:
    """Print what of the found goes into a plan file."""
    from vgpu_cfg.render.text.plan.whole import render_found

    lines(lambda width: render_found(written, path, width, is_only_shown=is_only_shown))


def found_data(written: AsFound, path: str, *, is_written: bool) -> None:
    """Print the same as JSON."""
    from vgpu_cfg.render.data.documents import as_found_data

    data(as_found_data(written, path, is_written=is_written))


def profiles(entries: Sequence[ProfileEntry], others: Sequence[Board], output: OutputFormat) -> None:
    """Print profiles of the catalogue, and as text the boards that have none."""
    from vgpu_cfg.render.text.estate.profiles import render_profiles

    if output is OutputFormat.JSON:
        from vgpu_cfg.render.data.documents import profiles_data

        data(profiles_data(entries))
        return
    lines(lambda width: render_profiles(entries, width, others))


def estates(known: dict[str, str], output: OutputFormat) -> None:
    """Print the built-in estates of the lab and what each is for."""
    from vgpu_cfg.render.layout.lines import hanging

    if output is OutputFormat.JSON:
        rows = [{"server": f"lab:{name}", "about": about} for name, about in known.items()]
        document("lab-list", estates=rows)
        return
    widest = max(len(f"lab:{name}") for name in known)
    lines(
        lambda width: (
            line
            for name, about in known.items()
            for line in hanging(f"lab:{name}", about, width, indent=0, label_width=widest + 1)
        )
    )


def served(lab: ServedLab, output: OutputFormat) -> None:
    """Print how to reach a served lab."""
    from vgpu_cfg.settings.connection import LAB_PASSWORD, LAB_USER

    if output is OutputFormat.JSON:
        document(
            "lab-serve",
            url=lab.url,
            server=f"lab:{lab.estate}",
            user=LAB_USER,
            password=LAB_PASSWORD,
            thumbprint=lab.thumbprint,
            ca_file=str(lab.certificate),
            ssh_config=str(lab.ssh_config) if lab.ssh_config else None,
        )
        sys.stdout.flush()
        return
    lines(
        lambda _: [
            _text(f"{lab.url} serves lab:{lab.estate}; press Ctrl-C to stop"),
            _text(f"user        {LAB_USER}"),
            _text(f"password    {LAB_PASSWORD}"),
            _text(f"thumbprint  {lab.thumbprint}"),
            _text(f"CA          {lab.certificate}"),
            *([_text(f"SSH         ssh -F {lab.ssh_config} HOST")] if lab.ssh_config else []),
        ]
    )
    sys.stdout.flush()


def shells_opened(tools: HostTools) -> None:
    """Say whose SSH service was started to be read; it is stopped again at the end."""
    from vgpu_cfg.model.ranges import fold_names

    names = tools.shells.opened
    if names:
        what = "its SSH service was" if len(names) == 1 else "their SSH services were"
        say(
            f"{fold_names(names)}: {what} started to read settings from the shell, and stopped at the end "
            "of the run"
        )


def servers_operated(
    hosts: Sequence[str], bios: Mapping[str, bool], acts: Sequence[str], output: OutputFormat
) -> None:
    """Report the work on the lab's servers."""
    if output is OutputFormat.JSON:
        switched_on = "power_on" in acts
        document("lab-hand", hosts=list(hosts), bios=dict(bios), is_switched_on=switched_on, acts=list(acts))
        return
    words = {
        "fail": "power lost",
        "cut_off": "disconnected from vCenter",
        "reconnect": "reconnected",
        "power_on": "powered on",
    }
    done = [f"BIOS {name} {'on' if value else 'off'}" for name, value in bios.items()]
    done += [words[act] for act in acts]
    lines(lambda _: [_text(f"{', '.join(hosts)}: {', '.join(done)}")])


def was_restarted(
    estate: str, away: float, starting: float, output: OutputFormat, *, forgets_tasks: bool
) -> None:
    """Say that the vCenter of a lab restarts, and for how long it is away."""
    if output is OutputFormat.JSON:
        document(
            "lab-restart",
            estate=f"lab:{estate}",
            away_seconds=away,
            starting_seconds=starting,
            forgets_tasks=forgets_tasks,
        )
        return
    tasks = "its tasks are lost" if forgets_tasks else "its tasks continue"
    text = f"lab:{estate}: vCenter is unreachable for {away:g} s, then starting for {starting:g} s; {tasks}"
    lines(lambda _: [_text(text)])


def were_reset(names: Sequence[str], output: OutputFormat) -> None:
    """Say which estates start over."""
    if output is OutputFormat.JSON:
        document("lab-reset", estates=[f"lab:{name}" for name in names])
        return
    text = f"reset: {', '.join(f'lab:{name}' for name in names)}" if names else "nothing to reset"
    lines(lambda _: [_text(text)])


def _text(text: str) -> Text:
    from rich.text import Text

    return Text(text)


def report_file(desired: DesiredPlan) -> None:
    """Print the cases of a plan file without faults."""
    from vgpu_cfg.render import junit

    _write(junit.render_junit(f"validate {desired.name}", junit.file_cases(desired)))


def report_plan(made: Plan, output: PlanFormat, *, command: str, fixes: Suggestion | None) -> None:
    """Print a plan as cases, or as a comment that names the `command` to type next."""
    from vgpu_cfg.render import junit

    if output is PlanFormat.JUNIT:
        _write(junit.render_junit(f"plan {made.name}", junit.plan_cases(made), at=made.read_at))
        return
    from vgpu_cfg.render.markdown.comment import render_comment

    _write(render_comment(made, fixes=fixes, command=command))


def report_status(made: Plan, observed: Inventory) -> None:
    """Print a plan's VMs as cases."""
    from vgpu_cfg.render import junit
    from vgpu_cfg.render.views.status import view_status

    cases = junit.status_cases(view_status(made, observed))
    _write(junit.render_junit(f"status {made.name}", cases, at=made.read_at))


def report_verification(found: Verification) -> None:
    """Print each check as a case."""
    from vgpu_cfg.render import junit

    _write(junit.render_junit(f"verify {found.plan}", junit.verification_cases(found), at=found.begun))


def report_error(error: VgpuCfgError, *, command: str) -> None:
    """Print why a command has no report as cases that fail."""
    from vgpu_cfg.render import junit

    _write(junit.render_junit(command, junit.error_cases(error)))


def comment_on_error(error: VgpuCfgError) -> None:
    """Print why there is no plan as a comment."""
    from vgpu_cfg.render.markdown.comment import render_error_comment

    _write(render_error_comment(error))


def _write(text: str) -> None:
    sys.stdout.write(text)
