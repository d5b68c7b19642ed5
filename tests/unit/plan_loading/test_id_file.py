"""The file that keeps a plan's id: read in full or refused, written whole, once, and never over another."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgpu_cfg.errors import DocumentError, StalePlan
from vgpu_cfg.model.identity import PlanIdentity, is_id, new_id
from vgpu_cfg.model.observed.vm import OwnerMark, Vm
from vgpu_cfg.model.wording import shown
from vgpu_cfg.plan_loading.side_files import id_file_of, read_id_file, write_id_file

ID = "0d5b1a4e-6f0c-4c35-9d0e-7f1f6a3c2b11"
OTHER = "aaaaaaaa-1111-4222-8333-bbbbbbbbbbbb"


def test_what_is_written_is_read(tmp_path: Path) -> None:
    file = id_file_of(tmp_path / "depts.yaml")
    assert file.name == "depts.yaml.id"
    assert read_id_file(file) == ""
    write_id_file(file, ID)
    assert read_id_file(file) == ID
    assert file.stat().st_mode & 0o777 == 0o644
    assert [path.name for path in tmp_path.iterdir()] == ["depts.yaml.id"]
    write_id_file(file, ID)
    with pytest.raises(StalePlan, match=ID):
        write_id_file(file, OTHER)
    assert read_id_file(file) == ID
    assert [path.name for path in tmp_path.iterdir()] == ["depts.yaml.id"]


def test_a_link_to_a_plan_file_has_the_id_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "depts.yaml").write_text("", encoding="utf-8")
    (tmp_path / "link.yaml").symlink_to(tmp_path / "real" / "depts.yaml")
    assert id_file_of(tmp_path / "link.yaml") == tmp_path / "real" / "depts.yaml.id"


def test_a_folder_that_takes_no_file_is_told_with_the_line_for_the_plan_file(tmp_path: Path) -> None:
    with pytest.raises(DocumentError) as told:
        write_id_file(tmp_path / "gone" / "depts.yaml.id", ID)
    assert told.value.remedy.endswith(f"id: {ID}")
    assert "nothing was changed" in told.value.remedy


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe", b"# x\n\n", b"hello", f"{ID}\n{ID}\n".encode(), b"a" * 9000]
)
def test_what_is_no_id_file_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "depts.yaml.id"
    file.write_bytes(content)
    with pytest.raises(DocumentError) as told:
        read_id_file(file)
    assert str(file) in str(told.value.faults[0])
    assert told.value.remedy


def test_a_made_id_is_an_id() -> None:
    assert is_id(new_id())
    assert new_id() != new_id()
    assert not is_id(f"{ID}\n")


NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)


@given(
    plan=NAMES,
    vm=st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=30),
    by=st.from_regex(r"(\S( ?\S){0,30})?", fullmatch=True).map(shown),
    at=st.none() | st.datetimes(datetime(2000, 1, 1), datetime(2999, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - given as UTC
)
def test_a_mark_is_read_back_as_it_was_written(plan: str, vm: str, by: str, at: datetime | None) -> None:
    at = at and at.replace(microsecond=0)
    mark = OwnerMark(plan=plan, vm=vm, id=ID, instance_uuid=OTHER, made_by=by, made_at=at)
    assert OwnerMark.parse(mark.text, vm) == mark
    assert OwnerMark.parse(plan, vm) == OwnerMark(plan=plan, vm=vm)


@pytest.mark.parametrize(
    ("text", "uuid", "expected"),
    [
        ("demo", OTHER, True),
        (f"demo id={ID} uuid={OTHER}", OTHER.upper(), True),
        (f"former id={ID.upper()} uuid={OTHER} by=jo", OTHER, True),
        (f"demo id={ID} uuid={OTHER}", ID, False),
        (f"demo id={OTHER} uuid={OTHER}", OTHER, False),
        ("other", OTHER, False),
        # Half eaten: the name alone counts, as in a mark of version 0.1.0, and nothing is deleted by it.
        (f"demo id={ID}", OTHER, True),
        ("demo id=7 uuid=8", OTHER, True),
    ],
)
def test_whose_a_vm_is(text: str, uuid: str, expected: bool) -> None:
    vm = Vm(moid="vm-1", name="a", instance_uuid=uuid, mark=OwnerMark.parse(text, "a"))
    assert vm.is_of(PlanIdentity(name="demo", id=ID)) is expected
