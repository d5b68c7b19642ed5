"""Files on their way to and from guests over HTTPS: addresses that are good once, as vCenter hands them out.

The address is a host's, whose name vCenter leaves to the client as `*`; the lab answers it itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qs, urlsplit

from vgpu_cfg.lab.guest.system import files
from vgpu_cfg.lab.guest.system.creation import guest_of
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.inventory import VirtualMachine

PATH = "/guestFile"
URL = "https://*:443/guestFile?id={id}&token={token}"
PLAIN = {"Content-Type": "text/plain; charset=utf-8"}
BINARY = {"Content-Type": "application/octet-stream"}

Answer = tuple[int, Mapping[str, str], bytes]


def exchange(lab: Simulation, method: str, url: str, body: bytes) -> Answer:
    """Answer a PUT or a GET of an address that was handed out: 404 for any other, 400 for a wrong size."""
    from vgpu_cfg.lab.guest.shell.session import Session
    from vgpu_cfg.lab.guest.tools.table import find

    query = parse_qs(urlsplit(url).query)
    number, token = query.get("id", [""])[0], query.get("token", [""])[0]
    with lab.transaction():
        known, transfer = lab.transfers.offers.get(number, ("", None))
        if transfer is None or known != token or transfer.puts != (method == "PUT"):
            return 404, PLAIN, b"404 Not Found\n"
        vm = lab.state.find(transfer.vm, VirtualMachine)
        if vm is None or not vm.is_on or not guest_of(vm).is_up:
            return 500, PLAIN, b"The guest operations agent could not be contacted.\n"
        del lab.transfers.offers[number]
        session = Session(lab, vm, transfer.user, find)
        try:
            if method == "GET":
                return 200, BINARY, session.read(transfer.path)
            if len(body) != transfer.size:
                return 400, PLAIN, b"400 Bad Request: not the announced size\n"
            session.write(transfer.path, body, mode=transfer.mode)
        except (files.NoSuchPathError, files.PathTakenError, PermissionError):
            return 500, PLAIN, b"The file cannot be transferred.\n"
    return 200, PLAIN, b""
