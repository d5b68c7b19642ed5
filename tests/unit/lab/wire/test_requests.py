from __future__ import annotations

from typing import Any

import pytest
from pyVmomi import SoapAdapter, vim, vmodl

from tests.unit.lab.wire.client import LabStub, connect, open_virtual
from vgpu_cfg.lab.api.answer import write_fault
from vgpu_cfg.lab.soap.request import BadRequestError, MethodCall, read_request

AT = "vim.version.v8_0_3_0"

ENVELOPE = (
    '<?xml version="1.0"?><soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" '
    'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:xsd="http://www.w3.org/2001/XMLSchema">'
    "<soapenv:Body>{}</soapenv:Body></soapenv:Envelope>"
)


class Seen(SoapAdapter.SoapStubAdapterBase):
    """Decodes what a client would have sent."""

    requestContext: dict[str, str] = {}  # noqa: N815, RUF012 - pyvmomi's own attribute

    def InvokeMethod(self, mo: Any, info: Any, args: Any) -> Any:  # noqa: N802 - pyvmomi's name
        return read_request(self.SerializeRequest(mo, info, args))  # type: ignore[no-untyped-call]  # pyvmomi is untyped


@pytest.fixture
def stub() -> Any:
    return Seen(AT)  # type: ignore[no-untyped-call]  # pyvmomi is untyped


def test_arguments_arrive_with_their_types(stub: Any) -> None:
    backing = vim.vm.device.VirtualPCIPassthrough.VmiopBackingInfo(vgpu="grid_a100-40c")
    device = vim.vm.device.VirtualPCIPassthrough(key=-100, backing=backing)
    spec = vim.vm.ConfigSpec(
        numCPUs=8, deviceChange=[vim.vm.device.VirtualDeviceSpec(operation="add", device=device)]
    )
    call: MethodCall = vim.VirtualMachine("vm-1", stub).ReconfigVM_Task(spec)
    assert (call.name, call.subject._moId) == ("ReconfigVM_Task", "vm-1")
    read = call.arguments["spec"]
    assert read.numCPUs == 8
    assert isinstance(
        read.deviceChange[0].device.backing, vim.vm.device.VirtualPCIPassthrough.VmiopBackingInfo
    )
    assert read is not spec


def test_arrays_of_references_types_and_text_arrive_whole(stub: Any) -> None:
    manager: Any = vim.view.ViewManager("ViewManager", stub)
    call = manager.CreateContainerView(vim.Folder("group-d1"), [vim.VirtualMachine, vim.HostSystem], True)
    assert call.arguments["type"] == [vim.VirtualMachine, vim.HostSystem]
    assert call.arguments["recursive"] is True
    call = manager.CreateListView([vim.VirtualMachine("vm-1"), vim.HostSystem("host-2")])
    assert [item._moId for item in call.arguments["obj"]] == ["vm-1", "host-2"]
    authorization: Any = vim.AuthorizationManager("AuthorizationManager", stub)
    root = vim.Folder("group-d1")
    call = authorization.HasPrivilegeOnEntities([root], "key", ["System.Read", "System.View"])
    assert list(call.arguments["privId"]) == ["System.Read", "System.View"]


def test_what_is_unset_is_none_and_unset_arrays_are_empty(stub: Any) -> None:
    manager: Any = vim.view.ViewManager("ViewManager", stub)
    assert manager.CreateListView(None).arguments["obj"] == []
    power: Any = vim.VirtualMachine("vm-1", stub).PowerOnVM_Task()
    assert power.arguments == {"host": None}


def test_a_property_access_is_a_fetch(stub: Any) -> None:
    call: Any = vim.VirtualMachine("vm-1", stub).name
    assert (call.name, call.arguments) == ("Fetch", {"prop": "name"})


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b"", vmodl.fault.InvalidRequest),
        (b"not xml", vmodl.fault.InvalidRequest),
        (b"<a/>", vmodl.fault.InvalidRequest),
        (ENVELOPE.format("").encode(), vmodl.fault.InvalidRequest),
        (ENVELOPE.format('<CurrentTime xmlns="urn:vim25"/>').encode(), vmodl.fault.InvalidRequest),
        (ENVELOPE.format('<Nonsense xmlns="urn:vim25"/>').encode(), vmodl.fault.InvalidRequest),
        (
            ENVELOPE.format(
                '<CurrentTime xmlns="urn:vim25"><_this type="ServiceInstance">ServiceInstance</_this>'
                "<extra>1</extra></CurrentTime>"
            ).encode(),
            vmodl.fault.InvalidRequest,
        ),
        (
            ENVELOPE.format(
                '<Login xmlns="urn:vim25"><_this type="SessionManager">SessionManager</_this>'
                "<userName>x</userName></Login>"
            ).encode(),
            vmodl.fault.InvalidRequest,
        ),
        (
            ENVELOPE.format(
                '<CurrentTime xmlns="urn:vim25"><_this type="NoSuchType">x</_this></CurrentTime>'
            ).encode(),
            vmodl.fault.InvalidRequest,
        ),
    ],
    ids=[
        "empty",
        "no-xml",
        "no-envelope",
        "no-method",
        "no-this",
        "unknown-method",
        "unknown-parameter",
        "missing-parameter",
        "unknown-type",
    ],
)
def test_what_is_no_request_is_refused_with_a_fault(body: bytes, fault: type[Exception]) -> None:
    with pytest.raises(BadRequestError) as caught:
        read_request(body)
    assert isinstance(caught.value.fault, fault)


def test_a_bad_request_is_answered_not_raised() -> None:
    lab = open_virtual("no-gpu")
    status, _, body = lab.exchange("POST", "/sdk", {}, b"nonsense")
    assert status == 500
    assert b"InvalidRequest" in body


def test_a_fault_travels_with_type_fields_message_and_localizable_messages() -> None:
    fault: Any = vim.fault.InvalidPowerState(
        msg="not <now>",
        requestedState="poweredOn",
        existingState="poweredOff",
        faultMessage=[vmodl.LocalizableMessage(key="vob", message="why")],
    )
    reader = SoapAdapter.SoapResponseDeserializer(LabStub(open_virtual("no-gpu")))
    read: Any = reader.Deserialize(write_fault(fault, AT), object)
    assert type(read).__name__ == "vim.fault.InvalidPowerState"
    assert (read.msg, read.existingState) == ("not <now>", "poweredOff")
    assert read.faultMessage[0].message == "why"
    assert fault.msg == "not <now>"


def test_references_inside_any_are_marked_as_govmomi_wants_them() -> None:
    lab = open_virtual("no-gpu")
    instance = connect(lab)
    assert instance.content.rootFolder.childEntity
    answer = instance._stub.answers[-1]
    assert b'xsi:type="ManagedObject"' not in answer
    spec = vmodl.query.PropertyCollector.FilterSpec(
        objectSet=[vmodl.query.PropertyCollector.ObjectSpec(obj=instance.content.rootFolder)],
        propSet=[vmodl.query.PropertyCollector.PropertySpec(type=vim.Folder, pathSet=["childEntity"])],
    )
    instance.content.propertyCollector.RetrieveProperties([spec])
    assert b'xsi:type="ArrayOfManagedObjectReference"' in instance._stub.answers[-1]
