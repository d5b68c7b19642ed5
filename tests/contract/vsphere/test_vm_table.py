"""What the rows of the table of VM settings say to govc, held against govc itself."""

from __future__ import annotations

import re
import subprocess
from functools import cache

import pytest

from tests.contract.conftest import NEEDS_GO, built
from tests.unit.planning.test_vm_table import wanted
from vgpu_cfg.model.observed.vm import SettingValue
from vgpu_cfg.planning.vms.settings.setting import VmSetting
from vgpu_cfg.planning.vms.settings.table import VM_SETTINGS

BY_GOVC = [
    pytest.param(setting, value, id=f"{setting.key}-{value}")
    for setting in VM_SETTINGS
    for value in (setting.values or (wanted(setting),))
    if setting.govc(value)
]


@cache
def help_of(verb: str) -> str:
    run = subprocess.run(
        [built("govc"), verb, "-h"], capture_output=True, text=True, timeout=120, check=False
    )
    assert run.stderr == "" or "Usage" in run.stderr, f"govc has no command {verb}"
    return run.stdout + run.stderr


@pytest.mark.long(NEEDS_GO)
@pytest.mark.parametrize(("setting", "value"), BY_GOVC)
def test_govc_has_the_command_and_its_flags(setting: VmSetting, value: SettingValue) -> None:
    verb, *flags = setting.govc(value)
    told = help_of(verb)
    assert f"govc {verb} " in told
    for flag in flags:
        if flag.startswith("-"):
            name, _, text = flag.partition("=")
            line = re.search(rf"^  {name}=(.*)$", told, re.MULTILINE)
            assert line, f"govc {verb} has no {name}"
            told_text = line.group(1).partition(":")[2]
            assert not told_text or text in re.findall(r"\w+", told_text)


def test_all_that_has_a_field_is_said_to_govc_or_left_to_the_client() -> None:
    assert len(BY_GOVC) > 15


@pytest.mark.long(NEEDS_GO)
def test_govc_does_not_know_what_is_made_up() -> None:
    assert "govc vm.chance " not in help_of("vm.chance")
