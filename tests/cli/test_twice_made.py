"""A VM that another run of the same plan has made, since this one read vCenter, is called that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cli.command_line import CommandLine
from vgpu_cfg.changes.change import CreateVm
from vgpu_cfg.vsphere.writing.writer import VCenterWriter

if TYPE_CHECKING:
    import pytest

PLAN = "plans/small.yaml"
create = VCenterWriter.create_vm


def create_twice(self: VCenterWriter, change: CreateVm, instance_uuid: str | None = None) -> str:
    """Make a VM as another run of the plan does, and then once more."""
    create(self, change, instance_uuid)
    return create(self, change, instance_uuid)


def test_it_is_no_stranger(vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(VCenterWriter, "create_vm", create_twice)
        ran = vgpu_cfg("apply", "--yes", PLAN)
    assert ran.code == 6
    assert "another run of this plan created small-01 after this run read vCenter" in ran.told
    vgpu_cfg.done("apply", "--yes", PLAN)
    assert vgpu_cfg("plan", PLAN, "--exit-code").code == 0
