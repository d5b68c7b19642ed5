"""A plan made again, with ideas carried out on copies: of the plan file's text, and of the estate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.documents import MOST_FILE_BYTES, edited, read_bytes
from vgpu_cfg.errors import DocumentError
from vgpu_cfg.model.approvals import Approval
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.guests.base import PLAN_KEYS
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.plan_loading import LoadedPlan, load_plan
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.planner import make_plan
from vgpu_cfg.suggestions.candidate import Candidate


@dataclass(frozen=True, slots=True)
class PlanSource:
    """Where a plan came from, so that it can be made again.

    `observe` reads what a plan needs of the estate, `mean` completes a loaded plan by what the command line
    and the context say. `refused` is the plan as it came from there, where it was made already.
    """

    path: Path
    catalog: Catalog
    options: PlanOptions
    observe: Callable[[DesiredPlan], Inventory]
    mean: Callable[[DesiredPlan], DesiredPlan] = lambda desired: desired
    refused: Plan | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    variable_files: Sequence[Path] = ()

    @property
    def text(self) -> str:
        """The plan file as it stands."""
        return read_bytes(self.path, MOST_FILE_BYTES).decode("utf-8-sig").replace("\r\n", "\n")

    def load(self, text: str) -> LoadedPlan:
        """Read a text as the plan file. Raises DocumentError."""
        return load_plan(self.path, variables=self.variables, variable_files=self.variable_files, text=text)


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of ideas: the plan, the file's text, and the estate after the acts outside."""

    text: str
    loaded: LoadedPlan
    observed: Inventory
    plan: Plan


def attempt(source: PlanSource, text: str, candidates: Sequence[Candidate]) -> Trial | None:
    """Plan again with the ideas carried out; None where the file can then not be read, or edited so.

    They go in their order: each was drawn from what those before it made of the file and of the estate.
    """
    changed = text
    try:
        for one in candidates:
            changed = edited(changed, one.edits) if one.edits else changed
        loaded = source.load(changed)
    except DocumentError:
        return None
    desired = source.mean(loaded.desired)
    if not candidates and source.refused is not None:
        return Trial(changed, loaded, source.observe(desired), source.refused)
    observed = source.observe(desired)
    for one in candidates:
        if one.effect is not None:
            observed = one.effect(observed)
    options = with_flags(source.options, [one.flag for one in candidates if one.flag])
    plan = make_plan(desired, observed, source.catalog, options)
    return Trial(changed, loaded, observed, plan)


def with_flags(options: PlanOptions, flags: Sequence[str]) -> PlanOptions:
    """Return the options as they are with what candidates take on the command line."""
    for flag in flags:
        name, _, value = flag.partition("=")
        match name:
            case "allow_power_cycle":
                options = replace(options, allow_power_cycle=True)
            case "allow_move":
                options = replace(options, allow_move=True)
            case "allow":
                options = replace(options, allow=(*options.allow, Approval(value)))
            case "allow_destroy":
                options = replace(options, allow_destroy=int(value))
            case "rotate":
                options = replace(options, rotate=(*options.rotate, value))
            case "rotate_no":
                options = replace(options, rotate=tuple(one for one in options.rotate if one != value))
            case "keys":
                options = replace(options, fingerprints={**options.fingerprints, PLAN_KEYS: value})
            case "former":
                options = replace(options, former_keys=(*options.former_keys, value))
            case "only":
                options = replace(options, only=(value,))
            case _:
                options = replace(options, delete=tuple(one for one in options.delete if one != value))
    return options
