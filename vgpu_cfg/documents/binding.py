"""Conversion of pydantic's errors for authors of YAML files, at their places in the text.

Each error becomes one fault at its place in the text, in the words of the document: keys, text, lists and
mappings, not fields and types. A part of a document may have had its data replaced while its places stayed.
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from vgpu_cfg.documents.text import Document, Loc, by_word, did_you_mean
from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.model.frozen import FROM_FILE

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

M = TypeVar("M", bound=BaseModel)

_SECRET = re.compile("password|secret|token", re.IGNORECASE)
_KINDS = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true, false",
    "bool_parsing": "true, false",
    "list_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "frozen_set_type": "a list",
    "dict_type": "a mapping of keys to values",
    "mapping_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
    "model_attributes_type": "a mapping of keys to values",
    "date_from_datetime_parsing": "a date such as 2027-03-31",
    "date_parsing": "a date such as 2027-03-31",
    "date_type": "a date such as 2027-03-31",
}  # fmt: skip


def build(
    document: Document,
    model: type[M],
    *,
    loc: Loc = (),
    data: object = None,
    hints: type[BaseModel] | None = None,
) -> M:
    """Make `model` of the document's content at `loc`; hints for unknown keys come from `hints` if given.

    `data` takes the place of the document's own data there, for a caller that has
    replaced something in it; its shape must still be the document's.
    Raises DocumentError with all faults, those that a lenient reading kept among them.
    """
    if data is None:
        data = document.data if not loc else document.node(loc).value
    try:
        built = model.model_validate(data, context=FROM_FILE)
    except ValidationError as error:
        faults = faults_of(document, hints or model, error, loc=loc)
    else:
        faults = []
        if not document.faults:
            return built
    raise DocumentError([*document.faults, *faults])


def faults_of(
    document: Document, model: type[BaseModel], error: ValidationError, *, loc: Loc = ()
) -> list[DocumentFault]:
    """Translate pydantic's errors; several guesses at one value become one fault."""
    expected: dict[Loc, list[str]] = {}
    words: dict[Loc, list[str]] = {}
    found: dict[Loc, object] = {}
    others: list[tuple[Loc, DocumentFault]] = []
    details = error.errors(include_url=False)
    missing = {
        (*detail["loc"][:-1], str(detail["loc"][-1])) for detail in details if detail["type"] == "missing"
    }
    for number, detail in enumerate(details):
        place = _place(document, (*loc, *detail["loc"]))
        if detail["type"] in _KINDS:
            wanted = _KINDS[detail["type"]].split(", ")
        elif detail["type"] in ("literal_error", "enum"):
            reported = str(detail["ctx"]["expected"])
            wanted = re.findall(r"'([^']*)'", reported) or [reported]
            words.setdefault(place, []).extend(wanted)
        else:
            hinted = model if number < DocumentError.most_shown else None
            others.append((place, _fault(document, hinted, detail, place, missing)))
            continue
        found[place] = detail["input"]
        expected.setdefault(place, []).extend(wanted)
    faults = [fault for _, fault in others]
    for place, wanted in expected.items():
        inside = [other for other, _ in others] + [other for other in expected if other != place]
        if isinstance(found[place], Mapping) and any(other[: len(place)] == place for other in inside):
            continue  # of a union, the member that is a mapping has told what is wrong inside
        message = f"{_subject(place)} must be {_listed(wanted)}, not {_shown(found[place], place)}"
        hint = did_you_mean(str(found[place]), words.get(place, [])) or _value_hint(found[place], wanted)
        faults.append(document.fault(place, message, hint))
    return faults


def _fault(
    document: Document, model: type[BaseModel] | None, detail: ErrorDetails, place: Loc, missing: set[Loc]
) -> DocumentFault:
    context: Mapping[str, Any] = detail.get("ctx", {})
    last = str(detail["loc"][-1]) if detail["loc"] else ""
    match detail["type"]:
        case "extra_forbidden":
            parent = detail["loc"][:-1]
            hint = did_you_mean(last, [str(loc[-1]) for loc in missing if loc[:-1] == parent])
            if model is not None and not hint:
                models = _models_at(model, parent)
                hint = _key_hint(last, models) or _above(last, model, place[:-1])
                hint = hint or did_you_mean(last, _keys(models), noun="keys")
            return document.fault(place, f"unknown key {last!r}", hint, at_key=True)
        case "missing":
            where = f" in {_subject(place)}" if place else ""
            return document.fault(place, f"missing key {last!r}{where}", at_key=True)
        case "union_tag_invalid":
            key = str(context["discriminator"]).strip("'")
            choices = [word.strip().strip("'") for word in str(context["expected_tags"]).split(",")]
            place = (*place, key) if key in document.node(place).children else place
            message = f"{key!r} must be {_listed(choices)}, not {_shown(context['tag'], place)}"
            return document.fault(place, message, did_you_mean(str(context["tag"]), choices))
        case "union_tag_not_found":
            key = str(context["discriminator"]).strip("'")
            return document.fault(place, f"missing key {key!r} in {_subject(place)}", at_key=True)
        case "value_error":
            message, _, hint = str(context.get("error", detail["msg"])).partition("\n")
            return document.fault(place, message, hint)
        case "greater_than_equal" | "greater_than" | "less_than_equal" | "less_than":
            ((name, bound),) = context.items()
            sign = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}[name]
            return document.fault(
                place, f"{_subject(place)} must be {sign} {bound}, not {_shown(detail['input'], place)}"
            )
        case "too_short" | "string_too_short":
            return document.fault(place, f"{_subject(place)} must not be empty")
        case _:
            text = detail["msg"][:1].lower() + detail["msg"][1:]
            return document.fault(place, f"{_subject(place)}: {text}")


def _place(document: Document, loc: Loc) -> Loc:
    """Reduce pydantic's location to the document's own parts: union tags are not in the text."""
    kept: list[str | int] = []
    node = document.root
    for element in loc:
        child = node.children.get(element)
        if child is not None:
            kept.append(element)
            node = child
    return tuple(kept)


def _subject(place: Loc) -> str:
    """Name the last key of a place, with its index where it is an item of a list."""
    if not place:
        return "the document"
    if isinstance(place[-1], int):
        owner = next((str(part) for part in reversed(place) if isinstance(part, str)), "the list")
        return f"item {place[-1] + 1} of {owner!r}" if owner != "the list" else f"item {place[-1] + 1}"
    return repr(place[-1])


def _shown(value: object, place: Loc) -> str:
    """Show a value in a complaint, unless its key says that it may be a secret."""
    if any(_SECRET.search(str(part)) for part in place):
        return "this"
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case str():
            return repr(value if len(value) <= 40 else value[:37] + "...")
        case int() | float():
            return str(value)
        case Mapping():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case _:
            return type(value).__name__


def _listed(choices: list[str]) -> str:
    words = list(dict.fromkeys(choices))
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _value_hint(value: object, wanted: list[str]) -> str:
    if value is None:
        return "set a value, or remove the key"
    if "text" not in wanted:
        return ""
    if isinstance(value, Mapping) and len(value) == 1 and next(iter(value.values())) is None:
        return f'quote it: "{{{next(iter(value))}}}"'
    if isinstance(value, bool | int | float):
        return f'quote it: "{_shown(value, ())}"'
    return ""


_MEANT = by_word(
    {
        "memory": "ram mem memory_gb memory_mb",
        "cpus": "vcpu cores num_cpus numcpus",
        "gpus": "vgpu vgpus accelerator accelerators",
        "template": "image ova source",
        "datastore": "ds storage",
        "resource_pool": "pool rp",
        "place": "esx esxi placement affinity",
        "nics": "nic interfaces adapters",
        "power": "powerstate power_state powered_on autostart state",
        "attributes": "owner notes note description annotation contact",
        "from": "reserve reserved reservation reservations",
        "name: train-{01..04}": "count replicas instances",
    }
)
"""Words of other tools and of the vSphere Client for keys that are spelled otherwise."""


def _key_hint(word: str, models: Sequence[type[BaseModel]]) -> str:
    """Suggest a key for one that the models at a place do not know: one of theirs, or one below theirs.

    Below it must be the same word, or its plural or singular. Empty if there is none.
    """
    known = [field for one in models for field in _fields(one)]
    below: dict[str, list[str]] = {}
    for key, annotation in known:
        for value in (annotation, *_step(annotation, 0)):
            for name in {name for one in _models(value) for name, _ in _fields(one)}:
                below.setdefault(name, []).append(repr(key))
    keys = {key for key, _ in known}
    meant = _MEANT.get(word.casefold(), f"{word}s")
    if meant.partition(":")[0] in keys:
        return f"did you mean {meant!r}?"
    near = did_you_mean(word, keys)
    for name in _meant_by(word):
        if name in below and (name in (word, meant) or not near):
            return f"did you mean {name!r} in {_listed(below[name])}?"
    return near


def _meant_by(word: str) -> tuple[str, ...]:
    return word, _MEANT.get(word.casefold(), ""), f"{word}s", word.removesuffix("s")


def _above(word: str, model: type[BaseModel], loc: Loc) -> str:
    """Suggest the nearest enclosing mapping that knows a key, "" if none does."""
    for depth in range(len(loc) - 1, -1, -1):
        inside = loc[depth]
        known = _keys(_models_at(model, loc[:depth]))
        for name in _meant_by(word):
            if name in known and inside in known:
                return f"did you mean {name!r} at the same level as {inside!r}, not inside it?"
    return ""


def _keys(models: Iterable[type[BaseModel]]) -> list[str]:
    return [key for one in models for key, _ in _fields(one)]


def _models_at(model: type[BaseModel], loc: Iterable[str | int]) -> list[type[BaseModel]]:
    """List the possible models at `loc`."""
    candidates: list[Any] = [model]
    for element in loc:
        following: list[Any] = []
        for annotation in candidates:
            following.extend(_step(annotation, element))
        candidates = following or candidates
    return [found for annotation in candidates for found in _models(annotation)]


def _fields(model: type[BaseModel]) -> list[tuple[str, Any]]:
    """List a model's keys, each with the annotation of its value."""
    return [(info.alias or name, info.annotation) for name, info in model.model_fields.items()]


def _alternatives(annotation: Any) -> list[Any]:
    """Unfold Annotated and unions into their members."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _alternatives(get_args(annotation)[0])
    if origin is Union or origin is types.UnionType:
        return [member for part in get_args(annotation) for member in _alternatives(part)]
    return [annotation]


def _models(annotation: Any) -> list[type[BaseModel]]:
    return [
        part for part in _alternatives(annotation) if isinstance(part, type) and issubclass(part, BaseModel)
    ]


def _step(annotation: Any, element: str | int) -> list[Any]:
    """List the annotations of the items below `element`."""
    found: list[Any] = []
    for part in _alternatives(annotation):
        if isinstance(part, type) and issubclass(part, BaseModel):
            for name, info in part.model_fields.items():
                if element in (name, info.alias):
                    found.append(info.annotation)
            if element == part.__name__ or any(
                element in get_args(i.annotation) for i in part.model_fields.values()
            ):
                found.append(part)
        elif isinstance(element, int) and get_origin(part) in (list, tuple, set, frozenset):
            found.extend(inner for inner in get_args(part) if inner is not Ellipsis)
        elif isinstance(element, str) and len(get_args(part)) == 2:
            found.append(get_args(part)[1])
    return found


@dataclass(frozen=True, slots=True)
class Part:
    """The content of a document at `loc`. `data` keeps the document's shape, not always its values."""

    document: Document
    loc: Loc
    data: Any

    def fault(self, loc: Loc, message: str, hint: str = "", *, at_key: bool = False) -> DocumentFault:
        """Make a fault at `loc`, counted from this part."""
        return self.document.fault((*self.loc, *loc), message, hint, at_key=at_key)

    def refused(self, loc: Loc, error: ValueError, *, at_key: bool = False) -> DocumentFault:
        """Make a fault at `loc` of an error whose lines are the problem and the fix."""
        message, _, hint = str(error).partition("\n")
        return self.fault(loc, message, hint, at_key=at_key)

    def child(self, key: str | int) -> Part:
        """Return the part below, which must be there."""
        return Part(self.document, (*self.loc, key), self.data[key])

    @property
    def origin(self) -> str:
        """Its beginning, as `file:line:column`."""
        node = self.document.node(self.loc)
        return f"{self.document.name}:{node.line}:{node.column}"
