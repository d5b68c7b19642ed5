"""The options that many commands share, added to a signature by a decorator, and the values of some of them.

Typer reads a function's signature. `connected` appends the options that select the server and hands the
command one `ConnectionFlags`; `planned` does the same for values of a plan file's variables.

Values that several commands share are the options of `export --update`, durations, and the steps of a trial.
"""

from __future__ import annotations

import functools
import inspect
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vgpu_cfg.cli.options import typed
from vgpu_cfg.cli.options.connection import CONNECTION_OPTIONS, CONTEXTS_OPTION, FROM_OPTION, SERVERS_OPTION
from vgpu_cfg.model.choices import NO_OCCASION, Approval, Occasion
from vgpu_cfg.model.ranges import is_glob
from vgpu_cfg.model.runs import OnFailure
from vgpu_cfg.settings.flags import ConnectionFlags

if TYPE_CHECKING:
    from vgpu_cfg.planning.doctor.trials import Step
    from vgpu_cfg.planning.findings.options import PlanOptions

_RUN = "Run"
_SCOPE = "Approvals and scope"
YesOption = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.", rich_help_panel=_RUN)
]
ParallelOption = Annotated[
    int,
    typer.Option(
        "--parallel", min=1, max=64, help="Maximum number of concurrent tasks.", rich_help_panel=_RUN
    ),
]
PerHostOption = Annotated[
    int,
    typer.Option(
        "--per-host", min=1, max=16, help="Maximum number of concurrent tasks per host.", rich_help_panel=_RUN
    ),
]
PowerCycleOption = Annotated[
    bool,
    typer.Option(
        "--allow-power-cycle",
        help="Allow running VMs to be shut down for changes that require it.",
        rich_help_panel=_SCOPE,
    ),
]
MoveOption = Annotated[
    bool,
    typer.Option(
        "--allow-move",
        help="Allow the plan's VMs to be moved to the host, cluster or datastore in the plan file.",
        rich_help_panel=_SCOPE,
    ),
]
AllowOption = Annotated[
    list[Approval] | None,
    typer.Option(
        "--allow",
        help="Approve the plan's effects on other objects, as `allow` does in the plan file.",
        show_default=False,
        rich_help_panel=_SCOPE,
    ),
]
AllowDestroyOption = Annotated[
    int,
    typer.Option(
        "--allow-destroy",
        metavar="N",
        min=0,
        help="Allow up to this many VMs to be deleted.",
        show_default=False,
        rich_help_panel=_SCOPE,
    ),
]
SignersOption = Annotated[
    Path | None,
    typer.Option(
        "--require-signature",
        metavar="SIGNERS",
        help=(
            "Accept only saved plans that were signed by one of these signers (an ssh-keygen allowed "
            "signers file)."
        ),
        show_default=False,
        rich_help_panel=_RUN,
    ),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would be done; change nothing.")]
OnlyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        metavar="WHAT",
        help="Only these VMs (hvd-*), or those of host:NAME, cluster:NAME or gpu:HOST/PCI.",
        show_default=False,
        rich_help_panel=_SCOPE,
    ),
]
HostsOption = Annotated[
    list[str] | None,
    typer.Option("--host", metavar="WHAT", help="Only these hosts (esx-0*), or hosts of KIND:NAME."),
]
ClustersOption = Annotated[
    list[str] | None,
    typer.Option("--cluster", metavar="WHAT", help="Only these clusters (gpu*), or clusters of KIND:NAME."),
]
PlanArgument = Annotated[Path, typer.Argument(metavar="PLAN", help="The plan file.", show_default=False)]
PlansArgument = Annotated[
    Path, typer.Argument(metavar="PLAN", help="The plan file, or a folder of plans.", show_default=False)
]
_QUOTAS_OPTION = Annotated[
    Path | None,
    typer.Option("--quotas", metavar="FILE", help="Enforce the quotas in this file.", show_default=False),
]
_PLAN_OPTIONS: dict[str, Any] = {
    "variable_files": Annotated[
        list[Path] | None,
        typer.Option(
            "--vars", metavar="FILE", help="YAML file with values for ${NAME} variables.", show_default=False
        ),
    ],
    "variables": Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=TEXT", help="Set the value of one ${NAME}.", show_default=False),
    ],
}
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGE = re.compile(r"(\d{1,5})([mhdw])")


class OutputFormat(StrEnum):
    """A command's output format on standard output."""

    TEXT = "text"
    JSON = "json"


class ReportFormat(StrEnum):
    """The output format of a command with findings."""

    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"


class PlanFormat(StrEnum):
    """The output format of a command that plans."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    JUNIT = "junit"


def bare(kind: str) -> Callable[[Any], Any]:
    """Return a callback for an option that names objects of one kind: with `kind:` before the name or not."""

    def strip(value: Any) -> Any:
        if value is None or isinstance(value, (list, tuple)):
            return value and [strip(one) for one in value]
        said, colon, name = value.partition(":")
        if colon and said in ("host", "vm", "gpu", "cluster") and said != kind:
            raise typer.BadParameter(f"{value!r} is not a {kind.replace('vm', 'VM')}; use {kind}:NAME")
        return name if colon and said == kind else value

    return strip


OutputOption = Annotated[OutputFormat, typer.Option("--output", help="Print text or JSON.")]
ReportOption = Annotated[
    ReportFormat, typer.Option("--output", help="Print text, JSON, or JUnit XML (for CI pipelines).")
]
PlanOutputOption = Annotated[
    PlanFormat,
    typer.Option("--output", help="Print text, JSON, Markdown for a merge request comment, or JUnit XML."),
]
DeleteOption = Annotated[
    list[str] | None,
    typer.Option(
        "--delete",
        metavar="NAME",
        help="Also delete a VM that the plan owns but its file no longer lists, an imported VM, or an "
        "unmanaged disk with its VM.",
        show_default=False,
        callback=bare("vm"),
        rich_help_panel=_SCOPE,
    ),
]


@dataclass(frozen=True, slots=True)
class CommandOptions:
    """The options that the next command on the same plan must repeat."""

    connection: ConnectionFlags
    variables: dict[str, str] = field(default_factory=dict)
    variable_files: tuple[Path, ...] = ()
    allow_power_cycle: bool = False
    allow_move: bool = False
    delete: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    occasion: Occasion = NO_OCCASION
    allow_destroy: int = 0
    on_failure: OnFailure = OnFailure.GO_ON
    rotate: tuple[str, ...] = ()
    canary: int = 0
    signers: Path | None = None
    expired: bool = False
    allow: tuple[Approval, ...] = ()

    @property
    def plan_options(self) -> PlanOptions:
        """The part of it for planning."""
        from vgpu_cfg.planning.findings.options import PlanOptions

        return PlanOptions(
            allow_power_cycle=self.allow_power_cycle,
            allow_move=self.allow_move,
            delete=self.delete,
            allow_destroy=self.allow_destroy,
            only=self.only,
            rotate=self.rotate,
            canary=self.canary,
            allow=self.allow,
        )

    def command(self, verb: str, path: Path, *more: str) -> str:
        """Return what to type for a command on a plan; a saved plan has its variables filled in."""
        words = ["vgpu-cfg", verb, str(path), *more]
        if path.suffix != ".json":
            words += (f"--vars={file}" for file in self.variable_files)
            words += (f"--set={name}={text}" for name, text in self.variables.items())
        if verb in ("plan", "apply"):
            words += ["--allow-power-cycle"] * self.allow_power_cycle
            words += ["--allow-move"] * self.allow_move
            words += (f"--allow={approval}" for approval in self.allow)
            words += (f"--rotate={name}" for name in self.rotate)
        if verb in ("plan", "apply", "status") and self.connection.quotas is not None:
            words.append(f"--quotas={self.connection.quotas}")
        if verb in ("plan", "apply", "destroy") and self.allow_destroy:
            words.append(f"--allow-destroy={self.allow_destroy}")
        if verb in ("plan", "apply", "destroy", "import", "forget"):
            words += (f"--delete={name}" for name in self.delete)
            words += (f"--only={glob}" for glob in self.only)
        if verb == "apply":
            words += ["--expired"] * self.expired
            words += ["--rollback-on-failure"] * (self.on_failure is OnFailure.ROLL_BACK)
            words += ["--stop-on-failure"] * (self.on_failure is OnFailure.STOP)
            words += [f"--canary={self.canary}"] * bool(self.canary)
        if verb in ("apply", "destroy") and self.signers is not None:
            words.append(f"--require-signature={self.signers}")
        if verb in ("apply", "destroy", "import", "forget"):
            said_for = {"--change": self.occasion.change, "--reason": self.occasion.reason}
            words += (f"{option}={text}" for option, text in said_for.items() if text)
        recording = self.connection.recording
        if recording is not None and verb in typed.OF_RECORDINGS:
            return shlex.join([*words, f"--from={recording}"])
        return shlex.join([*words, *self.connection.words])


def connected(
    *, recordings: bool = False, several: bool = False, servers: bool = False, quotas: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the connection options; the command gets `connection: ConnectionFlags`.

    With `recordings` there is `--from` too: the command can work on a recorded vCenter. With `several` there
    may be several contexts, and the command looks whether `connection.contexts` are said; with `servers`
    several addresses, too. With `quotas` there is `--quotas`.
    """
    options = dict(CONNECTION_OPTIONS)
    if several:
        options["context"] = CONTEXTS_OPTION
    if servers:
        options["server"] = SERVERS_OPTION
    if quotas:
        options["quotas"] = _QUOTAS_OPTION
    if recordings:
        options["recording"] = FROM_OPTION

    def gather(values: dict[str, Any]) -> dict[str, Any]:
        if several:
            values |= _one_or_several(values["context"] or [])
        if servers:
            words = values["server"] or []
            values |= {"server": words[0] if len(words) == 1 else None, "servers": tuple(words[1:] and words)}
        flags = ConnectionFlags(**values)
        typed.begin(flags.words, flags.recording)
        return {"connection": flags}

    return adding(options, gather, handed="connection")


def _one_or_several(words: list[str]) -> dict[str, Any]:
    """Return the flags of `--context`: a glob and whatever is said twice mean several."""
    if len(words) > 1 or any(is_glob(word) for word in words):
        return {"context": None, "contexts": tuple(words)}
    return {"context": words[0] if words else None}


def refuse_of_several(
    said: Mapping[str, object], why: str = "requires a single vCenter; specify one context"
) -> None:
    """Raise BadParameter for an option that was said, and cannot be about several."""
    for option, value in said.items():
        if value:
            raise typer.BadParameter(why, param_hint=option)


def planned(command: Callable[..., None]) -> Callable[..., None]:
    """Add `--vars` and `--set`; the command gets `variables` and `variable_files`."""

    def gather(values: dict[str, Any]) -> dict[str, Any]:
        return {
            "variables": _pairs(values["variables"] or []),
            "variable_files": tuple(values["variable_files"] or ()),
        }

    return adding(_PLAN_OPTIONS, gather)(command)


def _pairs(settings: list[str]) -> dict[str, str]:
    pairs = {}
    for setting in settings:
        name, sign, value = setting.partition("=")
        if not sign or not name:
            raise typer.BadParameter(f"{setting!r} is not NAME=TEXT", param_hint="--set")
        pairs[name] = value
    return pairs


def adding(
    options: dict[str, Any], gather: Callable[[dict[str, Any]], dict[str, Any]], handed: str = ""
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Append options to a command's signature; it gets what `gather` makes of them.

    `handed` names a parameter of the command that is no option itself.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        kept = [
            parameter
            for name, parameter in signature.parameters.items()
            if name not in options and name != handed
        ]
        added = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=False if name == "insecure" else None,
                annotation=annotation,
            )
            for name, annotation in options.items()
        ]
        positional = [found for found in kept if found.kind is not inspect.Parameter.KEYWORD_ONLY]
        keywords = [found for found in kept if found.kind is inspect.Parameter.KEYWORD_ONLY]

        @functools.wraps(command)
        def run(*args: Any, **kwargs: Any) -> None:
            values = {name: kwargs.pop(name) for name in options}
            command(*args, **kwargs, **gather(values))

        run.__signature__ = signature.replace(parameters=[*positional, *keywords, *added])  # type: ignore[attr-defined]  # inspect and typer read it
        run.__annotations__ = {found.name: found.annotation for found in [*positional, *keywords, *added]} | {
            "return": None
        }
        # typer must read the signature above, not that of the command itself
        vars(run).pop("__wrapped__")
        return run

    return decorate


@dataclass(frozen=True, slots=True)
class UpdateOptions:
    """Which VMs, by globs of their names, and whether the file is written unasked, or not at all."""

    globs: Sequence[str]
    yes: bool = False
    dry_run: bool = False
    output: OutputFormat = OutputFormat.TEXT


def age_of(text: str, option: str = "--since") -> timedelta:
    """Read how long ago something may be: a number with its unit, or a day. Raises BadParameter."""
    if (found := _AGE.fullmatch(text)) is not None:
        return timedelta(**{_UNITS[found[2]]: int(found[1])})
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        message = f"{text!r} is neither a period such as 7d, 12h or 2w nor a date such as 2026-11-01"
        raise typer.BadParameter(message, param_hint=option) from error
    age = datetime.now(UTC) - moment.astimezone()
    if age < timedelta():
        raise typer.BadParameter(f"{text} is in the future", param_hint=option)
    return age


def steps_of(text: str) -> tuple[Step, ...]:
    """Return the steps that are named, in their order. Raises BadParameter for another name."""
    from vgpu_cfg.planning.doctor.trials import Step

    named = {word.strip() for word in text.split(",")}
    if unknown := sorted(named - set(Step)):
        raise typer.BadParameter(f"{unknown[0]!r} is not one of {', '.join(Step)}", param_hint="--steps")
    return tuple(step for step in Step if step in named)
