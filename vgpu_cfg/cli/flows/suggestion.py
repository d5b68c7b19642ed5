"""The fix for a plan that was refused: by planning again, with one more connection that only reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import typer

from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.cli import compose
from vgpu_cfg.cli.flows.flow import Planned, meant_at, read_for, scope_of
from vgpu_cfg.cli.flows.preparing.host_facts import with_facts, with_move_facts, with_open_shells
from vgpu_cfg.cli.flows.preparing.request import PlanRequest
from vgpu_cfg.cli.kept.whole_file import write_whole
from vgpu_cfg.cli.options import typed
from vgpu_cfg.cli.output import show
from vgpu_cfg.errors import VgpuCfgError
from vgpu_cfg.planning.estate.ownership import as_named

if TYPE_CHECKING:
    from vgpu_cfg.changes.suggestion import Suggestion
    from vgpu_cfg.model.desired import DesiredPlan
    from vgpu_cfg.model.observed.host_facts import EstateFacts, FactGroup
    from vgpu_cfg.model.observed.inventory import Inventory
    from vgpu_cfg.ports import InventoryReader, ReadScope
    from vgpu_cfg.settings.connection import Connection as Server
    from vgpu_cfg.settings.secrets import SecretStore


def find_fixes(request: PlanRequest, connection: Server, refused: Planned) -> Suggestion:
    """Find what would let a refused plan be carried out.

    A saved plan has no file to be edited: its plan file is what to ask about.
    """
    from vgpu_cfg.suggestions import PlanSource, suggest

    desired = meant_at(connection, request.desired)
    with show.working(connection.server) as tell, compose.connect_reader(connection) as reader:
        estate = _Estate(reader, connection, refused, desired, request.secrets())
        source = PlanSource(
            path=request.path,
            catalog=load_catalog(),
            options=refused.options,
            observe=estate.observe,
            refused=refused.plan,
            mean=lambda again: meant_at(connection, again),
            variables=request.variables,
            variable_files=request.variable_files,
            progress=tell,
        )
        return typed.with_fixes(suggest(source))


class _FactsOnce:
    """A reader that reads the same facts of the same hosts once: many changed plans ask for them."""

    def __init__(self, reader: InventoryReader) -> None:
        self._reader = reader
        self._known: dict[tuple[tuple[str, ...], frozenset[FactGroup]], EstateFacts] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def read_facts(self, host_moids: Sequence[str], groups: frozenset[FactGroup]) -> EstateFacts:
        """Return the facts as they were read first."""
        key = tuple(host_moids), groups
        if key not in self._known:
            self._known[key] = self._reader.read_facts(host_moids, groups)
        return self._known[key]


class _Estate:
    """One reading of an estate, with what else a changed plan asks of it read once."""

    def __init__(
        self,
        reader: InventoryReader,
        connection: Server,
        refused: Planned,
        desired: DesiredPlan,
        secrets: SecretStore,
    ) -> None:
        self._reader = cast("InventoryReader", _FactsOnce(reader))
        self._connection, self._options = connection, refused.options
        self._secrets = secrets
        self._refused = refused.observed
        # Where the refused plan took no kinds of hosts, one that helps may.
        observed = with_move_facts(refused.observed, reader)
        self._whole: dict[ReadScope, Inventory] = {}
        self._known = [(scope_of(desired), desired.hosts, observed)] if observed.has_kinds else []

    def observe(self, desired: DesiredPlan) -> Inventory:
        """Return the reading for a plan like this; unrecorded objects are missing."""
        scope = scope_of(desired)
        for known, hosts, observed in self._known:
            if known == scope and hosts == desired.hosts:
                return observed
        read = next((observed for known, _, observed in self._known if known == scope), None)
        try:
            found = self._read(desired, scope) if read is None else read
            found = with_facts(desired, found, self._reader, self._options)
            found = found.model_copy(update={"reservations": self._refused.reservations})
            found = with_open_shells(desired, found, self._connection, self._options, self._secrets)
            found = with_move_facts(found, self._reader)
        except VgpuCfgError:
            found = self._refused
        self._known.append((scope, desired.hosts, found))
        return found

    def _read(self, desired: DesiredPlan, scope: ReadScope) -> Inventory:
        """Read with the VMs of all hosts, once for all plans that differ only in their hosts and profiles."""
        whole = scope.model_copy(update={"hosts": (), "kinds_of": None, "several_vgpus": True})
        if whole not in self._whole:
            self._whole[whole] = read_for(desired, self._reader, all_kinds=True, everything=True)
        return as_named(desired, self._whole[whole])


def write_suggestion(path: Path, found: Suggestion | None, plan_path: Path) -> bool:
    """Write the edited plan file, and return whether there was one to write; it is the same plan, by its id.

    The fix without need for approval goes first, then one with approval; acts outside are listed with it.
    Raises DocumentError if the file cannot be written, and BadParameter if it is the plan file.
    """
    from vgpu_cfg.changes.suggestion import FixKind
    from vgpu_cfg.plan_loading.side_files import id_file_of, read_id_file, write_id_file

    if path.exists() and path.resolve() == plan_path.resolve():
        raise typer.BadParameter(
            "this is the original plan file; specify a different file", param_hint="--suggest"
        )
    chosen = next((fix for fix in found.fixes if fix.text), None) if found is not None else None
    if chosen is None:
        return False
    accepted = [part.says for part in chosen.parts if part.kind is FixKind.LEAVE]
    text = "".join(f"# Changed from {plan_path.name}: {says}\n" for says in accepted) + chosen.text
    plan_id = read_id_file(id_file_of(plan_path))
    write_whole(path, text)
    if plan_id and not id_file_of(path).exists():
        write_id_file(id_file_of(path), plan_id)
    return True
