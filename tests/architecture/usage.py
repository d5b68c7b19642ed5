"""Which names the program's modules define and read: found in their syntax, nothing is run.

A read is judged by its name alone: where two classes have a field of one name, a read of either counts for
both.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.architecture.sources import PACKAGE, ROOT, modules, project_files

_BY_NAME = frozenset({"getattr", "hasattr", "attrgetter"})
_TEMPLATES = frozenset({".j2", ".jinja", ".md", ".html"})
_STEP = re.compile(r"\.([A-Za-z_]\w*)")
_PLAIN_DECORATORS = frozenset(
    {"property", "classmethod", "staticmethod", "cached_property", "cache", "lru_cache", "dataclass"}
    | {"contextmanager", "override"}
)


class Field(NamedTuple):
    """A field of a model or of a dataclass."""

    module: str
    owner: str
    name: str


@cache
def trees() -> dict[str, ast.Module]:
    """Parse every module of the program, by its dotted name."""
    return {_dotted(path): ast.parse(path.read_text(encoding="utf-8")) for path in modules()}


def _dotted(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def fields() -> tuple[Field, ...]:
    """List the fields of the program's pydantic models and dataclasses."""
    classes = {
        (module, node.name): node
        for module, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    names = {name for _, name in classes}
    models = {"BaseModel"}
    while True:
        more = {name for (_, name), node in classes.items() if _bases(node) & models} - models
        if not more:
            break
        models |= more & names
    return tuple(
        Field(module, owner, statement.target.id)
        for (module, owner), node in classes.items()
        if owner in models or any(_last_name(each) == "dataclass" for each in node.decorator_list)
        for statement in node.body
        if isinstance(statement, ast.AnnAssign)
        and isinstance(statement.target, ast.Name)
        and "ClassVar" not in ast.unparse(statement.annotation)
    )


def _bases(node: ast.ClassDef) -> set[str]:
    return {_last_name(base) for base in node.bases}


@cache
def read_names() -> frozenset[str]:
    """Return every name that the program reads of an object: in code, in patterns, in its templates."""
    found: set[str] = set()
    for tree in trees().values():
        for node in ast.walk(tree):
            match node:
                case ast.Attribute(attr=name, ctx=ast.Load()):
                    found.add(name)
                case ast.MatchClass(kwd_attrs=names):
                    found.update(names)
                case ast.Call(func=function, args=arguments) if _last_name(function) in _BY_NAME:
                    found.update(text for each in arguments if (text := _text(each)))
                case _:
                    pass
    for path in project_files():
        if path.is_relative_to(PACKAGE) and path.suffix in _TEMPLATES:
            found.update(_STEP.findall(path.read_text(encoding="utf-8")))
    return frozenset(found)


def _last_name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=inner) | ast.Subscript(value=inner):
            return _last_name(inner)
        case _:
            return ""


def _text(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


class Definition(NamedTuple):
    """A function, a class or a constant of a module, or a method or a property of a class."""

    module: str
    owner: str
    name: str


@cache
def definitions() -> tuple[Definition, ...]:
    """List what the program defines by name, but what a decorator takes up and what Python calls itself."""
    found: list[Definition] = []
    for module, tree in trees().items():
        for node in tree.body:
            found += [Definition(module, "", name) for name in _names_of(node)]
            if isinstance(node, ast.ClassDef):
                methods = (each for each in node.body if isinstance(each, ast.FunctionDef))
                found += [Definition(module, node.name, name) for each in methods for name in _names_of(each)]
    return tuple(each for each in found if not each.name.startswith("__"))


def _names_of(node: ast.stmt) -> list[str]:
    match node:
        case ast.FunctionDef() | ast.ClassDef():
            is_taken = {_last_name(each) for each in node.decorator_list} - _PLAIN_DECORATORS
            return [] if is_taken else [node.name]
        case ast.Assign(targets=targets):
            return [each.id for each in targets if isinstance(each, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case _:
            return []


@cache
def used_names() -> frozenset[str]:
    """Return every name that the program uses where it stands for something: in code and in its templates."""
    found = set(read_names())
    for tree in trees().values():
        found.update(
            node.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        )
    return frozenset(found)
