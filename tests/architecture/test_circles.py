"""No module is part of a circle of imports: those inside functions and for types count as well."""

from __future__ import annotations

from tests.architecture.size_script import imports, size


def test_no_module_is_part_of_a_circle() -> None:
    assert size().circles(imports()) == []


def test_a_circle_is_found() -> None:
    assert size().circles({"state": set(), "rules": {"state"}, "renderers": {"rules", "state"}}) == []
    assert size().circles({"state": {"clock"}, "clock": {"lab"}, "lab": {"state"}}) == [
        frozenset({"state", "clock", "lab"})
    ]


def test_an_import_inside_a_function_counts_and_one_of_a_name_is_of_its_module_alone() -> None:
    assert "vgpu_cfg.lab.building.builder" in imports()["vgpu_cfg.lab"]
    assert "vgpu_cfg.lab.guest.system" not in imports()["vgpu_cfg.lab.guest.lifecycle"]
    assert "vgpu_cfg.lab.guest.system.gpus" in imports()["vgpu_cfg.lab.guest.lifecycle"]
