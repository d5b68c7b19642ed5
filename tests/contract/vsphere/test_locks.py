"""The locks of runs, on the lab and on vcsim: one of a name, whoever asks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from tests.contract.conftest import Govc, Server
from tests.contract.test_govc import served
from tests.contract.vcenters import Desk, FixedClock, VCenter, fresh, lab_vcenter
from vgpu_cfg.model.locks import LockHolder, LockName
from vgpu_cfg.model.reservations import Reservation, ReservedGpus
from vgpu_cfg.ports import ReadScope, Transport
from vgpu_cfg.vsphere.reading.locks import ALARM_INFO
from vgpu_cfg.vsphere.reading.passes import FIRST_PASS
from vgpu_cfg.vsphere.reading.reader import VCenterReader
from vgpu_cfg.vsphere.wire.collector import Start, collect_all
from vgpu_cfg.vsphere.wire.session import Session
from vgpu_cfg.vsphere.wire.transport import HttpsTransport, Trust
from vgpu_cfg.vsphere.writing.alarms import VCenterLocks
from vgpu_cfg.vsphere.writing.writer import VCenterWriter

SINCE = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


class WithoutEmptyObject:
    """A wire to vcsim, whose `DuplicateName` refers to an object of no type: that no client can read.

    The API's reference has the object as required.
    """

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    def exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        status, told, answer = self._inner.exchange(method, path, {**headers, "Accept-Encoding": ""}, body)
        return status, told, re.sub(rb'<object type=""></object>', b"", answer)

    def close(self) -> None:
        self._inner.close()


@contextmanager
def desk_of(vcenter: VCenter) -> Iterator[Desk]:
    transport = WithoutEmptyObject(vcenter.connect())
    with Session(transport, vcenter.kind, vcenter.user, vcenter.password) as session:
        yield Desk(session, VCenterReader(session, FixedClock()), VCenterWriter(session))


def holder(run: str) -> LockHolder:
    return LockHolder(run=run, command="apply", plan="demo", user="anna", machine="ci-7", pid=7, since=SINCE)


def test_a_lock_is_made_once_told_whole_and_free_again_once_it_is_removed(vcenter: VCenter) -> None:
    name = LockName(kind="plan", key=fresh("demo"), label="demo")
    with desk_of(vcenter) as desk, desk_of(vcenter) as other:
        first, second = VCenterLocks(desk.session), VCenterLocks(other.session)
        assert not first.missing_privileges()
        moid = first.make(name, holder("one"))
        assert moid is not None
        assert second.make(name, holder("two")) is None
        found = desk.reader.read_locks()
        assert found is not None
        lock = found.named(name)
        assert lock is not None
        assert (lock.moid, lock.name, lock.holder) == (moid, name, holder("one"))
        assert lock.beat_at <= found.now
        assert first.beat(moid, name, holder("one"), 1)
        second.remove(moid)
        assert not first.beat(moid, name, holder("one"), 2)
        first.remove(moid)
        again = second.make(name, holder("two"))
        assert again is not None
        second.remove(again)


def test_locks_come_beside_a_reading_and_of_one_that_has_gone_the_rest_is_read(vcenter: VCenter) -> None:
    name = LockName(kind="id", key=fresh("demo"), label="demo")
    with desk_of(vcenter) as desk:
        locks = VCenterLocks(desk.session)
        moid = locks.make(name, holder("one"))
        assert moid is not None
        observed = desk.reader.read_inventory(ReadScope(locks=True))
        assert observed.locks is not None
        assert observed.locks.named(name) == locks.read().named(name)
        assert observed.reservations == observed.locks.reservations
        locks.remove(moid)
        starts = [Start("vim.alarm.Alarm", moid)]
        found = collect_all(desk.session, FIRST_PASS, ALARM_INFO, starts)
        assert {item.moid for item in found} > {host.moid for host in observed.hosts}
        assert "Alarm" not in {item.type_name for item in found}


def test_a_reservation_is_made_once_told_whole_changed_and_given_back(vcenter: VCenter) -> None:
    held = ReservedGpus(cluster="domain-c7", label="gpu", board="A100", gpus=2)
    reservation = Reservation(
        plan=fresh("course"), begins=SINCE, ends=SINCE + timedelta(days=2), holds=(held,)
    )
    longer = reservation.model_copy(update={"ends": SINCE + timedelta(days=9)})
    with desk_of(vcenter) as desk, desk_of(vcenter) as other:
        assert desk.writer.set_reservation(reservation, "")
        assert not other.writer.set_reservation(longer, "")
        found = desk.reader.read_locks()
        assert found is not None
        kept = found.reservations.named(reservation.alarm_name)
        assert kept is not None
        assert kept.reservation == reservation
        assert kept.moid not in {lock.moid for lock in found.held}
        assert other.writer.set_reservation(longer, kept.moid)
        again = desk.reader.read_locks()
        assert again is not None
        assert again.reservations.named(longer.alarm_name) == kept.model_copy(update={"reservation": longer})
        assert desk.writer.set_reservation(None, kept.moid)
        assert not other.writer.set_reservation(longer, kept.moid)
        last = desk.reader.read_locks()
        assert last is not None
        assert last.reservations.named(longer.alarm_name) is None


def test_of_many_who_ask_at_once_one_gets_it(vcenter: VCenter) -> None:
    name = LockName(kind="host", key=fresh("host-7"), label="esx-07")

    def ask(number: int) -> str | None:
        with desk_of(vcenter) as desk:
            return VCenterLocks(desk.session).make(name, holder(f"run-{number}"))

    with ThreadPoolExecutor(8) as pool:
        got = [moid for moid in pool.map(ask, range(8)) if moid is not None]
    assert len(got) == 1
    with desk_of(vcenter) as desk:
        VCenterLocks(desk.session).remove(got[0])


def test_a_heartbeat_moves_vcenters_own_time_of_the_lock() -> None:
    """Vcsim keeps the time of making: that a heartbeat shows rests on the API reference alone."""
    lab = lab_vcenter("two-a100")
    assert lab.lab is not None
    name = LockName(kind="plan", key=fresh("demo"))
    with lab.desk() as desk:
        locks = VCenterLocks(desk.session)
        moid = locks.make(name, holder("one"))
        assert moid is not None
        before = locks.read().beat_of("one")
        with lab.lab.changed:
            lab.lab.clock.wait(lab.lab.clock.now() + 60, lab.lab.changed)
        assert locks.beat(moid, name, holder("one"), 1)
        assert (locks.read().beat_of("one") - before).total_seconds() >= 60


def test_govc_shows_a_lock_to_whoever_asks(govc: Callable[[Server], Govc]) -> None:
    with served("two-a100") as server:
        transport = HttpsTransport(f"{server.host}:{server.port}", trust=Trust(thumbprint=server.thumbprint))
        with Session(transport, server.host, server.user, server.password) as session:
            moid = VCenterLocks(session).make(LockName(kind="plan", key="demo"), holder("6392edd69034"))
        run = govc(server)
        assert run("collect", "-s", f"Alarm:{moid}", "info.name").strip() == "vgpu-cfg lock: plan demo"
        told = run("collect", "-s", f"Alarm:{moid}", "info.description")
        assert "`vgpu-cfg unlock 6392edd69034`" in told
        assert run("collect", "-s", f"Alarm:{moid}", "info.enabled").strip() == "false"
