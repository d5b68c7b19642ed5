"""The witness: what others experience was shown before the run, by name and with its approval, and no more.

A case that breaks the law is reported as it was drawn: to shrink it would take a run of the lab for each try.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.extent import examples
from tests.properties.witness import plans
from tests.properties.witness.plans import Case
from tests.properties.witness.playing import played
from tests.properties.witness.stage import Stage

NOT_YET: frozenset[str] = frozenset()
"""Kinds of faults that wait for their mend."""

FAMILIES: dict[str, tuple[st.SearchStrategy[Case], int]] = {
    "networks": (plans.network_cases(), 50),
    "hosts": (plans.host_cases(), 25),
    "vms": (plans.changed_cases(), 30),
    "destroy": (plans.destroy_cases(), 15),
    "upkeep": (plans.upkeep_cases(), 20),
    "ownership": (plans.ownership_cases(), 10),
    "rollback": (plans.rollback_cases(), 15),
    "guests": (plans.guest_cases(), 15),
}
"""What cases of each kind are drawn from, and how many: a plain run tries a fifth, --all a little more."""
PARTS, IN_A_PART = 10, 250
"""--faults tries 20,000: so many parts of each family, and so many cases in each."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("family", FAMILIES)
def test_what_others_experience_was_shown_and_approved(family: str, stage: Stage) -> None:
    cases, count = FAMILIES[family]
    search(stage, cases, settings(max_examples=examples(count // 5, count)))


@pytest.mark.parametrize("name", plans.FOUND)
def test_what_the_search_has_found_stays_mended(name: str, stage: Stage) -> None:
    assert played(stage, plans.FOUND[name]) == []
    assert stage.carried_out


@pytest.mark.exhaustive("20,000 plans among strangers: tests/properties/witness")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("number", range(PARTS))
@pytest.mark.parametrize("family", FAMILIES)
def test_what_others_experience_was_shown_and_approved_for_long(
    family: str, number: int, stage: Stage
) -> None:
    cases, _ = FAMILIES[family]
    search(stage, cases, settings(max_examples=IN_A_PART), number)


def search(stage: Stage, cases: st.SearchStrategy[Case], extent: settings, number: int | None = None) -> None:
    """Play cases, and see that not all of them are refused."""

    @settings(
        extent,
        phases=(Phase.generate,),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(cases)
    def each(case: Case) -> None:
        found = [one for one in played(stage, case) if one.kind not in NOT_YET]
        assert not found, "\n".join(f"[{one.kind}] {one.text}" for one in found)

    stage.carried_out = 0
    (each if number is None else seed(number)(each))()
    assert stage.carried_out, "not one of the plans is carried out"
