"""Ideas against the errors of a plan: each file of this package has ideas of one kind."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_cfg.suggestions.candidate import Candidate
from vgpu_cfg.suggestions.proposals.host_entries import propose_host_entries
from vgpu_cfg.suggestions.proposals.names import propose_names
from vgpu_cfg.suggestions.proposals.outside import propose_acts
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
    propose_acts,
)


def propose(situation: Situation) -> Iterator[Candidate]:
    """Yield every idea, each once; whether one helps is not known before it is tried."""
    seen: set[str] = set()
    for room in _ROOMS:
        for idea in room(situation):
            if idea.key not in seen:
                seen.add(idea.key)
                yield idea
