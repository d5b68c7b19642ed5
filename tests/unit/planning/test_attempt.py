"""An attempt: what several runs changed is undone as one, and nothing that was there before."""

from __future__ import annotations

import pytest

from tests.unit.planning.test_rollback import PLAN, UUID, made_by_the_run, of_vm, outcomes, vm_at
from tests.unit.render.samples import READ_AT, estate, everything
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.change import Change, CreateVm, DestroyVm, PowerOnVm
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.report import OutcomeStatus, Report
from vgpu_cfg.changes.values import VmRef
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.rollback.attempt import Attempt
from vgpu_cfg.planning.rollback.rollback import make_rollback

CREATE = next(one for one in everything().changes if isinstance(one, CreateVm)).model_copy(
    update={"vm": VmRef(name="hvd-01"), "needs": ()}
)
MADE = vm_at("vm-7", mark=made_by_the_run(), is_on=False, instance_uuid=UUID)
BEGUN = Attempt.of(PLAN.model_copy(update={"changes": (CREATE,)}), estate(), READ_AT)


def then(*changes: Change) -> Plan:
    return PLAN.model_copy(update={"changes": changes})


def failed(plan: Plan) -> Report:
    found = tuple(outcomes(plan, status=OutcomeStatus.FAILED))
    return Report(plan=plan.name, digest=plan.digest, outcomes=found)


def undone(attempt: Attempt, after: Inventory) -> list[str]:
    plan = make_rollback(attempt.plan, attempt.outcomes_in(after), attempt.before, after, load_catalog())
    assert plan.errors == ()
    return [type(change).__name__ for change in plan.changes]


def test_a_vm_that_a_run_made_before_it_was_cut_off_is_deleted_by_the_next_rollback() -> None:
    second = then(of_vm(PowerOnVm, moid="vm-7"))
    attempt = BEGUN.followed_by(second).ended(failed(second))
    assert undone(attempt, estate(MADE)) == [DestroyVm.__name__]


def test_a_vm_that_was_there_before_the_first_run_is_kept() -> None:
    attempt = Attempt.of(then(CREATE), estate(MADE), READ_AT)
    second = then(of_vm(PowerOnVm, moid="vm-7"))
    assert undone(attempt.followed_by(second).ended(failed(second)), estate(MADE)) == []


def test_what_the_second_run_skipped_may_have_been_done_by_the_first() -> None:
    second = then(CREATE)
    skipped = Report(plan="demo", digest="", outcomes=tuple(outcomes(second, status=OutcomeStatus.SKIPPED)))
    assert undone(BEGUN.followed_by(second).ended(skipped), estate(MADE)) == [DestroyVm.__name__]


@pytest.mark.parametrize(
    ("fields", "is_undoing"),
    [({}, True), ({"is_interrupted": True}, False), ({"outcomes": ()}, False)],
)
def test_a_rollback_is_finished_only_if_it_began(fields: dict[str, object], is_undoing: bool) -> None:
    report = failed(BEGUN.plan).model_copy(update=fields)
    assert BEGUN.ended(report).is_undoing is is_undoing
    assert not BEGUN.is_undoing


def test_an_attempt_is_read_as_it_was_written_without_texts_of_guests() -> None:
    detail = MADE.detail
    assert detail is not None
    vm = MADE.model_copy(
        update={
            "detail": detail.model_copy(
                update={"extra_config": {"guestinfo.userdata": "s3cret", "pciPassthru.use64bitMMIO": "TRUE"}}
            )
        }
    )
    attempt = Attempt.of(then(CREATE), estate(vm), READ_AT)
    text = attempt.model_dump_json()
    assert "s3cret" not in text
    assert "use64bitMMIO" in text
    assert Attempt.model_validate_json(text) == attempt
