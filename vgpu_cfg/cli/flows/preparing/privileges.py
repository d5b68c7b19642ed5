"""An account's missing privileges for a command: refused before anything is written, or reported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from vgpu_cfg.cli.output import show
from vgpu_cfg.errors import NotPermitted
from vgpu_cfg.model.wording import counted

if TYPE_CHECKING:
    from vgpu_cfg.changes.plan import Plan
    from vgpu_cfg.changes.privileges import Needed
    from vgpu_cfg.model.observed.inventory import Inventory
    from vgpu_cfg.ports import InventoryReader


def refuse_closed_shells(
    hosts: Sequence[str], observed: Inventory, reader: InventoryReader, foreseen: Plan | None = None
) -> frozenset[Needed]:
    """Raise NotPermitted if the account may not lock hosts and open their shells, before it opens one.

    The same holds if it lacks privileges of the plan that are `foreseen` without them. Returns the account's
    granted privileges.
    """
    from vgpu_cfg.planning.privileges import needs_of_run, needs_of_shells

    later = needs_of_run(foreseen, observed) if foreseen is not None else ()
    required = [one for one in later if not one.need.is_optional]
    needed = [*needs_of_shells(hosts, observed), *required]
    refuse_lacking(needed, observed, reader)
    return frozenset(needed)


def refuse_lacking(needed: Iterable[Needed], observed: Inventory, reader: InventoryReader) -> None:
    """Raise NotPermitted if the account lacks any needed privilege, optional or not."""
    lacking = missing_of(needed, reader)
    if lacking:
        raise _not_permitted(lacking, observed)


def refuse_missing(
    plan: Plan, observed: Inventory, reader: InventoryReader, granted: frozenset[Needed] = frozenset()
) -> frozenset[Needed]:
    """Raise NotPermitted if the account lacks a privilege of a plan; report omissions that are tolerated.

    A locked plan without changes needs the privileges of its lock. `granted` privileges are not asked again.
    Returns them with those found now.
    """
    from vgpu_cfg.planning.privileges import needs_of_run

    needed = [
        one
        for one in needs_of_run(plan, observed)
        if one not in granted and (plan.changes or not one.need.is_optional)
    ]
    lacking = missing_of(needed, reader)
    refused = {one: names for one, names in lacking.items() if not one.need.is_optional}
    if refused:
        raise _not_permitted(refused, observed)
    told: dict[str, set[str]] = {}
    for one, names in lacking.items():
        told.setdefault(one.need.without, set()).update(names)
    for without, privileges in told.items():
        show.say(f"{_account(observed)} lacks {', '.join(sorted(privileges))}: {without}")
    return granted.union(one for one in needed if one not in lacking)


def missing_of(needed: Iterable[Needed], reader: InventoryReader) -> Mapping[Needed, tuple[str, ...]]:
    """Return those needs of which the account lacks privileges, with these.

    A defined attribute needs no privilege to be defined; defined ones are read only if that privilege is
    missing.
    """
    needed = [one for one in needed if one.moid]
    wanted: dict[str, dict[str, None]] = {}
    for one in needed:
        wanted.setdefault(one.moid, {}).update(dict.fromkeys(one.need.privileges))
    if not wanted:
        return {}
    missing = reader.read_missing_privileges({moid: tuple(names) for moid, names in wanted.items()})
    found = {
        one: names
        for one in needed
        if (names := tuple(name for name in one.need.privileges if name in missing.get(one.moid, ())))
    }
    if not any(one.attributes for one in found):
        return found
    defined = reader.read_defined_attributes()
    return {one: names for one, names in found.items() if not one.attributes or one.attributes - defined}


def _not_permitted(lacking: Mapping[Needed, tuple[str, ...]], observed: Inventory) -> NotPermitted:
    from vgpu_cfg.planning.privileges import describe

    privileges = sorted({name for names in lacking.values() for name in names})
    moids = sorted({one.moid for one in lacking})
    more = f" and {counted(len(moids) - 1, 'more object')}" if len(moids) > 1 else ""
    return NotPermitted(
        f"{_account(observed)} lacks {', '.join(privileges)}",
        subject=f"{describe(moids[0], observed)[1]}{more}",
        remedy=(
            "grant it on that object; `vgpu-cfg privileges PLAN` lists all required privileges and "
            "generates the roles"
        ),
    )


def _account(observed: Inventory) -> str:
    return observed.vcenter.user or "the account"
