"""Layout of lines: tables that fit a width, hanging paragraphs, folded names.

Everything is a list of rich `Text` lines that are already as wide as they may be;
nothing is left for a terminal to wrap.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rich.cells import cell_len
from rich.text import Text

from vgpu_cfg.model.ranges import count_members, fold_names
from vgpu_cfg.model.wording import as_counted, counted, is_obeyed, shown

MIN_WIDTH = 60
MAX_WIDTH = 200
MAX_PROSE = 120
"""A paragraph is no wider, since lines that are longer are hard to read."""
_MOST_RUNS = 8

Cell: TypeAlias = "str | Text"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: `drop` > 0 lets it go where the width is too small, the highest first.

    A flexible column is folded at words before any is dropped.
    """

    title: str
    is_right: bool = False
    is_flexible: bool = False
    drop: int = 0


def table(
    columns: Sequence[Column], rows: Iterable[Sequence[Cell]], width: int, *, indent: int = 2
) -> list[Text]:
    """Lay out rows under headings; a column that is empty throughout is left out."""
    return [line for row in table_rows(columns, rows, width, indent=indent) for line in row]


def table_rows(
    columns: Sequence[Column], rows: Iterable[Sequence[Cell]], width: int, *, indent: int = 2
) -> list[list[Text]]:
    """Lay out a table as the lines of each row, those of the headings first.

    If the words of a row do not fit next to each other, each cell gets a line of its own after its heading,
    and the headings none. Columns that are left out are named after the last row.
    """
    body = [[_text(cell) for cell in row] for row in rows]
    kept = [index for index in range(len(columns)) if any(row[index].plain for row in body)]
    if not kept:
        return []
    natural = {
        index: max([len(columns[index].title), *(row[index].cell_len for row in body)]) for index in kept
    }
    least = {
        index: max([len(columns[index].title), *(_longest_word(row[index]) for row in body)])
        for index in kept
    }
    left_out: list[str] = []
    while True:
        room = width - indent - 2 * (len(kept) - 1)
        widths = _fitted(columns, {index: natural[index] for index in kept}, least, room)
        droppable = [index for index in kept if columns[index].drop]
        if sum(widths.values()) <= room or not droppable:
            break
        dropped = max(droppable, key=lambda index: columns[index].drop)
        kept.remove(dropped)
        left_out.append(columns[dropped].title)
    chosen = [columns[index] for index in kept]
    if sum(widths.values()) > room:
        lines = [[], *(_stacked([row[index] for index in kept], chosen, width, indent) for row in body)]
    else:
        head = [Text(columns[index].title, style="bold") for index in kept]
        sizes = [widths[index] for index in kept]
        lines = [_row_lines(head, chosen, sizes, indent)]
        lines += [_row_lines([row[index] for index in kept], chosen, sizes, indent) for row in body]
    if left_out:
        note = f"not shown at this width: {', '.join(left_out)}"
        lines[-1] += fold(Text(" " * indent + note, style="dim"), width, hang=indent)
    return lines


def table_on_a_screen(
    columns: Sequence[Column],
    rows: Sequence[Sequence[Cell]],
    width: int,
    room: int,
    noun: str,
    *,
    first: Sequence[int] = (),
    hint: str = "-v shows all",
) -> list[Text]:
    """Lay out the rows that fit in so many lines, those at `first` before others; count the rest."""
    before = set(first)
    order = [*first, *(index for index in range(len(rows)) if index not in before)]
    lines: list[Text] = []
    for count in range(min(len(rows), max(room, 1)), 0, -1):
        lines = table(columns, [rows[index] for index in sorted(order[:count])], width)
        if left := len(rows) - count:
            lines.append(Text(f"and {counted(left, f'more {noun}')} ({hint})", "dim"))
        if len(lines) <= room:
            break
    return lines


def hanging(
    label: str, text: Cell, width: int, *, indent: int = 2, label_width: int = 8, style: str = ""
) -> list[Text]:
    """Lay out a label and a paragraph next to it, or below it if a word has no room there."""
    width = min(width, MAX_PROSE)
    start = " " * indent + f"{label:<{label_width}} "
    body = fold(_text(text), width - len(start))
    if label and any(part.cell_len > width - len(start) for part in body):
        margin = Text(" " * (indent + 2))
        head = Text(" " * indent).append(label, style)
        return [head, *(margin + part for part in fold(_text(text), width - indent - 2))]
    lines = []
    for number, part in enumerate(body):
        line = Text(start if number == 0 else " " * len(start))
        if number == 0 and style:
            line.stylize(style, indent, indent + len(label))
        lines.append(line + part)
    return lines


def fold(text: Text, width: int, *, hang: int = 0) -> list[Text]:
    """Break a line at spaces, keeping styles; a line break in it is written out, since it is none of ours.

    All lines but the first are indented by `hang`. No word is broken: one that is longer than a line has a
    line of its own, as a path to copy should.
    """
    text = harmless(text)
    plain = text.plain
    if text.cell_len <= width:
        return [text]
    margin = " " * hang
    lines: list[Text] = []
    start = 0
    for part in textwrap.wrap(
        plain, max(1, width), subsequent_indent=margin, break_on_hyphens=False, break_long_words=False
    ):
        words = part if not lines else part[hang:]
        at = plain.index(words.split(" ")[0], start) if words.strip() and not words.startswith(" ") else start
        start = at + len(words)
        lines.append(text[at:start] if not lines else Text(margin) + text[at:start])
    return lines


def plain(lines: Iterable[Text]) -> str:
    """Write lines as one text without styles."""
    return "\n".join(shown(line.plain).rstrip() for line in lines)


def harmless(text: Text) -> Text:
    """Return a line in which every character is visible, with its styles; control characters are escaped."""
    if text.plain.isprintable():
        return text
    places = [index for index, sign in enumerate(text.plain) if is_obeyed(sign)]
    if not places:
        return text
    parts = text.divide(sorted({edge for place in places for edge in (place, place + 1)} - {0, len(text)}))
    made = Text("", text.style, justify=text.justify, overflow=text.overflow)
    for part in parts:
        made.append_text(Text(shown(part.plain), part.style) if is_obeyed(part.plain[:1] or " ") else part)
    return made


def both_ends(left: Text, right: Text, width: int) -> list[Text]:
    """Put one text at each end of a line, or the right one under the left where they do not fit."""
    gap = width - left.cell_len - right.cell_len
    if gap >= 2:
        return [Text.assemble(left, " " * gap, right)]
    under = (
        [Text.assemble(" " * (width - right.cell_len), right)]
        if right.cell_len <= width
        else fold(right, width)
    )
    return [*fold(left, width), *under]


def short(words: Iterable[str], most: int = 3) -> str:
    """Join the first few and count the rest: "a, b, c and 5 more"."""
    listed = list(words)
    rest = len(listed) - most
    return ", ".join(listed[:most]) + (f" and {rest} more" if rest > 0 else "")


def abridged(names: Iterable[str], most: int | None, noun: str = "") -> str:
    """Fold names into runs; of more than `most`, write the first ones and the last, and count the names."""
    return abridged_runs(fold_names(names), most, noun)


def abridged_runs(folded: str, most: int | None, noun: str = "") -> str:
    """Cut names that are folded."""
    runs = folded.split(", ")
    if most is None or len(runs) <= most:
        return folded
    count = f"{sum(map(count_members, runs))} {noun}".rstrip()
    return f"{count}: {', '.join(runs[: most - 1])}, … {runs[-1]}"


def without_domain(names: Iterable[str]) -> dict[str, str]:
    """Shorten host names by the domain that all of them share; addresses stay as they are."""
    listed = list(dict.fromkeys(name for name in names if name))
    domains = {name.partition(".")[2] for name in listed}
    if len(domains) != 1 or any(name.partition(".")[0].isdigit() for name in listed):
        return {name: name for name in listed}
    return {name: name.partition(".")[0] for name in listed}


def fold_hosts(names: Iterable[str]) -> str:
    """Write host names in short: without the domain that all share, runs folded, long lists cut with "…"."""
    listed = list(names)
    parts = fold_names(without_domain(listed)[name] for name in listed).split(", ")
    return ", ".join(parts[:_MOST_RUNS]) + (", …" if len(parts) > _MOST_RUNS else "")


def size(mib: int) -> str:
    """Say a size in the largest unit that keeps it short: "512 MiB", "64 GiB", "1.5 TiB"."""
    for unit, factor in (("TiB", 1024 * 1024), ("GiB", 1024)):
        if mib >= factor:
            return f"{mib / factor:.1f}".removesuffix(".0") + f" {unit}"
    return f"{mib} MiB"


def _text(cell: Cell) -> Text:
    return harmless(cell) if isinstance(cell, Text) else Text(shown(cell))


def _longest_word(text: Text) -> int:
    return max(map(cell_len, text.plain.split()), default=0)


def _fitted(
    columns: Sequence[Column], widths: dict[int, int], least: dict[int, int], room: int
) -> dict[int, int]:
    """Narrow the flexible columns, the widest first, as far as their words let them."""
    fitted = dict(widths)
    while (over := sum(fitted.values()) - room) > 0:
        flexible = [
            index for index in fitted if columns[index].is_flexible and fitted[index] > max(12, least[index])
        ]
        if not flexible:
            break
        widest = max(flexible, key=lambda index: fitted[index])
        others = [fitted[index] for index in flexible if index != widest]
        target = max([12, least[widest], fitted[widest] - over, *(other - 1 for other in others)])
        fitted[widest] = min(fitted[widest] - 1, target)
    return fitted


def _stacked(cells: Sequence[Text], columns: Sequence[Column], width: int, indent: int) -> list[Text]:
    """Lay out a row below itself: its first cell, then each further one after its heading."""
    first, *others = zip(cells, columns, strict=True)
    lines = [Text(" " * indent) + part for part in fold(first[0], width - indent)]
    margin = indent + 2
    label_width = max((len(column.title) for _, column in others), default=0)
    for cell, column in others:
        if cell.plain:
            lines += hanging(column.title.strip(), cell, width, indent=margin, label_width=label_width)
    return lines


def _row_lines(
    cells: Sequence[Text], columns: Sequence[Column], sizes: Sequence[int], indent: int
) -> list[Text]:
    folded = [fold(cell, size_) for cell, size_ in zip(cells, sizes, strict=True)]
    lines = []
    for number in range(max(len(part) for part in folded)):
        line = Text(" " * indent)
        for column, part, size_ in zip(columns, folded, sizes, strict=True):
            cell = part[number] if number < len(part) else Text("")
            padding = " " * (size_ - cell.cell_len)
            line.append_text(
                Text.assemble(padding, cell) if column.is_right else Text.assemble(cell, padding)
            )
            line.append("  ")
        line.rstrip()
        lines.append(line)
    return lines


def fold_alike(said: Iterable[tuple[str, str]]) -> list[str]:
    """Write names with texts as "name: text", once for names with the same text apart from the name."""
    alike: dict[str, list[str]] = {}
    for name, text in said:
        alike.setdefault(text.replace(name, "\0") if name else text, []).append(name)
    lines = []
    for text, names in alike.items():
        folded = fold_names(sorted(names, key=as_counted))
        lines.append(": ".join(part for part in (folded, text.replace("\0", folded)) if part))
    return lines
