"""What is asked together: how much at once, in whose order it is told, and what happens where it fails."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from pyVmomi import vim

from tests.unit.vsphere.soap_answers import VERSION, Answer, fault, soap
from tests.unit.vsphere.wire.test_stub import Counted
from vgpu_cfg.errors import NotSent, Unreachable, VCenterError
from vgpu_cfg.vsphere.wire.flight import Ahead, alone, together, travelling
from vgpu_cfg.vsphere.wire.outage import Outage
from vgpu_cfg.vsphere.wire.stub import TransportStub

PATIENCE = 60
"""Seconds that a test waits for what has to come; it never does where all is well."""
TASK = vim.Task("task-7")


class Meeting:
    """Lets nobody go on before so many have come, the first time."""

    def __init__(self, count: int) -> None:
        self._barrier = threading.Barrier(count)
        self._left = count
        self._lock = threading.Lock()

    def come(self) -> None:
        with self._lock:
            self._left -= 1
            is_awaited = self._left >= 0
        if is_awaited:
            self._barrier.wait(PATIENCE)


def test_as_many_as_may_are_on_their_way_at_once_and_answers_keep_their_order() -> None:
    meeting = Meeting(4)
    threads: set[threading.Thread] = set()

    def ask(number: int) -> int:
        threads.add(threading.current_thread())
        with travelling():
            meeting.come()
        return number

    assert together([partial(ask, number) for number in range(12)], 4) == list(range(12))
    assert len(threads) == 4
    assert threading.current_thread() not in threads


@pytest.mark.parametrize(("count", "most"), [(3, 1), (1, 4), (0, 4)])
def test_one_at_a_time_needs_no_thread(count: int, most: int) -> None:
    assert together([threading.current_thread] * count, most) == [threading.current_thread()] * count


def test_what_is_asked_together_asks_its_own_questions_one_by_one() -> None:
    def ask() -> bool:
        return together([threading.current_thread] * 2, 4) == [threading.current_thread()] * 2

    assert together([ask, ask], 4) == [True, True]


def test_one_is_worked_on_at_a_time() -> None:
    working: list[int] = []
    together_at = []

    def ask(number: int) -> None:
        for _ in range(50):
            working.append(number)
            together_at.append(len(working))
            working.remove(number)
            with travelling():
                pass

    together([partial(ask, number) for number in range(4)], 4)
    assert set(together_at) == {1}


def test_a_page_that_is_fetched_ahead_takes_its_turn() -> None:
    meeting = Meeting(2)

    def fetch() -> str:
        with travelling():
            meeting.come()
        return "page"

    def ask() -> str:
        answer = Ahead(fetch).result  # no longer than the meeting's time
        return answer()

    assert together([ask, ask], 2) == ["page", "page"]


# ---------------------------------------------------------------- errors


def test_the_first_error_in_their_order_is_raised_and_nothing_more_is_asked() -> None:
    later_failed = threading.Event()
    asked: list[int] = []

    def first() -> None:
        with travelling():
            assert later_failed.wait(PATIENCE)
        raise ValueError("first")

    def second() -> None:
        later_failed.set()
        raise ValueError("second")

    calls: list[Callable[[], None]] = [first, second]
    calls += [partial(asked.append, number) for number in range(9)]
    with pytest.raises(ValueError, match="first"):
        together(calls, 2)
    assert asked == []


def test_those_before_it_come_to_their_end() -> None:
    failed = threading.Event()
    ended = []

    def first() -> None:
        with travelling():
            assert failed.wait(PATIENCE)
        ended.append(1)

    def second() -> None:
        failed.set()
        raise ValueError("second")

    with pytest.raises(ValueError, match="second"):
        together([first, second], 2)
    assert ended == [1]


def test_an_interruption_ends_it_at_once_and_nothing_goes_on() -> None:
    main = threading.main_thread()
    if threading.current_thread() is not main:
        pytest.skip("signals come to the main thread, in which tests do not run here")
    asked = []
    threads: list[threading.Thread] = []
    may_answer = threading.Event()
    all_there = Meeting(2)

    def ask(number: int) -> None:
        threads.append(threading.current_thread())
        with travelling():
            all_there.come()
            if number == 0:
                signal.pthread_kill(main.ident or 0, signal.SIGINT)
            may_answer.wait(PATIENCE)
        asked.append(number)

    with pytest.raises(KeyboardInterrupt):
        together([partial(ask, number) for number in range(4)], 2)
    may_answer.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(threads) == 2
    assert asked == []


# ---------------------------------------------------------------- a session that ends


class Server:
    """Answers by the cookie and the number of a request, once those of a meeting are there."""

    def __init__(self, answer: Callable[[str, int], Answer | Exception], meeting: Meeting) -> None:
        self._answer = answer
        self._meeting = meeting
        self._lock = threading.Lock()
        self.cookies: list[str] = []

    def exchange(self, method: str, path: str, headers: Any, body: bytes) -> Answer:
        del method, path, body
        with self._lock:
            cookie = headers.get("Cookie", "")
            number = len(self.cookies)
            self.cookies.append(cookie)
        self._meeting.come()
        answer = self._answer(cookie, number)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        """Nothing is open."""


def read(stub: TransportStub) -> Any:
    return vim.EnvironmentBrowser("envbrowser-1", stub).QueryConfigOptionDescriptor()


class LoginOn(Counted):
    """Logs in again at a stub, over its wire."""

    def __init__(self, stub: TransportStub) -> None:
        self._stub = stub

    def renew(self) -> None:
        super().renew()
        self._stub.forget_session()
        with alone():
            vim.SessionManager("SessionManager", self._stub).Logout()  # any call that sets the cookie


def test_a_session_that_ends_is_renewed_once_for_all_and_its_late_answers_change_nothing() -> None:
    ended = vim.fault.NotAuthenticated(object=vim.Folder("group-d1"), privilegeId="System.View")

    def answer(cookie: str, number: int) -> Answer:
        if not cookie:
            return soap("Logout", None, {"Set-Cookie": 'vmware_soap_session="new"'})
        if "new" in cookie:
            return soap("QueryConfigOptionDescriptor")
        status, _, content = fault(ended)
        return status, {"Set-Cookie": f'vmware_soap_session="stale-{number}"'}, content

    server = Server(answer, Meeting(3))
    stub = TransportStub(server, VERSION, "vc01")
    stub._take_cookie({"Set-Cookie": 'vmware_soap_session="old"'})
    stub.login = login = LoginOn(stub)
    together([partial(read, stub)] * 3, 3)
    assert login.renewals == 1
    assert sorted(server.cookies) == sorted(
        ['vmware_soap_session="old"'] * 3 + [""] + ['vmware_soap_session="new"'] * 3
    )
    assert stub.round_trips == 7


# ---------------------------------------------------------------- a server that is away, or takes one request


class Clock:
    """A clock that goes on when somebody waits, and what was told meanwhile."""

    def __init__(self) -> None:
        self.at = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)
        self.told: list[str] = []
        self.pauses: list[float] = []
        self.outage = Outage(600.0, self.pause, lambda: self.at, self.told.append, is_known=True)

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.at += timedelta(seconds=seconds)


GONE = NotSent("no connection to vc01:443: refused", subject="vc01")


def test_one_waits_for_a_server_that_is_away_for_all_of_them() -> None:
    clock = Clock()
    back = clock.at + timedelta(seconds=60)

    def answer(_cookie: str, _number: int) -> Answer | Exception:
        return GONE if clock.at < back else soap("QueryConfigOptionDescriptor")

    server = Server(answer, Meeting(4))
    stub = TransportStub(server, VERSION, "vc01", clock.outage)
    together([partial(read, stub)] * 8, 4)
    assert len(clock.told) == 2, clock.told
    assert sum(clock.pauses) < 70


def test_one_that_does_not_come_back_is_given_up_once() -> None:
    clock = Clock()
    server = Server(lambda _cookie, _number: GONE, Meeting(4))
    stub = TransportStub(server, VERSION, "vc01", clock.outage)
    with pytest.raises(NotSent, match="waited for 10 min"):
        together([partial(read, stub)] * 8, 4)
    assert len(clock.told) == 1
    assert sum(clock.pauses) < 610


class OneAtATime:
    """Fails a second request while it has another one, and counts how often."""

    def __init__(self, meeting: Meeting, refusal: Unreachable) -> None:
        self._busy = threading.Lock()
        self._refused = threading.Event()
        self._meeting = meeting
        self._refusal = refusal
        self.refusals = 0

    def exchange(self, method: str, path: str, headers: Any, body: bytes) -> Answer:
        del method, path, headers, body
        is_taken = self._busy.acquire(blocking=False)
        try:
            self._meeting.come()
            if is_taken:
                assert self._refused.wait(PATIENCE)
                return soap("QueryConfigOptionDescriptor")
            self.refusals += 1
            self._refused.set()
            raise self._refusal
        finally:
            if is_taken:
                self._busy.release()

    def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize("refusal", [GONE, Unreachable("the connection broke: reset", subject="vc01")])
def test_where_a_second_connection_is_refused_one_is_asked_after_the_other(refusal: Unreachable) -> None:
    clock = Clock()
    server = OneAtATime(Meeting(2), refusal)
    stub = TransportStub(server, VERSION, "vc01", clock.outage)
    together([partial(read, stub)] * 10, 2)
    assert server.refusals == 1
    assert clock.told == []
    assert stub.round_trips == 11


def test_an_error_that_is_no_lost_connection_leaves_them_at_it() -> None:
    meetings = [Meeting(2), Meeting(2)]

    def ask(number: int) -> str:
        try:
            with travelling():
                meetings[0].come()
                if number == 0:
                    raise VCenterError("refused")
        except VCenterError:
            pass
        with travelling():
            meetings[1].come()
        return "told"

    assert together([partial(ask, number) for number in range(2)], 2) == ["told", "told"]
