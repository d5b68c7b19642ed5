"""What a guest's report amounts to where a module warned."""

from __future__ import annotations

from vgpu_cfg.execution.guests.steps import check_done, finished_in, summary_of
from vgpu_cfg.model.guests.base import GuestNic
from vgpu_cfg.model.guests.guest import GuestReport, GuestSpec, ModuleState
from vgpu_cfg.model.guests.modules import LimitsModule, RoceModule

SPEC = GuestSpec(plan="p", vm="a", modules=(LimitsModule(), RoceModule(nics=(GuestNic(driver="mlx5_core"),))))
KINDS = ("limits", "roce")


def report(state: str, why: str = "") -> GuestReport:
    limits, roce = SPEC.modules
    states = (
        ModuleState(name="limits", state="present", digest=limits.digest),
        ModuleState.model_validate({"name": "roce", "state": state, "digest": roce.digest, "why": why}),
    )
    return GuestReport(spec=SPEC.digest, state="done", modules=states)


def test_a_module_that_warned_is_there_and_says_for_what() -> None:
    warned = report("warned", "lldpad is running and may apply the switch's settings to ens192: stop it")
    check_done(warned, SPEC, KINDS)
    assert finished_in(warned, SPEC, KINDS) == KINDS
    assert summary_of(warned, KINDS) == (
        "1 set up, 1 already present; roce: warning: lldpad is running and may apply the switch's settings "
        "to ens192: stop it"
    )


def test_without_a_warning_nothing_is_added() -> None:
    assert summary_of(report("done"), KINDS) == "1 set up, 1 already present"
