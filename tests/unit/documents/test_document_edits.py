from __future__ import annotations

from typing import Any

import pytest

from vgpu_cfg.documents import Edit, changed_lines, edited, parse_text
from vgpu_cfg.errors import DocumentError

PLAN = """\
version: 1   # the format
name: depts

vms:
  # the biologists first
  - name: bio
    gpus:
    -   profile: grid_a100-40c
        count: 2
    place: {hosts: [esx-1,
       esx-2]}
  - {name: chem, gpus: grid_a100-10c}   # small
"""


def data(text: str) -> Any:
    return parse_text(text, "plan").data


def test_what_is_not_edited_stays_as_it_is_written() -> None:
    after = edited(PLAN, [Edit(("vms", 0, "gpus", 0, "count"), 3)])
    assert after == PLAN.replace("count: 2", "count: 3")


def test_a_section_that_is_not_there_is_made_at_the_end() -> None:
    after = edited(PLAN, [Edit(("hosts", 0), {"names": ["esx-1"]})])
    assert after == PLAN + "hosts:\n  - names: [esx-1]\n"


@pytest.mark.parametrize("item", ["{grow: 8GiB}", "grow: 8GiB"])
def test_lists_of_mappings_with_one_key_stay_as_they_are_written(item: str) -> None:
    text = f"vms:\n- name: a\n  disks: [{item}, {{size: 1TiB}}]\n"
    assert edited(text, [Edit(("name",), "p")]) == f"{text}name: p\n"


def test_a_key_is_added_to_its_item_and_comments_stay() -> None:
    after = edited(PLAN, [Edit(("vms", 1, "clone"), "full")])
    assert "{name: chem, gpus: grid_a100-10c, clone: full} # small" in after
    assert "# the biologists first" in after


OWN_FORM = """\
version:   1
vms:
- name: "bio"   # first
  cpus: 2
- name: chem
  gpus: [a,
    b]
"""


@pytest.mark.parametrize(
    ("edits", "old", "new"),
    [
        ([Edit(("vms", 0, "memory"), "4GiB")], "cpus: 2\n", "cpus: 2\n  memory: 4GiB\n"),
        ([Edit(("vms", 0, "name"), "zoo")], '"bio"   #', '"zoo"   #'),
        ([Edit(("name",), "x")], "    b]\n", "    b]\nname: x\n"),
    ],
    ids=["a key in the middle", "a value", "a section"],
)
def test_other_lines_keep_a_form_that_no_dump_has(edits: list[Edit], old: str, new: str) -> None:
    assert edited(OWN_FORM, edits) == OWN_FORM.replace(old, new)


def test_none_takes_a_key_away() -> None:
    after = edited(PLAN, [Edit(("vms", 1, "gpus"))])
    assert data(after)["vms"][1] == {"name": "chem"}


def test_several_edits_of_one_list_keep_their_positions() -> None:
    after = edited(PLAN, [Edit(("vms", 0)), Edit(("vms", 1, "cpus"), 4)])
    assert data(after)["vms"] == [{"name": "chem", "gpus": "grid_a100-10c", "cpus": 4}]


def test_one_entry_without_its_list_becomes_a_list() -> None:
    after = edited("hosts: {cluster: gpu}\n", [Edit(("hosts", 1), {"names": ["esx-1"]})])
    assert data(after) == {"hosts": [{"cluster": "gpu"}, {"names": ["esx-1"]}]}


@pytest.mark.parametrize("indent", ["", "  "])
def test_lists_keep_the_indent_that_their_author_gave_them(indent: str) -> None:
    text = f"vms:\n{indent}- name: a\n{indent}- name: b\n"
    after = edited(text, [Edit(("vms", 1, "cpus"), 4)])
    assert after == f"{text}{indent}  cpus: 4\n"


def test_text_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(DocumentError, match="cannot be edited"):
        edited("vms: [", [Edit(("name",), "a")])


def test_a_place_below_a_plain_value_is_refused() -> None:
    with pytest.raises(DocumentError, match=r"name\.first cannot be added"):
        edited(PLAN, [Edit(("name", "first"), "a")])


def test_changed_lines_stand_under_what_they_belong_to() -> None:
    after = edited(PLAN, [Edit(("vms", 0, "gpus", 0, "count"), 3)])
    assert changed_lines(PLAN, after) == (
        "  vms:",
        "    - name: bio",
        "      gpus:",
        "      -   profile: grid_a100-40c",
        "-         count: 2",
        "+         count: 3",
    )


def test_no_edit_changes_no_line() -> None:
    assert edited(PLAN, []) == PLAN
    assert changed_lines(PLAN, PLAN) == ()
