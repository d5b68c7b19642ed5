"""How a method's result or fault becomes the bytes that a vCenter sends, at the client's version.

pyvmomi's own serialiser writes them, so that a field newer than the client's version is
left out and a required field that nobody set is an error here, not at the client.
"""

from __future__ import annotations

import copy
from functools import lru_cache
from io import StringIO
from typing import Any

from pyVmomi import SoapAdapter, VmomiSupport

from vgpu_cfg.lab.api.versions import NAMESPACE, is_at_least
from vgpu_cfg.late_dataclasses import dataclass

DECLARED = {**SoapAdapter.SOAP_NSMAP, NAMESPACE: ""}
"""XML namespaces that the envelope and the answer's element declare, with their prefixes."""

XSI = "xsi"


@dataclass(frozen=True, slots=True)
class RawXml:
    """A method's value as it stands on the wire, for the few whose types pyvmomi does not ship."""

    text: str


class VCenterSerializer(SoapAdapter.SoapSerializer):
    """pyvmomi's serialiser, writing what a server writes.

    A moref inside an `Any` is marked ManagedObjectReference, not ManagedObject: govmomi
    drops the other without a word. The version mark of a request is left out.
    """

    def __init__(self, writer: StringIO, version: str) -> None:
        super().__init__(writer, version, DECLARED)  # type: ignore[no-untyped-call]  # pyvmomi is untyped
        self.outermostAttrs = ""

    def _QName(self, typ: Any, defNS: str) -> tuple[str, str]:
        attributes, name = super()._QName(typ, defNS)  # type: ignore[no-untyped-call]  # pyvmomi is untyped
        return attributes, f"{name}Reference" if typ is VmomiSupport.ManagedObject else name

    def _SerializeDataObject(self, val: Any, info: Any, attr: str, currDefNS: str) -> None:
        """Do what the base class does, with what it works out per object worked out once per type.

        Links and faults, which it treats in their own ways, are left to it. An empty array is nothing on the
        wire, where the field must be there, too: the base class refuses to write that. What may be anything
        says of which kind its empty array is.
        """
        kind: Any = type(val)
        if info.flags & VmomiSupport.F_LINK or kind is SoapAdapter.LocalizedMethodFault:
            super()._SerializeDataObject(val, info, attr, currDefNS)  # type: ignore[no-untyped-call]  # pyvmomi is untyped
            return
        plan: Any = _plan(kind, self.version)
        shown, fields = plan
        if shown is not info.type:
            attributes, name = self._QName(shown, currDefNS)
            attr += f'{attributes} {XSI}:type="{name}"'
        self.writer.write(f"<{info.name}{attr}>")
        for name, field in fields:
            value = getattr(val, name)
            if isinstance(value, list) and not value and field.type is not object:
                continue
            if value is not None or not field.flags & VmomiSupport.F_OPTIONAL:
                self._Serialize(value, field, currDefNS)  # type: ignore[no-untyped-call]  # pyvmomi is untyped
        self.writer.write(f"</{info.name}>")


@lru_cache(maxsize=4096)
def _plan(kind: Any, version: str) -> tuple[Any, tuple[tuple[str, Any], ...]]:
    """Return as what a type shows at a version, and those of its fields that the version has."""
    fields = ((field.name, field) for field in kind._GetPropertyList())
    known = tuple((name, field) for name, field in fields if is_at_least(version, field.version))
    return VmomiSupport.GetCompatibleType(kind, version), known


def write_result(method: str, info: Any, value: Any, version: str, namespace: str = NAMESPACE) -> bytes:
    """Encode what a method of the API of a namespace returned.

    `info` carries `result` and `resultFlags`; None means void.
    """
    writer = StringIO()
    if isinstance(value, RawXml):
        writer.write(value.text)
    elif info is not None and info.result is not type(None):
        flags = info.resultFlags | (VmomiSupport.F_OPTIONAL if issubclass(info.result, list) else 0)
        declared = VmomiSupport.Object(name="returnval", type=info.result, version=version, flags=flags)
        serializer: Any = VCenterSerializer(writer, version)
        serializer.Serialize(value, declared)
    return _envelope(f'<{method}Response xmlns="{namespace}">{writer.getvalue()}</{method}Response>')


def write_fault(fault: Any, version: str) -> bytes:
    """Encode a fault: its type and fields as detail, its message as the fault string."""
    known = VmomiSupport.GetCompatibleType(type(fault), version)
    bare = copy.copy(fault)
    bare.msg = None
    writer = StringIO()
    name = f"{VmomiSupport.GetWsdlName(known)}Fault"
    declared = VmomiSupport.Object(name=name, type=object, version=version, flags=0)
    serializer: Any = VCenterSerializer(writer, version)
    serializer.SerializeFaultDetail(bare, declared)
    detail = writer.getvalue().replace(f"<{name}", f'<{name} xmlns="{NAMESPACE}"', 1)
    text = SoapAdapter.XmlEscape(fault.msg or "")
    return _envelope(
        f"<soapenv:Fault><faultcode>ServerFaultCode</faultcode><faultstring>{text}</faultstring>"
        f"<detail>{detail}</detail></soapenv:Fault>"
    )


def _envelope(content: str) -> bytes:
    return f"{SoapAdapter.XML_HEADER}\n{SoapAdapter.SOAP_START}{content}{SoapAdapter.SOAP_END}".encode()
