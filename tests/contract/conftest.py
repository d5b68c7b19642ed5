"""The third-party judges of the contract tests: govmomi's vcsim as a server, its govc as a client.

Both are built by script/build-contract, where Go is. Where they are not, the
tests that need them are skipped and say so.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.contract.vcenters import VCenter, https_server, lab_vcenter, vcenter
from tests.contract.vsphere.host_writing import Workshop, open_workshop
from tests.processes import killed_at_the_end
from vgpu_cfg.model.plan_values import Limits
from vgpu_cfg.vsphere.wire.transport import HttpsTransport, Trust

__all__ = ["https_server", "vcenter"]

HERE = Path(__file__).resolve().parent
BUILT = HERE.parents[1] / ".cache" / "contract"
GO = frozenset({"vcsim", "own_vcsim", "on_vcsim", "govc"})
"""Fixtures, and kinds of vCenter, that stand on what script/build-contract builds."""
NEEDS_GO = "vcsim and govc, which Go builds: tests/contract"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave what needs vcsim or govc to `--all`; the same tests on the lab stay."""
    for item in items:
        needs = {*getattr(item, "fixturenames", ()), *kinds_of(item)}
        if item.path.is_relative_to(HERE) and GO & needs:
            item.add_marker(pytest.mark.long(NEEDS_GO))


def kinds_of(item: pytest.Item) -> set[str]:
    """Return which kinds of vCenter a test is parametrised with."""
    callspec = getattr(item, "callspec", None)
    return {value for value in callspec.params.values() if isinstance(value, str)} if callspec else set()


@dataclass(frozen=True, slots=True)
class Server:
    """A vCenter of one kind or another, and how to log in to it."""

    url: str
    host: str
    port: int
    user: str
    password: str
    thumbprint: str
    """SHA-256 of the certificate, colon separated."""
    certificate: str
    """PEM, to be trusted: it names 127.0.0.1."""


def built(name: str) -> Path:
    """Find a contract binary, or skip the test that asks for it, naming the reason."""
    path = BUILT / name
    if path.exists():
        return path
    if shutil.which("go") is None:
        pytest.skip(f"{name} is not built: Go is not on this machine")
    pytest.skip(f"{name} is not built: run script/build-contract")


@contextmanager
def running_vcsim(arguments: Sequence[str] = ()) -> Iterator[Server]:
    """Run vcsim until the block ends; its own flags may be given."""
    command = [str(built("vcsim")), *arguments]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process,
        killed_at_the_end(process),
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, f"vcsim ended with {process.wait(timeout=120)} before it was ready"
        ready: dict[str, Any] = json.loads(line)
        yield Server(
            url=ready["url"],
            host=ready["host"],
            port=int(ready["port"]),
            user=ready["user"],
            password=ready["password"],
            thumbprint=ready["thumbprint"],
            certificate=ready["certificate"],
        )
        process.stdin.close()
        assert process.wait(timeout=120) == 0


@pytest.fixture(scope="session")
def vcsim() -> Iterator[Server]:
    """One vcsim for the whole run: API 8.0.3.0, DC0 with one cluster of three hosts and four VMs.

    Tests that change it make what they change; `running_vcsim` gives one of their own.
    """
    with running_vcsim() as server:
        yield server


Govc = Callable[..., str]


def govc_environment(server: Server, home: Path) -> dict[str, str]:
    """Return the variables by which govc finds a server; its certificate is verified."""
    trusted = home / "server.pem"
    trusted.write_text(server.certificate, encoding="ascii")
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "GOVC_URL": server.url,
        "GOVC_USERNAME": server.user,
        "GOVC_PASSWORD": server.password,
        "GOVC_TLS_CA_CERTS": str(trusted),
        "GOVC_PERSIST_SESSION": "false",
    }


@pytest.fixture
def govc(home: Path) -> Callable[[Server], Govc]:
    """Return what makes a govc for a server: called with the words of a command, it gives the output.

    The certificate is verified, so that this is tested along.
    """
    binary = built("govc")

    def for_server(server: Server) -> Govc:
        environment = govc_environment(server, home)

        def run(*words: str) -> str:
            command = [str(binary), *words]
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=120, check=False
            )
            assert done.returncode == 0, f"{' '.join(words)}: {done.stderr or done.stdout}"
            return done.stdout

        return run

    return for_server


def vcenter_at(server: Server) -> VCenter:
    """Return a vcsim as what this tool reads."""
    return VCenter(
        kind="vcsim",
        user=server.user,
        password=server.password,
        connect=lambda: HttpsTransport(
            f"{server.host}:{server.port}",
            trust=Trust(thumbprint=server.thumbprint),
            limits=Limits(timeout_seconds=30),
        ),
        template="",
    )


@pytest.fixture(scope="module")
def own_vcsim() -> Iterator[VCenter]:
    """A vcsim of the module's own, for what changes it."""
    with running_vcsim() as server:
        yield vcenter_at(server)


@pytest.fixture
def on_vcsim(own_vcsim: VCenter) -> Iterator[Workshop]:
    yield from open_workshop(own_vcsim)


@pytest.fixture
def on_lab() -> Iterator[Workshop]:
    yield from open_workshop(lab_vcenter("bare"))


@pytest.fixture(params=["on_lab", "on_vcsim"])
def workshop(request: pytest.FixtureRequest) -> Workshop:
    """Yield each of the two."""
    found: Workshop = request.getfixturevalue(request.param)
    return found
