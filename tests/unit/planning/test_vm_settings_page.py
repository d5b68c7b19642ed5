"""The reference page of VM settings says what the rows of the table say."""

from __future__ import annotations

from pathlib import Path

from tests.page_tables import hold_table
from vgpu_cfg.planning.vms.settings.setting import Carrier, VmSetting
from vgpu_cfg.planning.vms.settings.table import VM_SETTINGS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "vm-settings.md"


def _goes_to(setting: VmSetting) -> str:
    paths = sorted(setting.on_wire(_sample(setting)))
    match setting.carrier:
        case Carrier.CONFIG:
            return ", ".join(f"`{path}`" for path in paths)
        case Carrier.EXTRA_CONFIG:
            return ", ".join(f"extraConfig `{path}`" for path in paths)
        case Carrier.DEVICE:
            return "a device"
        case Carrier.CLUSTER:
            return "the cluster: " + ", ".join(f"`{path}`" for path in paths)


def _sample(setting: VmSetting) -> bool | int | str:
    if setting.values:
        return setting.values[0]
    return "plan/vm" if setting.key == "owner_mark" else 1


def _takes(setting: VmSetting) -> str:
    words = ["at creation"] if setting.is_of_creation else ["live"] if setting.is_live else ["powered off"]
    if setting.hardware:
        words.append(f"hardware version {setting.hardware}")
    if setting.api:
        words.append(f"API {setting.api}")
    if setting.privilege:
        words.append(f"`{setting.privilege}`")
    return ", ".join(words)


def _row(setting: VmSetting) -> str:
    name = setting.name.rstrip(":")
    cells = (
        name if name == setting.key or "." in setting.key else f"{name} (`{setting.key}`)",
        f"`{setting.plan_key}`" if setting.plan_key else "computed",
        setting.default,
        _goes_to(setting),
        _takes(setting),
        setting.undo or "what was before",
        setting.source,
    )
    return f"| {' | '.join(cells)} |"


def table() -> str:
    head = ("Setting", "Key", "Default", "Goes to", "What it takes", "Taken back by", "Source")
    rows = [f"| {' | '.join(head)} |", "|" + "---|" * len(head), *map(_row, VM_SETTINGS)]
    return "\n".join(rows)


def test_the_page_has_the_tables_rows() -> None:
    hold_table(PAGE, table())
