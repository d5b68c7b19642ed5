"""How a plan file that takes in what was found reads: the lines that change, and what is left out."""

from __future__ import annotations

from rich.text import Text

from vgpu_cfg.changes.suggestion import AsFound
from vgpu_cfg.render.layout.lines import fold, hanging

_STYLES = {"+": "green", "-": "red"}
_LABEL = 5


def render_found(found: AsFound, path: str, width: int, *, is_only_shown: bool) -> list[Text]:
    """Lay out what changes in the file, and what stays different, with the reason."""
    lines: list[Text] = []
    if not found.lines and not found.left:
        lines += fold(Text(f"{path}: nothing differs of what was named", "green"), width, hang=2)
    if found.lines:
        head = f"{path}: what was found of {', '.join(found.vms)}"
        lines += [*fold(Text(head, "bold"), width, hang=2), Text("")]
    for edit in found.lines:
        depth = len(edit) - len(edit[1:].lstrip())
        lines += fold(Text(f"  {edit}", style=_STYLES.get(edit[0], "")), width, hang=depth + 6)
    if found.left:
        lines += [Text("")] if found.lines else []
        for one in found.left:
            words = f"{one.vm} {one.what}: {one.why}"
            lines += hanging("LEFT", words, width, indent=0, label_width=_LABEL, style="yellow")
    if is_only_shown and found.lines:
        lines += [Text(""), *fold(Text("nothing was written: --dry-run"), width, hang=2)]
    return lines
