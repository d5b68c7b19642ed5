"""The commands, gathered under the headings of help, and the one place where an error becomes an exit code.

The list of commands names the module that knows each.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from itertools import pairwise
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from vgpu_cfg.cli.options import old_words
from vgpu_cfg.cli.output.standard_streams import output_failure
from vgpu_cfg.errors import DocumentError, DocumentFault, DoesNotFit, VgpuCfgError
from vgpu_cfg.model.wording import as_json, shown

_PLAN = "Plan and run"
_LOOK = "Look"
_HOSTS = "Work on hosts"
_CHECK = "Check and explain"
_HAND = "Hand over"
_LAB = "Lab"
LIBRARIES = ("pyvmomi", "pydantic", "highspy", "paramiko")
"""The libraries for vCenter's requests, plan files, placement and shells."""
_VALUES = {"bool": "", "str": "TEXT", "Path": "PATH", "path": "PATH", "int": "N", "float": "N"}
_PROGRAM = "vgpu-cfg"
_COMPLETE = f"_{_PROGRAM}_COMPLETE".replace("-", "_").upper()
"""The variable with which a shell asks for completions, as Typer makes it of the program's name."""
EXIT_BUG = 1
STANDARD_OUTPUT = "standard output"
UsageError: Any = typer.BadParameter.__mro__[1]
"""Typer's error for a mistyped command line; Typer exports the class under no other name."""


def version_lines() -> list[str]:
    """Return the version alone on a line for scripts, and a line with its platform."""
    import platform
    from importlib.metadata import version

    from vgpu_cfg import __version__

    system = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    libraries = (f"{name} {version(name)}" for name in LIBRARIES)
    return [f"vgpu-cfg {__version__}", ", ".join((system, *libraries))]


def print_version(wanted: bool) -> None:
    """Print the versions and end the program if the option is given."""
    if wanted:
        typer.echo("\n".join(version_lines()))
        raise typer.Exit


@dataclass(frozen=True, slots=True)
class Listed:
    """A command's line in help, and its module in `cli/commands`, imported when the command is run."""

    name: str
    module: str
    panel: str
    purpose: str
    """The first line of the command's own docstring; a test compares the two."""


LISTED = (
    Listed("validate", "plan", _PLAN,
           "Check a plan file offline and report every error with its line."),
    Listed("plan", "plan", _PLAN, "Show what would change, and why. Read-only."),
    Listed("apply", "plan", _PLAN, (
        "Apply a plan: show it, ask for confirmation, run it, and verify the result."
    )),
    Listed("status", "plan", _LOOK,
           "Show a plan's VMs, their drift, and who changed them; without a plan, everything vgpu-cfg "
           "manages."),
    Listed("destroy", "plan", _PLAN,
           "Delete the VMs that the plan lists and owns, together with their rules."),
    Listed("import", "ownership", _PLAN,
           "Bring existing VMs under management, by name and folder; show what apply would change next."),
    Listed("forget", "ownership", _PLAN,
           "Stop managing VMs without changing them: remove the plan's marks and rules."),
    Listed("verify", "verify", _CHECK,
           "Verify that hosts and guests are ready for training; exit 8 if a check fails, 9 if one cannot "
           "run."),
    Listed("doctor", "doctor", _CHECK,
           "Check a vCenter's GPU hosts and GPU VMs for faults, risks and waste. Read-only."),
    Listed("trial", "doctor", _CHECK,
           ("Test vgpu-cfg's assumptions about a vCenter with temporary objects, "
            "shown first and removed later.")),
    Listed("explain", "explain", _CHECK,
           "Explain a check code, an error message, or a VM's last failure, and how to fix it."),
    Listed("inventory", "estate", _LOOK,
           "Show hosts, GPUs, NICs and NUMA nodes, which VMs use them, and what is free."),
    Listed("profiles", "estate", _LOOK,
           "List the vGPU profiles in the catalog: boards, sizes, and how many fit on a GPU."),
    Listed("history", "history", _LOOK,
           "Show who ran what, when, from where, and with what result, on any machine."),
    Listed("metrics", "metrics", _LOOK,
           "Export capacity, usage, drift and the latest runs as Prometheus metrics."),
    Listed("fit", "fit", _LOOK,
           "Show how many more VMs fit on each host, by profile or plan file, and what limits them."),
    Listed("size", "fit", _LOOK,
           "Estimate the GPUs, step time, rack space and power that a model requires."),
    Listed("upgrade", "upgrade", _HOSTS,
           "Plan a driver or ESXi upgrade of GPU hosts over maintenance windows. Read-only."),
    Listed("cordon", "upkeep", _HOSTS,
           "Stop all plans from placing VMs on hosts or GPUs; running VMs are not affected."),
    Listed("drain", "upkeep", _HOSTS,
           "Empty a host for maintenance: cordon it, move its VMs away, and remember where they were."),
    Listed("uncordon", "upkeep", _HOSTS,
           "Return cordoned hosts or GPUs to service; with --restore, also move drained VMs back."),
    Listed("unlock", "history", _PLAN,
           "Remove locks left by an interrupted run; without a run, list all locks."),
    Listed("freeze", "freeze", _PLAN,
           "Block all vgpu-cfg changes in a vCenter until a date; --thaw ends the freeze early."),
    Listed("runbook", "runbook", _HAND,
           "Print the plan as a Markdown runbook: each step with its reason, commands, check and undo."),
    Listed("export", "export", _HAND,
           "Write a plan file that describes existing VMs and hosts; applying it changes nothing."),
    Listed("hand-over", "export", _HAND,
           "Write the plan's VMs as a host file, inventory or pool for another tool."),
    Listed("privileges", "privileges", _HAND,
           "List the vCenter privileges that a plan requires, with their objects, and generate the roles."),
    Listed("lab", "lab", _LAB,
           "A simulated vCenter with GPUs, for learning and rehearsal: --server lab:two-a100."),
)  # fmt: skip


def _spell_values(command: Any, ctx: Any) -> None:
    """Let the help of a command name values by words; since 0.29 Typer prints types of Python."""
    for one in command.get_params(ctx):
        if hasattr(one, "display_type"):
            one.display_type = partial(_spelled, one.display_type)


class Group(TyperGroup):
    """A group of commands whose help spells values as words."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help."""
        _spell_values(self, ctx)
        super().format_help(ctx, formatter)


class Command(TyperCommand):
    """A command whose help spells values as words, and refers to the options that are listed once."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help."""
        _spell_values(self, ctx)
        names = [one.opts[0] for one in self.params]
        if "--server" in names:
            known = ", ".join(("--server", "--context", *(["--from"] if "--from" in names else [])))
            self.epilog = f"Connection options ({known} and others): vgpu-cfg --help\n\n{self.epilog}"
        super().format_help(ctx, formatter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of a command line; an unknown option is answered with the one that was meant."""
        try:
            return super().parse_args(ctx, args)
        except UsageError as error:
            if hasattr(error, "possibilities"):
                from vgpu_cfg.cli.options.meant_words import meant_option

                known = [option for one in self.params for option in one.opts]
                error.possibilities = [one for one in [meant_option(error.option_name, known)] if one]
            elif "extra argument" in error.message:
                options = {option for one in self.params for option in one.opts}
                found = next((one for one in ("--only", "--vm") if one in options), "")
                error.message += f". To select VMs, use {found}." if found else ""
            raise


def _spelled(kind_of: Callable[[Any], str], ctx: Any) -> str:
    """Return how help names a value."""
    kind = kind_of(ctx).strip("<>").removesuffix(" range").removeprefix("list[").removesuffix("]")
    return _VALUES.get(kind, kind)


class Commands(TyperGroup):
    """All commands: help lists them by their lines; one that is named is imported then."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Loaded()

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that a word names; an unknown one is answered with the one that was meant."""
        try:
            return super().resolve_command(ctx, args)
        except UsageError as error:
            from vgpu_cfg.cli.options.meant_words import meant_command

            if args and (meant := meant_command(args[0], tuple(self.commands))):
                error.message += f" Did you mean {meant!r}?"
            raise

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - Typer's signature
        """Print the help of all commands without importing one."""
        from vgpu_cfg.cli.options.connection import connection_rows
        from vgpu_cfg.cli.output.overview import Row, print_overview

        options: list[Row] = []
        for option in self.get_params(ctx):
            spelled = sorted(option.opts, key=len, reverse=True)
            options.append((spelled[0], " ".join(spelled[1:]), getattr(option, "help", "") or ""))
        shared: dict[str, list[Row]] = {"Options": options}
        for heading in dict.fromkeys(row.panel for row in LISTED):
            shared[heading] = [(row.name, row.purpose) for row in LISTED if row.panel == heading]
        shared["Connection, for every command that uses a vCenter"] = connection_rows()
        print_overview(self.get_usage(ctx), self.help or "", shared)


class _Loaded(MutableMapping[str, Any]):
    """Commands by name, in the order of help; a module is imported when one of its commands is asked for."""

    def __init__(self) -> None:
        self._modules = {row.name: row.module for row in LISTED}
        self._found: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._found:
            within = typer.Typer()
            import_module(f"vgpu_cfg.cli.commands.{self._modules[name]}").register(within)
            if _COMPLETE in os.environ:
                from vgpu_cfg.cli.completing import attach

                attach(within)
            groups = [
                one.typer_instance for one in within.registered_groups if one.typer_instance is not None
            ]
            for group in within.registered_groups:
                group.cls = Group
            for one in (command for each in (within, *groups) for command in each.registered_commands):
                one.cls = Command
            made: Any = typer.main.get_group(within)
            self._found |= made.commands
        return self._found[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._found[name] = command

    def __delitem__(self, name: str) -> None:
        del self._modules[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


app = typer.Typer(
    name=_PROGRAM,
    cls=Commands,
    help="Create and manage VMs with NVIDIA vGPUs on vSphere from a plan file.\n\n"
    "The usual order:  doctor -> plan -> apply -> verify\n\n"
    "Try it without a vCenter:  vgpu-cfg doctor --server lab:mixed-fleet",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    suggest_commands=False,
    context_settings={"help_option_names": ["-h", "--help"], "token_normalize_func": old_words.as_named},
)


@app.callback()
def take_options(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=print_version,
            is_eager=True,
            help="Print the versions of vgpu-cfg, Python and libraries, for bug reports.",
        ),
    ] = False,
) -> None:
    """Accept the options before a command; they have taken effect when this is called."""


def main() -> None:
    """Run the command line and exit with the code that belongs to what happened.

    Typer's own: 2 for a mistyped command line, 130 for Ctrl-C before anything was begun.
    """
    try:
        _renew()
        if wants_json(sys.argv[1:]):
            sys.exit(_run_for_a_program())
        _command()(prog_name=_PROGRAM)
    except SystemExit as ended:
        failure = output_failure()
        if ended.code or failure is None:
            raise
        failure.filename = STANDARD_OUTPUT
        _print_error(_unusable_file(failure))
        sys.exit(DocumentError.exit_code)
    except VgpuCfgError as error:
        _print_error(error)
        sys.exit(error.exit_code)
    except OSError as error:
        if error.filename is None:
            _report_bug(error)
            sys.exit(EXIT_BUG)
        _print_error(_unusable_file(error))
        sys.exit(DocumentError.exit_code)
    except Exception as error:  # noqa: BLE001 - nothing may reach the user as a traceback
        _report_bug(error)
        sys.exit(EXIT_BUG)


def _renew() -> None:
    """Replace words of the previous release; for people, name today's on standard error."""
    words, sys.argv[1:] = sys.argv[1:], old_words.renewed(sys.argv[1:])
    if not wants_json(words):
        sys.stderr.write("".join(f"{line}\n" for line in old_words.notes(words)))


def wants_json(words: Sequence[str]) -> bool:
    """Whether a command line asks for JSON; errors are printed in it, too."""
    return _wants(words, "json")


def _wants(words: Sequence[str], output: str) -> bool:
    return f"--output={output}" in words or ("--output", output) in pairwise(words)


def _run_for_a_program() -> int:
    """Run the command line and return its exit code; report mistyped input as JSON."""
    try:
        code = _command()(prog_name="vgpu-cfg", standalone_mode=False)
    except UsageError as error:
        command = error.ctx.command_path if error.ctx is not None else "vgpu-cfg"
        remedy = f"run `{command} --help` for the options"
        _print_mishap("UsageError", error.format_message(), 2, command, remedy)
        return 2
    except typer.Abort:
        return 1
    return code if isinstance(code, int) else 0


@cache
def _command() -> Any:
    """Return the commands as Click runs them; Typer takes a tenth of a second to make them."""
    return typer.main.get_command(app)


def _unusable_file(error: OSError) -> DocumentError:
    """Report an unusable file or folder: no room, no permission, wrong type."""
    fault = DocumentFault(str(error.filename), 1, 1, f"cannot use this file: {error.strerror or error}")
    remedy = "free up disk space or grant access"
    if error.filename != STANDARD_OUTPUT:
        remedy += ", or set VGPU_CFG_STATE_FOLDER and VGPU_CFG_CONFIG to other locations"
    return DocumentError([fault], remedy=remedy)


def _print_error(error: VgpuCfgError) -> None:
    from vgpu_cfg.cli.options.shared import OutputFormat
    from vgpu_cfg.cli.output import show

    sys.stdout.flush()
    if wants_json(sys.argv[1:]):
        show.error(error, OutputFormat.JSON)
        return
    _print_report(error)
    is_shown = isinstance(error, DoesNotFit) and error.is_shown
    if not (is_shown and sys.stdout.isatty() and sys.stderr.isatty()):
        show.error(error, OutputFormat.TEXT)


def _print_report(error: VgpuCfgError) -> None:
    """Say on standard output, too, why there is no report for the pipeline that waits for one.

    Errors of placement are in the report that was printed before.
    """
    from vgpu_cfg.cli.output import show

    if isinstance(error, DoesNotFit):
        return
    if _wants(sys.argv, "junit"):
        show.report_error(error, command=sys.argv[1])
    elif _wants(sys.argv, "markdown"):
        show.comment_on_error(error)


def _print_mishap(code: str, message: str, exit_code: int, subject: str, remedy: str) -> None:
    from vgpu_cfg.render.data.format import mishap_data

    found = mishap_data(code, message, exit_code, subject=subject, remedy=remedy)
    sys.stderr.write(as_json(found) + "\n")


def _report_bug(error: Exception) -> None:
    if wants_json(sys.argv[1:]):
        if os.environ.get("VGPU_CFG_DEBUG"):
            traceback.print_exception(error)
        message = f"a bug in vgpu-cfg: {type(error).__name__}: {error}"
        remedy = "rerun it with VGPU_CFG_DEBUG=1 and report the output"
        _print_mishap("Bug", message, EXIT_BUG, " ".join(sys.argv[1:3]), remedy)
        return
    lines = [
        f"ERROR  a bug in vgpu-cfg: {type(error).__name__}: {error}",
        f"WHERE  {' '.join(sys.argv[1:3])}",
        "DO     rerun it with VGPU_CFG_DEBUG=1 and report the output",
    ]
    if os.environ.get("VGPU_CFG_DEBUG"):
        traceback.print_exception(error)
        lines += version_lines()
    sys.stderr.write("".join(f"{shown(line)}\n" for line in lines))
