"""The table of privileges, held against pyvmomi's descriptions and against the page that shows it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from pyVmomi import VmomiSupport, vim

from vgpu_cfg.changes import privileges as table
from vgpu_cfg.changes.privileges import READ_ONLY, Need
from vgpu_cfg.lab.managers.authorization import PRIVILEGES
from vgpu_cfg.planning.doctor.trials import EXPERIMENTS, needs_of
from vgpu_cfg.planning.vms.settings.table import VM_SETTINGS

ROOT = Path(__file__).resolve().parents[4]
PAGE = ROOT / "docs" / "reference" / "permissions.md"
SECTIONS = {
    "reads": (
        *(table.READ_LOG, table.READ_MODULES, table.READ_PACKAGES, table.READ_IMAGE),
        *(table.READ_KEY_PROVIDERS, table.READ_STORAGE_POLICIES, table.READ_LIBRARY),
        table.READ_CUSTOMIZATION_SPECS,
    ),
    "apply": table.OF_VMS,
    "verify": table.TO_VERIFY,
    "upkeep": table.TO_WORK_ON_HOSTS,
    "hosts": table.OF_HOSTS,
    "runs": table.OF_RUNS,
    "trials": needs_of(EXPERIMENTS),
    "destroy": table.TO_DESTROY,
}
"""The tables of the page, by the name that marks each there."""
NEEDS = {table.READING, *(need for needs in SECTIONS.values() for need in needs)}
NAMED = {privilege for need in NEEDS for privilege in need.privileges}


def _methods() -> dict[str, set[str]]:
    """Return, by each method's name in pyvmomi, the privileges that it and its parameters take."""
    found: dict[str, set[str]] = {}
    for kind in _kinds():
        for info in (value.info for value in vars(kind).values() if hasattr(value, "info")):
            if not hasattr(info, "params"):
                continue
            names = {info.privId, *(getattr(parameter, "privId", None) for parameter in info.params)}
            for name in (info.wsdlName, info.name):
                found.setdefault(name, set()).update(one for one in names if one)
    return found


def _kinds() -> Iterator[type]:
    vim.VirtualMachine, vim.Folder  # noqa: B018 - pyvmomi makes its types when they are asked for
    names = [name for name in VmomiSupport._managedDefMap if name.startswith(("vim.", "vmodl."))]
    yield from map(VmomiSupport.GetVmodlType, names)


def _called() -> set[str]:
    """Return every name that is called as a method in the room that speaks to vCenter."""
    texts = (path.read_text(encoding="utf-8") for path in (ROOT / "vgpu_cfg" / "vsphere").rglob("*.py"))
    return {name for text in texts for name in re.findall(r"\.(\w+)\(", text)}


def test_whatever_pyvmomi_says_that_a_method_takes_is_in_the_table() -> None:
    methods = _methods()
    called = _called() & methods.keys()
    assert {"PowerOnVM_Task", "CreateAlarm", "LogUserEvent", "SetField", "StartProgramInGuest"} <= called
    lacking = {name: methods[name] - NAMED - set(READ_ONLY) for name in called}
    assert {name: privileges for name, privileges in lacking.items() if privileges} == {}


def test_the_lab_knows_each_privilege() -> None:
    assert set(PRIVILEGES) >= NAMED


def test_each_need_is_in_a_table_of_the_page() -> None:
    rows = {value for value in vars(table).values() if isinstance(value, Need)}
    assert rows | set(table.OF_SETTINGS.values()) == NEEDS


def test_every_setting_of_a_vm_has_its_row() -> None:
    assert {setting.privilege for setting in VM_SETTINGS if setting.privilege} <= NAMED


def _row(need: Need) -> str:
    privileges = ", ".join(
        f"`{one}`{' (recalled)' if one in need.recalled else ''}" for one in need.privileges
    )
    return f"| {need.what} | {privileges} | {need.on} | {need.without} |"


def _table(needs: tuple[Need, ...]) -> str:
    with_optional = any(need.is_optional for need in needs)
    head = ["What", "Privilege", "Where", *(["Without it"] if with_optional else [])]
    rows = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    rows += [_row(need) if with_optional else _row(need).removesuffix("|  |") + "|" for need in needs]
    return "\n".join(rows)


def test_the_page_shows_the_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    written = page
    for name, needs in SECTIONS.items():
        begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        before, _, rest = written.partition(begin)
        _, found, after = rest.partition(end)
        assert found, name
        written = f"{before}{begin}\n{_table(needs)}\n{end}{after}"
    if os.environ.get("REWRITE_PAGES") == "1":
        PAGE.write_text(written, encoding="utf-8")
        return
    assert page == written
