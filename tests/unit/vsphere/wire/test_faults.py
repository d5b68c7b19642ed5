"""Which error each fault becomes, and which words are kept."""

from __future__ import annotations

from typing import Any

import pytest
from pyVmomi import vim, vmodl

from vgpu_cfg.errors import LoginFailed, NotFound, NotOffered, NotPermitted, VCenterError
from vgpu_cfg.vsphere.wire.faults import (
    fault_name,
    fault_text,
    is_host_silent,
    is_not_offered,
    offered,
    to_error,
    translated,
)

HOST = vim.HostSystem("host-9")


def message(text: str) -> Any:
    return vmodl.LocalizableMessage(key="msg.key", message=text)


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        (vim.fault.InvalidLogin(msg="no"), LoginFailed, "wrong user or password"),
        (
            vim.fault.NotAuthenticated(object=HOST, privilegeId="System.View"),
            LoginFailed,
            "the session has expired",
        ),
        (
            vim.fault.NoPermission(object=HOST, privilegeId="Host.Config.Settings"),
            NotPermitted,
            "does not have Host.Config.Settings on host-9",
        ),
        (vim.fault.NoPermission(), NotPermitted, "the required privilege"),
        (vim.fault.RestrictedVersion(msg="Licence."), VCenterError, "RestrictedVersion"),
        (vmodl.fault.ManagedObjectNotFound(obj=vim.VirtualMachine("vm-3")), NotFound, "vm-3"),
        (vim.fault.ConcurrentAccess(msg="Changed."), VCenterError, "Changed."),
        (vmodl.fault.HostNotConnected(msg="Gone."), VCenterError, "Gone."),
        (vmodl.fault.NotSupported(msg="Not that."), NotOffered, "Not that."),
        (vmodl.fault.MethodNotFound(method="RebootHost_Task"), NotOffered, "MethodNotFound"),
        (vmodl.fault.NotImplemented(msg="Not yet."), NotOffered, "Not yet."),
        (
            vmodl.fault.ManagedObjectNotFound(obj=vim.host.GraphicsManager("graphicsManager-1")),
            NotOffered,
            "ManagedObjectNotFound",
        ),
        (vmodl.fault.ManagedObjectNotFound(obj=HOST), NotFound, "host-9"),
        (vim.fault.NotFound(msg="No vmk7."), NotFound, "No vmk7."),
        (vim.fault.TaskInProgress(msg="Busy."), VCenterError, "Busy."),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_a_fault_becomes_the_most_specific_error(fault: Any, error: type[VCenterError], words: str) -> None:
    found = to_error(fault, "power on hvd-01", "hvd-01")
    assert type(found) is error
    assert words in found.message
    assert found.remedy
    assert found.subject == "hvd-01"


def test_a_fault_of_no_special_kind_keeps_its_name() -> None:
    found = to_error(vim.fault.DuplicateName(msg="Taken."), "clone")
    assert found.message == "clone: Taken. (DuplicateName)"


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (vim.fault.GenericVmConfigFault(msg="Failed.", reason="MMIO too small."), "Failed. MMIO too small."),
        (
            vim.fault.GenericVmConfigFault(msg="Module 'DevicePowerOn' power on failed.", reason=""),
            "Module 'DevicePowerOn' power on failed.",
        ),
        (
            vim.fault.InsufficientGraphicsResourcesFault(
                msg="Not enough.", faultMessage=[message("No device for vGPU 'x'."), message("Not enough.")]
            ),
            "Not enough. No device for vGPU 'x'.",
        ),
        (
            vmodl.fault.InvalidArgument(msg="Wrong.", invalidProperty="unitNumber"),
            "Wrong. Invalid: unitNumber.",
        ),
        (vim.fault.InvalidVmConfig(property="numCPU"), "Invalid: numCPU."),
        (vmodl.fault.SystemError(msg="General error.", reason="why"), "General error. why"),
        (
            vim.fault.NoCompatibleHost(
                msg="No host.", error=[vim.fault.GenericVmConfigFault(msg="", reason="No GPU.")]
            ),
            "No host. No GPU.",
        ),
        (
            vim.fault.DuplicateName(
                msg="Taken.", faultCause=vim.fault.GenericVmConfigFault(msg="Below.", reason="")
            ),
            "Taken. Below.",
        ),
        (vim.fault.DuplicateName(), "DuplicateName"),
        (vim.fault.DuplicateName(msg="a\n  b"), "a b"),
    ],
)
def test_every_sentence_of_a_fault_is_said_once(fault: Any, text: str) -> None:
    assert fault_text(fault) == text


def test_a_fault_that_causes_itself_ends() -> None:
    fault: Any = vim.fault.DuplicateName(msg="Again.")
    fault.faultCause = fault
    assert fault_text(fault) == "Again."


def test_faults_are_named_as_vsphere_names_them() -> None:
    assert fault_name(vim.fault.InsufficientGraphicsResourcesFault()) == "InsufficientGraphicsResourcesFault"
    assert fault_name(vmodl.fault.InvalidArgument()) == "InvalidArgument"


@pytest.mark.parametrize(
    ("fault", "offered", "silent"),
    [
        (vmodl.fault.MethodNotFound(), False, False),
        (vmodl.fault.ManagedObjectNotFound(), False, False),
        (vmodl.fault.NotSupported(), False, False),
        (vmodl.fault.HostNotReachable(), True, True),
        (vim.fault.NoPermission(), True, False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_what_is_not_offered_and_who_is_silent(fault: Any, *, offered: bool, silent: bool) -> None:
    assert is_not_offered(fault) is not offered
    assert is_host_silent(fault) is silent


def test_no_fault_of_pyvmomi_leaves_the_room() -> None:
    with pytest.raises(VCenterError) as caught, translated("reading", "vc01"):
        raise vim.fault.DuplicateName(msg="Taken.")
    assert not isinstance(caught.value, vmodl.MethodFault)
    assert caught.value.subject == "vc01"


def test_other_errors_pass() -> None:
    with pytest.raises(KeyError), translated("reading", "vc01"):
        raise KeyError("x")


def test_what_is_absent_by_its_own_fault_is_not_offered() -> None:
    opening = offered("opening pvrdma", "esx-01", vim.fault.NotFound)
    with pytest.raises(NotOffered, match=r"opening pvrdma: None\.") as caught, opening:
        raise vim.fault.NotFound(msg="None.")
    assert caught.value.subject == "esx-01"
    assert isinstance(caught.value.__cause__, vim.fault.NotFound)


def test_any_other_fault_stays_what_it_is() -> None:
    opening = offered("opening pvrdma", "esx-01", vim.fault.NotFound)
    with pytest.raises(VCenterError, match="It failed") as caught, opening:
        raise vim.fault.HostConfigFault(msg="It failed.")
    assert type(caught.value) is VCenterError
