"""The proxy of the benchmarks passes everything on, and counts it."""

from __future__ import annotations

import http.client
import ssl

from tests.bench.proxy import proxy_to
from vgpu_cfg.lab import open_lab
from vgpu_cfg.lab.simulation.clock import VirtualClock
from vgpu_cfg.lab.soap.server import LabServer

VERSIONS = "/sdk/vimServiceVersions.xml"


def test_requests_and_bytes_are_counted_and_the_answer_is_the_servers() -> None:
    with (
        LabServer(open_lab("one-a100", clock=VirtualClock())) as lab,
        proxy_to(f"127.0.0.1:{lab.port}") as proxy,
    ):
        context = ssl.create_default_context(cadata=proxy.certificate.certificate_pem.decode())
        client = http.client.HTTPSConnection(proxy.address, context=context, timeout=120)
        client.request("GET", VERSIONS)
        versions = client.getresponse().read()
        client.request("POST", "/nothing", body=iter([b"two ", b"chunks"]), encode_chunked=True)
        assert client.getresponse().read() == b"404 Not Found\n"
        client.close()
        found = proxy.taken()
        assert (found.requests, found.sent) == (2, len(b"two chunks"))
        assert found.answered == len(versions) + len(b"404 Not Found\n")
        assert proxy.taken().requests == 0
