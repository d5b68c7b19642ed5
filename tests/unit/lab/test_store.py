"""What is kept between commands, and what is said where it cannot be."""

from __future__ import annotations

import json
import re
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyVmomi import SoapAdapter, VmomiSupport, vim

from tests.unit.lab.rig import Rig, estate_of
from vgpu_cfg.errors import DocumentError
from vgpu_cfg.lab import open_lab, reset_lab
from vgpu_cfg.lab.state import store
from vgpu_cfg.lab.state.devices import vgpus_of
from vgpu_cfg.lab.state.inventory import Cluster, Host, Task, VirtualMachine
from vgpu_cfg.lab.state.store import (
    LOCK_FILE,
    PLAIN_FIELDS,
    STATE_FILE,
    decode_object,
    decode_value,
    encode_object,
    encode_value,
    held,
)


def flat(rig: Rig) -> dict[str, Any]:
    """Return everything in a lab's state, as text."""
    return {
        moid: json.dumps(encode_object(thing), sort_keys=True)
        for moid, thing in rig.lab.state.objects.items()
    }


def busy(folder: Path) -> Rig:
    """Return a lab in which much has happened, and a task is under way."""
    rig = Rig("mixed-fleet", folder=folder)
    rig.running("a", "grid_a100d-20c", cluster="a100")
    rig.running("b", "grid_a100d-20c", host="esx-a100-01.lab")
    info = vim.cluster.AntiAffinityRuleSpec(
        name="r", vm=[vim.VirtualMachine(rig.vm(name).moid) for name in "ab"], enabled=True
    )
    spec = vim.cluster.ConfigSpecEx(rulesSpec=[vim.cluster.RuleSpec(operation="add", info=info)])
    rig.done(rig.find(Cluster, "a100"), "ReconfigureComputeResource_Task", spec=spec, modify=True)
    rig.refused(rig.vm("a"), "PowerOnVM_Task")
    rig.clone("gone", cluster="a100")
    rig.done(rig.vm("gone"), "Destroy_Task")
    rig.lab.call(**rig.clone_call("later", "grid_a100d-20c", cluster="a100"))
    return rig


def test_another_command_goes_on_where_the_first_stopped(tmp_path: Path) -> None:
    first = busy(tmp_path / "lab")
    second = Rig("mixed-fleet", folder=tmp_path / "lab")
    assert flat(second) == flat(first)
    assert second.lab.state.removed == first.lab.state.removed
    assert second.lab.clock.now() == first.lab.clock.now()
    second.lab.run_until_idle()
    assert vgpus_of(second.vm("later").devices) == [(13000, "grid_a100d-20c")]
    assert second.lab.state.last_number > first.lab.state.last_number


def test_what_another_process_did_is_seen(tmp_path: Path) -> None:
    first, second = (Rig(folder=tmp_path / "lab") for _ in range(2))
    first.running("a", "grid_a100-40c")
    second.lab.settle()
    assert second.vm("a").is_on
    second.done(second.vm("a"), "PowerOffVM_Task")
    first.lab.settle()
    assert not first.vm("a").is_on
    assert flat(first) == flat(second)


def test_a_reset_by_another_process_is_seen(tmp_path: Path) -> None:
    rig = Rig(folder=tmp_path / "lab")
    rig.running("a", "grid_a100-40c")
    reset_lab(tmp_path / "lab")
    rig.lab.settle()
    assert not rig.has_vm("a")
    rig.running("a", "grid_a100-40c")


def test_one_holds_the_state_at_a_time(tmp_path: Path) -> None:
    said: list[str] = []

    def other() -> None:
        with held(tmp_path / LOCK_FILE):
            said.append("the other")

    waiting = threading.Thread(target=other)
    with Rig("bare", folder=tmp_path).lab.transaction():
        waiting.start()
        waiting.join(timeout=0.1)
        said.append("this one")
    waiting.join(timeout=120)
    assert said == ["this one", "the other"]


def test_a_lock_file_that_was_removed_holds_nobody(tmp_path: Path) -> None:
    path, said = tmp_path / LOCK_FILE, list[str]()

    def other() -> None:
        with held(path), held(tmp_path / "another"):
            said.append("the other" if path.exists() else "a file that is gone")

    waiting = threading.Thread(target=other)
    with held(path):
        waiting.start()
        waiting.join(timeout=0.1)
        path.unlink()
    waiting.join(timeout=120)
    assert said == ["the other"]


def test_reading_writes_nothing(tmp_path: Path) -> None:
    rig = Rig(folder=tmp_path / "lab")
    assert not (tmp_path / "lab" / STATE_FILE).exists()
    rig.clone("a")
    before = (tmp_path / "lab" / STATE_FILE).stat().st_mtime_ns
    rig.lab.settle()
    assert (tmp_path / "lab" / STATE_FILE).stat().st_mtime_ns == before


def test_only_what_changed_is_written(tmp_path: Path) -> None:
    rig = Rig("fleet-20x8-200vms", folder=tmp_path / "lab")
    rig.clone("a", cluster="gpu")
    saved = (tmp_path / "lab" / STATE_FILE).read_text(encoding="utf-8")
    assert 1 < len(set(re.findall(r'"([a-z]+-\d+)": {"\$type"', saved))) < 10


def test_each_save_adds_its_changes_and_long_files_are_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the number of lines, another process sees the state of the last save."""
    rig, file = busy(tmp_path / "lab"), tmp_path / "lab" / STATE_FILE
    documents = {file.stat().st_ino}
    for number in range(12):
        name = f"vm-{number}"
        rig.clone(name, cluster="a100")
        rig.done(rig.vm(name), "Destroy_Task")
        monkeypatch.setattr(store, "_SPARED", 0 if number > 5 else 1 << 20)
        documents.add(file.stat().st_ino)
        state = Rig("mixed-fleet", folder=tmp_path / "lab").lab.state
        assert {moid: encode_object(one) for moid, one in state.objects.items()} == {
            moid: encode_object(one) for moid, one in rig.lab.state.objects.items()
        }
        assert {name: getattr(state, name) for name in PLAIN_FIELDS} == {
            name: getattr(rig.lab.state, name) for name in PLAIN_FIELDS
        }
    assert 1 < len(documents) < 6


@pytest.mark.parametrize("kept", [0, 1, 40, -1], ids=lambda kept: f"{kept} bytes of it")
def test_a_save_that_was_killed_did_not_happen(tmp_path: Path, kept: int) -> None:
    rig, file = Rig(folder=tmp_path / "lab"), tmp_path / "lab" / STATE_FILE
    rig.clone("a")
    before, saved = flat(rig), file.read_bytes()
    rig.lab.call(**rig.clone_call("b"))
    added = file.read_bytes().removeprefix(saved)
    assert added.count(b"\n") == 1
    file.write_bytes(saved + added[:kept])
    after = Rig(folder=tmp_path / "lab")
    assert flat(after) == before
    after.clone("c")
    assert flat(Rig(folder=tmp_path / "lab")) == flat(after)


def test_memory_alone_keeps_nothing() -> None:
    assert Rig().lab.store is None


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"format": 99}', '{"format": 1, "estate": "two-a100"}', "\x00"],
)
def test_a_state_file_that_cannot_be_used(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "lab"
    folder.mkdir()
    (folder / STATE_FILE).write_text(text, encoding="utf-8")
    with pytest.raises(DocumentError) as caught:
        Rig(folder=folder)
    assert caught.value.remedy == "start over with `vgpu-cfg lab reset two-a100`"
    assert reset_lab(folder)
    assert not reset_lab(folder)
    Rig(folder=folder)


def test_an_estate_that_changed_under_its_state(tmp_path: Path) -> None:
    text = (
        "about: a\nclusters:\n- name: gpu\n  hosts:\n  - name: esx\n"
        "templates:\n- name: ubuntu-22.04-efi\nfolders: [training]\n"
    )
    path = estate_of(text, tmp_path)
    Rig(path, folder=tmp_path / "lab").clone("a")
    Rig(path, folder=tmp_path / "lab").vm("a")
    estate_of(text + "\n# changed\n", tmp_path)
    with pytest.raises(DocumentError, match="has changed since the lab was started"):
        Rig(path, folder=tmp_path / "lab")


def test_every_object_survives(tmp_path: Path) -> None:
    rig = busy(tmp_path / "lab")
    for thing in rig.lab.state.objects.values():
        parts = json.loads(json.dumps(encode_object(thing)))
        assert json.dumps(encode_object(decode_object(parts))) == json.dumps(encode_object(thing))
    assert any(task.fault is not None for task in rig.lab.state.all(Task))
    assert any(gpu.uses for host in rig.lab.state.all(Host) for gpu in host.gpus)


def shape_of(value: Any) -> Any:
    """Return a value with the types of all that is in it."""
    if isinstance(value, VmomiSupport.DataObject):
        return type(value), {name: shape_of(one) for name, one in vars(value).items()}
    if isinstance(value, list):
        return type(value), [shape_of(one) for one in value]
    return type(value), str(value)


@pytest.mark.parametrize(
    "value",
    [
        *open_lab("mixed-fleet").state.all(VirtualMachine)[0].devices,
        vim.Description(label="NVIDIA ä <&>", summary=""),
        vim.cluster.AntiAffinityRuleSpec(name="r", vm=[vim.VirtualMachine("vm-1")], enabled=False),
        vim.option.OptionValue(key="a", value=VmomiSupport.long(1)),
        vim.event.EventEx(
            key=1, eventTypeId="a", severity="info", createdTime=datetime(2026, 1, 31, tzinfo=UTC)
        ),
        vim.Task("task-1"),
        vim.fault.NoPermission(object=vim.Folder("group-v1"), privilegeId="System.View", msg="no"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_comes_back_as_from_the_wire(value: Any) -> None:
    version = VmomiSupport.newestVersions.GetName("vim")
    info = VmomiSupport.Object(name="value", type=object, version=version, flags=0)
    text = SoapAdapter.SerializeToStr(value, info, version)
    kept = json.loads(json.dumps(encode_value(value)))
    assert shape_of(decode_value(kept)) == shape_of(SoapAdapter.Deserialize(text, object, None))


def test_a_script_of_faults_in_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    folder.mkdir()
    script = (
        "faults:\n- {method: CloneVM_Task, fault: NoDiskSpace}\nlacking: [VirtualMachine.Interact.PowerOn]\n"
    )
    (folder / "faults.yaml").write_text(script, encoding="utf-8")
    rig = Rig(folder=folder)
    assert isinstance(rig.refused(**rig.clone_call("a")), vim.fault.NoDiskSpace)
    assert rig.lab.faults.lacking == {"VirtualMachine.Interact.PowerOn"}
    (folder / "faults.yaml").write_text("faults:\n- {methud: x}\n", encoding="utf-8")
    with pytest.raises(DocumentError):
        Rig(folder=folder)
