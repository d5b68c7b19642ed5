"""Questions that are on their way at once over HTTPS: how many a server sees, and that they find the same."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.bench.proxy import CountingProxy, proxy_to
from tests.contract.vcenters import FixedClock
from vgpu_cfg.errors import LoginFailed
from vgpu_cfg.lab import open_lab
from vgpu_cfg.lab.simulation.clock import VirtualClock
from vgpu_cfg.lab.simulation.sessions import LAB_CREDENTIALS
from vgpu_cfg.lab.soap.server import LabServer
from vgpu_cfg.lab.state.inventory import Host
from vgpu_cfg.model.observed.host_facts import EstateFacts, FactGroup
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.plan_values import Limits
from vgpu_cfg.ports import ReadScope
from vgpu_cfg.vsphere.history.collectors import read_origins
from vgpu_cfg.vsphere.host_facts.reader import ALL_GROUPS
from vgpu_cfg.vsphere.reading.reader import VCenterReader
from vgpu_cfg.vsphere.wire.outage import Outage
from vgpu_cfg.vsphere.wire.session import Session
from vgpu_cfg.vsphere.wire.transport import HttpsTransport, Trust

pytestmark = pytest.mark.enable_socket

ESTATE = "mixed-fleet"
PATIENCE = 60
"""Seconds that a request is held back for others to come; they always do where all is well."""
OF_A_HOST = b"QueryConfiguredModuleOptionString"
"""A question that only hosts are asked."""


@dataclass
class Gate:
    """Holds requests that hold some words until so many are there at once, the first time."""

    words: bytes
    wanted: int
    inside: int = 0
    most: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)

    @contextmanager
    def __call__(self, body: bytes) -> Iterator[None]:
        if self.words not in body:
            yield
            return
        with self.changed:
            self.inside += 1
            self.most = max(self.most, self.inside)
            self.changed.notify_all()
        try:
            with self.changed:
                assert self.changed.wait_for(lambda: self.most >= self.wanted, PATIENCE)
            yield
        finally:
            with self.changed:
                self.inside -= 1


@dataclass(frozen=True, slots=True)
class Served:
    """A lab behind HTTPS and a proxy before it, and how to log in there."""

    server: LabServer
    proxy: CountingProxy
    told: list[str] = field(default_factory=list)

    @contextmanager
    def session(self, in_flight: int) -> Iterator[Session]:
        limits = Limits(in_flight=in_flight)
        trust = Trust(thumbprint=self.proxy.certificate.thumbprint)
        transport = HttpsTransport(self.proxy.address, trust=trust, limits=limits)
        outage = Outage(600, lambda _seconds: None, tell=self.told.append)
        user, password = LAB_CREDENTIALS.user, LAB_CREDENTIALS.password
        with Session(transport, self.proxy.address, user, password, outage=outage, limits=limits) as session:
            session.in_flight = in_flight
            yield session

    def read(
        self, in_flight: int, groups: frozenset[FactGroup] = ALL_GROUPS
    ) -> tuple[Inventory, EstateFacts, int]:
        """Read an estate and its hosts' facts; return them and what they cost in round trips."""
        with self.session(in_flight) as session:
            reader = VCenterReader(session, FixedClock())
            inventory = reader.read_inventory(ReadScope(system_ids=True))
            facts = reader.read_facts([host.moid for host in inventory.hosts], groups)
            return inventory, facts, session.round_trips


@contextmanager
def serving(estate: str) -> Iterator[Served]:
    with (
        LabServer(open_lab(estate, clock=VirtualClock())) as server,
        proxy_to(f"127.0.0.1:{server.port}") as proxy,
    ):
        yield Served(server, proxy)


@pytest.fixture
def served() -> Iterator[Served]:
    with serving(ESTATE) as found:
        yield found


def test_hosts_are_asked_at_once_each_over_a_connection_of_its_own(served: Served) -> None:
    served.proxy.passing = gate = Gate(OF_A_HOST, 3)
    inventory, facts, trips = served.read(3)
    assert len(facts.hosts) > 3
    assert gate.most == 3
    assert served.proxy.connections == 3
    assert served.proxy.taken().requests == trips + 1  # and the logout
    assert inventory.hosts


def test_what_is_found_is_what_is_found_one_by_one(served: Served) -> None:
    alone = served.read(1)
    assert served.proxy.connections == 1
    assert served.read(4) == alone


def test_a_session_that_ends_among_them_is_renewed_once(served: Served) -> None:
    _, alone, trips = served.read(1)
    logins = served.server.lab.counters["Login"]
    served.proxy.passing = Gate(OF_A_HOST, 4)
    served.server.lab.faults.add(OF_A_HOST.decode(), nth=1, kind="session_expired")
    _, facts, again = served.read(4)
    assert facts == alone
    assert served.server.lab.counters["Login"] == logins + 2
    assert again <= trips + 1 + 4, "each that was refused is sent once more"


def test_a_login_that_is_refused_meanwhile_is_not_tried_by_each(served: Served) -> None:
    lab = served.server.lab
    served.proxy.passing = Gate(OF_A_HOST, 4)
    lab.faults.add(OF_A_HOST.decode(), nth=1, kind="session_expired")
    lab.faults.add("Login", nth=2, kind="call", fault="InvalidLogin")
    with pytest.raises(LoginFailed):
        served.read(4)
    assert lab.counters["Login"] == 2


@pytest.mark.parametrize("in_flight", [1, 4])
def test_one_host_that_does_not_answer_leaves_the_others_alone(served: Served, in_flight: int) -> None:
    lab = served.server.lab
    with lab.transaction():
        lost = next(host for host in lab.state.all(Host) if host.connection == "connected")
        lost.connection = "notResponding"
    _, facts, _ = served.read(in_flight)
    assert facts.hosts[lost.moid].unread.keys() == ALL_GROUPS
    silent = {moid for moid, one in facts.hosts.items() if one.unread}
    assert lost.moid in silent
    assert len(silent) < len(facts.hosts)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ["drop_before", "drop_after", "unavailable"])
def test_a_connection_that_breaks_among_them_is_asked_again_alone(served: Served, kind: Any) -> None:
    _, alone, trips = served.read(1)
    served.proxy.passing = Gate(OF_A_HOST, 4)
    served.server.lab.faults.add(OF_A_HOST.decode(), nth=2, kind=kind)
    _, facts, again = served.read(4)
    assert facts == alone
    assert again == trips + 1
    assert served.told == []


# ---------------------------------------------------------------- what else is asked at once


def test_who_made_vms_is_asked_of_some_at_once(served: Served) -> None:
    def read(in_flight: int) -> object:
        with served.session(in_flight) as session:
            vms = VCenterReader(session, FixedClock()).read_inventory(ReadScope()).vms
            return read_origins(session, [vm.moid for vm in vms])

    served.proxy.passing = gate = Gate(b"QueryEvents", 3)
    together = read(3)
    assert gate.most == 3
    assert read(1) == together


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "words",
    [
        b"RetrieveVgpuProfileInfo",
        b"RetrieveVendorDeviceGroupInfo",
        b"QueryConfigOptionEx",
        b"QueryConfigOptionDescriptor",
    ],
)
def test_kinds_of_hosts_are_asked_at_once(words: bytes, served: Served) -> None:
    served.proxy.passing = gate = Gate(words, 2)
    served.read(4, frozenset())
    assert gate.most >= 2


POLICIES = """
about: policies, and what they fit
vcenter:
  release: "9.0"
  storage_policies: [{name: gold, datastores: [nvme]}, {name: any, datastores: [nvme, vsan]}]
  direct_path: [{name: half, vgpu: grid_a100-20c}]
datastores: [{name: vsan}, {name: nvme, kind: VMFS}]
clusters:
- name: one
  hosts: [{names: [esx-1, esx-2], esxi: "9.0", gpus: [{board: A100}, {board: A100, mode: passthrough}]}]
- {name: two, hosts: [{name: esx-3, esxi: "9.0", gpus: [{board: A100}]}]}
"""


@pytest.mark.parametrize(
    "words",
    [
        b"PbmCheckRequirements",
        b"DirectPathProfileManagerQueryCapacity",
        b"QueryConfigTarget",
        b'ClusterComputeResource">domain-c',
    ],
)
def test_so_are_policies_and_what_hosts_and_clusters_tell(words: bytes, tmp_path: Path) -> None:
    estate = tmp_path / "estate.yaml"
    estate.write_text(POLICIES, encoding="utf-8")
    scope = ReadScope(storage_policies=frozenset({"gold", "any"}), system_ids=True)
    with serving(str(estate)) as served:

        def read(in_flight: int) -> object:
            with served.session(in_flight) as session:
                reader = VCenterReader(session, FixedClock())
                inventory = reader.read_inventory(scope)
                hosts = [host.moid for host in inventory.hosts]
                return inventory, reader.read_facts(hosts, frozenset({FactGroup.OWNERS}))

        served.proxy.passing = gate = Gate(words, 2)
        together = read(2)
        assert gate.most == 2
        assert read(1) == together
