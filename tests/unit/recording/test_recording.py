"""Recordings: which requests are the same, what is taken out, and what a damaged file says."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from xml.etree.ElementTree import canonicalize

import pytest

from vgpu_cfg.errors import DocumentError, NotRecorded, VCenterError
from vgpu_cfg.recording import (
    PlayingTransport,
    Recording,
    RecordingTransport,
    load_recording,
    save_recording,
)
from vgpu_cfg.recording.file import request_key
from vgpu_cfg.recording.recorder import SCRUBBED, Scrubber

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
VERSION = {"SOAPAction": '"urn:vim25/8.0.3.0"'}
ENVELOPE = (
    '<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"'
    ' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
    ' xmlns:xsd="http://www.w3.org/2001/XMLSchema"><s:Body>{}</s:Body></s:Envelope>'
)


def soap(inner: str) -> bytes:
    return ENVELOPE.format(inner).encode()


def call(method: str, arguments: str = "", this: str = "vm-1", kind: str = "VirtualMachine") -> bytes:
    return soap(f'<{method} xmlns="urn:vim25"><_this type="{kind}">{this}</_this>{arguments}</{method}>')


def key(body: bytes) -> str:
    return request_key("POST", "/sdk", body)[1]


def test_prefixes_white_space_and_headers_do_not_count() -> None:
    one = call("QueryConfigOption", '<host xsi:type="HostSystem" type="HostSystem">host-1</host>')
    other = (
        b'<soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/"'
        b' xmlns:v="urn:vim25" xmlns:i="http://www.w3.org/2001/XMLSchema-instance">'
        b"<soap:Header><operationID>abc</operationID></soap:Header>\n <soap:Body>"
        b'<v:QueryConfigOption>\n  <v:_this type="VirtualMachine"> vm-1 </v:_this>'
        b'<v:host i:type="v:HostSystem" type="HostSystem">host-1</v:host></v:QueryConfigOption>'
        b"</soap:Body></soap:Envelope>"
    )
    assert key(one) == key(other)


@pytest.mark.parametrize(
    "other",
    [
        call("QueryConfigOption", "<key>vmx-20</key>"),
        call("QueryConfigOption", "<key>vmx-21</key>", this="vm-2"),
        call("QueryConfigTarget", "<key>vmx-21</key>"),
        call("QueryConfigOption"),
        call("QueryConfigOption", "<key><key>vmx-21</key></key>"),
    ],
    ids=["argument", "object", "method", "no argument", "shape"],
)
def test_what_is_asked_counts(other: bytes) -> None:
    assert key(call("QueryConfigOption", "<key>vmx-21</key>")) != key(other)


def test_a_property_that_was_added_later_does_not_count_where_it_is_left_out() -> None:
    older = call("RetrievePropertiesEx", "<pathSet>name</pathSet>")
    newer = call("RetrievePropertiesEx", "<pathSet>name</pathSet><pathSet>config.managedBy</pathSet>")
    assert key(newer) != key(older)
    assert request_key("POST", "/sdk", newer, without={"config.managedBy"})[1] == key(older)
    assert request_key("POST", "/sdk", older, without={"name"})[1] != key(older)


def test_who_logs_in_does_not_count() -> None:
    anna = call("Login", "<userName>anna</userName><password>1</password>", kind="SessionManager")
    bob = call("Login", "<userName>bob</userName><password>2</password>", kind="SessionManager")
    assert key(anna) == key(bob) == "SessionManager.Login"


def test_a_request_is_named_for_a_reader() -> None:
    assert request_key("POST", "/sdk", call("PowerOnVM_Task"))[0] == "VirtualMachine.PowerOnVM_Task"


@pytest.mark.parametrize("body", [b"hello", b"<a>", soap(""), b"<a/>"])
def test_what_is_no_call_has_no_key(body: bytes) -> None:
    with pytest.raises(ValueError, match="request"):
        request_key("POST", "/sdk", body)


def test_a_login_is_scrubbed_of_who_and_how() -> None:
    answer = soap(
        '<LoginResponse xmlns="urn:vim25"><returnval><key>52aa-KEY</key><userName>EXAMPLE\\anna</userName>'
        "<fullName>Anna A.</fullName><ipAddress>10.1.2.3</ipAddress><callCount>0</callCount>"
        "</returnval></LoginResponse>"
    )
    clean = Scrubber().answer(answer, "SessionManager.Login").decode()
    for secret in ("52aa-KEY", "anna", "Anna", "10.1.2.3"):
        assert secret not in clean
    assert clean.count(SCRUBBED) == 4
    assert "<callCount>0</callCount>" in clean


def test_secrets_are_found_by_element_whatever_they_carry() -> None:
    answer = soap(
        '<RetrieveResponse xmlns="urn:vim25"><v:password xmlns:v="urn:vim25" versionId="8.0.3.0">hun&amp;ter2'
        "</v:password><ticket>cst-1</ticket><name>password</name></RetrieveResponse>"
    )
    clean = Scrubber().answer(answer, "X.Retrieve").decode()
    assert "ter2" not in clean
    assert "cst-1" not in clean
    assert '<v:password xmlns:v="urn:vim25" versionId="8.0.3.0">scrubbed</v:password>' in clean
    assert "<name>password</name>" in clean


@pytest.mark.parametrize(
    ("option", "kept"),
    [
        ("guestinfo.userdata", False),
        ("guestinfo.metadata", False),
        ("guestinfo.vgpu_cfg.report", True),
        ("guestinfo.vgpu_cfg.reports", False),
        ("vgpu_cfg.guest", True),
        ("RemoteDisplay.vnc.key", False),
        ("my.Password", False),
        ("licence.token", False),
        ("numa.nodeAffinity", True),
        ("vgpu_cfg.plan", True),
        ("pciPassthru.use64bitMMIO", True),
    ],
)
def test_extra_config_keeps_what_is_no_secret(option: str, *, kept: bool) -> None:
    answer = soap(
        '<R xmlns="urn:vim25"><OptionValue><key>first</key><value xsi:type="xsd:string">1</value>'
        "</OptionValue>"
        f'<OptionValue><key>{option}</key><value xsi:type="xsd:string">VALUE</value></OptionValue></R>'
    )
    clean = Scrubber().answer(answer, "X.R").decode()
    assert ("VALUE" in clean) is kept
    assert '<value xsi:type="xsd:string">1</value>' in clean


def test_the_rest_of_an_answer_stays() -> None:
    answer = soap('<R xmlns="urn:vim25"><val xsi:type="xsd:string">ü &lt; €</val><a/><b> \n</b></R>')
    assert canonicalize(Scrubber().answer(answer, "X.R").decode()) == canonicalize(answer.decode())


def test_ids_of_a_session_become_plain_ones_the_same_everywhere() -> None:
    scrubber = Scrubber()
    one, two = "session[52aa]52bb", "session[52aa]52cc"
    answer = scrubber.answer(
        soap(f'<R><returnval type="ContainerView">{one}</returnval></R>'), "X.R"
    ).decode()
    other = scrubber.answer(soap(f'<R><returnval type="ContainerView">{two}</returnval></R>'), "X.R").decode()
    request = scrubber.request(call("DestroyView", this=one, kind="ContainerView")).decode()
    assert "session-object-1" in answer
    assert "session-object-2" in other
    assert "session-object-1" in request
    assert "52aa" not in answer + other + request


class Server:
    """Answers each call with what it was called, and a cookie."""

    def __init__(self, *answers: bytes) -> None:
        self._answers = list(answers)

    def exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        del method, path, headers
        if not body:
            return 200, {}, b"<namespaces/>"
        return 200, {"Set-Cookie": 'vmware_soap_session="52dd"'}, self._answers.pop(0)

    def close(self) -> None:
        self._answers.clear()


def recorded(*exchanges: tuple[bytes, bytes]) -> Recording:
    transport = RecordingTransport(Server(*[answer for _, answer in exchanges]), "vc01.example.com")
    for request, answer in exchanges:
        status, headers, got = transport.exchange("POST", "/sdk", VERSION, request)
        assert (status, got) == (200, answer)
        assert "Set-Cookie" in headers
    return transport.recording(NOW)


ONE, TWO = soap("<R>1</R>"), soap("<R>2</R>")


def test_what_was_recorded_is_played() -> None:
    player = PlayingTransport(recorded((call("QueryA"), ONE), (call("QueryB"), TWO)))
    assert player.exchange("POST", "/sdk", {}, call("QueryB")) == (200, {}, TWO)
    assert player.exchange("POST", "/sdk", {}, call("QueryA")) == (200, {}, ONE)


def test_answers_to_one_request_come_in_their_order_and_the_last_one_stays() -> None:
    recording = recorded((call("QueryA"), ONE), (call("QueryA"), TWO), (call("QueryA"), TWO))
    assert len(recording.exchanges) == 2
    player = PlayingTransport(recording)
    answers = [player.exchange("POST", "/sdk", {}, call("QueryA"))[2] for _ in range(4)]
    assert answers == [ONE, TWO, TWO, TWO]


def test_a_missing_answer_is_an_error_that_names_it() -> None:
    player = PlayingTransport(recorded((call("QueryA"), ONE)))
    with pytest.raises(NotRecorded, match=r"VirtualMachine\.PowerOnVM_Task") as caught:
        player.exchange("POST", "/sdk", {}, call("PowerOnVM_Task"))
    assert caught.value.subject == "vc01.example.com"
    assert "record" in caught.value.remedy


ROOTS = call("RetrieveServiceContent", this="ServiceInstance", kind="ServiceInstance")


def test_a_player_speaks_no_newer_version_than_the_recorded_one() -> None:
    answer = soap("<R><about><version>9.0.0</version><apiVersion>9.0.0.0</apiVersion></about></R>")
    player = PlayingTransport(recorded((ROOTS, answer), (call("QueryA"), answer)))
    assert player.exchange("POST", "/sdk", {}, ROOTS)[2] == answer.replace(b"9.0.0.0", b"8.0.3.0")
    assert player.exchange("POST", "/sdk", {}, call("QueryA"))[2] == answer


def test_a_player_knows_when_it_was_recorded() -> None:
    assert PlayingTransport(recorded((call("QueryA"), ONE))).now() == NOW


def test_neither_cookie_nor_request_is_kept() -> None:
    secret = call("Login", "<userName>anna</userName><password>hunter2</password>", kind="SessionManager")
    text = recorded((secret, ONE)).model_dump_json()
    for word in ("hunter2", "anna", "52dd", "Cookie"):
        assert word not in text


def test_an_answer_that_cannot_be_scrubbed_is_not_kept() -> None:
    with pytest.raises(VCenterError, match="cannot be recorded"):
        recorded((call("QueryA"), b"<html>"))


@pytest.mark.parametrize("name", ["vc01.json", "vc01.json.gz"])
def test_a_recording_survives_its_file(tmp_path: Path, name: str) -> None:
    recording = recorded((call("QueryA"), soap("<R>ü €</R>")))
    path = tmp_path / name
    save_recording(recording, path)
    assert load_recording(path) == recording
    assert [found.name for found in tmp_path.iterdir() if found.name.startswith(".")] == []


def test_the_same_recording_is_the_same_file(tmp_path: Path) -> None:
    recording = recorded((call("QueryA"), ONE))
    for name in ("a.json.gz", "b.json.gz"):
        save_recording(recording, tmp_path / name)
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()


def damaged() -> list[tuple[str, bytes, str]]:
    good = recorded((call("QueryA"), ONE)).model_dump(mode="json")
    compressed = gzip.compress(json.dumps(good).encode())
    return [
        ("r.json", b"", "not a valid recording: Expecting value"),
        ("r.json", b"\xff\xfe\x00", "not a recording: the file is not text"),
        ("r.json", b'{"format": 1,', "not a valid recording: Expecting property name"),
        ("r.json", b"[]", "no requests and responses"),
        ("r.json", json.dumps({**good, "format": 9}).encode(), "format 9"),
        ("r.json", json.dumps({**good, "exchanges": [{"call": "x"}]}).encode(), "damaged at exchanges.0.key"),
        ("r.json", json.dumps({**good, "more": 1}).encode(), "damaged at more"),
        ("r.json.gz", compressed[:-9], "damaged"),
        ("r.json.gz", b"hello", "cannot read"),
    ]


@pytest.mark.parametrize(("name", "content", "words"), damaged())
def test_a_damaged_file_is_a_fault_of_the_document(
    tmp_path: Path, name: str, content: bytes, words: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DocumentError) as caught:
        load_recording(path)
    assert words in caught.value.message
    assert caught.value.exit_code == 3
    assert str(path) in caught.value.subject


def test_a_missing_file_is_a_fault_of_the_document(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="cannot read"):
        load_recording(tmp_path / "none.json")
