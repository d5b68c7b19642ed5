"""The changes of a site on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from vgpu_cfg.changes.values import edit_text
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.wording import counted
from vgpu_cfg.planning.site_changes import Fate, SiteChange
from vgpu_cfg.render.layout.lines import Column, fold, table

_SIGNS = {Fate.CAME: ("+", "green"), Fate.WENT: ("-", "red"), Fate.CHANGED: ("~", "yellow")}
_COLUMNS = (
    Column(""),
    Column("WHAT"),
    Column("NAME", is_flexible=True),
    Column("CHANGE", is_flexible=True),
)


def render_site_changes(
    changes: Sequence[SiteChange], server: str, times: tuple[str, str], width: int
) -> list[Text]:
    """Lay the changes out, like ones as one; `times` say of when the two readings are."""
    before, after = times
    count = counted(len(changes), "change") if changes else "no changes"
    head = Text.assemble((server, "bold"), f": {count} from {before} to {after}")
    alike: dict[tuple[str, Fate, str], list[str]] = {}
    for change in changes:
        alike.setdefault((change.kind, change.fate, _change(change)), []).append(change.name)
    rows = [
        (Text(*_SIGNS[fate]), kind, fold_names(names), what) for (kind, fate, what), names in alike.items()
    ]
    return [*fold(head, width, hang=2), *([Text("")] if rows else []), *table(_COLUMNS, rows, width)]


def _change(change: SiteChange) -> str:
    return ", ".join(edit_text(edit) for edit in change.edits) or change.fate.value
