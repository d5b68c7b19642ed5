"""No module is part of a circle of imports: those inside functions and for types count as well."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

from tests.architecture.usage import imports_of, trees


def circle_in(imports: Mapping[str, Iterable[str]]) -> list[str]:
    """Return one circle, each module imported by the one after it; empty where there is none."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        return circle
    return []


def test_no_module_is_part_of_a_circle() -> None:
    assert circle_in({name: imports_of(name) for name in trees()}) == []


def test_a_circle_is_found() -> None:
    assert circle_in({"state": [], "rules": ["state"], "renderers": ["rules", "state"]}) == []
    assert set(circle_in({"state": ["clock"], "clock": ["lab"], "lab": ["state"]})) == {
        "state",
        "clock",
        "lab",
    }


def test_an_import_inside_a_function_counts_and_one_of_a_name_is_of_its_module_alone() -> None:
    assert "vgpu_cfg.lab.building.builder" in imports_of("vgpu_cfg.lab")
    assert "vgpu_cfg.lab.guest.system" not in imports_of("vgpu_cfg.lab.guest.lifecycle")
    assert "vgpu_cfg.lab.guest.system.gpus" in imports_of("vgpu_cfg.lab.guest.lifecycle")
