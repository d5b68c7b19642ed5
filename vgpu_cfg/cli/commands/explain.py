"""Explain a code, an error text or a VM's failure."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vgpu_cfg.cli.options.shared import OutputFormat, OutputOption, bare, connected
from vgpu_cfg.settings.flags import ConnectionFlags

if TYPE_CHECKING:
    from vgpu_cfg.knowledge.check_pages import CheckPage
    from vgpu_cfg.knowledge.verify_failures import Failure
    from vgpu_cfg.model.observed.inventory import Inventory
    from vgpu_cfg.model.observed.vm import Vm
    from vgpu_cfg.planning.findings.codes import Code
    from vgpu_cfg.planning.remedies.diagnosis import Diagnosis
    from vgpu_cfg.ports import InventoryReader
    from vgpu_cfg.settings.connection import Connection
    from vgpu_cfg.vsphere.history.failures import FailureReader

_MOST_FILES = 50
_LONGEST_NAME = 255
"""A longer word names no file on Linux."""
_CODE = re.compile(r"VG\d[0-9A-Z]*", re.IGNORECASE)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog="vgpu-cfg explain VG104  # a check code\n\n"
        "vgpu-cfg explain \"Module 'DevicePowerOn' power on failed.\"  # a message\n\n"
        "vgpu-cfg explain --vm hvd-02 --server vc01.example.com  # why a VM does not start"
    )(explain)


@connected()
def explain(
    what: Annotated[
        list[str] | None,
        typer.Argument(metavar="WHAT", help="Check codes or an error message; use - to read standard input."),
    ] = None,
    *,
    vm: Annotated[
        str | None,
        typer.Option(
            "--vm", help="Explain the last failed task of this VM.", show_default=False, callback=bare("vm")
        ),
    ] = None,
    output: OutputOption = OutputFormat.TEXT,
    connection: ConnectionFlags,
) -> None:
    """Explain a check code, an error message, or a VM's last failure, and how to fix it."""
    words = list(what or ())
    if bool(words) == (vm is not None):
        raise typer.BadParameter("specify a check code, an error message, or --vm NAME", param_hint="WHAT")
    if vm is not None:
        _show_diagnosis(_diagnosed(vm, connection), output)
    elif all(_CODE.fullmatch(word) for word in words):
        _show_pages([_page(word) for word in words], output)
    else:
        text = sys.stdin.read() if words == ["-"] else " ".join(words)
        if not text.strip():
            raise typer.BadParameter("no text to explain", param_hint="WHAT")
        if len(text.split()) == 1 and len(text) <= _LONGEST_NAME:
            _refuse_name(text.strip())
        _show_explanations(text, output)


# ---------------------------------------------------------------- codes


def _page(word: str) -> tuple[Code | Failure, CheckPage]:
    from vgpu_cfg.errors import NotFound
    from vgpu_cfg.knowledge.check_pages import read_page
    from vgpu_cfg.knowledge.verify_failures import FAILURES, failure_of
    from vgpu_cfg.planning.findings.codes import Code, code_of

    code = word.upper()
    check = code_of(code) or failure_of(code)
    if check is None:
        from vgpu_cfg.documents import did_you_mean

        known = [one.value for one in (*Code, *FAILURES)]
        remedy = did_you_mean(code, known) or "for a list of all codes, see docs/reference/checks/README.md"
        raise NotFound(f"unknown check code {code}", subject="checks", remedy=remedy)
    page = read_page(code)
    if page is None:
        raise NotFound(
            f"{code} ({check.summary}) is not documented in this installation",
            subject=f"docs/reference/checks/{code}.md",
            remedy="see the finding in the plan; a later release may include the page",
        )
    return check, page


def _show_pages(pages: list[tuple[Code | Failure, CheckPage]], output: OutputFormat) -> None:
    from rich.text import Text

    from vgpu_cfg.cli.output import show
    from vgpu_cfg.render.text.check_page import render_page

    if output is OutputFormat.JSON:
        from vgpu_cfg.render.data.documents import pages_data

        show.data(pages_data(pages))
        return

    def lay_out(width: int) -> list[Text]:
        laid: list[Text] = []
        for check, page in pages:
            laid += [*([Text("")] if laid else []), *render_page(check, page, width)]
        return laid

    show.lines(lay_out)


# ---------------------------------------------------------------- texts


def _refuse_name(word: str) -> None:
    """Say what answers about a plan file, or a VM in one of this folder; no vCenter is asked.

    Raises NotFound if the word is such a name.
    """
    from shlex import quote

    from vgpu_cfg.errors import NotFound, VgpuCfgError
    from vgpu_cfg.plan_loading import load_plan

    path = Path(word)
    for file in [path] if path.is_file() else sorted(Path().glob("*.yaml"))[:_MOST_FILES]:
        try:
            desired = load_plan(file).desired
        except (VgpuCfgError, OSError):
            continue
        name = quote(str(file))
        if file == path:
            remedy = f"for its changes: vgpu-cfg plan {name}; for differences: vgpu-cfg status {name}"
            raise NotFound(
                f"{word} is a plan file, not a check code or an error message", subject=word, remedy=remedy
            )
        if any(vm.name == word for vm in desired.vms):
            server = f" --server {quote(desired.vcenter)}" if desired.vcenter else ""
            raise NotFound(
                f"{word} is a VM in {file}, not a check code or an error message",
                subject=str(file),
                remedy=f"for differences: vgpu-cfg status {name}; for failures: vgpu-cfg verify {name} "
                f"--vm {quote(word)}; if it does not start: vgpu-cfg explain --vm {quote(word)}{server}",
            )


def _show_explanations(text: str, output: OutputFormat) -> None:
    from vgpu_cfg.cli.output import show
    from vgpu_cfg.knowledge.faults import count_known, explain_text
    from vgpu_cfg.render.data.documents import explanations_data
    from vgpu_cfg.render.text.explain import render_explanations

    explained = explain_text(text)
    if output is OutputFormat.JSON:
        show.data(explanations_data(explained, text))
        return
    show.lines(lambda width: render_explanations(explained, width, known=count_known(), text=text))


# ---------------------------------------------------------------- VMs


def _diagnosed(name: str, flags: ConnectionFlags) -> Diagnosis:
    """Read a VM, its last failed task and its log, and assess them; nothing is written."""
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.errors import ReachError
    from vgpu_cfg.knowledge.faults import VmHistory
    from vgpu_cfg.planning.remedies.diagnosis import diagnose
    from vgpu_cfg.planning.remedies.start_conditions import KEYS
    from vgpu_cfg.ports import ReadScope
    from vgpu_cfg.settings.connection import resolve_connection

    connection = resolve_connection(flags)
    scope = ReadScope(
        datacenter=connection.datacenter, vm_names=frozenset({name}), extra_config_keys=KEYS, system_ids=True
    )
    notes: list[str] = []
    history, log = VmHistory(), None
    with _connected(connection) as (reader, failures):
        observed = reader.read_inventory(scope)
        vm = find_vm(observed, name, connection.datacenter)
        try:
            history = failures.read_history(vm.moid)
        except ReachError as error:
            notes.append(f"the VM's tasks could not be read: {error.message}")
        try:
            log = failures.read_log(vm.moid, datacenter_path_of(observed, vm))
        except ReachError as error:
            notes.append(f"vmware.log could not be read: {error.message}; {error.remedy}")
    return diagnose(vm, observed, load_catalog(), history, log, notes=notes, server=server_words(flags))


def server_words(flags: ConnectionFlags) -> list[str]:
    """Return how the next command names the same vCenter; nothing where the settings name it."""
    said = {"--server": flags.server, "--context": flags.context}
    return [word for name, value in said.items() if value is not None for word in (name, value)]


@contextmanager
def _connected(connection: Connection) -> Iterator[tuple[InventoryReader, FailureReader]]:
    """Log in, with what reads the estate and what reads failures; neither can write."""
    from vgpu_cfg.cli import compose
    from vgpu_cfg.vsphere.history.failures import FailureReader
    from vgpu_cfg.vsphere.reading.reader import VCenterReader

    transport = compose.make_transport(connection)
    with compose.open_session(connection, transport, reads_only=True) as session:
        logged = compose.logged(transport, connection, connection.server)
        yield VCenterReader(session, compose.SystemClock()), FailureReader(session, logged)


def find_vm(observed: Inventory, name: str, datacenter: str | None = None) -> Vm:
    """Return the VM with a name, or with a path or the end of one.

    Raises NotFound, and Ambiguous with the paths of those that there are.
    """
    from vgpu_cfg.documents import did_you_mean
    from vgpu_cfg.errors import Ambiguous, NotFound
    from vgpu_cfg.planning.estate.site import find_named

    vms = [vm for vm in observed.vms if datacenter is None or f"/{datacenter}/" in vm.inventory_path]
    match find_named(name, vms):
        case [vm]:
            return vm
        case []:
            raise NotFound(
                f"no VM {name!r} found",
                subject=observed.vcenter.address,
                remedy=did_you_mean(name, (vm.name for vm in vms), noun="VMs") or "look it up in vCenter",
            )
        case found:
            raise Ambiguous(
                f"{len(found)} VMs are named {name!r}",
                subject=observed.vcenter.address,
                remedy=f"specify its path: {', '.join(sorted(vm.inventory_path for vm in found))}",
            )


def datacenter_path_of(observed: Inventory, vm: Vm) -> str:
    """Return the inventory path of a VM's datacenter."""
    above = [
        found.inventory_path
        for found in observed.datacenters
        if vm.inventory_path.startswith(f"{found.inventory_path}/")
    ]
    return max(above, key=len, default="")


def _show_diagnosis(found: Diagnosis, output: OutputFormat) -> None:
    from vgpu_cfg.cli.output import show
    from vgpu_cfg.render.data.documents import diagnosis_data
    from vgpu_cfg.render.text.explain import render_diagnosis

    if output is OutputFormat.JSON:
        show.data(diagnosis_data(found))
        return
    show.lines(lambda width: render_diagnosis(found, width))
