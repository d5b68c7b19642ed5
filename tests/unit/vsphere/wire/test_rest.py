"""The REST side's client: what an odd answer means, and what is asked again."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from vgpu_cfg.errors import (
    LoginFailed,
    NotFound,
    NotOffered,
    NotPermitted,
    NotSent,
    TooMuch,
    Unreachable,
    VCenterError,
)
from vgpu_cfg.vsphere.wire.outage import Outage
from vgpu_cfg.vsphere.wire.rest import MOST_ASKED, SESSION_HEADER, RestClient, basic, ids_of, signed

LOGIN = (200, b'{"value": "t-1"}')
WORDS = {"type": "com.vmware.vapi.std.errors.x", "value": {"messages": [{"default_message": "No  such"}]}}


class Scripted:
    """A wire that answers what it was given, in that order, and remembers what it was asked."""

    def __init__(self, *answers: tuple[int, bytes] | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str, Mapping[str, str]]] = []

    def exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        self.asked.append((method, path, headers))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer[0], {}, answer[1]

    def close(self) -> None:
        pass


def client(wire: Scripted) -> RestClient:
    return RestClient(wire, "vc", lambda: basic("anna", "secret"), Outage(pause=lambda _seconds: None))


def test_it_logs_in_with_the_first_request_and_out_at_the_end() -> None:
    wire = Scripted(LOGIN, (200, b'{"value": [1]}'), (200, b""), (200, b""))
    rest = client(wire)
    assert rest.get("/a", "reading a") == [1]
    assert rest.act("/a", "go on", {}, "doing a") is None
    rest.close()
    rest.close()
    assert [(method, path) for method, path, _ in wire.asked] == [
        ("POST", "/rest/com/vmware/cis/session"),
        ("GET", "/rest/a"),
        ("POST", "/rest/a?~action=go%20on"),
        ("DELETE", "/rest/com/vmware/cis/session"),
    ]
    assert wire.asked[0][2]["Authorization"] == "Basic YW5uYTpzZWNyZXQ="
    assert [headers.get(SESSION_HEADER) for _, _, headers in wire.asked] == [None, "t-1", "t-1", "t-1"]
    assert all("Authorization" not in headers for _, _, headers in wire.asked[1:])


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, VCenterError), (403, NotPermitted), (404, NotFound), (500, VCenterError), (503, Unreachable)],
)
def test_a_refusal_is_told_with_vcenters_words(status: int, kind: type[VCenterError]) -> None:
    answers = [(status, json.dumps(WORDS).encode())] * 3
    with pytest.raises(kind) as caught:
        client(Scripted(LOGIN, *answers)).get("/a", "reading a")
    assert type(caught.value) is kind
    if status != 503:
        assert caught.value.message == f"reading a: No such [x] (HTTP status {status})"


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[1]", b'{"value": 5}', b'{"value": {"messages": 7}}', b"[" * 100_000]
)
def test_what_an_error_does_not_say_is_left_out(body: bytes) -> None:
    with pytest.raises(VCenterError, match="reading a: HTTP status 500"):
        client(Scripted(LOGIN, (500, body))).get("/a", "reading a")


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"7", b"[" * 100_000])
def test_an_answer_that_is_no_value_is_an_error(body: bytes) -> None:
    with pytest.raises(VCenterError, match="reading a: cannot read the response"):
        client(Scripted(LOGIN, (200, body))).get("/a", "reading a")


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ((401, b""), LoginFailed),
        ((404, b""), NotOffered),
        ((500, b""), VCenterError),
        ((200, b'{"value": 5}'), VCenterError),
        ((200, b'{"value": "a\\r\\nX: y"}'), VCenterError),
    ],
)
def test_a_login_that_fails_says_why(answer: tuple[int, bytes], kind: type[VCenterError]) -> None:
    wire = Scripted(answer)
    with pytest.raises(kind) as caught:
        client(wire).get("/a", "reading a")
    assert "secret" not in f"{caught.value} {caught.value.remedy}"
    assert len(wire.asked) == 1


def test_a_session_that_ended_is_made_again_once() -> None:
    again = (200, b'{"value": "t-2"}')
    wire = Scripted(
        LOGIN, (200, b""), (401, b""), again, (200, b'{"value": 1}'), (401, b""), again, (401, b"")
    )
    rest = client(wire)
    rest.get("/a", "reading a")
    assert rest.get("/a", "reading a") == 1
    assert wire.asked[-1][2][SESSION_HEADER] == "t-2"
    with pytest.raises(LoginFailed, match="the session has expired"):
        rest.get("/a", "reading a")


def test_what_was_lost_is_asked_again() -> None:
    lost = Unreachable("the connection broke", subject="vc")
    wire = Scripted(NotSent("refused", subject="vc"), LOGIN, lost, (200, b'{"value": 1}'))
    assert client(wire).get("/a", "reading a") == 1


def test_who_cannot_be_logged_out_is_no_trouble() -> None:
    wire = Scripted(LOGIN, (200, b""), Unreachable("gone", subject="vc"))
    rest = client(wire)
    rest.get("/a", "reading a")
    rest.close()
    assert len(wire.asked) == 3


def test_a_token_is_packed_as_it_is_expected() -> None:
    assert signed("<a/>").startswith('SIGN token="H4sI')


def test_ids_are_texts_in_order_and_not_too_many() -> None:
    assert ids_of(["b", "a", 7], "reading tags", "vc") == ["7", "a", "b"]
    assert ids_of(None, "reading tags", "vc") == []
    assert len(ids_of([str(number) for number in range(MOST_ASKED)], "reading tags", "vc")) == MOST_ASKED
    with pytest.raises(TooMuch, match=f"^reading tags: {MOST_ASKED + 1} found; the limit is {MOST_ASKED}$"):
        ids_of(["x"] * (MOST_ASKED + 1), "reading tags", "vc")


@pytest.mark.parametrize("answer", [{"value": 1}, "text", 7])
def test_an_answer_of_another_shape_is_not_read(answer: object) -> None:
    with pytest.raises(VCenterError, match="reading tags: cannot read the response") as caught:
        ids_of(answer, "reading tags", "vc")
    assert caught.value.subject == "vc"
