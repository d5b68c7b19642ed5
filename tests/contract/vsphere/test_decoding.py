"""Every answer of both vCenters is decoded as pyvmomi's own reader decodes it."""

from __future__ import annotations

from typing import Any

import pytest
from pyVmomi import vim

from tests.contract.vcenters import VCenter, fresh, lab_vcenter
from tests.decodings import judge
from vgpu_cfg.lab import estate_names
from vgpu_cfg.model.identity import PlanIdentity
from vgpu_cfg.ports import ReadScope
from vgpu_cfg.vsphere.reading.reader import EVERYTHING
from vgpu_cfg.vsphere.wire.stub import TransportStub


def test_what_a_reading_a_task_and_a_refusal_answer(
    vcenter: VCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = judge(monkeypatch)
    with vcenter.desk() as desk:
        desk.inventory(ReadScope(plan=PlanIdentity(name="any"), vm_names=frozenset({vcenter.template})))
        content: Any = vim.ServiceInstance("ServiceInstance", desk.session.stub).RetrieveContent()
        with pytest.raises(vim.fault.DuplicateName):
            content.rootFolder.CreateFolder(name=content.rootFolder.childEntity[0].name)
        content.rootFolder.CreateFolder(name=fresh("folder")).Destroy_Task()
        content.eventManager.QueryEvents(vim.event.EventFilterSpec())
        assert content.perfManager.perfCounter
    assert judged.answers > 10


@pytest.mark.sampled(3)
@pytest.mark.parametrize("estate", estate_names())
def test_what_each_estate_of_the_lab_answers(estate: str, monkeypatch: pytest.MonkeyPatch) -> None:
    judged = judge(monkeypatch)
    with lab_vcenter(estate).desk() as desk:
        desk.inventory()
    assert judged.answers > 5


def test_a_reading_finds_in_the_kept_parts_what_pyvmomis_values_hold(
    vcenter: VCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    with vcenter.desk() as desk:
        kept = desk.inventory(EVERYTHING)
        monkeypatch.setattr(TransportStub, "readers", lambda *_: {})
        assert desk.inventory(EVERYTHING) == kept


@pytest.mark.sampled(3)
@pytest.mark.parametrize("estate", estate_names())
def test_so_it_is_of_each_estate_of_the_lab(estate: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with lab_vcenter(estate).desk() as desk:
        kept = desk.inventory(EVERYTHING)
        monkeypatch.setattr(TransportStub, "readers", lambda *_: {})
        assert desk.inventory(EVERYTHING) == kept
