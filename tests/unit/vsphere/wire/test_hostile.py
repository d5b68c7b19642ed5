"""A server that does not mean well, over real sockets: every exchange ends, in time and in bytes."""

from __future__ import annotations

import socket
import tracemalloc
from collections.abc import Iterator

import pytest

from tests.fakes import hostile_vcenter as hostile
from tests.fakes.hostile_vcenter import HostileVCenter
from vgpu_cfg.errors import AnswerLate, NotSent, TooMuch, Unreachable
from vgpu_cfg.lab import open_lab
from vgpu_cfg.lab.vcenter import Lab
from vgpu_cfg.model.plan_values import MIB, Limits
from vgpu_cfg.vsphere.wire.allowances import patient
from vgpu_cfg.vsphere.wire.outage import Outage
from vgpu_cfg.vsphere.wire.session import Session
from vgpu_cfg.vsphere.wire.transport import Budget, HttpsTransport, Trust

pytestmark = pytest.mark.enable_socket

PATH = "/sdk/vimServiceVersions.xml"
ROUNDS = 200
BUFFERS = 16 * MIB
"""What systems keep of a stream on both ends; only so much may be sent beside what is taken."""


class Ticks:
    """A clock that goes on by a second whenever somebody looks: what takes too many steps takes too long."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        self.seconds += 1.0
        return self.seconds


@pytest.fixture(scope="module")
def lab() -> Lab:
    return open_lab("no-gpu")


@pytest.fixture
def ticks() -> Ticks:
    return Ticks()


def reach(server: HostileVCenter, limits: Limits, now: Ticks) -> HttpsTransport:
    return HttpsTransport(
        f"127.0.0.1:{server.port}", trust=Trust(thumbprint=server.thumbprint), limits=limits, now=now
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("attack", hostile.ATTACKS, ids=lambda attack: attack.__name__)
def test_every_attack_on_an_exchange_ends(attack: hostile.Attack, lab: Lab, ticks: Ticks) -> None:
    limits = Limits(timeout_seconds=ROUNDS, answer_mib=1)
    with HostileVCenter(lab, attack, method="GET") as server:
        transport = reach(server, limits, ticks)
        tracemalloc.start()
        try:
            with pytest.raises((TooMuch, Unreachable)) as caught:
                transport.exchange("GET", PATH, {"Accept-Encoding": "gzip"}, b"")
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
            transport.close()
        assert server.sent < BUFFERS
    assert ticks.seconds <= ROUNDS + 5
    assert peak < 16 * MIB
    assert caught.value.subject == transport.address
    assert caught.value.remedy


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "attack", [hostile.flood, hostile.gzip_bomb, hostile.endless_chunks, hostile.huge_chunk]
)
def test_too_much_is_told_as_that(attack: hostile.Attack, lab: Lab) -> None:
    with HostileVCenter(lab, attack, method="GET") as server:
        transport = reach(server, Limits(answer_mib=2), lambda: 0.0)  # type: ignore[arg-type]  # it stands still
        with pytest.raises(TooMuch, match="a response of more than 2 MiB") as caught:
            transport.exchange("GET", PATH, {"Accept-Encoding": "gzip"}, b"")
        transport.close()
    assert "VGPU_CFG_ANSWER_MIB" in caught.value.remedy


def test_a_drip_is_told_as_late(lab: Lab, ticks: Ticks) -> None:
    with HostileVCenter(lab, hostile.drip, method="GET") as server:
        transport = reach(server, Limits(timeout_seconds=ROUNDS), ticks)
        with pytest.raises(AnswerLate, match="did not respond in time"):
            transport.exchange("GET", PATH, {}, b"")
        transport.close()


def test_what_fits_comes_whole_and_the_connection_is_kept(lab: Lab, ticks: Ticks) -> None:
    with HostileVCenter(lab, hostile.drip, method="none") as server:
        transport = reach(server, Limits(timeout_seconds=ROUNDS), ticks)
        answers = {transport.exchange("GET", PATH, {}, b"")[2] for _ in range(3)}
        assert len(answers) == 1
        assert transport._pool.num_connections == 1
        transport.close()


def silent_server() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


silent = pytest.fixture(silent_server)


def test_a_handshake_that_nobody_takes_part_in_ends_and_nothing_was_sent(silent: str) -> None:
    transport = HttpsTransport(silent, trust=Trust(insecure=True), limits=Limits(timeout_seconds=0.05))
    with pytest.raises(NotSent):
        transport.exchange("GET", PATH, {}, b"")


def test_the_first_connection_is_given_up_at_once(lab: Lab) -> None:
    slept: list[float] = []
    with HostileVCenter(lab, hostile.silence, method="RetrieveServiceContent") as server:
        # Long enough for the handshake on a busy machine: what is given up is the answer after it.
        transport = HttpsTransport(
            f"127.0.0.1:{server.port}", trust=Trust(insecure=True), limits=Limits(timeout_seconds=1.0)
        )
        session = Session(transport, "vc", "u", "p", outage=Outage(600.0, slept.append))
        with pytest.raises(AnswerLate):
            session.open()
        assert server.begun == 1
    assert not slept


def test_what_takes_long_by_itself_is_given_that_beside_the_limit(ticks: Ticks) -> None:
    budget = Budget(ticks, deadline=10.0, most_bytes=1)
    assert budget.left() == 9.0
    transport = HttpsTransport("vc01", trust=Trust(), limits=Limits(timeout_seconds=60.0), now=lambda: 0.0)
    assert transport._budget().deadline == 60.0
    with patient(900.0):
        assert transport._budget().deadline == 960.0
        with patient(0.0):
            assert transport._budget().deadline == 60.0
    with pytest.raises(KeyError), patient(900.0):
        raise KeyError
    assert transport._budget().deadline == 60.0
