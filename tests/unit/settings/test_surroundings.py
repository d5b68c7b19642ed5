from __future__ import annotations

import sys
from pathlib import Path

import pytest

from vgpu_cfg.errors import DocumentError
from vgpu_cfg.settings.environment import config_file, state_folder
from vgpu_cfg.settings.variables import LabSettings, lab_settings, remember_days


@pytest.mark.skipif(sys.platform != "linux", reason="the usual folders have other names elsewhere")
def test_folders_are_where_the_system_keeps_such_things(home: Path) -> None:
    assert state_folder() == home / ".local/state/vgpu-cfg"
    assert config_file() == home / ".config/vgpu-cfg/config.yaml"


def test_folders_can_be_moved(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VGPU_CFG_STATE_FOLDER", "~/state")
    monkeypatch.setenv("VGPU_CFG_CONFIG", "/etc/vgpu-cfg.yaml")
    assert state_folder() == home / "state"
    assert config_file() == Path("/etc/vgpu-cfg.yaml")


def test_the_lab_runs_twenty_times_as_fast_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lab_settings() == LabSettings(speed=20.0, gpu_choice="least_loaded", seed=0)
    monkeypatch.setenv("VGPU_CFG_LAB_SPEED", "0")
    monkeypatch.setenv("VGPU_CFG_LAB_GPU_CHOICE", "random")
    monkeypatch.setenv("VGPU_CFG_LAB_SEED", "7")
    assert lab_settings() == LabSettings(speed=0, gpu_choice="random", seed=7)


def test_what_a_shell_told_holds_for_thirty_days_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert remember_days() == 30
    monkeypatch.setenv("VGPU_CFG_REMEMBER_DAYS", "0")
    assert remember_days() == 0
    monkeypatch.setenv("VGPU_CFG_REMEMBER_DAYS", "soon")
    with pytest.raises(DocumentError) as caught:
        remember_days()
    assert caught.value.subject == "VGPU_CFG_REMEMBER_DAYS:1:1"


@pytest.mark.parametrize(
    ("name", "value"),
    [("SPEED", "-1"), ("GPU_CHOICE", "best"), ("SEED", "x"), ("ATTRIBUTE_LENGTH", "0")],
)
def test_a_lab_setting_that_cannot_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(f"VGPU_CFG_LAB_{name}", value)
    with pytest.raises(DocumentError) as caught:
        lab_settings()
    assert caught.value.subject == f"VGPU_CFG_LAB_{name}:1:1"
