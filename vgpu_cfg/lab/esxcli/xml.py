"""Encode an answer of esxcli for vCenter: the XML text inside ExecuteSoap's result, and its faults.

Forms are those recorded by govmomi (`cli/esx`, `simulator`): a list is an ArrayOfDataObject, a
structure's type is the method's name without dots and its own, an element's name is the field's without
blanks. A failing command is a VimEsxCLICLIFault with its lines, an unknown one NotFound.
"""

from __future__ import annotations

from collections.abc import Iterable
from xml.sax.saxutils import escape

from vgpu_cfg.lab.esxcli.answers import Answer, PlainValue, Record, Row, Rows
from vgpu_cfg.lab.esxcli.system import FLAGS, OPTIONS

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
