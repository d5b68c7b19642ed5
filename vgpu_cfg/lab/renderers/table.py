"""A table from property path to renderer gives every answer of a managed type.

A table names leaves: `config.graphicsInfo` → the function that renders it. Parents (`config`) are assembled
from the leaves below them, children are read from the leaf's value, so a whole object and its parts can never
disagree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyVmomi import VmomiSupport, vmodl

from vgpu_cfg.lab.api.versions import is_at_least
from vgpu_cfg.lab.simulation.bends import at_path
from vgpu_cfg.lab.simulation.operations import Context
from vgpu_cfg.lab.state.devices import is_set

Render = Callable[[Context, Any], Any]

Limit = Callable[[Any], str | None]
"""object → the version beyond which it has no properties, whatever the client speaks."""

STEP = re.compile(r'(?P<name>[A-Za-z]\w*)(?:\[(?:"(?P<text>[^"]*)"|(?P<number>-?\d+))\])?(?:\.|$)')


@dataclass(frozen=True, slots=True)
class Step:
    """One name of a path, with the key in brackets after it, if any."""

    name: str
    key: str | None = None


def parse_path(path: str) -> tuple[Step, ...]:
    """Split `config.extraConfig["a.b"].value`. Raises InvalidProperty."""
    steps: list[Step] = []
    at = 0
    while at < len(path):
        found = STEP.match(path, at)
        if found is None:
            raise invalid_property(path)
        text = found["text"]
        steps.append(Step(found["name"], text if text is not None else found["number"]))
        at = found.end()
    if not steps or path.endswith("."):
        raise invalid_property(path)
    return tuple(steps)


def invalid_property(path: str) -> Exception:
    """Return the fault for a path that a type does not have."""
    fault: Exception = vmodl.query.InvalidProperty(name=path, msg=f"The property {path} is not valid")
    return fault


@dataclass(slots=True)
class Node:
    """One property in a table's tree: a leaf with a renderer, or made of its children."""

    name: str
    type: Any
    """The declared type of the property, or the type that this vCenter really puts there."""
    optional: bool
    render: Render | None = None
    children: dict[str, Node] = field(default_factory=dict)

    def value(self, context: Context, thing: Any) -> Any:
        """Render it, or put it together. None means unset."""
        if self.render is not None:
            return as_declared(self.render(context, thing), self.type)
        fields = {name: child.value(context, thing) for name, child in self.children.items()}
        filled = {name: value for name, value in fields.items() if value is not None}
        return self.type(**filled) if filled or not self.optional else None


UNSET = Node("", object, optional=True, render=lambda _context, _thing: None)
"""The source of a property that its type has and the lab never sets."""


@dataclass(frozen=True, slots=True)
class Reader:
    """How one path of one type is answered: a node, a key into its array, steps into its value."""

    node: Node
    key: str | None
    rest: tuple[Step, ...]
    privilege: str
    since: tuple[str, ...] = ()
    """The versions that introduced the names of the path."""
    path: tuple[tuple[Any, str], ...] = ()
    """The names of the path, up to a key in it, each with the type whose property it is."""
    limit: Limit | None = None

    def read(self, context: Context, thing: Any) -> Any:
        """Return the value, None if it is unset, or newer than the object's host."""
        most = self.limit(thing) if self.limit is not None else None
        if most is not None and not all(is_at_least(most, version) for version in self.since):
            return None
        value = self._value(context, thing)
        if most is not None and not is_at_least(most, context.version):
            value = cut(value, most)
        return at_path(context.state, self.path, self.key, value)

    def _value(self, context: Context, thing: Any) -> Any:
        value = self.node.value(context, thing)
        if self.key is not None:
            value = _element(value, self.key)
        for step in self.rest:
            if value is None:
                return None
            value = _follow(value, step)
        return value


class Table:
    """All properties of one managed type that the lab renders."""

    def __init__(
        self,
        kind: Any,
        renderers: Mapping[str, Render],
        shapes: Mapping[str, Any] | None = None,
        limit: Limit | None = None,
    ) -> None:
        self.kind = kind
        self._limit = limit
        self.root = Node("", kind, optional=False)
        self._readers: dict[tuple[str, str], Reader] = {}
        self._shapes = dict(shapes or {})
        for path, render in renderers.items():
            self._add(path, render)

    def paths_at(self, version: str) -> list[str]:
        """Return the properties of the managed object itself that a version knows: what `all` asks for."""
        known = self.kind._GetPropertyInfo
        return [name for name in self.root.children if is_at_least(version, known(name).version)]

    def every_path(self) -> list[str]:
        """Every path that has a node: leaves and their parents."""
        found: list[str] = []

        def collect(node: Node, prefix: str) -> None:
            for name, child in node.children.items():
                found.append(f"{prefix}{name}")
                collect(child, f"{prefix}{name}.")

        collect(self.root, "")
        return found

    def reader(self, path: str, version: str) -> Reader:
        """Return how a path is read by a client of a version. Raises InvalidProperty."""
        found = self._readers.get((path, version))
        if found is None:
            found = self._readers[path, version] = self._compile(path, version)
        return found

    def _add(self, path: str, render: Render) -> None:
        node, walked = self.root, ""
        for name in path.split("."):
            walked = f"{walked}.{name}" if walked else name
            child = node.children.get(name)
            if child is None:
                info = node.type._GetPropertyInfo(name)
                declared = self._shapes.get(walked, info.type)
                child = Node(name, declared, bool(info.flags & VmomiSupport.F_OPTIONAL))
                node.children[name] = child
            node = child
        node.render = render

    def _compile(self, path: str, version: str) -> Reader:
        steps = parse_path(path)
        since, along = self._check_declared(path, steps, version)
        node, taken = self.root, 0
        while taken < len(steps) and steps[taken].name in node.children:
            node = node.children[steps[taken].name]
            taken += 1
            if steps[taken - 1].key is not None:
                break
        if not taken or (taken < len(steps) and node.render is None):
            node, taken = UNSET, len(steps)
        info = self.kind._GetPropertyInfo(steps[0].name)
        key = steps[taken - 1].key if node.render is not None else None
        return Reader(node, key, steps[taken:], info.privId or "System.Read", since, along, self._limit)

    def _check_declared(
        self, path: str, steps: tuple[Step, ...], version: str
    ) -> tuple[tuple[str, ...], tuple[tuple[Any, str], ...]]:
        """Return the versions that introduced the names of a path, and these with their types.

        Raises InvalidProperty unless the types along the path have them at the client's version.
        Behind a key the element's own type decides, so nothing is checked there.
        """
        kind, walked, since, along = self.kind, "", [], []
        for step in steps:
            walked = f"{walked}.{step.name}" if walked else step.name
            try:
                info = kind._GetPropertyInfo(step.name)
            except AttributeError:
                raise invalid_property(path) from None
            if not is_at_least(version, info.version):
                raise invalid_property(path)
            since.append(info.version)
            along.append((kind, step.name))
            kind = self._shapes.get(walked, info.type)
            if step.key is not None:
                if not issubclass(kind, list):
                    raise invalid_property(path)
                break
        return tuple(since), tuple(along)


def cut(value: Any, version: str) -> Any:
    """Return a value without the fields that a version lacks."""
    if isinstance(value, VmomiSupport.Array):
        return type(value)([cut(item, version) for item in value])
    if not isinstance(value, VmomiSupport.DataObject):
        return value
    bare = type(value)()
    for info in value._GetPropertyList():
        known = getattr(value, info.name)
        if is_set(known) and is_at_least(version, info.version):
            setattr(bare, info.name, cut(known, version))
    return bare


def as_declared(value: Any, declared: Any) -> Any:
    """Give a value the type that its property declares, since inside an `Any` the type travels with it.

    Raises ValueError for a word that an enumeration does not have: pyvmomi would send it.
    """
    if value is None or declared is object:
        return value
    if issubclass(declared, list):
        return value if isinstance(value, VmomiSupport.Array) else declared(value)
    if issubclass(declared, VmomiSupport.Enum):
        if value not in declared.values:
            message = f"{declared.__name__} has no value {value!r}"
            raise ValueError(message)
        return declared(value)
    if issubclass(declared, int) and declared is not bool and type(value) is int:
        return declared(value)
    return value


def _follow(value: Any, step: Step) -> Any:
    try:
        info = value._GetPropertyInfo(step.name)
    except AttributeError:
        return None
    found = as_declared(getattr(value, step.name), info.type)
    if isinstance(found, list) and not found:
        return None
    return found if step.key is None else _element(found, step.key)


def _element(values: Any, key: str) -> Any:
    """Return the element of an array by its key, which is called `key`, or `id` where it has none."""
    for item in values or ():
        if str(getattr(item, "key", getattr(item, "id", None))) == key:
            return item
    return None
