"""esxcli through vCenter: a host's executer, and the commands that it passes on."""

from __future__ import annotations

import re
from typing import Any
from xml.sax.saxutils import unescape

from vgpu_cfg.lab.api.answer import RawXml
from vgpu_cfg.lab.api.reflect import EXECUTER
from vgpu_cfg.lab.esxcli import devices, software, system, xml
from vgpu_cfg.lab.esxcli.answers import CommandError, UnknownCommandError, run
from vgpu_cfg.lab.renderers.hosts.graphics import host_of
from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.simulation.context import Context
from vgpu_cfg.lab.simulation.directory import service_of
from vgpu_cfg.lab.simulation.operations import answers
from vgpu_cfg.lab.state.inventory import Host, Managed

MODULES = (devices, devices, software, system)
"""Importing them fills the table of commands."""

PREFIX = "managedMethodExecuter"
HANDLER = "ha-cli-handler-"
NAMESPACE = "vim.EsxCLI."
INFORMER, FETCH_INFO = "ha-dynamic-type-manager-local-cli-cliinfo", "vim.CLIInfo.FetchCLIInfo"
"""The description of a name space's commands, which govc reads before it calls one."""
_ELEMENT = re.compile(r"<(?P<tag>\w+)(?:\s[^>]*)?>(?P<text>[^<]*)</(?P=tag)>")
_QUOTES = {"&quot;": '"', "&apos;": "'"}


@answers("HostSystem", "RetrieveManagedMethodExecuter")
def retrieve_executer(context: Context, thing: Host) -> RawXml:
    """Return the host's executer. Raises HostNotConnected."""
    away = refusals.host_away(thing)
    if away is not None:
        raise away
    return RawXml(f'<returnval type="{EXECUTER}">{service_of(thing, PREFIX).moid}</returnval>')


@answers("HostSystem", "RetrieveDynamicTypeManager")
def retrieve_type_manager(context: Context, thing: Host) -> RawXml:
    """Return the description of esxcli's types: govc wants it, without using it. Raises HostNotConnected."""
    away = refusals.host_away(thing)
    if away is not None:
        raise away
    return RawXml(f'<returnval type="InternalDynamicTypeManager">dynamicTypeManager-{thing.moid}</returnval>')


@answers(EXECUTER, "ExecuteSoap")
def execute_soap(
    context: Context, thing: Managed, *, moid: str, version: str, method: str, argument: list[Any]
) -> RawXml:
    """Carry an esxcli command out: its failure is in the result, as is that there is none of its name."""
    del version
    name = method.removeprefix(NAMESPACE)
    arguments = {each.name: _values(each.val) for each in argument or ()}
    if (moid, method) == (INFORMER, FETCH_INFO):
        described = xml.namespace_info("".join(arguments.get("typeName", ())).removeprefix(NAMESPACE))
        return RawXml(xml.unknown() if described is None else xml.result(described))
    if not method.startswith(NAMESPACE) or moid != HANDLER + name.rpartition(".")[0].replace(".", "-"):
        return RawXml(xml.unknown())
    try:
        answer = run(context.lab, host_of(thing), name, arguments)
    except UnknownCommandError:
        return RawXml(xml.unknown())
    except CommandError as error:
        return RawXml(xml.failed(error.lines))
    return RawXml(xml.result(xml.response(method, answer)))


def _values(text: str) -> tuple[str, ...]:
    """Read `<vibname>a</vibname><vibname>b</vibname>`."""
    return tuple(unescape(found["text"], _QUOTES) for found in _ELEMENT.finditer(text))
