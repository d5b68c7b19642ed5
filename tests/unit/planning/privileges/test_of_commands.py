"""The needs of every command for the cases, by object, and the roles that they come to.

REWRITE_TRANSCRIPTS=1 writes the stored texts anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.plans.planned import desired_of, inventory_of, options_of
from tests.sections import left_over, section
from tests.unit.planning.test_rollback_of_cases import after
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes import privileges as table
from vgpu_cfg.changes.privileges import READ_ONLY, Need, Needed
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.hosts.needed import shell_access
from vgpu_cfg.planning.planner import make_plan
from vgpu_cfg.planning.privileges import (
    Asked,
    Command,
    Role,
    could_need,
    make_roles,
    make_roles_of_kinds,
    needs_of,
)
from vgpu_cfg.planning.vms.destroy import make_destroy_plan
from vgpu_cfg.planning.vms.ownership import make_forget_plan, make_import_plan

STORED = Path(__file__).with_name("roles.txt")
CHOSEN = (
    "training-with-a-head",
    "host-others-vgpu-options-set-along",
    "policy-where-there-was-none",
    "rule-follows-the-line",
)
NAMES = {need: name for name, need in vars(table).items() if isinstance(need, Need)}
BEYOND_THE_FILE = {(Command.FORGET, "rule-follows-the-line"): {table.EDIT_CLUSTER}}
"""A VM that is forgotten leaves its rule; `could_need` does not say so."""


def asked_in(case: str, observed: Inventory) -> Asked:
    """Ask as `vgpu-cfg roles` does, for a case's plan in an estate."""
    desired, options = desired_of(case), options_of(case)
    hosts = tuple(shell_access(desired, observed, load_catalog(), options))
    return Asked(
        make_plan(desired, observed, load_catalog(), options),
        {
            Command.DESTROY: make_destroy_plan(desired, observed, options),
            Command.IMPORT: make_import_plan(desired, observed, options),
            Command.FORGET: make_forget_plan(desired, observed, options),
        },
        observed,
        hosts,
        hosts[:1],
    )


@cache
def asked(case: str) -> tuple[Asked, Asked]:
    """Ask before the case's plan is carried out, and after it."""
    return asked_in(case, inventory_of(case)), asked_in(case, after(case))


def words_of(role: Role) -> Iterator[str]:
    yield f"{role.name or 'read-only'}: {', '.join(role.privileges[len(READ_ONLY) :])}"
    for target in role.targets:
        yield (
            f"  on {target.place.name} {target.path} {target.moid}{' and below' if target.propagates else ''}"
        )
    for reason in role.reasons:
        commands = ", ".join(command.value for command in reason.commands)
        optional = f" (else {reason.without})" if reason.without else ""
        recalled = " recalled" if reason.is_recalled else ""
        yield f"  {reason.privilege} [{commands}]{recalled}{optional}"


def name_of(need: Need) -> str:
    return NAMES.get(need, "/".join(need.privileges))


def words_of_need(found: Needed) -> str:
    attributes = "".join(f" {kind}.{name}" for kind, name in sorted(found.attributes))
    return f"{name_of(found.need)} {found.moid}{attributes}"


def told(case: str) -> str:
    lines = []
    for one in asked(case):
        for command in Command:
            needs = [words_of_need(found) for found in needs_of(command, one)]
            lines += [f"{command.value}: {', '.join(needs)}"]
        uses = {command: needs_of(command, one) for command in Command}
        for role in make_roles("demo", uses, one.observed, one.plan.desired.identity):
            lines += words_of(role)
    return "\n".join(lines)


@pytest.mark.parametrize("case", CHOSEN)
def test_needs_and_roles_are_as_they_are_stored(case: str) -> None:
    text = told(case)
    assert text == section(STORED, case, text)


@pytest.mark.parametrize("case", CHOSEN)
def test_what_a_file_could_need_is_as_it_is_stored(case: str) -> None:
    uses = {command: could_need(command, desired_of(case)) for command in Command}
    lines = [f"{command.value}: {', '.join(map(name_of, needs))}" for command, needs in uses.items()]
    lines += [line for role in make_roles_of_kinds("demo", uses) for line in words_of(role)]
    text = "\n".join(lines)
    assert text == section(STORED, f"file of {case}", text)


@pytest.mark.parametrize("case", CHOSEN)
def test_a_role_says_what_each_of_its_privileges_is_for(case: str) -> None:
    for one in asked(case):
        uses = {command: needs_of(command, one) for command in Command}
        known = {
            (found.need.what, name)
            for needs in uses.values()
            for found in needs
            for name in found.need.privileges
        }
        for role in make_roles("demo", uses, one.observed, one.plan.desired.identity):
            for reason in role.reasons:
                assert reason.uses
                assert {(use, reason.privilege) for use in reason.uses} <= known


def test_no_section_is_left_over() -> None:
    assert left_over(STORED, [*CHOSEN, *(f"file of {case}" for case in CHOSEN)]) == []


@pytest.mark.parametrize("case", CHOSEN)
@pytest.mark.parametrize("command", Command)
def test_a_file_could_need_all_that_a_command_needs(case: str, command: Command) -> None:
    could = {*could_need(command, desired_of(case)), *BEYOND_THE_FILE.get((command, case), ())}
    for one in asked(case):
        assert {found.need for found in needs_of(command, one)} <= could
