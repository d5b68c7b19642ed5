"""Names of the plan file without or with several meanings in vCenter: the probable ones."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from vgpu_cfg.changes.suggestion import FixKind
from vgpu_cfg.documents import Edit, Loc, close_to
from vgpu_cfg.model.observed.inventory import NetworkKind
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.estate.site import find_named, references
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.options import matches_any
from vgpu_cfg.suggestions.candidate import Candidate
from vgpu_cfg.suggestions.situation import Situation

_MOST = 3
_MISSPELT = 0.7
_OF_TAGS = (Code.TAG_CATEGORY_ABSENT, Code.TAG_ABSENT, Code.TAG_CATEGORY_SINGLE, Code.TAG_CATEGORY_OF_OTHERS)


def propose_names(situation: Situation) -> Iterator[Candidate]:
    """Replace a key's name, at each of its places in the file, by the closest existing one."""
    ideas: dict[str, Candidate] = {}
    for idea in _each_place(situation):
        known = ideas.get(idea.says)
        ideas[idea.says] = idea if known is None else replace(known, edits=(*known.edits, *idea.edits))
    yield from ideas.values()


def _each_place(situation: Situation) -> Iterator[Candidate]:
    site = situation.site
    networks = [one for one in site.networks if not one.is_uplink and one.kind is not NetworkKind.OPAQUE]
    groups = [group.name for cluster in site.clusters for group in cluster.host_groups]
    rows: tuple[tuple[tuple[Code, ...], tuple[str, ...], list[Any]], ...] = (
        ((Code.TEMPLATE_NOT_FOUND, Code.TEMPLATE_AMBIGUOUS), ("template",), list(site.templates)),
        ((Code.FOLDER_NOT_FOUND, Code.FOLDER_AMBIGUOUS), ("folder",), list(site.folders)),
        ((Code.POOL_NOT_FOUND, Code.POOL_AMBIGUOUS), ("resource_pool",), list(site.pools)),
        ((Code.CLUSTER_NOT_FOUND, Code.CLUSTER_AMBIGUOUS), ("cluster",), list(site.clusters)),
        ((Code.DATASTORE_NOT_FOUND, Code.DATASTORE_AMBIGUOUS), ("datastore",), list(site.datastores)),
        ((Code.NETWORK_NOT_FOUND, Code.NETWORK_AMBIGUOUS), ("network", "networks", "nics"), networks),
    )
    for codes, keys, objects in rows:
        if not any(situation.errors(*codes)):
            continue
        for loc, name in _texts(situation.document.data, keys):
            yield from _corrected(loc, name, keys[0], objects)
    if any(situation.errors(Code.STORAGE_POLICY_NOT_FOUND)):
        policies = [one.name for one in situation.observed.vcenter.storage_policies or ()]
        yield from _among(situation, ("storage_policy",), policies)
    if any(situation.errors(Code.CUSTOMIZATION_NOT_FOUND)):
        missing = [one for one in situation.observed.customization_specs or () if not one.is_there]
        yield from _among(situation, ("spec",), [name for one in missing[:1] for name in one.others])
    if any(situation.errors(Code.HOST_GROUP_NOT_FOUND)):
        yield from _among(situation, ("host_group", "host_groups"), groups)
    if any(situation.errors(Code.DATACENTER_NOT_FOUND, Code.DATACENTER_NOT_NAMED)):
        names = [one.name for one in situation.observed.datacenters]
        yield from _among(situation, ("datacenter",), names)
    if any(situation.errors(Code.HOST_NOT_MATCHED)):
        yield from _among(situation, ("names", "hosts"), [host.name for host in situation.observed.hosts])
    if any(situation.errors(Code.SWITCH_NOT_FOUND)):
        switches = [one.name for one in situation.observed.facts.switches]
        for facts in situation.observed.facts.hosts.values():
            switches += [one.name for one in facts.switches]
        yield from _among(situation, ("switch",), switches)
    if any(situation.errors(Code.PROFILE_UNKNOWN)):
        for loc, name in _texts(situation.document.data, ("gpus", "profile")):
            if not situation.catalog.by_profile(name):
                for close in situation.catalog.suggest(name):
                    yield _rename(loc, name, close, "profile")
    if any(situation.errors(Code.LABEL_UNKNOWN)):
        labels = {
            device.hardware_label
            for host in situation.observed.hosts
            for device in host.pci_devices
            if device.hardware_label
        }
        yield from _among(situation, ("label",), labels)
    if any(situation.errors(Code.DEVICE_NOT_MATCHED)):
        yield from _matches(situation)
    if any(situation.errors(*_OF_TAGS)):
        for loc, tags in _mappings(situation.document.data, "tags"):
            yield from _tags(situation, loc, tags)


def _corrected(loc: Loc, name: str, key: str, objects: list[Any]) -> Iterator[Candidate]:
    found = find_named(name, objects)
    if len(found) > 1:
        for new in references(found)[:_MOST]:
            yield _choice(loc, name, new, key, references(found))
        return
    if found:
        return
    names = {one.name: one for one in objects}
    for close in close_to(name, names, _MOST):
        same = sum(one.name == close for one in objects)
        yield _rename(loc, name, close if same == 1 else names[close].inventory_path, key)


def _among(situation: Situation, keys: tuple[str, ...], known: Iterable[str]) -> Iterator[Candidate]:
    choices = sorted(set(known))
    for loc, name in _texts(situation.document.data, keys):
        if name in choices or matches_any(name, choices) or any(matches_any(one, [name]) for one in choices):
            continue
        for close in close_to(name, choices, _MOST):
            yield _rename(loc, name, close, keys[-1])


def _matches(situation: Situation) -> Iterator[Candidate]:
    """Rules whose match fits no device of a host: its devices' names, or a NIC that is not its own."""
    boards = {
        board.name.split()[0]
        for host in situation.observed.hosts
        for gpu in host.gpus
        if (board := situation.board_of(gpu))
    }
    nics = [nic for host in situation.observed.hosts for nic in host.nics]
    for loc, name in _texts(situation.document.data, ("model",)):
        if "gpus" in loc:
            for model in sorted(boards - {name}):
                yield _rename(loc, name, model, "model")
        if "nics" in loc:
            for device in sorted({nic.device for nic in nics}):
                match = loc[:-1]
                says = f"match the NIC {device} instead of model {name!r}"
                yield Candidate(FixKind.FILE, says, edits=(Edit(match, {"vmnic": device}),))
            models = sorted({_model(nic.pci.device_name) for nic in nics if nic.pci is not None})
            for model in models:
                yield _rename(loc, name, model, "model")


def _tags(situation: Situation, loc: Loc, tags: dict[str, Any]) -> Iterator[Candidate]:
    """Put categories and tags that can be given in place of those in one `tags` that cannot."""
    for name, value in tags.items():
        category = situation.observed.tag_category(name)
        if category is None:
            categories = [one.name for one in situation.observed.tag_categories or () if one.is_for_vms]
            for close in close_to(name, categories, _MOST):
                renamed = {close if key == name else key: one for key, one in tags.items()}
                idea = _rename(loc, name, close, "tag category")
                yield replace(idea, edits=(Edit(loc, renamed),))
            continue
        if not category.is_for_vms:
            others = {key: one for key, one in tags.items() if key != name}
            yield Candidate(FixKind.LEAVE, f"without tags from category {name}", edits=(Edit(loc, others),))
        texts = list(_own_texts(value, (*loc, name)))
        for _, tag in texts[:_MOST] if category.is_single and len(texts) > 1 else ():
            yield Candidate(
                FixKind.LEAVE, f"only the tag {tag} from {name}", edits=(Edit((*loc, name), tag),)
            )
        for at, tag in texts:
            if category.tag(tag) is None:
                for close in close_to(tag, [one.name for one in category.tags], _MOST):
                    yield _rename(at, tag, close, f"tag of category {name}")


def _mappings(data: Any, wanted: str, loc: Loc = ()) -> Iterator[tuple[Loc, dict[str, Any]]]:
    """Yield every mapping under a key."""
    if isinstance(data, dict):
        for key, value in data.items():
            if key == wanted and isinstance(value, dict):
                yield (*loc, str(key)), value
            else:
                yield from _mappings(value, wanted, (*loc, str(key)))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from _mappings(value, wanted, (*loc, index))


def _model(device_name: str) -> str:
    """Return the name in brackets, as in "MT2892 Family [ConnectX-6 Dx]"."""
    return device_name.partition("[")[2].partition("]")[0] or device_name


def _rename(loc: Loc, name: str, new: str, key: str) -> Candidate:
    """Replace a name: where it means the same thing, or is misspelt, that is what its author asked for.

    One that differs in its numbers alone, as esx-07 and esx-01 do, or ends with another number, may mean
    another thing: that needs leave.
    """
    close = difflib.SequenceMatcher(a=name.casefold(), b=new.casefold()).ratio()
    is_misspelt = close >= _MISSPELT and _letters(name) != _letters(new)
    is_same = new.startswith("/") or (is_misspelt and _last_number(name) in ("", _last_number(new)))
    kind = FixKind.FILE if is_same else FixKind.LEAVE
    return Candidate(kind, f"{key} {name!r} -> {new!r}", edits=(Edit(loc, new),))


def _choice(loc: Loc, name: str, new: str, key: str, choices: Sequence[str]) -> Candidate:
    """Choose one of several objects with the same name: only the author knows which one is meant."""
    others = [one for one in choices if one != new]
    says = f"{key} {name!r} means {new}, not {listed(others, shown=4)}"
    return Candidate(FixKind.LEAVE, says, edits=(Edit(loc, new),))


def _letters(name: str) -> str:
    return "".join(letter for letter in name.casefold() if not letter.isdigit())


def _last_number(name: str) -> str:
    return next(iter(re.findall("[0-9]+", name)[::-1]), "")


def _texts(data: Any, keys: tuple[str, ...], loc: Loc = ()) -> Iterator[tuple[Loc, str]]:
    """Yield every text under one of the keys, alone or in a list, and the name of listed objects."""
    if isinstance(data, dict):
        for key, value in data.items():
            here = (*loc, str(key))
            if key in keys:
                yield from _own_texts(value, here)
            yield from _texts(value, keys, here)
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from _texts(value, keys, (*loc, index))


def _own_texts(value: Any, loc: Loc) -> Iterator[tuple[Loc, str]]:
    if isinstance(value, str):
        yield loc, value
    elif isinstance(value, list):
        for index, one in enumerate(value):
            if isinstance(one, str):
                yield (*loc, index), one
