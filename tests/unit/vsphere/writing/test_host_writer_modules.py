"""When the options of a kernel module are replaced, whole as they are, and when they are left alone."""

from __future__ import annotations

import pytest
from pyVmomi import vim

from tests.unit.vsphere.scripted import no_method, session_on
from tests.unit.vsphere.writing.test_host_writer import HOST, host
from vgpu_cfg.errors import NotOffered, NotPermitted, StalePlan
from vgpu_cfg.model.plan.host_change import ModuleWrite
from vgpu_cfg.vsphere.writing.host_writer import VCenterHostWriter

MODULE = ModuleWrite(module="nmlx5_core", options="pfctx=0x08 pfcrx=0x08", before="dcbx=1")
ASKED, WRITTEN = "QueryConfiguredModuleOptionString", "UpdateModuleOptionString"


@pytest.mark.parametrize("found", ["dcbx=1", " dcbx=1 ", "pfctx=0x08 pfcrx=0x08"])
def test_a_modules_options_are_replaced_where_they_are_what_they_were_or_shall_be(found: str) -> None:
    answers = {"RetrievePropertiesEx": host(), ASKED: found, WRITTEN: None}
    with session_on(answers) as (session, vcenter):
        before = session.round_trips
        assert VCenterHostWriter(session).write_host("host-1", MODULE, {}) is None
        assert session.round_trips - before == 3
        assert vcenter.methods == ["RetrievePropertiesEx", ASKED, WRITTEN]
        assert "<name>nmlx5_core<" in vcenter.sent(WRITTEN)
        assert "<options>pfctx=0x08 pfcrx=0x08<" in vcenter.sent(WRITTEN)


def test_a_modules_options_are_cleared() -> None:
    cleared = MODULE.model_copy(update={"options": ""})
    with session_on({"RetrievePropertiesEx": host(), ASKED: "dcbx=1", WRITTEN: None}) as (session, vcenter):
        VCenterHostWriter(session).write_host("host-1", cleared, {})
        assert "<options></options>" in vcenter.sent(WRITTEN)


@pytest.mark.parametrize("found", ["dcbx=2", "", "dcbx=1 debug=1"])
def test_a_modules_options_that_somebody_has_changed_are_left_alone(found: str) -> None:
    with session_on({"RetrievePropertiesEx": host(), ASKED: found, WRITTEN: None}) as (session, vcenter):
        with pytest.raises(StalePlan, match="'dcbx=1'") as caught:
            VCenterHostWriter(session).write_host("host-1", MODULE, {})
        assert caught.value.subject == "esx-01"
        assert WRITTEN not in vcenter.methods


@pytest.mark.parametrize("method", [ASKED, WRITTEN])
def test_a_refusal_of_a_modules_options_is_told_apart_from_their_absence(method: str) -> None:
    lacks = vim.fault.NoPermission(object=HOST, privilegeId="Host.Config.Settings")
    for fault, error in (
        (lacks, NotPermitted),
        (vim.fault.NotFound(), NotOffered),
        (no_method(method), NotOffered),
    ):
        answers = {"RetrievePropertiesEx": host(), ASKED: "dcbx=1", WRITTEN: None, method: fault}
        with session_on(answers) as (session, _), pytest.raises(error):
            VCenterHostWriter(session).write_host("host-1", MODULE, {})
    bare = {"RetrievePropertiesEx": host(managers=False)}
    with session_on(bare) as (session, vcenter), pytest.raises(NotOffered):
        VCenterHostWriter(session).write_host("host-1", MODULE, {})
    assert vcenter.methods == ["RetrievePropertiesEx"]
