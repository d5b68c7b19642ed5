"""What a run sends: every call that may change something, taken apart into leaves, and lines of shell.

A leaf is a path in the request and a value, both as text. The path begins at the method's argument; an
argument called `spec` or `config` is left out, so that a ConfigSpec reads alike whichever call carries it.
Parts of a list are named by what tells them apart: `extraConfig[numa.nodeAffinity]`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import unescape

from pyVmomi import vim
from pyVmomi.VmomiSupport import DataObject, ManagedObject

from tests.cli.host_watch import READING, is_reading
from vgpu_cfg.lab.guest.login import LabGuestShell
from vgpu_cfg.lab.shell.shell import LabShell
from vgpu_cfg.parsers.rdma.mlxconfig import parse_mst_status
from vgpu_cfg.vsphere.wire.rest import RestClient
from vgpu_cfg.vsphere.wire.stub import TransportStub

if TYPE_CHECKING:
    import pytest

Leaf = tuple[str, str]

HOST_SHELL, GUEST_SHELL = "host shell", "guest shell"
"""A guest is worked in by ssh or by guest operations; what is done there counts as a line either way."""
_LEFT_OUT = re.compile(r"^(spec\.)?(config\.)?")
_EXECUTE = "ExecuteSoap"
_EXECUTER = "RetrieveManagedMethodExecuter"
_GET_SPEC = "GetCustomizationSpec"
_OF_IMAGE = re.compile(
    r"/api/esx/settings/clusters/(?P<cluster>[^/]+)/software"
    r"(/(drafts/[^/?]+/software/)?(?P<part>[a-z]+))?(/[^/?]+)?(\?action=(?P<action>\w+).*)?$"
)


@dataclass(frozen=True, slots=True)
class Sent:
    """One call: its method, the moid of the object that it is made on, and its leaves.

    `kept` are the leaves that go back as they were read right before, which changes nothing. The method of
    an esxcli command is `esxcli` and the command; that of a line of shell is `HOST_SHELL` or `GUEST_SHELL`,
    `on` names the machine then, and the line is its only leaf.
    """

    method: str
    on: str
    leaves: tuple[Leaf, ...]
    kept: frozenset[Leaf] = frozenset()


@dataclass(slots=True)
class Wire:
    """Everything that was sent, in order, and what was last read of each object."""

    sent: list[Sent] = field(default_factory=list)
    read: dict[tuple[str, str], Any] = field(default_factory=dict)
    executers: dict[str, str] = field(default_factory=dict)
    mst_names: dict[tuple[str, str], str] = field(default_factory=dict)
    spec: frozenset[Leaf] = frozenset()
    """The customisation specification that was read last, in the paths of a clone."""

    def call(self, method: str, target: Any, arguments: Mapping[str, Any]) -> None:
        """Note a call that is about to be sent, unless it only reads."""
        on = str(target._moId)
        if method == _EXECUTE:
            self._esxcli(on, arguments)
        elif method.endswith("Guest") and "vm" in arguments:
            self.line(GUEST_SHELL, str(arguments["vm"]._moId), method)
        elif method not in READING:
            leaves = tuple(_all_leaves(arguments))
            self.sent.append(
                Sent(method, on, leaves, frozenset(leaves) & self._as_read(method, on, arguments))
            )

    def answer(self, method: str, target: Any, value: Any) -> None:
        """Note what an answer tells, as far as writes send it back."""
        if method == _GET_SPEC and value is not None:
            self.spec = frozenset(leaves_of(value.spec, "customization"))
        if method == _EXECUTER and value is not None:
            self.executers[str(value._moId)] = str(target._moId)
        if method in ("RetrievePropertiesEx", "ContinueRetrievePropertiesEx") and value is not None:
            for item in value.objects:
                for part in item.propSet or ():
                    if part.name in _SENT_BACK:
                        self.read[str(item.obj._moId), part.name] = tuple(leaves_of(part.val))

    def line(self, kind: str, machine: str, line: str) -> None:
        """Note a line of shell, unless it only reads."""
        if kind == GUEST_SHELL or not is_reading(f"$ {line}"):
            words = line if kind == GUEST_SHELL else self._as_planned(machine, line)
            self.sent.append(Sent(kind, machine, (("line", words),)))

    def _as_planned(self, machine: str, line: str) -> str:
        """Return a line with a tool's bare name for its path, and a device's address for mst's name of it."""
        words = [self.mst_names.get((machine, word), word) for word in shlex.split(line)]
        return shlex.join([words[0].rpartition("/")[2], *words[1:]])

    def rest(self, action: str, body: Mapping[str, Any]) -> None:
        """Note what the REST side is asked to do with the tags of a VM, unless it only reads."""
        verb = action.partition("-")[0]
        if verb not in ("list", "find"):
            leaves = tuple((f"{verb}[{tag}]", tag) for tag in body["tag_ids"])
            self.sent.append(Sent(action, body["object_id"]["id"], leaves))

    def image(self, method: str, path: str, body: Any) -> None:
        """Note what the REST side is asked to do with the image of a cluster, unless it only reads."""
        found = _OF_IMAGE.match(path)
        if found is None or method == "GET":
            return
        leaves = tuple(_json_leaves(body or {}))
        name = found["action"] or f"{method} {found['part']}"
        self.sent.append(Sent(f"image {name}", found["cluster"], leaves))

    def names(self, machine: str, line: str, answer: str) -> None:
        """Note what mst calls the devices of a host, as its status tells."""
        if re.search(r"\bmst status", line):
            for device in parse_mst_status(answer):
                self.mst_names[machine, device.name] = device.pci_id

    def _esxcli(self, executer: str, arguments: Mapping[str, Any]) -> None:
        command = arguments["method"].removeprefix("vim.EsxCLI.")
        if is_reading(f"esxcli {command.replace('.', ' ')}"):
            return
        leaves = tuple((one.name, text) for one in arguments.get("argument") or () for text in _bare(one.val))
        self.sent.append(Sent(f"esxcli {command}", self.executers[executer], leaves))

    def _as_read(self, method: str, on: str, arguments: Mapping[str, Any]) -> frozenset[Leaf]:
        """Return what the object that a method replaces whole held, in the paths of the request."""
        if method not in _REPLACED:
            return frozenset()
        name, made = _REPLACED[method]
        moid = host_of(on) or on
        found = self.read.get((moid, name), ())
        kept = frozenset(made(found, arguments))
        return kept | self.spec if method == "CloneVM_Task" else kept


def _bare(elements: str) -> list[str]:
    """Return the texts of an argument of esxcli, which goes as an XML element, a list as several."""
    return [unescape(text) for _, text in re.findall(r"<(\w+)>(.*?)</\1>", elements, flags=re.DOTALL)]


_MANAGERS = frozenset({
    "EsxHostAdvSettings", "firewallSystem", "graphicsManager", "kernelModuleSystem", "networkSystem",
    "pciPassthruSystem", "serviceSystem",
})  # fmt: skip
"""What the moids of a host's managers begin with on the lab: `graphicsManager-12` is that of `host-12`."""


def host_of(moid: str) -> str:
    """Return the moid of the host whose manager this is; "" for any other object."""
    prefix, _, number = moid.rpartition("-")
    return f"host-{number}" if prefix in _MANAGERS else ""


# ------------------------------------------------------------------ leaves


def _all_leaves(arguments: Mapping[str, Any]) -> Iterator[Leaf]:
    for name, value in arguments.items():
        for path, text in leaves_of(value, name):
            yield _LEFT_OUT.sub("", path), text


def leaves_of(value: Any, path: str = "") -> Iterator[Leaf]:
    """Yield the leaves of a value; what is unset has none."""
    match value:
        case None:
            return
        case vim.option.OptionValue():
            yield from leaves_of(value.value, path)
        case DataObject():
            for info in value._GetPropertyList():
                yield from leaves_of(getattr(value, info.name), f"{path}.{info.name}".lstrip("."))
        case list():
            if value and all(isinstance(one, ManagedObject | str | int) for one in value):
                yield path, ", ".join(_text(one) for one in value)
                return
            for one in value:
                yield from leaves_of(one, f"{path}[{_identity(one)}]")
        case _:
            yield path, _text(value)


def _json_leaves(body: Mapping[str, Any]) -> Iterator[Leaf]:
    for name, value in body.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}[{key}]", str(one)) for key, one in value.items())
        else:
            yield name, ", ".join(value) if isinstance(value, list) else _text(value)


def _text(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case ManagedObject():
            return str(value._moId)
        case type():
            return str(value.__name__)
        case _:
            return str(value)


_IDENTITIES = ("key", "diskId", "deviceId", "id", "pnicDevice", "name", "host")


def _identity(one: Any) -> str:
    """Tell a part of a list from the others; a device that is new has no key of its own yet."""
    if isinstance(one, vim.vm.device.VirtualDeviceSpec):
        return str(one.device.key) if one.device.key > 0 else "*"
    if isinstance(one, vim.cluster.RuleSpec | vim.cluster.GroupSpec):
        return str(one.removeKey if one.info is None else one.info.name)
    for name in _IDENTITIES:
        found = getattr(one, name, None)
        if found is not None:
            return _text(found)
    return "*"


# ------------------------------------------------- what goes back as it was read


def _same(found: Sequence[Leaf], _arguments: Mapping[str, Any]) -> Iterator[Leaf]:
    yield from found


def _functions(found: Sequence[Leaf], _arguments: Mapping[str, Any]) -> Iterator[Leaf]:
    """What a host tells of PCI functions, as `PciPassthruConfig` has it."""
    for path, value in found:
        yield f"config{path.replace('numVirtualFunctionRequested', 'numVirtualFunction')}", value


def _switch(found: Sequence[Leaf], arguments: Mapping[str, Any]) -> Iterator[Leaf]:
    start = f"[key-vim.host.VirtualSwitch-{arguments['vswitchName']}].spec."
    yield from ((path.removeprefix(start), value) for path, value in found if path.startswith(start))


def _vmknic(found: Sequence[Leaf], arguments: Mapping[str, Any]) -> Iterator[Leaf]:
    starts = {
        path.partition("]")[0]
        for path, value in found
        if path.endswith("].device") and value == arguments["device"]
    }
    for path, value in found:
        head, _, rest = path.partition("].spec.")
        if head in starts and rest:
            yield f"nic.{rest}", value


def _drs_options(found: Sequence[Leaf], _arguments: Mapping[str, Any]) -> Iterator[Leaf]:
    yield from ((path, value) for path, value in found if path.startswith("drsConfig.option["))


def _uplinks(found: Sequence[Leaf], _arguments: Mapping[str, Any]) -> Iterator[Leaf]:
    yield from ((path.replace("].config.", "]."), value) for path, value in found)


def _devices(found: Sequence[Leaf], _arguments: Mapping[str, Any]) -> Iterator[Leaf]:
    yield from ((f"deviceChange{path.replace('].', '].device.', 1)}", value) for path, value in found)


_REPLACED = {
    "CloneVM_Task": ("config.hardware.device", _devices),
    "ReconfigVM_Task": ("config.hardware.device", _devices),
    "UpdateGraphicsConfig": ("config.graphicsConfig", _same),
    "UpdatePassthruConfig": ("config.pciPassthruInfo", _functions),
    "UpdateVirtualSwitch": ("config.network.vswitch", _switch),
    "UpdateVirtualNic": ("config.network.vnic", _vmknic),
    "ReconfigureComputeResource_Task": ("configurationEx", _drs_options),
    "ReconfigureDvs_Task": ("config", _uplinks),
}
"""Methods that replace an object whole: the property that holds it, and how it reads in the request."""
_SENT_BACK = frozenset(name for name, _ in _REPLACED.values())


# -------------------------------------------------------------------- listening


@contextmanager
def listening(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    """Hear everything that is sent to vCenter, to shells of hosts and to guests, inside."""
    wire = Wire()
    call, host_line, guest_line = TransportStub._call, LabShell.execute, LabGuestShell.execute
    act, ask, objects = RestClient.act, RestClient.call, TransportStub.objects

    def heard_call(stub: TransportStub, target: Any, info: Any, arguments: Any) -> Any:
        named = {part.name: value for part, value in zip(info.params, arguments, strict=False)}
        wire.call(info.wsdlName, target, named)
        value = call(stub, target, info, arguments)
        wire.answer(info.wsdlName, target, value)
        return value

    def heard_objects(stub: TransportStub, info: Any, answer: Any, readers: Any, turn: Any) -> Any:
        if answer[0] == HTTPStatus.OK:
            wire.answer(info.wsdlName, None, stub._decode(info, *answer))
        return objects(stub, info, answer, readers, turn)

    def heard_act(client: RestClient, path: str, action: str, body: Mapping[str, Any], what: str) -> Any:
        wire.rest(action, body)
        return act(client, path, action, body, what)

    def heard_ask(client: RestClient, method: str, path: str, body: Any, what: str, **more: Any) -> Any:
        wire.image(method, path, body)
        return ask(client, method, path, body, what, **more)

    def heard_host(shell: LabShell, line: str) -> tuple[int, str, str]:
        wire.line(HOST_SHELL, shell._moid, line)
        answer = host_line(shell, line)
        wire.names(shell._moid, line, answer[1])
        return answer

    def heard_guest(shell: LabGuestShell, line: str, stdin: bytes = b"") -> Any:
        wire.line(GUEST_SHELL, shell._moid, line)
        return guest_line(shell, line, stdin)

    with monkeypatch.context() as patch:
        patch.setattr(TransportStub, "_call", heard_call)
        patch.setattr(TransportStub, "objects", heard_objects)
        patch.setattr(RestClient, "act", heard_act)
        patch.setattr(RestClient, "call", heard_ask)
        patch.setattr(LabShell, "execute", heard_host)
        patch.setattr(LabGuestShell, "execute", heard_guest)
        yield wire
