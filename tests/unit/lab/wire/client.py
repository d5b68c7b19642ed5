"""A pyvmomi client whose wire is the lab in process: what it reads was bytes in between."""

from __future__ import annotations

from typing import Any

from pyVmomi import SoapAdapter, vim, vmodl

from vgpu_cfg.lab.api.references import vim_class, wire_type
from vgpu_cfg.lab.api.versions import version_name
from vgpu_cfg.lab.simulation.clock import VirtualClock
from vgpu_cfg.lab.state.inventory import Managed
from vgpu_cfg.lab.vcenter import Lab

USER = "administrator@vsphere.local"
PASSWORD = "lab"


class LabStub(SoapAdapter.SoapStubAdapterBase):
    """A stub of one client, with its cookie and the version that it negotiated."""

    requestContext: dict[str, str] = {}  # noqa: N815, RUF012 - pyvmomi's own attribute

    def __init__(self, lab: Lab, version_id: str | None = None) -> None:
        super().__init__(version_name(version_id or lab.state.api_version))  # type: ignore[no-untyped-call]  # pyvmomi is untyped
        self.lab = lab
        self.cookie = ""
        self.answers: list[bytes] = []

    def InvokeMethod(self, mo: Any, info: Any, args: Any) -> Any:  # noqa: N802 - pyvmomi's name
        request = self.SerializeRequest(mo, info, args)  # type: ignore[no-untyped-call]  # pyvmomi is untyped
        headers = {"SOAPAction": self.versionId, "Cookie": self.cookie, "User-Agent": "test"}
        status, answered, body = self.lab.exchange("POST", "/sdk", headers, request)
        self.cookie = answered.get("Set-Cookie", self.cookie)
        self.answers.append(body)
        reader = SoapAdapter.SoapResponseDeserializer(self)
        result = reader.Deserialize(body, info.result)
        if status == 200:
            return result
        assert status == 500
        raise result


def connect(lab: Lab, version_id: str | None = None, *, login: bool = True) -> Any:
    """Return a ServiceInstance."""
    instance: Any = vim.ServiceInstance("ServiceInstance", LabStub(lab, version_id))
    if login:
        instance.content.sessionManager.Login(USER, PASSWORD)
    return instance


def shown(lab: Lab, thing: Managed) -> Any:
    """Return an object as a new client reads it, whatever its type declares of what stands there."""
    return vim_class(wire_type(thing))(thing.moid, connect(lab)._stub)


def open_virtual(estate: str, **options: Any) -> Lab:
    """Open a lab in memory, on a clock that jumps."""
    from vgpu_cfg.lab import open_lab

    return open_lab(estate, clock=VirtualClock(), **options)


def filter_spec(objects: list[Any], kind: Any, paths: list[str] | None) -> Any:
    """Return a filter spec of objects without traversal; paths None asks for everything."""
    collector = vmodl.query.PropertyCollector
    return collector.FilterSpec(
        objectSet=[collector.ObjectSpec(obj=thing) for thing in objects],
        propSet=[collector.PropertySpec(type=kind, all=paths is None, pathSet=paths or [])],
    )


def read(instance: Any, objects: list[Any], kind: Any, paths: list[str] | None) -> list[dict[str, Any]]:
    """Read properties of objects through RetrievePropertiesEx, following pages."""
    collector = instance.content.propertyCollector
    options = vmodl.query.PropertyCollector.RetrieveOptions()
    page = collector.RetrievePropertiesEx([filter_spec(objects, kind, paths)], options)
    found: list[dict[str, Any]] = []
    while page is not None:
        found += [{item.name: item.val for item in content.propSet} for content in page.objects]
        page = collector.ContinueRetrievePropertiesEx(page.token) if page.token else None
    return found


def everything(instance: Any, kind: Any) -> list[Any]:
    """Return the objects of a kind below the root, as a container view finds them."""
    content = instance.content
    view = content.viewManager.CreateContainerView(content.rootFolder, [kind], recursive=True)
    found = list(view.view)
    view.DestroyView()
    return found


def one(instance: Any, kind: Any, name: str) -> Any:
    """Return the object of a kind and name."""
    return next(thing for thing in everything(instance, kind) if thing.name == name)
