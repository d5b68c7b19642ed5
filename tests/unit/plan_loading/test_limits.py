"""What comes in by files is bounded: bytes, names, faults, and which files a plan file may name at all."""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path

import pytest

from tests.unit.plan_loading.plan_files import HEADER
from vgpu_cfg.documents import MOST_FILE_BYTES, Limit, read_bytes, read_document
from vgpu_cfg.errors import DocumentError
from vgpu_cfg.model.ranges import read_members
from vgpu_cfg.plan_loading import load_plan
from vgpu_cfg.recording import load_recording

SECRET = "root:$6$hunter2:19000::::::"


def fault_of(path: Path) -> str:
    with pytest.raises(DocumentError) as caught:
        load_plan(path)
    return "; ".join(map(str, caught.value.faults))


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    (tmp_path / "site").mkdir()
    return tmp_path / "site" / "plan.yaml"


def test_a_file_that_is_too_large_is_not_read_and_a_setting_lets_it(
    plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan.write_text(HEADER + "#" * MOST_FILE_BYTES.default)
    assert "exceeds 524,288 bytes; to change the limit, set VGPU_CFG_MOST_FILE_BYTES" in fault_of(plan)
    monkeypatch.setenv("VGPU_CFG_MOST_FILE_BYTES", "600000")
    assert load_plan(plan).desired.name
    monkeypatch.setenv("VGPU_CFG_MOST_FILE_BYTES", "much")
    assert "VGPU_CFG_MOST_FILE_BYTES:1:1: 'much' is not a positive whole number" in fault_of(plan)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with a name are POSIX's")
def test_what_is_no_file_is_never_waited_for(plan: Path) -> None:
    os.mkfifo(plan)
    assert "it is a pipe, socket or device" in fault_of(plan)
    plan.unlink()
    os.mkfifo(f"{plan}.id")
    plan.write_text(HEADER)
    assert "it is a pipe, socket or device" in fault_of(plan)
    os.mkfifo(plan.with_name("part.yaml"))
    plan.write_text(f"include: [part.yaml]\n{HEADER}")
    Path(f"{plan}.id").unlink()
    assert "it is a pipe, socket or device" in fault_of(plan)
    os.mkfifo(f"{plan}.id")
    with pytest.raises(OSError, match="it is a pipe, socket or device"):
        read_bytes("/dev/zero", Limit("", 10))
    with pytest.raises(DocumentError, match="pipe"):
        load_recording(Path(f"{plan}.id"))


def test_a_recording_is_bounded_packed_and_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VGPU_CFG_MOST_DATA_BYTES", "100000")
    (tmp_path / "r.json").write_bytes(b" " * 100_001)
    (tmp_path / "r.json.gz").write_bytes(gzip.compress(b" " * 10_000_000))
    for name in ("r.json", "r.json.gz"):
        with pytest.raises(
            DocumentError, match="exceeds 100,000 bytes; to change the limit, set VGPU_CFG_MOST_DATA_BYTES"
        ):
            load_recording(tmp_path / name)


@pytest.mark.parametrize(
    "text",
    [
        "vms: [{name: 'a-{1..20001}', template: t}]",
        "vms: [{name: 'a-{1..900000000}', template: t}]",
        "vms: [{name: 'a-{1..15000}', template: t}, {name: 'b-{1..15000}', template: t}]",
        "vms: [{name: a, template: t, except: {'a-{1..30000}': {}}}]",
        "networks: ['n-{1..30000}']",
        "networks: [{name: 'n-{1..30000}'}]",
        "hosts: [{names: ['esx-{1..30000}']}]",
        "moved: [{from: 'a-{1..15000}', to: 'b-{1..15000}'}]",
        "training: {workers: 'a-{1..30000}'}",
    ],
)
def test_a_line_that_stands_for_too_many_names_is_not_written_out(text: str, plan: Path) -> None:
    plan.write_text(HEADER + text)
    told = fault_of(plan)
    assert re.search(
        r":\d+:\d+: with this name, the plan file expands to [\d,]+ names; the limit is 20,000", told
    )
    assert "VGPU_CFG_MOST_NAMES" in told


def test_long_ranges_are_written_out_as_short_ones_are() -> None:
    members = read_members("a-{0998..1001}-b-{8..11}")
    assert [member.name for member in members] == ["a-0998-b-8", "a-0999-b-9", "a-1000-b-10", "a-1001-b-11"]
    assert len(read_members("a-{1..10000}")) == 10_000


def test_of_very_many_faults_the_first_are_told_and_the_rest_counted(plan: Path) -> None:
    plan.write_text(HEADER + "".join(f"key_{number}: 1\n" for number in range(1500)))
    with pytest.raises(DocumentError, match="1500 errors") as caught:
        load_plan(plan)
    assert (len(caught.value.shown), caught.value.left_out) == (100, 1400)


@pytest.mark.parametrize("text", ['name: "a\\ud800"', 'name: "a\\0"', 'name: "\\x9b"', "name: a\0b"])
def test_what_is_no_character_is_a_fault_with_its_place(text: str, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(text)
    with pytest.raises(DocumentError, match="character") as caught:
        read_document(tmp_path / "p.yaml")
    assert caught.value.faults[0].line == 1


# ---------------------------------------------------------------- files of elsewhere


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "shadow").write_text(f"{SECRET}\n")
    (folder / "words.yaml").write_text(f"secrets: {{a: '{SECRET}'}}\ndefaults: {{cpus: hunter2}}\n")
    (folder / "good.yaml").write_text("defaults: {cpus: 8}\n")
    return folder


NAMING = ["include: [{}]", "vms: [{{name: a, template: t, guest: {{user_data: {}}}}}]"]


@pytest.mark.parametrize("naming", NAMING)
@pytest.mark.parametrize("way", ["path", "link", "folder"])
def test_a_file_of_elsewhere_is_not_read_without_leave(
    naming: str, way: str, plan: Path, outside: Path
) -> None:
    (plan.parent / "link.yaml").symlink_to(outside / "shadow")
    (plan.parent / "folder").symlink_to(outside)
    name = {"path": "../elsewhere/shadow", "link": "link.yaml", "folder": "folder/shadow"}[way]
    plan.write_text(HEADER + naming.format(name))
    told = fault_of(plan)
    assert (
        "is outside the plan file's folder (move it to the plan file's folder, or add its folder to "
        "VGPU_CFG_READ_FOLDERS)" in told
    )
    assert "hunter2" not in told
    plan.write_text(HEADER + naming.format(name.replace("shadow", "absent").replace("link", "lin")))
    assert "hunter2" not in fault_of(plan)


@pytest.mark.parametrize("naming", NAMING)
@pytest.mark.parametrize("name", ["shadow", "words.yaml"])
def test_a_fault_in_one_read_by_leave_quotes_nothing(
    naming: str, name: str, plan: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VGPU_CFG_READ_FOLDERS", f"/nowhere{os.pathsep}{outside}")
    plan.write_text(HEADER + naming.format(f"../elsewhere/{name}"))
    told = fault_of(plan)
    assert f"elsewhere/{name}:" in told
    assert "details withheld" in told
    assert "hunter2" not in told


def test_one_read_by_leave_is_as_good_as_any(
    plan: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VGPU_CFG_READ_FOLDERS", str(outside))
    plan.write_text(HEADER + "include: ../elsewhere/good.yaml\nvms: [{name: a, template: t}]\n")
    assert load_plan(plan).desired.vms[0].cpus == 8


def test_an_id_file_that_is_none_is_not_quoted(plan: Path, outside: Path) -> None:
    plan.write_text(HEADER)
    Path(f"{plan}.id").symlink_to(outside / "shadow")
    told = fault_of(plan)
    assert "this is not a valid plan ID" in told
    assert "hunter2" not in told


@pytest.mark.parametrize(("uses", "is_read"), [(2, True), (2_000, False)])
def test_variables_write_out_no_more_than_a_file_may_have(uses: int, plan: Path, *, is_read: bool) -> None:
    plan.write_text(f"vars: {{x: {'y' * 1_000}}}\n{HEADER}\nsecrets: {{a: 'file:{'${x}' * uses}'}}\n")
    if is_read:
        assert load_plan(plan).desired.name
        return
    assert "the variables expand to more than 524,288 characters" in fault_of(plan)
