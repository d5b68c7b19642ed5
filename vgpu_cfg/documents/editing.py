"""YAML text that is written: plain data as text, and edits that leave the rest as its author wrote it.

ruamel.yaml keeps comments. Most commands write no YAML, and do not load it.
"""

from __future__ import annotations

import difflib
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from vgpu_cfg.documents.text import Loc, parse_text
from vgpu_cfg.errors import DocumentError, DocumentFault

if TYPE_CHECKING:
    from ruamel.yaml import YAML
    from ruamel.yaml.comments import CommentedMap, CommentedSeq

_WIDEST = 4096
_INDENTS = ((2, 2, 0), (2, 4, 2), (4, 4, 2), (4, 2, 0), (4, 6, 4))
"""How people indent: a mapping, a list's items, and their dash in it."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One edit: the value at `loc` becomes `value`, and None takes it away.

    Mappings and lists on the way that are not there are made. A list's length as the last element appends.
    """

    loc: Loc
    value: Any = None


def dump(data: Any) -> str:
    """Write plain data as YAML text that `parse_text` reads back as the same data."""
    from ruamel.yaml import YAML

    yaml = YAML(typ="rt", pure=True)
    yaml.default_flow_style = False
    yaml.width = 100
    stream = io.StringIO()
    yaml.dump(data, stream)
    return stream.getvalue()


def laid_out(data: Any, *, depth: int, width: int = 100) -> str:
    """Write plain data as a person would: blocks down to a depth, deeper parts on one line.

    It is read back as the same data, as what `dump` writes.
    """
    stream = io.StringIO()
    _layer(width).dump(_styled(data, depth), stream)
    return stream.getvalue()


@cache
def _layer(width: int) -> YAML:
    """Return what lays out at a width. An export does so for each VM; to make one takes a third of that."""
    from ruamel.yaml import YAML

    yaml = YAML(typ="rt", pure=True)
    yaml.width = width
    yaml.brace_single_entry_mapping_in_flow_sequence = True
    return yaml


def edited(text: str, edits: Iterable[Edit]) -> str:
    """Return the text with the edits made; the rest stays unchanged.

    Raises DocumentError if the text cannot be read, or has no place for an edit.
    """
    indent, before = _as_dumped(text)
    yaml = _writer(*indent)
    root = _load(yaml, text)
    # From the end, so that a list's other items keep their positions.
    for edit in sorted(edits, key=lambda one: _order(one.loc), reverse=True):
        _make(root, edit)
    return _merged(text, before, _dump(yaml, root))


def changed_lines(before: str, after: str) -> tuple[str, ...]:
    """Return what differs as lines that begin with "+ " or "- ", each under the keys that it belongs to."""
    found: list[str] = []
    shown: set[int] = set()
    old, new = before.splitlines(), after.splitlines()
    matcher = difflib.SequenceMatcher(a=old, b=new, autojunk=False)
    for tag, first, last, start, end in matcher.get_opcodes():
        if tag == "equal":
            continue
        for index in _parents(new, start) if start < end else _parents(old, first):
            line = new[index] if start < end else old[index]
            if index not in shown and not start <= index < end:
                found.append(f"  {line}")
                shown.add(index)
        found += [f"- {line}" for line in old[first:last]]
        found += [f"+ {line}" for line in new[start:end]]
        shown |= set(range(start, end))
    return tuple(found)


def _order(loc: Loc) -> tuple[tuple[bool, int, str], ...]:
    return tuple((isinstance(one, int), one if isinstance(one, int) else 0, str(one)) for one in loc)


def _parents(lines: Sequence[str], index: int) -> list[int]:
    """Return the lines above one that it is part of: each the nearest that is indented less."""
    found: list[int] = []
    if index >= len(lines):
        return found
    depth = _depth(lines[index])
    for above in range(index - 1, -1, -1):
        line = lines[above]
        if line.strip() and not line.lstrip().startswith("#") and _depth(line) < depth:
            found.insert(0, above)
            depth = _depth(line)
    return found


def _depth(line: str) -> int:
    """Return a line's indent; an item is deeper than the key of its list, however it is indented."""
    bare = line.lstrip()
    return (len(line) - len(bare)) * 2 + bare.startswith("- ")


def _load(yaml: YAML, text: str) -> Any:
    from ruamel.yaml.comments import CommentedMap
    from ruamel.yaml.error import YAMLError

    try:
        root = yaml.load(text)
    except YAMLError as error:
        fault = DocumentFault("plan file", 1, 1, f"cannot be edited: {str(error).splitlines()[0]}")
        raise DocumentError([fault]) from error
    return CommentedMap() if root is None else root


def _dump(yaml: YAML, root: Any) -> str:
    out = io.StringIO()
    yaml.dump(root, out)
    return out.getvalue()


def _writer(mapping: int, sequence: int, offset: int) -> YAML:
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = _WIDEST
    yaml.brace_single_entry_mapping_in_flow_sequence = True
    yaml.indent(mapping=mapping, sequence=sequence, offset=offset)
    return yaml


@lru_cache(maxsize=8)
def _as_dumped(text: str) -> tuple[tuple[int, int, int], str]:
    """Return the indent with which the output is closest to the text, and that output."""
    tries: list[tuple[int, tuple[int, int, int], str]] = []
    root = _load(_writer(*_INDENTS[0]), text)
    for indent in _INDENTS:
        dumped = _dump(_writer(*indent), root)
        apart = sum(line[:1] in "+-" for line in difflib.ndiff(text.splitlines(), dumped.splitlines()))
        tries.append((apart, indent, dumped))
        if not apart:
            break
    _, indent, dumped = min(tries, key=lambda one: one[0])
    return indent, dumped


def _make(root: Any, edit: Edit) -> None:
    *way, last = edit.loc
    holder = root
    above: list[tuple[Any, str | int]] = []
    for index, element in enumerate(way):
        above.append((holder, element))
        holder = _child(holder, element, edit.loc[index + 1], edit)
    if edit.value is None:
        if _has(holder, last):
            del holder[last]
        if above and isinstance(holder, dict) and not holder:
            parent, key = above[-1]
            del parent[key]  # a mapping of which nothing is left says nothing
        return
    styled = _styled(edit.value, 3 - len(edit.loc))
    if not isinstance(holder, list | dict):
        raise _no_place(edit)
    if isinstance(holder, list) and not _has(holder, last):
        holder.append(styled)
    else:
        _put(holder, last, styled)


def _put(holder: Any, last: str | int, value: Any) -> None:
    holder[last] = value


def _child(value: Any, element: Any, following: str | int, edit: Edit) -> Any:
    from ruamel.yaml.comments import CommentedMap, CommentedSeq

    if not _has(value, element):
        made: Any = CommentedSeq() if isinstance(following, int) else CommentedMap()
        if isinstance(value, list) and isinstance(element, int):
            value.append(made)
        elif isinstance(value, dict):
            value[element] = made
        else:
            raise _no_place(edit)
        return made
    found: Any = value[element]
    if isinstance(following, int) and not isinstance(found, list):
        value[element] = CommentedSeq([found])  # one entry may stand without its list
        return value[element]
    if isinstance(following, str) and not isinstance(found, dict):
        raise _no_place(edit)
    return found


def _has(value: Any, element: Any) -> bool:
    if isinstance(value, list):
        return isinstance(element, int) and element < len(value)
    return isinstance(value, dict) and element in value


def _no_place(edit: Edit) -> DocumentError:
    where = ".".join(str(one) for one in edit.loc)
    return DocumentError([DocumentFault("plan file", 1, 1, f"{where} cannot be added")])


def _styled(value: Any, depth: int) -> Any:
    """Write blocks down to a depth, and the rest on one line."""
    from ruamel.yaml.comments import CommentedMap, CommentedSeq

    made: CommentedMap | CommentedSeq
    if isinstance(value, Mapping):
        made = CommentedMap({key: _styled(one, depth - 1) for key, one in value.items()})
    elif isinstance(value, list | tuple):
        made = CommentedSeq([_styled(one, depth - 1) for one in value])
    else:
        return value
    if depth < 1 or not made:
        made.fa.set_flow_style()
    else:
        made.fa.set_block_style()
    return made


def _merged(text: str, before: str, after: str) -> str:
    """Carry what changed from `before` to `after` over to the text that was dumped as `before`.

    If a changed line was written in another form there, the whole is as it was dumped.
    """
    own, old, new = text.splitlines(), before.splitlines(), after.splitlines()
    places: dict[int, int] = {}
    for block in difflib.SequenceMatcher(a=old, b=own, autojunk=False).get_matching_blocks():
        places.update({block.a + step: block.b + step for step in range(block.size)})
    result: list[str] = []
    done = 0
    for tag, first, last, start, end in difflib.SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        if first < last:
            here = [places.get(index, -1) for index in range(first, last)]
            if min(here) < 0 or here[-1] - here[0] != last - first - 1:
                return after
            at, until = here[0], here[-1] + 1
        elif first == len(old):
            at = until = len(own)
        else:
            above = places.get(first - 1, -1) if first else -1
            if first and above < 0:
                return after
            at = until = above + 1
        result += own[done:at] + new[start:end]
        done = until
    joined = "\n".join([*result, *own[done:]]) + "\n"
    return joined if _data(joined) == _data(after) else after


def _data(text: str) -> Any:
    try:
        return parse_text(text, "plan file").data
    except DocumentError:
        return None
