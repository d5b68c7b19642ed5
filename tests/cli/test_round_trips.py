"""What whole commands ask of a vCenter: each question once, and none that nothing depends on."""

from __future__ import annotations

import pytest

from tests.cli.command_line import CommandLine
from tests.cli.host_watch import Watch, watch_labs

ONE = "examples/full-vgpu.yaml"
OF_KINDS = (
    "QueryConfigOptionDescriptor",
    "QueryConfigOptionEx",
    "RetrieveVgpuProfileInfo",
    "RetrieveVendorDeviceGroupInfo",
)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    return watch_labs(monkeypatch)


def test_a_run_asks_once_what_it_cannot_change(vgpu_cfg: CommandLine, watch: Watch) -> None:
    vgpu_cfg.done("apply", "--yes", ONE)
    assert {name: watch.calls[name] for name in OF_KINDS} == dict.fromkeys(OF_KINDS, 1)
    assert watch.calls["GetAlarm"] == watch.calls["CreateContainerView"] == 1


def test_a_run_asks_for_reservations_again_where_there_are_any(vgpu_cfg: CommandLine, watch: Watch) -> None:
    text = (vgpu_cfg.folder / ONE).read_text(encoding="utf-8").replace("name: full-vgpu", "name: later")
    when = "from: 2098-01-01T08:00Z\nuntil: 2099-01-01T08:00Z\nvms:"
    vgpu_cfg.done("apply", "--yes", vgpu_cfg.write("later.yaml", text.replace("vms:", when)))
    watch.forget()
    vgpu_cfg.done("apply", "--yes", ONE)
    assert watch.calls["GetAlarm"] == 2


def test_an_inventory_does_not_ask_what_only_placing_needs(vgpu_cfg: CommandLine, watch: Watch) -> None:
    lab = ("--server", "lab:two-a100")
    vgpu_cfg.done("inventory", *lab)
    whole = watch.calls.copy()
    assert whole["QueryConfigOptionDescriptor"] == whole["QueryConfigOptionEx"] == 0
    watch.forget()
    vgpu_cfg.done("inventory", "--gpus", *lab)
    assert watch.calls["QueryConfigOptionDescriptor"] == watch.calls["QueryConfigOptionEx"] == 0
    # Counters come along with what is read anyway, and their newest values are one question. What kinds of
    # hosts tell besides is not asked.
    assert watch.calls - whole == {"QueryPerf": 1}
    assert whole - watch.calls == {"RetrieveVgpuProfileInfo": 1, "RetrieveVendorDeviceGroupInfo": 1}
    assert watch.calls.total() == 8
    watch.forget()
    vgpu_cfg.done("inventory", "--gpus", "-v", *lab)
    assert watch.calls - whole == {"QueryPerf": 1}
    watch.forget()
    vgpu_cfg.done("fit", "grid_a100-10c", *lab)
    assert watch.calls["QueryConfigOptionDescriptor"] == watch.calls["QueryConfigOptionEx"] == 1
