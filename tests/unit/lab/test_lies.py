"""Beliefs that an estate makes false: the table of them, and a few as clients see them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyVmomi import VmomiSupport

from vgpu_cfg.errors import DocumentError
from vgpu_cfg.knowledge.beliefs import load_beliefs
from vgpu_cfg.lab import open_lab
from vgpu_cfg.lab.estates.lies import (
    BENDS,
    LIES,
    Answered,
    Bend,
    Faulted,
    Guarded,
    Heard,
    Printed,
    Refused,
    Rejected,
    Unlogged,
)
from vgpu_cfg.lab.esxcli import COMMANDS
from vgpu_cfg.lab.shell.shell import TOOLS
from vgpu_cfg.lab.simulation.bends import bends_for
from vgpu_cfg.lab.simulation.faults import fault_type
from vgpu_cfg.lab.simulation.operations import METHODS, OPERATIONS
from vgpu_cfg.lab.soap import dispatch

_ = dispatch.MODULES

LAB = Path(__file__).resolve().parents[3] / "vgpu_cfg" / "lab"
CALLS = {method for _, method in (*OPERATIONS, *METHODS)}


def test_each_lie_is_a_belief_and_is_told_somewhere() -> None:
    code = "\n".join(
        path.read_text(encoding="utf-8") for path in LAB.rglob("*.py") if path.parent.name != "estates"
    )
    assert set(LIES) <= set(load_beliefs())
    assert [lie for lie in LIES if lie not in BENDS and f'"{lie}"' not in code] == []
    asked = set(re.findall(r'denies\("([^"]+)"\)', code))
    assert asked <= set(LIES)
    assert BENDS.keys() <= LIES.keys() - asked


@pytest.mark.parametrize("lie", BENDS)
def test_a_lie_that_is_data_names_things_of_the_wsdl(lie: str) -> None:
    for bend in bends_for(lie):
        _see(bend)


def _see(bend: Bend) -> None:
    match bend:
        case Answered(paths) | Heard(_, paths):
            for path in paths.split("|"):
                _see_part(path)
        case Rejected(_, fault, given):
            assert fault_type(fault)
            for one in given:
                _see_part(one.partition("=")[0])
        case Guarded(_, privilege, given):
            assert re.fullmatch(r"[A-Z]\w+(\.\w+)+", privilege)
            for one in given:
                _see_part(one.partition("=")[0])
        case Faulted(_, fault, instead):
            assert fault_type(fault)
            assert fault_type(instead)
        case Unlogged(events):
            for event in events:
                _see_part(event)
        case Refused(command):
            assert any(f"{name}.".startswith(command) for name in COMMANDS)
        case Printed(command):
            assert f"/bin/{command.partition(' ')[0]}" in TOOLS
    assert all(name in CALLS for name in getattr(bend, "method", "").split("|") if name)


def _see_part(path: str) -> None:
    kind, _, name = path.partition(".")
    declared = VmomiSupport.GetWsdlType("urn:vim25", kind)
    if name:
        assert declared._GetPropertyInfo(name)


def test_an_unknown_lie_is_an_error_that_lists_the_known_ones(tmp_path: Path) -> None:
    estate = tmp_path / "e.yaml"
    estate.write_text("about: a\nclusters: []\nlies: [recent-task]\n", encoding="utf-8")
    with pytest.raises(DocumentError) as raised:
        open_lab(estate)
    [fault] = raised.value.faults
    told = fault.message + fault.hint
    assert (fault.line, fault.column) == (3, 8)
    assert "did you mean 'recent-tasks'?" in told
    assert all(lie in told for lie in LIES)
