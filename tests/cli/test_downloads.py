"""`validate --downloads` and `--pin`: read from a registry and a mirror on the loopback, and then required.

The registry answers as the OCI Distribution Specification says: a manifest has the SHA-256 of its bytes.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from tests.cli.command_line import CommandLine
from tests.conftest import LOOPBACK
from vgpu_cfg.documents import read_document
from vgpu_cfg.plan_loading.side_files import pins_text

IMAGE = "registry.example.com/team/train:1"
MANIFEST = b'{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": []}'
KEY, DRIVER = b"a key", b"a driver"
INDEX = "".join(
    f"Package: {name}\nArchitecture: amd64\nVersion: {version}\n\n"
    for name, version in (
        ("nvidia-container-toolkit", "1.9.0-1"),
        ("nvidia-container-toolkit", "1.19.0-1"),
        ("nvidia-container-toolkit-base", "1.20.0-1"),
    )
).encode()
PLAN = """
version: 1
name: pinned
vcenter: lab:two-a100
site:
  registry_mirrors: {{registry.example.com: "{at}"}}
  toolkit_repository: "{at}/toolkit"
training: {{workers: [t-01], image: "{image}", framework: torchrun}}
vms:
- name: t-01
  template: ubuntu-22.04-efi
  gpus: grid_a100-40c
  guest: {{driver: "{at}/driver-580.deb", containers: containerd}}
"""


class Handler(BaseHTTPRequestHandler):
    """Serves the files of a mirror, and one image."""

    FILES: ClassVar = {
        "/driver-580.deb": DRIVER,
        "/toolkit/gpgkey": KEY,
        "/toolkit/stable/deb/amd64/Packages": INDEX,
        "/v2/team/train/manifests/1": MANIFEST,
    }

    def do_GET(self) -> None:
        found = self.FILES.get(self.path)
        self.send_response(404 if found is None else 200)
        self.end_headers()
        self.wfile.write(found or b"")

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def at() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join(10)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.mark.allow_hosts(LOOPBACK)
def test_pins_are_read_written_and_required(at: str, vgpu_cfg: CommandLine) -> None:
    plan = vgpu_cfg.write("plan.yaml", PLAN.format(at=at, image=IMAGE))
    before = vgpu_cfg("validate", "plan.yaml", "--downloads")
    assert "none" in before.out
    assert before.out.splitlines()[-1] == "NEXT   vgpu-cfg validate plan.yaml --pin"
    refused = vgpu_cfg("plan", "plan.yaml", "--output", "json")
    assert "VG570" in refused.out

    ran = vgpu_cfg("validate", "plan.yaml", "--pin", "--output", "json")
    assert ran.code == 0, ran.err
    pins = read_document(plan.with_name("downloads.lock.yaml")).data["downloads"]
    assert pins == {
        f"{at}/driver-580.deb": sha256(DRIVER),
        f"{at}/toolkit/gpgkey": sha256(KEY),
        "nvidia-container-toolkit": "1.19.0-1",
        IMAGE: f"sha256:{sha256(MANIFEST)}",
    }
    listed = json.loads(ran.out)["downloads"]
    assert all(one["is_pinned"] for one in listed)
    assert [one["via"] for one in listed if one["address"] == IMAGE] == [at]
    # The second time nothing differs, and a plan has no download without a checksum.
    again = vgpu_cfg("validate", "plan.yaml", "--pin")
    assert [line for line in again.err.splitlines() if "was" in line] == []
    assert "VG570" not in vgpu_cfg("plan", "plan.yaml", "--output", "json").out


@pytest.mark.allow_hosts(LOOPBACK)
def test_what_cannot_be_read_keeps_its_pin(at: str, vgpu_cfg: CommandLine) -> None:
    other = "registry.example.com/team/other:1"
    plan = vgpu_cfg.write("plan.yaml", PLAN.format(at=at, image=other))
    vgpu_cfg.write("downloads.lock.yaml", pins_text({other: f"sha256:{'1' * 64}"}))
    ran = vgpu_cfg("validate", "plan.yaml", "--pin")
    assert ran.code == 5
    assert f"{other}: not pinned: HTTP status 404" in ran.err
    pins = read_document(plan.with_name("downloads.lock.yaml")).data["downloads"]
    assert pins[other] == f"sha256:{'1' * 64}"
    assert f"{at}/driver-580.deb" in pins


def test_a_broken_pin_has_its_line(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.write("plan.yaml", PLAN.format(at="https://x.example.com", image=IMAGE))
    vgpu_cfg.write("downloads.lock.yaml", f"version: 1\ndownloads:\n  {IMAGE}: latest\n")
    ran = vgpu_cfg("validate", "plan.yaml")
    assert ran.code == 3
    assert "downloads.lock.yaml:3:" in ran.err
