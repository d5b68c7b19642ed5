"""Every setting of the table, where what must be written for it is refused, or ends with an error."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fakes.fake_locks import undisputed
from tests.unit.execution.host_makers import OPEN, estate, only, ref, run
from tests.unit.execution.makers import PLAN
from tests.unit.planning.settings.situations import Case, Situation, all_cases, wish_of
from vgpu_cfg.changes.change import ChangeHost
from vgpu_cfg.changes.kinds.change_host import ShellWrite
from vgpu_cfg.changes.values import Impact, Subject
from vgpu_cfg.errors import VCenterError
from vgpu_cfg.execution import HostTools, exit_code_of
from vgpu_cfg.planning.host_settings.entry import target
from vgpu_cfg.planning.host_settings.table import SETTINGS, setting

WRONG = [case for case in all_cases() if case.situation is Situation.WRONG and case.writes]
BY_HAND = {"bios_sriov", "bios_above_4g", "bios_iommu", "esxi"}
"""No call to a host writes these, so that none can be refused."""


def change_for(case: Case) -> ChangeHost:
    desired = wish_of(setting(case.setting), case.entry, case.view, case.device)
    host = ref()
    return ChangeHost(
        id=f"set {desired.id}",
        subject=Subject(kind="host", name=host.name, moid=host.moid),
        host=host,
        host_moid=host.moid,
        write=case.writes[0],
        settings=(target(desired, setting(case.setting).read(case.view, case.device)),),
        impact=Impact.NONE,
    )


def test_every_setting_that_is_written_is_tried() -> None:
    assert {case.setting for case in WRONG} == {entry.key for entry in SETTINGS} - BY_HAND


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case.id)
def test_a_refusal_ends_the_change_with_the_words_of_who_refused(case: Case) -> None:
    server = estate()
    server.host("esx-01").services["TSM-SSH"] = True
    change = change_for(case)
    if isinstance(change.write, ShellWrite):
        server.exit_statuses[change.write.commands[0][0]] = 2
        words = "it does not work"
    else:
        server.refused["write_host", 1] = VCenterError("A general system error occurred")
        words = "A general system error occurred"
    tools = HostTools(
        PLAN,
        server,
        server,
        undisputed(),
        logins=server,
        access={"host-1": OPEN},
        view_of=lambda host, _: replace(
            case.view, host=case.view.host.model_copy(update={"moid": host.moid})
        ),
    )
    report, _ = run(server, change, tools=tools)
    outcome = only(report)
    assert words in f"{outcome.message} {outcome.remedy}"
    assert exit_code_of(report) == 6
    assert server.written == []
