"""What of an HTTPS session with a vCenter is kept in a cassette, and how its requests are told apart.

Passwords, session keys and what they name are found by parsing the XML; cookies by their
header. The address is replaced, since a simulator's port is another one every time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from vcr.config import VCR

from vgpu_cfg.cli.compose import SystemClock
from vgpu_cfg.model.identity import PlanIdentity
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.ports import ReadScope
from vgpu_cfg.recording.file import LATER_PATHS, request_key
from vgpu_cfg.recording.recorder import Scrubber
from vgpu_cfg.vsphere.reading.reader import VCenterReader
from vgpu_cfg.vsphere.wire.session import Session
from vgpu_cfg.vsphere.wire.transport import HttpsTransport, Trust

FOLDER = Path(__file__).with_name("cassettes")
ADDRESS = "vcenter.example.com"
USER = "administrator@vsphere.local"
SCOPE = ReadScope(
    plan=PlanIdentity(name="horovod-a100"),
    vm_names=frozenset({"hvd-01", "hvd-02"}),
    template_names=frozenset({"ubuntu-22.04-efi"}),
    extra_config_keys=frozenset({"disk.EnableUUID"}),
)
_VCR: Any = VCR  # vcrpy has no type information
KEPT_HEADERS = ("content-type", "soapaction")


def cassette(name: str, *, records: bool = False) -> Any:
    """Return the context in which HTTPS is recorded to a cassette or, as ever else, played from it."""
    scrubber = Scrubber()

    def request_kept(request: Any) -> Any:
        request.uri = f"https://{ADDRESS}{urlsplit(request.uri).path}"
        request.headers = {
            key: value for key, value in request.headers.items() if key.lower() in KEPT_HEADERS
        }
        if request.body:
            request.body = scrubber.request(bytes(request.body))
        return request

    def response_kept(response: dict[str, Any]) -> dict[str, Any]:
        headers = {key: value for key, value in response["headers"].items() if key.lower() in KEPT_HEADERS}
        body = response["body"]["string"]
        # Where an answer to a login is told from others by what is in it, nothing has to be remembered.
        call = "SessionManager.Login" if b"LoginResponse" in body else ""
        return {**response, "headers": headers, "body": {"string": scrubber.answer(body, call)}}

    recorder = _VCR(
        record_mode="all" if records else "none",
        before_record_request=request_kept,
        before_record_response=response_kept,
        match_on=["same_call"],
    )
    recorder.register_matcher("same_call", _is_same_call)
    return recorder.use_cassette(str(FOLDER / f"{name}.yaml"), allow_playback_repeats=False)


def _is_same_call(one: Any, other: Any) -> None:
    first, second = (
        request_key(each.method, each.path, each.body or b"", without=LATER_PATHS) for each in (one, other)
    )
    assert first == second


def read(
    address: str = ADDRESS, *, user: str = USER, password: str = "", thumbprint: str | None = None
) -> tuple[Inventory, Session]:
    """Read an estate through the real transport, session and reader."""
    transport = HttpsTransport(address, trust=Trust(thumbprint=thumbprint))
    # The cassette is a kind of connection of its own, and the pool's class has it.
    del transport._pool.ConnectionCls
    with Session(transport, address, user, password) as session:
        return VCenterReader(session, SystemClock()).read_inventory(SCOPE), session
