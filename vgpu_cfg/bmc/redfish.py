"""Redfish: a server's one system, its power state, its reset action, and the entries of its logs.

Source: DMTF DSP0266 (Redfish Specification: service root, HTTP basic authentication, actions) and DSP2046
(ComputerSystem: PowerState, Reset, ResetType, LogServices, Links.ManagedBy; LogService: Entries). Nothing is
sent twice, no redirect is followed, and addresses from a BMC are only requested on itself, below /redfish/.

Belief: bmc-power-on.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from vgpu_cfg.changes.kinds.restart_host import BmcRef
from vgpu_cfg.errors import BmcError, Unreachable
from vgpu_cfg.ports import Transport

_SYSTEMS = "/redfish/v1/Systems"
_RESET = "#ComputerSystem.Reset"
_ON = "On"
_STATES = ("On", "Off", "PoweringOn", "PoweringOff", "Paused")
_MOST_PAGES = 20
"""Pages of one log that are read: BMCs keep some thousand entries at most."""
_DONE = (HTTPStatus.OK, HTTPStatus.ACCEPTED, HTTPStatus.NO_CONTENT)
_SEE = "check the BMC's web interface"
_NO_BMC = "check that the address belongs to a BMC"


class RedfishPowers:
    """Speaks to BMCs: `connect` makes the transport to one, `secrets` holds the values by their names.

    `default` is the password where there is no secret of the name.
    """

    def __init__(
        self, connect: Callable[[BmcRef], Transport], secrets: Mapping[str, str], default: str = ""
    ) -> None:
        self._connect = connect
        self._secrets = secrets
        self._default = default

    def connect(self, bmc: BmcRef) -> RedfishPower:
        """Find the server that a BMC manages. Raises BmcError, Unreachable, CertificateRejected."""
        password = self._secrets.get(bmc.password or "", self._default)
        return RedfishPower(lambda: self._connect(bmc), bmc, password)


class RedfishPower:
    """The power of one server."""

    def __init__(self, connect: Callable[[], Transport], bmc: BmcRef, password: str) -> None:
        self._connect = connect
        self._bmc = bmc
        pair = base64.b64encode(f"{bmc.user}:{password}".encode()).decode()
        self._headers = {
            "Authorization": f"Basic {pair}",
            "Accept": "application/json",
            "OData-Version": "4.0",
            "User-Agent": "vgpu-cfg",
        }
        self._system = self._find_system()

    def is_off(self) -> bool:
        """Whether the server is off: not on its way down, nor on its way up."""
        state = self._get(self._system).get("PowerState")
        if state not in _STATES:
            raise self._error(f"it reports an unknown power state, {str(state)[:40]!r}", _SEE)
        return bool(state == "Off")

    def switch_on(self) -> None:
        """Switch the server on, if its BMC offers that. It is asked once."""
        action = _mapping(_mapping(self._get(self._system).get("Actions")).get(_RESET))
        offered = action.get("ResetType@Redfish.AllowableValues")
        if isinstance(offered, list) and _ON not in offered:
            words = ", ".join(str(one)[:40] for one in offered[:10])
            raise self._error(
                f"its reset action supports {words}, but not {_ON}", f"{_SEE} and power on the server there"
            )
        target = action.get("target")
        body = json.dumps({"ResetType": _ON}).encode()
        headers = self._headers | {"Content-Type": "application/json"}
        path = self._own(target or f"{self._system}/Actions/ComputerSystem.Reset")
        status, _, answer = self._exchange("POST", path, headers, body)
        if status not in _DONE:
            raise self._refusal(f"POST {path}", status, answer)

    def read_logs(self) -> dict[str, list[object]]:
        """Return the entries of the server's logs and of its managers', by the path of each log."""
        system = self._get(self._system)
        managers = _mapping(system.get("Links")).get("ManagedBy")
        paths = [_path(one) for one in (managers if isinstance(managers, list) else [])]
        services = [
            _path(one.get("LogServices")) for one in (system, *map(self._get_own, filter(None, paths)))
        ]
        logs = [log for path in filter(None, services) for log in _members(self._get_own(path))]
        return {log: self._entries(log) for log in dict.fromkeys(filter(None, map(_path, logs)))}

    def _entries(self, log: str) -> list[object]:
        found: list[object] = []
        following = _path(self._get_own(log).get("Entries"))
        for _ in range(_MOST_PAGES):
            if not following:
                break
            page = self._get_own(following)
            found += _members(page)
            following = str(page.get("Members@odata.nextLink") or "")
        return found

    def _get_own(self, path: str) -> Mapping[str, Any]:
        return self._get(self._own(path))

    def _find_system(self) -> str:
        members = self._get(_SYSTEMS).get("Members")
        named = [_mapping(one).get("@odata.id") for one in (members if isinstance(members, list) else [])]
        paths = [self._own(path) for path in named]
        ids = {path.rstrip("/").rpartition("/")[2]: path for path in paths}
        if self._bmc.system:
            if self._bmc.system in ids:
                return ids[self._bmc.system]
            raise self._error(
                f"it has no system named {self._bmc.system!r}", f"set `system` to one of: {_few(ids)}"
            )
        if len(paths) != 1:
            what = f"{len(paths)} systems" if paths else "no system"
            remedy = f"set `system` to one of: {_few(ids)}" if paths else _SEE
            raise self._error(f"it manages {what}", remedy)
        return paths[0].rstrip("/")

    def _get(self, path: str) -> Mapping[str, Any]:
        status, _, answer = self._exchange("GET", path, self._headers, b"")
        if status != HTTPStatus.OK:
            raise self._refusal(f"GET {path}", status, answer)
        try:
            found = json.loads(answer)
        except (ValueError, RecursionError) as error:
            raise self._error(f"its response to GET {path} is not JSON", _NO_BMC) from error
        if not isinstance(found, dict):
            raise self._error(f"its response to GET {path} is not a JSON object", _NO_BMC)
        return found

    def _exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Ask once, on a connection of its own: minutes lie between two questions."""
        transport = self._connect()
        try:
            return transport.exchange(method, path, headers, body)
        finally:
            transport.close()

    def _own(self, path: object) -> str:
        """Return a path that a BMC names. Raises BmcError for one that leads elsewhere."""
        if not isinstance(path, str) or not path.startswith("/redfish/") or ".." in path:
            raise self._error(f"it returned an invalid path: {str(path)[:80]!r}", _SEE)
        return path

    def _refusal(self, what: str, status: int, answer: bytes) -> BmcError:
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            return self._error(
                f"access denied for {self._bmc.user}: {what} returned {status}",
                "check `user` and `password` in `access.bmc`, and the account's privileges",
            )
        if status == HTTPStatus.NOT_FOUND:
            return self._error(f"it does not support {what}", "check that Redfish is available and enabled")
        return self._error(f"{what} returned {status}{_said(answer)}", _SEE)

    def _error(self, message: str, remedy: str) -> BmcError:
        return BmcError(f"cannot use the BMC: {message}", subject=self._bmc.address, remedy=remedy)


def reached(bmc: BmcRef, transport: Callable[[], Transport]) -> Transport:
    """Make the transport to a BMC. Raises Unreachable for an address that is none."""
    try:
        return transport()
    except Unreachable as error:
        raise Unreachable(
            "this is not a valid BMC address", subject=bmc.address, remedy="use a host name or host:port"
        ) from error


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _path(value: object) -> str:
    """Return the path that a reference has, "" for none."""
    return str(_mapping(value).get("@odata.id") or "")


def _members(collection: Mapping[str, Any]) -> list[object]:
    found = collection.get("Members")
    return found if isinstance(found, list) else []


def _few(names: Mapping[str, str]) -> str:
    return ", ".join(sorted(names)[:10])


def _said(answer: bytes) -> str:
    """Return a BMC's error message, in short (DSP0266, error responses)."""
    try:
        error = _mapping(_mapping(json.loads(answer)).get("error"))
    except (ValueError, RecursionError):
        return ""
    extended = error.get("@Message.ExtendedInfo")
    first = _mapping(extended[0]) if isinstance(extended, list) and extended else {}
    text = first.get("Message") or error.get("message")
    return f": {' '.join(text.split())[:200]}" if isinstance(text, str) and text else ""
