from __future__ import annotations

from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.parsers.printed import printed
from vgpu_cfg.parsers.esxcli_xml import parse_records
from vgpu_cfg.parsers.text import UnreadableOutput

COMMAND = "esxcli network vm list"
XSI = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'


def test_a_list_is_rows_of_text() -> None:
    assert parse_records(COMMAND, printed("esxcli-list.xml")) == (
        {"Name": "foo", "Networks": "VM Network, R&D", "NumPorts": "2", "WorldID": "98842"},
        {"Name": "bar", "Networks": "VM Network", "NumPorts": "1", "WorldID": ""},
    )


def test_one_thing_is_a_list_of_one() -> None:
    (record,) = parse_records(COMMAND, printed("esxcli-struct.xml"))
    assert record["DefaultGraphicsType"] == "SharedPassthru"
    assert record["SharedPassthruAssignmentPolicy"] == "Performance"


def test_the_reflect_form_with_escaped_text() -> None:
    records = parse_records(COMMAND, printed("esxcli-reflect-escaped.xml"))
    assert records[0]["Description"] == "A & B"
    told = [records[0][name] for name in ("Name", "Configured", "Runtime", "Default")]
    assert told == ["atsSupport", "TRUE", "FALSE", "FALSE"]


def test_the_reflect_form_with_elements() -> None:
    (device,) = parse_records(COMMAND, printed("esxcli-reflect-elements.xml"))
    assert (device["Address"], device["VMkernelName"]) == ("0000:3B:00.0", "vmnic4")


@pytest.mark.parametrize(
    "text", [f'<obj {XSI} xsi:type="ArrayOfDataObject"/>', '<obj xsi:type="ArrayOfDataObject"></obj>']
)
def test_an_empty_list_is_empty(text: str) -> None:
    assert parse_records(COMMAND, text) == ()


def test_what_is_nested_is_named_with_its_parent() -> None:
    text = f'<obj {XSI} xsi:type="VimX"><Driver><Name>nmlx5</Name></Driver><Name>vmnic4</Name></obj>'
    assert parse_records(COMMAND, text) == ({"Driver.Name": "nmlx5", "Name": "vmnic4"},)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "an empty response"),
        ("<reflect:response></reflect:response>", "an empty response"),
        ("done", "not XML"),
        ("<obj><Name>a</obj>", "malformed XML"),
        ("<obj/><obj/>", "several results"),
        ('<obj xsi:type="xsd:string">done</obj>', "a single value, but a list was expected"),
        ('<obj xsi:type="ArrayOfDataObject"><Name>a</Name></obj>', "a list with items other than DataObject"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><obj>&a;</obj>', "document type"),
    ],
)
def test_a_response_that_is_not_understood_is_an_error(text: str, said: str) -> None:
    with pytest.raises(UnreadableOutput, match=said):
        parse_records(COMMAND, text)


# XML 1.0 keeps no control characters, and reads every line end as one newline.
TEXT = st.text(st.characters(min_codepoint=0x20, max_codepoint=0xD7FF), max_size=20).map(str.strip)
NAMES = st.from_regex(r"[A-Z][A-Za-z]{0,9}", fullmatch=True)


@given(st.lists(st.dictionaries(NAMES, TEXT, min_size=1, max_size=5), max_size=5), st.booleans())
def test_generated_lists_give_back_their_values(rows: list[dict[str, str]], is_wrapped: bool) -> None:
    inside = "".join(
        "<DataObject>"
        + "".join(f"<{name}>{escape(text)}</{name}>" for name, text in row.items())
        + "</DataObject>"
        for row in rows
    )
    response = f'<obj {XSI} xsi:type="ArrayOfDataObject">{inside}</obj>'
    if is_wrapped:
        response = f"<reflect:response>{escape(response)}</reflect:response>"
    assert parse_records(COMMAND, response) == tuple(rows)
