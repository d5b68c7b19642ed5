"""The one place where an error becomes an exit code, and where the commands are gathered."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Annotated, Any

import typer

from vgpu_cfg.cli.listed import Commands
from vgpu_cfg.cli.options.version import print_version, version_lines
from vgpu_cfg.cli.output.standard_streams import output_failure
from vgpu_cfg.errors import DocumentError, DocumentFault, DoesNotFit, VgpuCfgError
from vgpu_cfg.model.signs import as_json, shown

EXIT_BUG = 1
STANDARD_OUTPUT = "standard output"
UsageError: Any = typer.BadParameter.__mro__[1]
"""What Typer raises for a command line that is mistyped; it names the class nowhere else."""

app = typer.Typer(
    name="vgpu-cfg",
    cls=Commands,
    help="From a plan file to running VMs with NVIDIA vGPUs on vSphere.\n\n"
    "Try it without a vCenter:  vgpu-cfg apply examples/multi-node-horovod.yaml",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
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
            help="Print the versions of vgpu-cfg, Python and libraries, as a report of a bug needs them.",
        ),
    ] = False,
) -> None:
    """Take the options that stand before a command; they have done their work when this is called."""


def main() -> None:
    """Run the command line and exit with the code that belongs to what happened.

    Typer's own: 2 for a mistyped command line, 130 for Ctrl-C before anything was begun.
    """
    try:
        if wants_json(sys.argv[1:]):
            sys.exit(_run_for_a_program())
        _command()(prog_name="vgpu-cfg")
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


def wants_json(words: Sequence[str]) -> bool:
    """Whether a command line asks for JSON; errors are told in it, too."""
    return _wants(words, "json")


def _wants(words: Sequence[str], output: str) -> bool:
    return f"--output={output}" in words or ("--output", output) in pairwise(words)


def _run_for_a_program() -> int:
    """Run the command line and return its exit code; what is mistyped is told as JSON."""
    try:
        code = _command()(prog_name="vgpu-cfg", standalone_mode=False)
    except UsageError as error:
        command = error.ctx.command_path if error.ctx is not None else "vgpu-cfg"
        remedy = f"`{command} --help` tells the options"
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
    """Say of a file or folder that it cannot be used: no room, no permission, not what it should be."""
    fault = DocumentFault(str(error.filename), 1, 1, f"this cannot be used: {error.strerror or error}")
    remedy = "make room or give access"
    if error.filename != STANDARD_OUTPUT:
        remedy += "; VGPU_CFG_STATE_FOLDER and VGPU_CFG_CONFIG name other places"
    return DocumentError([fault], remedy=remedy)


def _print_error(error: VgpuCfgError) -> None:
    from vgpu_cfg.cli.options.shared import OutputFormat
    from vgpu_cfg.cli.output import show

    sys.stdout.flush()
    if wants_json(sys.argv[1:]):
        show.error(error, OutputFormat.JSON)
        return
    _print_report(error)
    show.error(error, OutputFormat.TEXT)


def _print_report(error: VgpuCfgError) -> None:
    """Say on standard output, too, why there is no report for the pipeline that waits for one.

    What does not fit is in the report that was printed before.
    """
    from vgpu_cfg.cli.output import show_report

    if isinstance(error, DoesNotFit):
        return
    if _wants(sys.argv, "junit"):
        show_report.error(error, command=sys.argv[1])
    elif _wants(sys.argv, "markdown"):
        show_report.error_comment(error)


def _print_mishap(code: str, message: str, exit_code: int, subject: str, remedy: str) -> None:
    from vgpu_cfg.render.data.error import mishap_data

    found = mishap_data(code, message, exit_code, subject=subject, remedy=remedy)
    sys.stderr.write(as_json(found) + "\n")


def _report_bug(error: Exception) -> None:
    if wants_json(sys.argv[1:]):
        if os.environ.get("VGPU_CFG_DEBUG"):
            traceback.print_exception(error)
        message = f"a bug in vgpu-cfg: {type(error).__name__}: {error}"
        remedy = "run it again with VGPU_CFG_DEBUG=1 and report what it prints"
        _print_mishap("Bug", message, EXIT_BUG, " ".join(sys.argv[1:3]), remedy)
        return
    lines = [
        f"ERROR  a bug in vgpu-cfg: {type(error).__name__}: {error}",
        f"WHERE  {' '.join(sys.argv[1:3])}",
        "DO     run it again with VGPU_CFG_DEBUG=1 and report what it prints",
    ]
    if os.environ.get("VGPU_CFG_DEBUG"):
        traceback.print_exception(error)
        lines += version_lines()
    sys.stderr.write("".join(f"{shown(line)}\n" for line in lines))
