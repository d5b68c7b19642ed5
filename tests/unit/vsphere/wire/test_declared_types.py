"""Types that pyvmomi lacks are declared once, whoever comes first."""

from __future__ import annotations

import importlib

import pytest
from pyVmomi import VmomiSupport

from vgpu_cfg.vsphere.wire import esxcli

NAMES = (
    "ReflectManagedMethodExecuter",
    "ManagedMethodExecuter",
    "ReflectManagedMethodExecuterSoapArgument",
    "ReflectManagedMethodExecuterSoapFault",
    "ReflectManagedMethodExecuterSoapResult",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_type_that_is_declared_already_is_used_as_it_is(name: str) -> None:
    before = VmomiSupport.GuessWsdlType(name)
    importlib.reload(esxcli)
    assert VmomiSupport.GuessWsdlType(name) is before


def test_the_simulators_executer_answers_to_the_same_methods() -> None:
    executer = VmomiSupport.GuessWsdlType("ReflectManagedMethodExecuter")
    simulated = VmomiSupport.GuessWsdlType("ManagedMethodExecuter")
    assert issubclass(simulated, executer)
    assert simulated.ExecuteSoap.info.wsdlName == "ExecuteSoap"
