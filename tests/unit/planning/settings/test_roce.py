"""RoCE on the host's own driver: the words of two option strings, and that no other word is lost."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.planning.settings.situations import Case, Situation, wish_of
from tests.unit.planning.settings.views import NIC_2, hosts, nic, view
from vgpu_cfg.changes.kinds.change_host import EsxcliWrite, ModuleWrite
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.model.desired import DesiredHosts
from vgpu_cfg.model.observed.host_facts import FactGroup
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.host_settings.entry import HostView
from vgpu_cfg.planning.host_settings.table import setting

CORE, RDMA = setting("nmlx5_core"), setting("nmlx5_rdma")

DSCP = "pfctx=0x08 pfcrx=0x08 trust_state=2"
PCP = "pfctx=0x08 pfcrx=0x08"
MARKS = "pcp_force=3 dscp_force=26"


def loaded(core: str = "", rdma: str = "", **more: Any) -> HostView:
    return view(facts={"modules": {"nmlx5_core": core, "nmlx5_rdma": rdma}}, **more)


def roce(**keys: Any) -> DesiredHosts:
    return hosts(nics={"roce": keys})


def by_esxcli(module: str, options: str) -> EsxcliWrite:
    arguments = (("module", module), ("parameter-string", options))
    return EsxcliWrite(command="system.module.parameters.set", arguments=arguments)


CASES = (
    Case("nmlx5_core", Situation.RIGHT, loaded(DSCP), roce(), DSCP),
    Case(
        "nmlx5_core",
        Situation.RIGHT,
        loaded("max_vfs=4 trust_state=2 pfcrx=8 pfctx=8"),
        roce(),
        DSCP,
        found=DSCP,
    ),
    Case("nmlx5_core", Situation.RIGHT, loaded("pfctx=0x8 pfcrx=0x8 trust_state=1"), roce(trust="pcp"), PCP),
    Case("nmlx5_core", Situation.RIGHT, loaded("max_vfs=4"), hosts(nics={"roce": False}), ""),
    Case(
        "nmlx5_core",
        Situation.WRONG,
        loaded("dcbx=1 max_vfs=4,4"),
        roce(),
        DSCP,
        found="",
        writes=(
            ModuleWrite(
                module="nmlx5_core", options=f"dcbx=1 max_vfs=4,4 {DSCP}", before="dcbx=1 max_vfs=4,4"
            ),
        ),
    ),
    Case(
        "nmlx5_core",
        Situation.WRONG,
        loaded(f"dcbx=1 {DSCP}"),
        roce(trust="pcp", priority=5),
        "pfctx=0x20 pfcrx=0x20",
        writes=(
            ModuleWrite(module="nmlx5_core", options="dcbx=1 pfctx=0x20 pfcrx=0x20", before=f"dcbx=1 {DSCP}"),
        ),
    ),
    Case(
        "nmlx5_core",
        Situation.WRONG,
        loaded("pfctx=0x08 trust_state=2"),
        roce(),
        DSCP,
        writes=(
            ModuleWrite(
                module="nmlx5_core",
                options="pfctx=0x08 trust_state=2 pfcrx=0x08",
                before="pfctx=0x08 trust_state=2",
            ),
        ),
    ),
    Case(
        "nmlx5_core",
        Situation.OFF,
        loaded(f"dcbx=1 {DSCP} max_vfs=4"),
        hosts(nics={"roce": False}),
        "",
        writes=(
            ModuleWrite(module="nmlx5_core", options="dcbx=1 max_vfs=4", before=f"dcbx=1 {DSCP} max_vfs=4"),
        ),
    ),
    Case("nmlx5_core", Situation.PENDING, loaded(DSCP), roce(), DSCP, has_one_value=True),
    Case(
        "nmlx5_core",
        Situation.NOT_OFFERED,
        loaded("dcbx=1"),
        roce(),
        DSCP,
        other=by_esxcli("nmlx5_core", f"dcbx=1 {DSCP}"),
    ),
    Case(
        "nmlx5_core",
        Situation.UNREAD,
        view(facts={"unread": {FactGroup.MODULES: "the account may not"}}),
        roce(),
        DSCP,
        unread="the account may not",
    ),
    Case("nmlx5_core", Situation.UNREAD, view(facts={"groups": set()}), roce(), DSCP, unread="were not read"),
    Case("nmlx5_rdma", Situation.RIGHT, loaded(rdma=MARKS), roce(), MARKS),
    Case("nmlx5_rdma", Situation.RIGHT, loaded(), hosts(nics={"roce": False}), ""),
    Case(
        "nmlx5_rdma",
        Situation.WRONG,
        loaded(rdma="debug=1 dscp_force=24"),
        roce(),
        MARKS,
        writes=(
            ModuleWrite(
                module="nmlx5_rdma",
                options="debug=1 dscp_force=26 pcp_force=3",
                before="debug=1 dscp_force=24",
            ),
        ),
    ),
    Case(
        "nmlx5_rdma",
        Situation.WRONG,
        loaded(rdma=MARKS),
        roce(trust="pcp", priority=4),
        "pcp_force=4",
        writes=(ModuleWrite(module="nmlx5_rdma", options="pcp_force=4", before=MARKS),),
    ),
    Case(
        "nmlx5_rdma",
        Situation.OFF,
        loaded(rdma=f"{MARKS} debug=1"),
        hosts(nics={"roce": False}),
        "",
        writes=(ModuleWrite(module="nmlx5_rdma", options="debug=1", before=f"{MARKS} debug=1"),),
    ),
    Case("nmlx5_rdma", Situation.PENDING, loaded(rdma=MARKS), roce(), MARKS, has_one_value=True),
    Case("nmlx5_rdma", Situation.NOT_OFFERED, loaded(), roce(), MARKS, other=by_esxcli("nmlx5_rdma", MARKS)),
    Case(
        "nmlx5_rdma",
        Situation.UNREAD,
        view(facts={"unread": {FactGroup.MODULES: "no privilege"}}),
        roce(),
        MARKS,
        unread="no privilege",
    ),
)


def test_both_modules_need_a_reboot() -> None:
    for entry in (CORE, RDMA):
        assert entry.impact(loaded(), wish_of(entry, roce(), loaded())) is Impact.HOST_REBOOT


def test_rules_that_disagree_about_one_driver_are_refused() -> None:
    seen = loaded(nics=(nic(), nic("vmnic3", NIC_2)))
    entry = hosts(
        nics=(
            {"match": {"vmnic": "vmnic2"}, "roce": {"priority": 3}},
            {"match": {"vmnic": "vmnic3"}, "roce": {"priority": 4}},
        )
    )
    objection = CORE.objects(seen, wish_of(CORE, entry, seen))
    assert objection is not None
    assert objection.code is Code.HOST_TWICE
    assert "pfctx, pfcrx" in objection.remedy


def test_rules_that_agree_are_one_wish() -> None:
    seen = loaded(nics=(nic(), nic("vmnic3", NIC_2)))
    desired = wish_of(CORE, roce(), seen)
    assert desired.value == DSCP
    assert desired.note == ""
    assert CORE.objects(seen, desired) is None


def test_one_nic_that_wants_it_turns_it_on_for_the_driver() -> None:
    seen = loaded(nics=(nic(), nic("vmnic3", NIC_2)))
    entry = hosts(
        nics=(
            {"match": {"vmnic": "vmnic2"}, "roce": False},
            {"match": {"vmnic": "vmnic3"}, "roce": {}},
        )
    )
    assert wish_of(CORE, entry, seen).value == DSCP


def test_the_other_nics_of_the_driver_are_named() -> None:
    seen = loaded(nics=(nic(), nic("vmnic3", NIC_2), nic("vmnic0", "0000:01:00.0", driver="ntg3")))
    entry = hosts(nics={"match": {"vmnic": "vmnic2"}, "roce": {}})
    assert wish_of(CORE, entry, seen).note == "also applies to vmnic3, which use the same driver"


def test_a_nic_of_another_driver_is_refused_by_name() -> None:
    seen = loaded(nics=(nic("vmnic5", driver="bnxtnet"),))
    desired = wish_of(CORE, roce(), seen, "vmnic5")
    assert CORE.read(seen, "vmnic5").is_absent
    objection = CORE.objects(seen, desired)
    assert objection is not None
    assert objection.code is Code.NOT_SUPPORTED
    assert "bnxtnet" in objection.message
    assert list(RDMA.desired_settings(roce(), seen)) == []
    assert list(CORE.desired_settings(hosts(nics={"roce": False}), seen)) == []


def test_a_module_that_is_not_there_is_refused() -> None:
    seen = view(facts={"modules": {"nmlx5_core": ""}})
    objection = RDMA.objects(seen, wish_of(RDMA, roce(), seen))
    assert RDMA.read(seen, "").is_absent
    assert objection is not None
    assert objection.code is Code.NOT_SUPPORTED


@pytest.mark.parametrize("keys", [{}, {"use": "passthrough", "roce": {}}])
def test_what_the_host_does_not_drive_is_no_wish(keys: dict[str, Any]) -> None:
    assert list(CORE.desired_settings(hosts(nics=keys), loaded())) == []


def test_an_odd_bitmap_is_shown_as_it_is() -> None:
    assert CORE.read(loaded("pfctx=three"), "").configured == "pfctx=three"


def test_the_runbook_repeats_the_words_of_others() -> None:
    seen = loaded("dcbx=1")
    how = CORE.how(seen, wish_of(CORE, roce(), seen))
    assert how.commands == (
        f"esxcli system module parameters set --module=nmlx5_core '--parameter-string=dcbx=1 {DSCP}'",
    )
    assert how.undo == ("esxcli system module parameters set --module=nmlx5_core --parameter-string=dcbx=1",)
