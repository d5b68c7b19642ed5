"""esxcli through vCenter: a host's executer, the commands that it passes on, and their answers as XML.

Forms are those recorded by govmomi (`cli/esx`, `simulator`): a list is an ArrayOfDataObject, a
structure's type is the method's name without dots and its own, an element's name is the field's without
blanks. A failing command is a VimEsxCLICLIFault with its lines, an unknown one NotFound.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from xml.sax.saxutils import escape, unescape

from vgpu_cfg.lab.api.answer import RawXml
from vgpu_cfg.lab.api.references import EXECUTER
from vgpu_cfg.lab.esxcli import (
    FLAGS,
    OPTIONS,
    Answer,
    CommandError,
    PlainValue,
    Record,
    Row,
    Rows,
    UnknownCommandError,
    run,
)
from vgpu_cfg.lab.renderers.hardware import host_of
from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.simulation.directory import service_of
from vgpu_cfg.lab.simulation.operations import Context, answers
from vgpu_cfg.lab.state.inventory import Host, Managed

_SPACES = (
    'xmlns="urn:vim25" xmlns:xsd="http://www.w3.org/2001/XMLSchema"'
    ' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
)
SUMMARY = "EsxCLI.CLIFault.summary"
NOT_FOUND = "The object or item referred to could not be found."


def response(method: str, answer: Answer) -> str:
    """Return the XML of an answer; `method` is `vim.EsxCLI.software.vib.list`."""
    prefix = "V" + method.replace(".", "")[1:]
    match answer:
        case PlainValue(kind, text):
            return f'<obj {_SPACES} xsi:type="xsd:{kind}">{escape(text)}</obj>'
        case Record(kind, fields):
            return f'<obj {_SPACES} xsi:type="{prefix}{kind}">{_fields(fields)}</obj>'
        case Rows(kind, rows):
            inside = "".join(
                f'<DataObject xsi:type="{prefix}{kind}">{_fields(row)}</DataObject>' for row in rows
            )
            return f'<obj {_SPACES} xsi:type="ArrayOfDataObject">{inside}</obj>'


def namespace_info(name: str) -> str | None:
    """Return the XML that describes the commands of a name space, None where it has none.

    The elements are those that govmomi reads (`cli/esx`, CommandInfo). Real hosts add a text of help, and
    hints for tables.
    """
    found = [one for one in OPTIONS if one.rpartition(".")[0] == name]
    methods = "".join(f"<method>{_item(one)}{_parameters(one)}{_SIMPLE}</method>" for one in found)
    return f"<obj {_SPACES}>{_item(name)}{methods}</obj>" if found else None


_SIMPLE = "<hints><key>formatter</key><value>simple</value></hints>"


def _item(name: str) -> str:
    last = name.rpartition(".")[2]
    return f"<name>{last if name in OPTIONS else name}</name><displayName>{last}</displayName><help></help>"


def _parameters(command: str) -> str:
    letters = {long: letter for letter, longs in OPTIONS[command].items() for long in longs.split()}
    return "".join(
        f"<param><name>{long.replace('-', '')}</name><displayName>{long}</displayName><help></help>"
        + (f"<aliases>-{letter}</aliases>" if letter else "")
        + f"<aliases>--{long}</aliases><flag>{str(long in FLAGS).lower()}</flag></param>"
        for long, letter in letters.items()
    )


def result(text: str) -> str:
    """Return the value of ExecuteSoap for a response."""
    return f"<returnval><response>{escape(text)}</response></returnval>"


def failed(lines: Iterable[str]) -> str:
    """Return the value of ExecuteSoap for a command that fails."""
    return _fault(SUMMARY, "VimEsxCLICLIFault", "".join(f"<errMsg>{escape(line)}</errMsg>" for line in lines))


def unknown() -> str:
    """Return the value of ExecuteSoap for a command that the host does not have."""
    return _fault(NOT_FOUND, "NotFound", "")


def _fault(message: str, kind: str, inside: str) -> str:
    detail = (
        f'<LocalizedMethodFault {_SPACES}><fault xsi:type="{kind}">{inside}</fault>'
        f"<localizedMessage>{escape(message)}</localizedMessage></LocalizedMethodFault>"
    )
    return (
        f"<returnval><fault><faultMsg>{escape(message)}</faultMsg>"
        f"<faultDetail>{escape(detail)}</faultDetail></fault></returnval>"
    )


def _fields(row: Row) -> str:
    return "".join(
        f"<{_element(name)}>{escape(value)}</{_element(name)}>"
        for name, values in row.items()
        for value in ((values,) if isinstance(values, str) else values)
    )


def _element(name: str) -> str:
    return name.replace(" ", "")


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
    refusals.check_host_answers(thing)
    return RawXml(f'<returnval type="{EXECUTER}">{service_of(thing, PREFIX).moid}</returnval>')


@answers("HostSystem", "RetrieveDynamicTypeManager")
def retrieve_type_manager(context: Context, thing: Host) -> RawXml:
    """Return the description of esxcli's types: govc wants it, without using it. Raises HostNotConnected."""
    refusals.check_host_answers(thing)
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
        described = namespace_info("".join(arguments.get("typeName", ())).removeprefix(NAMESPACE))
        return RawXml(unknown() if described is None else result(described))
    if not method.startswith(NAMESPACE) or moid != HANDLER + name.rpartition(".")[0].replace(".", "-"):
        return RawXml(unknown())
    try:
        answer = run(context.lab, host_of(thing), name, arguments, "vcenter")
    except UnknownCommandError:
        return RawXml(unknown())
    except CommandError as error:
        return RawXml(failed(error.lines))
    return RawXml(result(response(method, answer)))


def _values(text: str) -> tuple[str, ...]:
    """Read `<vibname>a</vibname><vibname>b</vibname>`."""
    return tuple(unescape(found["text"], _QUOTES) for found in _ELEMENT.finditer(text))
