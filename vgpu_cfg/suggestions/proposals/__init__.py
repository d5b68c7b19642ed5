"""Ideas against the errors of a plan: each file of this package has ideas of one kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from vgpu_cfg.documents import Edit
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.suggestions.candidate import MOST_PARTS, Candidate
from vgpu_cfg.suggestions.proposals.acts_in_vcenter import propose_acts_in_vcenter, propose_acts_on_vms
from vgpu_cfg.suggestions.proposals.acts_on_hosts import propose_acts_on_hosts
from vgpu_cfg.suggestions.proposals.host_entries import propose_host_entries
from vgpu_cfg.suggestions.proposals.names import propose_names
from vgpu_cfg.suggestions.proposals.plan_keys import propose_plan_keys
from vgpu_cfg.suggestions.proposals.room import propose_room
from vgpu_cfg.suggestions.proposals.vm_keys import propose_guest_keys, propose_vm_keys
from vgpu_cfg.suggestions.situation import Situation

_ROOMS = (
    propose_names,
    propose_vm_keys,
    propose_plan_keys,
    propose_guest_keys,
    propose_host_entries,
    propose_room,
    propose_acts_on_vms,
    propose_acts_on_hosts,
    propose_acts_in_vcenter,
)


def propose(situation: Situation) -> Iterator[Candidate]:
    """Yield every idea, each once; whether one helps is not known before it is tried."""
    ideas = {idea.key: idea for room in _ROOMS for idea in room(situation)}
    alike: dict[tuple[str, int, str], list[Candidate]] = {}
    for idea in ideas.values():
        if idea.alike:
            alike.setdefault((idea.kind, idea.cost, idea.alike), []).append(idea)
    whole = [together(same) for same in alike.values() if len({idea.of for idea in same}) > 1]
    yield from (idea for idea in whole if len(idea.edits) >= MOST_PARTS)
    yield from ideas.values()
    yield from (idea for idea in whole if len(idea.edits) < MOST_PARTS)


def together(ideas: Sequence[Candidate]) -> Candidate:
    """Return one edit of several lines as one idea: each alone would leave the errors of the others."""
    lines = fold_names(list(dict.fromkeys(idea.of for idea in ideas)))
    edits: list[Edit] = []  # an edit's value may be a list, so that it has no hash
    for edit in (edit for idea in ideas for edit in idea.edits):
        if edit not in edits:
            edits.append(edit)
    return replace(ideas[0], says=f"{lines} {ideas[0].alike}", edits=tuple(edits), of="", alike="")
