"""Whether what is advised works: every case that is refused, planned again with each of its fixes.

`fixes.yaml` tells for each case what helps; `REWRITE_FIXES=1` with `--all` writes it anew. A fix is carried
out here by itself: its text is loaded as a file, and its acts are done on the case's estate. `ideas.txt` has
all ideas that are tried for a plan, in cases that together show each kind of idea; `fixes.txt` has the fixes
as they are shown. `REWRITE_TRANSCRIPTS=1` writes both anew.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tests.extent import each
from tests.plans.ideas import fix_lines, idea_lines
from tests.plans.planned import FOLDER, desired_of, inventory_of, options_of, plan_of
from tests.plans.tables import CASES, case_of
from tests.sections import left_over, section, sections_of
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.suggestion import FixKind
from vgpu_cfg.documents import Edit, dump, read_document
from vgpu_cfg.model.desired import DesiredPlan, DesiredVm
from vgpu_cfg.plan_loading import load_plan
from vgpu_cfg.planning.planner import make_plan
from vgpu_cfg.suggestions.candidate import Candidate, PlanSource, attempt, with_flags
from vgpu_cfg.suggestions.proposals import propose, together
from vgpu_cfg.suggestions.search import Found, Search, fix_of
from vgpu_cfg.suggestions.situation import Situation

DOCS = Path(__file__).parents[2] / "docs"
TABLE = Path(__file__).parent / "fixes.yaml"
IDEAS, SHOWN = (TABLE.with_name(name) for name in ("ideas.txt", "fixes.txt"))
FIXES: dict[str, list[str]] = read_document(TABLE, name=TABLE.name).data if TABLE.exists() else {}
REWRITES = bool(os.environ.get("REWRITE_FIXES"))
NOTHING_HELPS = {
    "many-cpus": "fewer CPUs, or a virtual IOMMU and a guest for it: the user decides",
    "mac-of-a-running-vm": "which of the two keeps the address, their users decide",
    "disk-too-large": "how data is divided, their user decides",
    "no-room-for-swap": "which files may go, their owner knows",
    "failover-capacity": "what HA keeps, the cluster's administrators decide",
    "orphan-with-a-snapshot-and-a-disk-of-others": "whether its snapshots may go, only their owner knows",
    "disk-of-others-that-is-not-there": "which disk is meant, only the user knows",
    "customisation-unread": "who gives the account its privileges lets it read them",
    "customisation-of-another-system": "which specification is meant, only its user knows",
    "customisation-of-another-form": "the same",
    "customisation-of-another-vcenter": "its passwords are typed in again in vCenter",
    "customisation-with-a-long-computer-name": "what the VM is called, its user decides",
    "customisation-with-a-domain-of-windows": "the specification joins a domain, in vCenter",
    "customisation-with-too-many-nics": "which specification is meant, only its user knows",
    "customisation-with-too-few-nics": "which addresses the NICs get, only its user knows",
    "customisation-that-asks-for-an-address": "the same",
    "customisation-with-one-address-for-two": "the same",
    "quota-of-owner-exceeded": "who keeps the shares raises one, or somebody gives GPUs back",
    "quota-in-parts-exceeded": "the same",
    "quota-in-framebuffer-exceeded": "the same",
    "spare-lost": "which VMs are left out, their user decides",
    "spare-of-two-hosts-lost": "the same",
    "spare-lost-by-a-move": "which hosts are left out, their user decides",
    "licences-exceeded": "a person buys licenses, or frees GPUs",
    "licences-by-gpu-exceeded": "the same",
    "licences-by-vm-exceeded": "the same",
    "reservation-of-others-met-by-a-plan-without-end": "another time, which only its user can choose",
    "reservation-beside-an-orphan": "the same, or whether the VM that is left over may go",
    "policies-of-a-vm-are-not-told": "an account that is told them",
    "policy-where-there-is-none": "a policy, which only an administrator of storage can state",
    "policies-were-not-read": "a vCenter, where a recording was read",
    "host-driver-whose-depot-is-not-there": "the depot, which only its keeper puts where it is looked for",
    "switch-whose-datacenter-was-not-read": "an account that may read it",
    "host-of-another-datacenter": "which of its datacenter's hosts are meant, only its user knows",
    "host-name-with-another-number": "which host is meant, only the plan's author knows",
    "check-that-cannot-be-relaxed": "the author removes the line, or states what the check asks for",
    "selection-of-nothing": "which VMs are meant, only the user knows",
    "more-nics-than-ten": "which networks the VM can do without, only the user knows",
    "suspended-vm": "the VM is resumed or shut down in vCenter by its user",
    "driver-half-upgraded-and-full": "a GPU, or the next host's driver, which its administrator upgrades",
    "infiniband-only": "an Ethernet port, or the approval of those who use InfiniBand on it",
    "infiniband-at-the-next-boot": "the same",
    "infiniband-by-a-rule-for-roce": "the same",
    "system-id-unknown": "an account that can read the host's system ID",
}
"""Cases that no edit or act helps which could be tried here; their findings say in words what does."""
FREE = frozenset({FixKind.FILE, FixKind.OUTSIDE})


def source_of(case: str) -> PlanSource:
    desired_of(case)
    for name, text in case_of(case).files.items():
        (Path(FOLDER.name) / name).write_text(text, encoding="utf-8")
    path = Path(FOLDER.name) / "fixed.yaml"
    path.write_text(dump(json.loads(json.dumps(case_of(case).plan))), encoding="utf-8")
    return PlanSource(path, load_catalog(), options_of(case), lambda _: inventory_of(case))


@cache
def refused_plan(case: str) -> Plan:
    """Return a case's plan from the text that fixes edit."""
    source = source_of(case)
    trial = attempt(source, source.text, ())
    assert trial is not None
    return trial.plan


def joined(lines: Iterable[str]) -> str:
    """Return lines as one text, which is the same wherever the plan file is."""
    return "\n".join(lines).replace(FOLDER.name, "FOLDER")


def words_of(found: Found) -> str:
    parts = sorted((one.kind.value, one.says) for one in found.candidates)
    return "; ".join(f"{kind}: {says}" for kind, says in parts)


def errors_with(case: str, source: PlanSource, found: Found) -> list[str]:
    path = source.path.with_name("again.yaml")
    path.write_text(found.trial.text, encoding="utf-8")
    observed = inventory_of(case)
    for one in found.candidates:
        if one.effect is not None:
            observed = one.effect(observed)
    options = with_flags(options_of(case), [one.flag for one in found.candidates if one.flag])
    plan = make_plan(load_plan(path).desired, observed, load_catalog(), options)
    return [f"{error.code} {error.subject.name}: {error.message}" for error in plan.errors]


def assert_keeps_what_is_asked(before: DesiredPlan, after: DesiredPlan) -> None:
    """Hold a fix that needs no leave to this: no VM goes, none gets less, nothing is relaxed."""
    assert [vm.name for vm in after.vms] == [vm.name for vm in before.vms]
    for old, new in zip(before.vms, after.vms, strict=True):
        assert (new.cpus or 0, new.memory_mib or 0) >= (old.cpus or 0, old.memory_mib or 0)
        assert len(new.gpus) + len(new.nics) >= len(old.gpus) + len(old.nics)
        assert framebuffer(new) >= framebuffer(old)
        assert (new.lock, new.power) == (old.lock, old.power)
    assert after.protect == before.protect
    assert after.checks == before.checks
    for old_entry, new_entry in zip(before.hosts, after.hosts, strict=False):
        assert new_entry.disruption == old_entry.disruption
        assert new_entry.mode == old_entry.mode


def framebuffer(vm: DesiredVm) -> int:
    return sum(gpu.profile[0].framebuffer_gb for gpu in vm.gpus if gpu.profile)


def is_first_of_its_codes(case: str) -> bool:
    """Whether a case is the first in the table that is fixed in these words; numbers and names aside."""
    return case in FIRST


def _first() -> set[str]:
    seen: dict[str, str] = {}
    for case, fixes in FIXES.items():
        kinds = " ".join(fix.split(" ")[1] + fix.split(":")[0] for fix in fixes)
        seen.setdefault(kinds, case)
    return set(seen.values())


FIRST = _first()


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "case",
    each([(case,) for case in FIXES], "fixes that work as others do", is_first_of_its_codes, one_of=8),
)
def test_a_fix_that_is_advised_works(case: str) -> None:
    source = replace(source_of(case), refused=refused_plan(case))
    search = Search(source)
    found = search.run()
    assert [words_of(one) for one in found] == FIXES[case]
    text = joined(line for one in found for line in fix_lines(fix_of(one, search.text)))
    if case in FIRST:
        assert text == section(SHOWN, case, text)
    for one in found:
        assert errors_with(case, source, one) == []
        if {part.kind for part in one.candidates} <= FREE:
            path = source.path.with_name("again.yaml")
            assert_keeps_what_is_asked(desired_of(case), load_plan(path).desired)


@pytest.mark.parametrize("case", sections_of(IDEAS))
def test_the_ideas_for_a_plan_are_as_stored(case: str) -> None:
    source = replace(source_of(case), refused=refused_plan(case))
    trial = attempt(source, source.text, ())
    assert trial is not None
    ideas = propose(Situation(trial, source.catalog))
    text = joined(line for idea in ideas for line in idea_lines(idea, trial.observed))
    assert text == section(IDEAS, case, text)


def test_no_fix_is_stored_of_a_case_that_is_gone() -> None:
    assert left_over(SHOWN, FIRST) == left_over(IDEAS, FIXES) == []


@pytest.mark.skipif(REWRITES, reason="the table is being written")
def test_every_case_that_is_refused_has_its_fix_in_the_table() -> None:
    assert set(FIXES) == {case for case in CASES if plan_of(case).errors}
    assert {case for case, fixes in FIXES.items() if not fixes} == set(NOTHING_HELPS)


@pytest.mark.skipif(not REWRITES, reason="REWRITE_FIXES=1 writes the table")
def test_the_table_is_written_anew() -> None:
    refused = [case for case in CASES if plan_of(case).errors]
    found = {case: [words_of(one) for one in Search(source_of(case)).run()] for case in refused}
    TABLE.write_text(dump(found), encoding="utf-8")


def test_the_docs_count_what_helps() -> None:
    rows = dict.fromkeys(("the file by itself", "with your leave", "both", "outside", "nothing"), 0)
    for fixes in FIXES.values():
        kinds = [{part.partition(":")[0] for part in fix.split("; ")} for fix in fixes]
        leave = any("outside" not in one for one in kinds)
        outside = any("outside" in one for one in kinds)
        if {"file"} in kinds:
            rows["the file by itself"] += 1
        else:
            rows[
                "both"
                if leave and outside
                else "with your leave"
                if leave
                else "outside"
                if outside
                else "nothing"
            ] += 1
    page = (DOCS / "explanation" / "fixes.md").read_text(encoding="utf-8").splitlines()
    start = page.index("| What helps | Cases |") + 2
    assert [int(line.rstrip("| ").rpartition("| ")[2]) for line in page[start : start + 5]] == list(
        rows.values()
    )


def test_one_edit_of_several_lines_may_set_lists() -> None:
    common = Edit(("networks",), [{"name": "rdma"}])
    ideas = [
        Candidate(
            FixKind.FILE,
            f"{line} with a NIC",
            edits=(Edit(("vms", at, "nics"), [{}]), common),
            of=line,
            alike="x",
        )
        for at, line in enumerate(("a", "b"))
    ]
    assert [edit.loc for edit in together(ideas).edits] == [
        ("vms", 0, "nics"),
        ("networks",),
        ("vms", 1, "nics"),
    ]
