"""YAML of other programs, which read version 1.1: there `yes` is a boolean and 0644 is octal.

Files read here have the meaning that those programs give them; written ones mean the same to readers of 1.1
and of 1.2, since every text is in quotes or in a block.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from vgpu_cfg.errors import DocumentError, DocumentFault

_BLOCK = re.compile(r"[^ \n\t][^\t\r]*\n")
"""Text that reads well as a block: more than one line, no tabs, and it begins with no blank.

Unprintable characters are not possible in a block: it has no escapes, and readers refuse them.
"""


def read_foreign(text: str, name: str) -> dict[str, Any]:
    """Read a mapping written in YAML 1.1; `name` is what complaints call it. Raises DocumentError."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    reader = YAML(typ="safe", pure=True)
    reader.version = "1.1"  # ruamel types it as a tuple of numbers too
    try:
        data = reader.load(text)
    except (YAMLError, ValueError) as error:
        raise DocumentError([_fault(error, name)]) from error
    if data is None:
        return {}
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise DocumentError([DocumentFault(name, 1, 1, "the content must be a mapping of names to values")])
    return data


def write_foreign(data: Any) -> str:
    """Write plain data for programs that read YAML 1.1 or 1.2; the order of keys is kept."""
    return str(yaml.dump(data, Dumper=_QUOTING, **_STYLE))


def _represent_text(dumper: Any, text: str) -> Any:
    is_block = text.count("\n") > 1 and _BLOCK.fullmatch(text) and text.replace("\n", "").isprintable()
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if is_block else '"')


def _quoting(base: Any) -> Any:
    """Return a dumper that repeats content in full: not every reader of small YAML knows aliases."""
    made: Any = type("_Quoting", (base,), {"ignore_aliases": lambda *_: True})
    made.add_representer(str, _represent_text)
    return made


_QUOTING = _quoting(getattr(yaml, "CSafeDumper", yaml.SafeDumper))
_STYLE: dict[str, Any] = {
    "default_flow_style": False, "width": 100_000, "allow_unicode": True, "sort_keys": False,
}  # fmt: skip


def _fault(error: Exception, name: str) -> DocumentFault:
    from ruamel.yaml.error import MarkedYAMLError

    if isinstance(error, MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
        problem = str(error.problem or error.context or "invalid YAML").splitlines()[0]
        return DocumentFault(name, line, column, f"invalid YAML: {problem}")
    return DocumentFault(name, 1, 1, f"invalid YAML: {str(error).splitlines()[0]}")
