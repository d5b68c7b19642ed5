"""Encode a method's result or fault as a vCenter does, at the client's version.

pyvmomi's own serialiser writes them, so that a field newer than the client's version is left out and an unset
required field is an error here, not at the client.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from io import StringIO
from typing import Any

from pyVmomi import SoapAdapter, VmomiSupport, vmodl

from vgpu_cfg.lab.api.versions import NAMESPACE, is_at_least

DECLARED = {**SoapAdapter.SOAP_NSMAP, NAMESPACE: ""}
"""XML namespaces that the envelope and the answer's element declare, with their prefixes."""

XSI = "xsi"


@dataclass(frozen=True, slots=True)
class RawXml:
    """A method's value in its XML form, for the few whose types pyvmomi does not ship."""

    text: str


class VCenterSerializer(SoapAdapter.SoapSerializer):
    """pyvmomi's serialiser, with the output of a server.

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
        """Do the same as the base class, with the results per object computed once per type.

        Links and faults, which it treats in their own ways, are left to it. An empty array is an empty
        element, if the field is required, too: the base class refuses to write that. An untyped field states
        the kind of its empty array.
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
        for name, field, is_optional, namespace, item in fields:
            value = getattr(val, name)
            if value is None and is_optional:
                continue
            if isinstance(value, list) and not value and field.type is not object:
                continue
            if value is None or namespace != currDefNS:
                self._Serialize(value, field, currDefNS)  # type: ignore[no-untyped-call]  # pyvmomi is untyped
            elif item is None:
                self._write(value, field, currDefNS)
            else:
                for one in value:
                    self._write(one, item, currDefNS)
        self.writer.write(f"</{info.name}>")

    def _write(self, val: Any, info: Any, namespace: str) -> None:
        """Write a declared value in its object's namespace: the base class checks much more."""
        kind: Any = type(val)
        written = _written(kind)
        if written is not None:
            self.writer.write(f"<{info.name}>{written(val)}</{info.name}>")
        elif isinstance(val, VmomiSupport.DataObject) and not isinstance(val, vmodl.MethodFault):
            self._SerializeDataObject(val, info, "", namespace)
        else:
            self._Serialize(val, info, namespace)  # type: ignore[no-untyped-call]  # pyvmomi is untyped


@lru_cache(maxsize=4096)
def _plan(kind: Any, version: str) -> tuple[Any, tuple[tuple[str, Any, bool, str | None, Any], ...]]:
    """Return a type's name at a version, and its fields in that version.

    Each has its declaration, whether it may be left out, its namespace (None for an untyped one, or one that
    holds such) and the declaration of its items, if it is an array.
    """
    known: list[tuple[str, Any, bool, str | None, Any]] = []
    for field in kind._GetPropertyList():
        if not is_at_least(version, field.version):
            continue
        is_any = getattr(field.type, "Item", field.type) is object
        namespace = None if is_any else VmomiSupport.GetWsdlNamespace(field.version)
        item = None
        if issubclass(field.type, list):
            item = VmomiSupport.Object(
                name=field.name, type=field.type.Item, version=field.version, flags=field.flags
            )
        known.append((field.name, field, bool(field.flags & VmomiSupport.F_OPTIONAL), namespace, item))
    return VmomiSupport.GetCompatibleType(kind, version), tuple(known)


@lru_cache(maxsize=4096)
def _written(kind: Any) -> Callable[[Any], str] | None:
    """Return how values of a type are written between their tags; None for other than words and numbers."""
    if issubclass(kind, bool):
        return lambda value: "true" if value else "false"
    if issubclass(kind, (int, float, VmomiSupport.Enum)):
        return str
    return SoapAdapter.XmlEscape if issubclass(kind, str) else None


def write_result(method: str, info: Any, value: Any, version: str, namespace: str = NAMESPACE) -> bytes:
    """Encode the result of a method of a namespace's API.

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
