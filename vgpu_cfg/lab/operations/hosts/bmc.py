"""The lab's BMCs: each server has one, at `bmc-` and the host's name, that speaks the Redfish of its power.

After DSP0266 and DSP2046. A server that is on refuses to be switched on, which not every BMC does.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from vgpu_cfg.errors import Unreachable
from vgpu_cfg.lab.operations.hosts.power import act_at_server
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.host import Host

PREFIX = "bmc-"
USER, PASSWORD = "root", "lab"
_SYSTEMS = "/redfish/v1/Systems"
_SYSTEM = f"{_SYSTEMS}/1"
_LOGS = f"{_SYSTEM}/LogServices"
_RESET = f"{_SYSTEM}/Actions/ComputerSystem.Reset"
_TYPES = ("On", "ForceOff", "GracefulShutdown", "ForceRestart")

Answer = tuple[int, Mapping[str, str], bytes]


class LabBmc:
    """The BMC at an address, without a wire."""

    def __init__(self, lab: Simulation, address: str) -> None:
        self._lab = lab
        self._address = address

    def exchange(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Answer one request. Raises Unreachable where no server has its BMC there."""
        with self._lab.transaction():
            known = {f"{PREFIX}{one.name}": one for one in self._lab.state.all(Host)}
            host = known.get(self._address)
            if host is None:
                raise Unreachable(
                    "no connection: the lab has no such BMC",
                    subject=self._address,
                    remedy=f"in the lab, a server's BMC address is {PREFIX} followed by the host's name",
                )
            if headers.get("Authorization") != _basic():
                return _error(401, "the account is not known")
            return self._answer(host, method, path, body)

    def close(self) -> None:
        """There is nothing to let go."""

    def _answer(self, host: Host, method: str, path: str, body: bytes) -> Answer:
        match method, path:
            case "GET", "/redfish/v1/Systems":
                return _json(200, {"@odata.id": _SYSTEMS, "Members": [{"@odata.id": _SYSTEM}]})
            case "GET", "/redfish/v1/Systems/1":
                action = {"target": _RESET, "ResetType@Redfish.AllowableValues": list(_TYPES)}
                return _json(
                    200,
                    {
                        "@odata.id": _SYSTEM,
                        "Id": "1",
                        "Name": host.name,
                        "PowerState": self._state(host),
                        "Actions": {"#ComputerSystem.Reset": action},
                        "LogServices": {"@odata.id": _LOGS},
                    },
                )
            case "GET", "/redfish/v1/Systems/1/LogServices":
                return _json(200, {"@odata.id": _LOGS, "Members": [{"@odata.id": f"{_LOGS}/SEL"}]})
            case "GET", "/redfish/v1/Systems/1/LogServices/SEL":
                return _json(200, {"Id": "SEL", "Entries": {"@odata.id": f"{_LOGS}/SEL/Entries"}})
            case "GET", "/redfish/v1/Systems/1/LogServices/SEL/Entries":
                entry = {"Id": "1", "EntryType": "SEL", "Severity": "OK", "Message": f"{host.name}: power on"}
                return _json(200, {"Members": [entry]})
            case "POST", "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset":
                return self._reset(host, body)
            case _:
                return _error(404, "resource not found")

    def _state(self, host: Host) -> str:
        if host.moid in self._lab.state.leaving:
            return "PoweringOff"
        if host.moid in self._lab.state.booting:
            return "PoweringOn"
        return "Off" if host.is_off else "On"

    def _reset(self, host: Host, body: bytes) -> Answer:
        try:
            kind = json.loads(body).get("ResetType")
        except (ValueError, AttributeError):
            return _error(400, "the body is not a JSON object")
        if kind != "On":
            return _error(400, f"the lab does not support ResetType {kind}")
        if self._state(host) != "Off":
            return _error(409, "the server is on")
        act_at_server(self._lab, host, "power_on", {})
        return 204, {}, b""


def _basic() -> str:
    return f"Basic {base64.b64encode(f'{USER}:{PASSWORD}'.encode()).decode()}"


def _json(status: int, value: Mapping[str, Any]) -> Answer:
    return status, {"Content-Type": "application/json"}, json.dumps(value).encode()


def _error(status: int, text: str) -> Answer:
    return _json(status, {"error": {"code": "Base.1.0.GeneralError", "message": text}})
