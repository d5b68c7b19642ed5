"""Dataclasses whose methods are made when the first of them is: what the standard library makes at once.

It compiles six methods of each class while its module is loaded, half a millisecond or more; of the classes
that a command loads it uses some. These take the same words, and are the same to whoever makes, reads,
replaces, compares, prints, copies or pickles them. They have slots, and are compared by their values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, NoReturn

_STATED = "__stated_fields__"
"""Where a class keeps what it says of its own fields: the default of each, and whether it is told by name."""
_NOTHING = dataclasses.MISSING
_OF_EVERY_CLASS = ("__dict__", "__weakref__")
_set = object.__setattr__


def late_dataclass(*, slots: bool, frozen: bool = False, kw_only: bool = False) -> Callable[[Any], Any]:
    """Make classes dataclasses with slots, as `dataclasses.dataclass` does with these words."""
    if not slots:
        raise TypeError("without slots `dataclasses.dataclass` is meant")

    def made(cls: Any) -> Any:
        space = {name: value for name, value in vars(cls).items() if name not in _OF_EVERY_CLASS}
        names = [name for name, hint in space.get("__annotations__", {}).items() if _is_field(hint)]
        space["__qualname__"] = cls.__qualname__
        space[_STATED] = {name: (space.pop(name, _NOTHING), kw_only) for name in names}
        inherited = {name for base in cls.__mro__[1:] for name in vars(base).get("__slots__", ())}
        space["__slots__"] = tuple(name for name in names if name not in inherited)
        space["__dataclass_fields__"] = _WhenAsked(_fields)
        space["__match_args__"] = _WhenAsked(_places)
        space.setdefault("__init__", _WhenAsked(_made_init))
        space.setdefault("__repr__", _repr)
        space.setdefault("__eq__", _WhenAsked(_made_equal))
        if frozen:
            space |= {"__setattr__": _refuse_setting, "__delattr__": _refuse_deleting}
            space |= {"__getstate__": _state, "__setstate__": _restore}
        if space.get("__hash__") is None:
            space["__hash__"] = _WhenAsked(_made_hash) if frozen else None
        return type(cls)(cls.__name__, cls.__bases__, space)

    return made


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - types are checked as the library's
else:
    dataclass = late_dataclass


def _is_field(hint: str) -> bool:
    """Whether an annotation, as it stands in the source, is that of a field."""
    return not hint.startswith("ClassVar")


class _WhenAsked:
    """What a class has once somebody asks for it: it is made then, and kept instead of this."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self._make = make

    def __set_name__(self, owner: Any, name: str) -> None:
        self._owner, self._name = owner, name

    def __get__(self, instance: object, owner: Any) -> Any:
        made = self._make(self._owner)
        setattr(self._owner, self._name, made)
        is_method = instance is not None and callable(made)
        return made.__get__(instance, owner) if is_method else made


def _stated(cls: Any) -> dict[str, dataclasses.Field[Any]]:
    """Return what a class states of its fields, those of its bases first."""
    stated: dict[str, dataclasses.Field[Any]] = {}
    for base in reversed(cls.__mro__):
        for name, (default, kw_only) in vars(base).get(_STATED, {}).items():
            field = default if isinstance(default, dataclasses.Field) else dataclasses.field(default=default)
            field.name = name
            field.type = base.__annotations__[name]
            if field.kw_only is _NOTHING:
                field.kw_only = kw_only
            stated[name] = field
    return stated


def _fields(cls: Any) -> Mapping[str, dataclasses.Field[Any]]:
    """Return the fields of a class as the library makes them, of one that states the same and can nothing."""
    stated = _stated(cls)
    hints = {name: field.type for name, field in stated.items()}
    about = {"__module__": cls.__module__, "__doc__": cls.__doc__ or cls.__name__, "__annotations__": hints}
    alike: Any = type(cls.__name__, (), about | stated)
    fields: Mapping[str, dataclasses.Field[Any]] = dataclasses.dataclass(
        init=False, repr=False, eq=False, match_args=False
    )(alike).__dataclass_fields__
    return fields


def _places(cls: Any) -> tuple[str, ...]:
    """Return the names of the fields that stand at places of a call and a pattern."""
    return tuple(field.name for field in _stated(cls).values() if field.init and not field.kw_only)


def _made_init(cls: Any) -> Any:
    """Make what sets the fields of an instance."""
    is_frozen = cls.__setattr__ is _refuse_setting
    known: dict[str, Any] = {"_set": _set, "_NOTHING": _NOTHING}
    places, names, lines = ["_self"], ["*"], []
    for field in _stated(cls).values():
        parameter = value = field.name
        if field.default_factory is not _NOTHING:
            known[f"_make_{field.name}"] = field.default_factory
            parameter += "=_NOTHING"
            value = f"_make_{field.name}()"
            if field.init:
                value += f" if {field.name} is _NOTHING else {field.name}"
        elif field.default is not _NOTHING:
            known[f"_default_{field.name}"] = field.default
            parameter += f"=_default_{field.name}"
            value = field.name if field.init else f"_default_{field.name}"
        elif not field.init:
            continue
        if field.init:
            (names if field.kw_only else places).append(parameter)
        lines.append(
            f"_set(_self, {field.name!r}, {value})" if is_frozen else f"_self.{field.name} = {value}"
        )
    if hasattr(cls, "__post_init__"):
        lines.append("_self.__post_init__()")
    return _compiled(cls, "__init__", places + (names if len(names) > 1 else []), lines or ["pass"], known)


def _made_equal(cls: Any) -> Any:
    """Make what compares the values of two instances."""
    lines = [
        "if other.__class__ is self.__class__:",
        f"    return {_values(cls, 'self')} == {_values(cls, 'other')}",
        "return NotImplemented",
    ]
    return _compiled(cls, "__eq__", ["self", "other"], lines, {})


def _made_hash(cls: Any) -> Any:
    """Make what hashes the values of an instance."""
    return _compiled(cls, "__hash__", ["self"], [f"return hash({_values(cls, 'self')})"], {})


def _values(cls: Any, name: str) -> str:
    """Write the tuple of the values by which instances are compared."""
    return f"({''.join(f'{name}.{field.name}, ' for field in _stated(cls).values() if field.compare)})"


def _compiled(
    cls: Any, name: str, parameters: Iterable[str], lines: Iterable[str], known: dict[str, Any]
) -> Any:
    body = "".join(f"\n    {line}" for line in lines)
    exec(f"def {name}({', '.join(parameters)}):{body}", known)  # noqa: S102 - names of fields, as the library does
    known[name].__qualname__ = f"{cls.__qualname__}.{name}"
    return known[name]


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (
        f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr
    )
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _refuse_setting(self: object, name: str, value: object) -> NoReturn:  # noqa: ARG001 - Python's own signature
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deleting(self: object, name: str) -> NoReturn:  # noqa: ARG001 - Python's own signature
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _restore(self: Any, state: Iterable[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        _set(self, field.name, value)
