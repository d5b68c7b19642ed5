"""What of a verification is shown, in which order: a block per host, VM and pair, and what failed at the end.

The text, the page and the tests read this one; nothing here knows widths or colours.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vgpu_cfg.model.verification import CheckResult, CheckState, Verification
from vgpu_cfg.model.wording import counted

STATE_WORDS = {
    CheckState.PASSED: "passed",
    CheckState.FAILED: "failed",
    CheckState.UNPROVEN: "not proven",
    CheckState.NOT_ASKED: "not run",
    CheckState.SKIPPED: "skipped",
}
_TITLES = {"host": "HOSTS", "vm": "VMS", "pair": "BETWEEN VMS", "training": "ALL TOGETHER"}
_MOST_UNFOLDED = 6


@dataclass(frozen=True, slots=True)
class Block:
    """The results of one subject. `about` says where it runs and with what."""

    name: str
    about: str
    results: tuple[CheckResult, ...]

    @property
    def counts(self) -> str:
        """How many results are in each state."""
        return count_states(self.results)

    @property
    def has_trouble(self) -> bool:
        """Whether something failed, could not be proven, or was not asked."""
        return any(one.state not in (CheckState.PASSED, CheckState.SKIPPED) for one in self.results)


@dataclass(frozen=True, slots=True)
class Part:
    """The blocks of one kind of subject."""

    title: str
    kind: str
    blocks: tuple[Block, ...]


def parts_of(found: Verification) -> tuple[Part, ...]:
    """Return the results by kind and subject."""
    about = {place.vm: ", ".join((place.host, *place.profiles)).strip(", ") for place in found.places}
    parts: list[Part] = []
    for kind, title in _TITLES.items():
        results = [one for one in found.results if one.subject.kind == kind]
        blocks = tuple(
            Block(name, about.get(name, ""), tuple(one for one in results if one.subject.name == name))
            for name in dict.fromkeys(one.subject.name for one in results)
        )
        if blocks:
            parts.append(Part(title, kind, blocks))
    return tuple(parts)


def is_folded(part: Part, block: Block, *, with_all: bool) -> bool:
    """Whether only the line of a block is shown: all is well in it, and there are many like it."""
    return not with_all and not block.has_trouble and len(part.blocks) > _MOST_UNFOLDED


def shown_results(block: Block, *, with_all: bool) -> tuple[CheckResult, ...]:
    """Return the results of a block that are shown; what was skipped only `with_all`."""
    return tuple(one for one in block.results if with_all or one.state is not CheckState.SKIPPED)


def result_text(result: CheckResult) -> str:
    """Say what came of a check in a cell."""
    match result.state:
        case CheckState.PASSED:
            return result.observed
        case CheckState.FAILED:
            return f"{result.observed}, expected {result.expected}" if result.expected else result.observed
        case CheckState.NOT_ASKED:
            return f"not run: {result.why}"
        case CheckState.UNPROVEN:
            return f"not proven: {result.why}"
        case CheckState.SKIPPED:
            return result.why


def count_states(results: Iterable[CheckResult]) -> str:
    """Say "1 failed, 2 not run, 14 passed", what matters most first."""
    states = [one.state for one in results]
    order = (
        CheckState.FAILED,
        CheckState.UNPROVEN,
        CheckState.NOT_ASKED,
        CheckState.PASSED,
        CheckState.SKIPPED,
    )
    return ", ".join(f"{states.count(state)} {STATE_WORDS[state]}" for state in order if state in states)


def verdict_text(found: Verification) -> str:
    """Say in one line what all of it came to."""
    if not found.results:
        return "no check ran"
    failures = f"{counted(len(found.failed), 'check')} failed" if found.failed else ""
    if found.unproven:
        return f"{failures or 'nothing failed'}, {len(found.unproven)} not proven"
    if failures:
        return failures
    if not found.passes:
        return "no check could run"
    if found.unasked:
        return f"all checks passed, {counted(len(found.unasked), 'guest')} not asked"
    return "all checks passed"


def codes_of(results: Sequence[CheckResult]) -> tuple[str, ...]:
    """Return the codes of failures, each once, in their order."""
    return tuple(dict.fromkeys(one.code for one in results if one.code))
