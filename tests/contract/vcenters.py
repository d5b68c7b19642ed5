"""The two vCenters that the contract tests run on: the lab in process, and vcsim over HTTPS.

A test that asks for `vcenter` runs on both. What a test makes it names by `fresh`, since one
vcsim serves the whole run; a lab is new for every test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Literal

import pytest

from vgpu_cfg.changes.kinds.create_vm import Location
from vgpu_cfg.lab import open_lab
from vgpu_cfg.lab.simulation.clock import VirtualClock
from vgpu_cfg.lab.simulation.sessions import LAB_CREDENTIALS
from vgpu_cfg.lab.soap.server import LabServer
from vgpu_cfg.model.observed.inventory import Host, Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.plan_values import Limits
from vgpu_cfg.ports import ReadScope, TaskUpdate, Transport
from vgpu_cfg.vsphere.reading.reader import VCenterReader
from vgpu_cfg.vsphere.wire.outage import Outage
from vgpu_cfg.vsphere.wire.session import Session
from vgpu_cfg.vsphere.wire.transport import HttpsTransport, Trust
from vgpu_cfg.vsphere.writing.writer import VCenterWriter

if TYPE_CHECKING:
    from vgpu_cfg.lab.vcenter import Lab

NUMBERS = count(1)


class FixedClock:
    """It is always noon."""

    def now(self) -> datetime:
        return datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class VCenter:
    """A vCenter under test, and how to reach it."""

    kind: Literal["lab", "vcsim"]
    user: str
    password: str
    connect: Callable[[], Transport]
    template: str
    """A VM or template that can be cloned."""
    lab: Lab | None = None
    slept: list[float] = field(default_factory=list)

    def session(self, *, user: str | None = None, password: str | None = None) -> Session:
        """Make a session, not yet open."""
        return Session(
            self.connect(),
            self.kind,
            self.user if user is None else user,
            self.password if password is None else password,
            outage=Outage(pause=self.slept.append),
        )

    @contextmanager
    def desk(self) -> Iterator[Desk]:
        """Log in, with a reader and a writer."""
        with self.session() as session:
            yield Desk(session, VCenterReader(session, FixedClock()), VCenterWriter(session))


@dataclass(frozen=True, slots=True)
class Desk:
    """An open session, with a reader and a writer on it."""

    session: Session
    reader: VCenterReader
    writer: VCenterWriter

    def inventory(self, scope: ReadScope | None = None) -> Inventory:
        return self.reader.read_inventory(scope or ReadScope())

    def vm(self, moid: str) -> Vm:
        (found,) = self.reader.read_vms([moid])
        return found

    def done(self, task: str) -> TaskUpdate:
        """Wait until a task has ended."""
        while True:
            for update in self.writer.wait_for_tasks([task], 60):
                if update.state.is_over:
                    return update

    def made(self, task: str) -> str:
        """Wait until a task has made a VM, and return it."""
        update = self.done(task)
        assert update.result_moid is not None, update
        return update.result_moid


def fresh(name: str = "vm") -> str:
    """Return a name that no other test has."""
    return f"{name}-{next(NUMBERS)}"


@pytest.fixture(params=["lab", "vcsim"])
def vcenter(request: pytest.FixtureRequest) -> VCenter:
    """Yield each of the two vCenters."""
    if request.param == "lab":
        return lab_vcenter("two-a100")
    server = request.getfixturevalue("vcsim")
    trust = Trust(thumbprint=server.thumbprint)
    return VCenter(
        kind="vcsim",
        user=server.user,
        password=server.password,
        connect=lambda: HttpsTransport(
            f"{server.host}:{server.port}", trust=trust, limits=Limits(timeout_seconds=30)
        ),
        template="DC0_C0_RP0_VM0",
    )


def lab_vcenter(estate: str) -> VCenter:
    """Open an estate of the lab, on a clock that never waits."""
    lab = open_lab(estate, clock=VirtualClock())
    return VCenter(
        kind="lab",
        user=LAB_CREDENTIALS.user,
        password=LAB_CREDENTIALS.password,
        connect=lambda: lab,
        template="ubuntu-22.04-efi",
        lab=lab,
    )


@dataclass(frozen=True, slots=True)
class HttpsServer:
    """A vCenter behind HTTPS, with its certificate."""

    host: str
    port: int
    user: str
    password: str
    thumbprint: str
    certificate: str

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


@pytest.fixture(params=["lab", "vcsim"])
def https_server(request: pytest.FixtureRequest) -> Iterator[HttpsServer]:
    """Yield each of the two vCenters behind HTTPS, with certificates that nobody trusts yet."""
    if request.param == "vcsim":
        server = request.getfixturevalue("vcsim")
        yield HttpsServer(
            server.host, server.port, server.user, server.password, server.thumbprint, server.certificate
        )
        return
    with LabServer(open_lab("no-gpu", clock=VirtualClock())) as served:
        assert served.certificate is not None
        yield HttpsServer(
            "127.0.0.1",
            served.port,
            LAB_CREDENTIALS.user,
            LAB_CREDENTIALS.password,
            served.thumbprint,
            served.certificate.certificate_pem.decode(),
        )


def location_on(found: Inventory, host: Host) -> Location:
    """Return a place on a host: the root folder, the host's pool, and the first datastore that it has."""
    folder = next(folder for folder in found.folders if folder.is_root)
    store = next(store for store in found.datastores if store.moid in host.datastore_moids)
    return Location(
        folder_moid=folder.moid,
        folder_path=folder.inventory_path,
        host_moid=host.moid,
        host_name=host.name,
        resource_pool_moid=found.cluster_by_moid[host.compute_moid].resource_pool_moid,
        datastore_moid=store.moid,
        datastore_name=store.name,
    )
