"""What is asked of a BMC, and what is made of answers that no good BMC gives."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest

from vgpu_cfg.bmc.redfish import RedfishPower, RedfishPowers
from vgpu_cfg.changes.kinds.restart_host import BmcRef
from vgpu_cfg.errors import BmcError

SYSTEMS = "/redfish/v1/Systems"
ONE = f"{SYSTEMS}/437XR1138R2"
RESET = f"{ONE}/Actions/ComputerSystem.Reset"
BMC = BmcRef(address="bmc-01", user="admin", password="bmc")


def members(*paths: Any) -> dict[str, Any]:
    return {"Members": [{"@odata.id": path} for path in paths]}


def system(state: Any = "Off", **action: Any) -> dict[str, Any]:
    reset = {"target": RESET, "ResetType@Redfish.AllowableValues": ["On", "ForceOff"]} | action
    return {"PowerState": state, "Actions": {"#ComputerSystem.Reset": reset}}


class FakeBmc:
    """Answers by path; `asked` are the requests, `left_open` how many transports were not closed."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers = {SYSTEMS: members(ONE), ONE: system(), RESET: (204, b"")} | dict(answers)
        self.asked: list[tuple[str, str, Mapping[str, str], bytes]] = []
        self.left_open = 0

    def open(self, _bmc: BmcRef) -> FakeBmc:
        self.left_open += 1
        return self

    def exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        self.asked.append((method, path, headers, body))
        found = self.answers[path]
        status, content = found if isinstance(found, tuple) else (200, json.dumps(found).encode())
        return status, {}, content

    def close(self) -> None:
        self.left_open -= 1

    def power(self, bmc: BmcRef = BMC) -> RedfishPower:
        return RedfishPowers(self.open, {"bmc": "hidden"}).connect(bmc)


def use(server: FakeBmc) -> None:
    power = server.power()
    power.is_off()
    power.switch_on()


def test_a_server_is_switched_on_once_with_the_account_and_every_connection_is_closed() -> None:
    server = FakeBmc({})
    power = server.power()
    assert power.is_off()
    power.switch_on()
    (posted,) = [one for one in server.asked if one[0] == "POST"]
    assert (posted[1], json.loads(posted[3])) == (RESET, {"ResetType": "On"})
    pairs = {one[2]["Authorization"] for one in server.asked}
    assert pairs == {f"Basic {base64.b64encode(b'admin:hidden').decode()}"}
    assert server.left_open == 0


@pytest.mark.parametrize("state", ["On", "PoweringOff", "PoweringOn", "Paused"])
def test_only_off_is_off(state: str) -> None:
    assert not FakeBmc({ONE: system(state)}).power().is_off()


def test_a_bmc_that_lists_no_reset_types_is_asked_all_the_same() -> None:
    server = FakeBmc({ONE: {"PowerState": "Off"}})
    server.power().switch_on()
    assert server.asked[-1][:2] == ("POST", RESET)


def test_of_several_systems_the_named_one_is_meant() -> None:
    server = FakeBmc({SYSTEMS: members(f"{SYSTEMS}/other", ONE)})
    assert server.power(BMC.model_copy(update={"system": "437XR1138R2"})).is_off()


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({SYSTEMS: members(ONE, f"{SYSTEMS}/2")}, "manages 2 systems; set `system` to one of: 2, 437XR"),
        ({SYSTEMS: members()}, "manages no system"),
        ({SYSTEMS: {"Members": "all"}}, "manages no system"),
        ({SYSTEMS: members("https://elsewhere/redfish/v1/Systems/1")}, "returned an invalid path"),
        ({SYSTEMS: members("/redfish/../admin")}, "returned an invalid path"),
        ({SYSTEMS: members(None)}, "returned an invalid path"),
        ({SYSTEMS: (200, b"<html>")}, "is not JSON"),
        ({SYSTEMS: (200, b"[" * 100_000)}, "is not JSON"),
        ({SYSTEMS: (200, b"[]")}, "is not a JSON object"),
        ({SYSTEMS: (401, b"")}, "access denied for admin"),
        ({SYSTEMS: (404, b"")}, "it does not support GET"),
        ({SYSTEMS: (302, b"")}, "returned 302"),
        ({ONE: system("Asleep")}, "reports an unknown power state, 'Asleep'"),
        ({ONE: system(None)}, "reports an unknown power state, 'None'"),
        ({ONE: system(**{"ResetType@Redfish.AllowableValues": ["ForceOn"]})}, "supports ForceOn, but not On"),
        ({ONE: system(target="https://elsewhere/")}, "returned an invalid path"),
        ({RESET: (503, b'{"error": {"message": "busy\\n now"}}')}, "returned 503: busy now"),
        ({RESET: (500, b'{"error": [')}, "returned 500"),
    ],
)
def test_what_no_good_bmc_says_is_an_error_that_says_what_to_do(answers: Any, words: str) -> None:
    server = FakeBmc(answers)
    with pytest.raises(BmcError) as caught:
        use(server)
    assert words in f"{caught.value.message}; {caught.value.remedy}"
    assert caught.value.subject == "bmc-01"
    assert caught.value.remedy
    assert "hidden" not in f"{caught.value.message}{caught.value.remedy}"
    assert server.left_open == 0


def test_a_system_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(BmcError, match="no system named '9'") as caught:
        FakeBmc({}).power(BMC.model_copy(update={"system": "9"}))
    assert "437XR1138R2" in caught.value.remedy


def test_logs_of_the_server_and_its_managers_are_read_page_by_page() -> None:
    manager, first, second = "/redfish/v1/Managers/1", f"{ONE}/LogServices", "/redfish/v1/Managers/1/Logs"
    entries = f"{first}/SEL/Entries"
    server = FakeBmc(
        {
            ONE: system()
            | {"LogServices": {"@odata.id": first}, "Links": {"ManagedBy": [{"@odata.id": manager}]}},
            manager: {"LogServices": {"@odata.id": second}},
            first: members(f"{first}/SEL"),
            second: members(f"{first}/SEL", f"{second}/Empty"),
            f"{first}/SEL": {"Entries": {"@odata.id": entries}},
            f"{second}/Empty": {},
            entries: {"Members": [{"Id": "1"}], "Members@odata.nextLink": f"{entries}?$skip=1"},
            f"{entries}?$skip=1": {"Members": [{"Id": "2"}]},
        }
    )
    assert server.power().read_logs() == {f"{first}/SEL": [{"Id": "1"}, {"Id": "2"}], f"{second}/Empty": []}
    assert {one[0] for one in server.asked} == {"GET"}
    assert server.left_open == 0


def test_a_server_without_logs_has_none() -> None:
    assert FakeBmc({}).power().read_logs() == {}


def test_a_log_that_never_ends_is_cut_and_one_elsewhere_is_refused() -> None:
    first = f"{ONE}/LogServices"
    log = {
        ONE: system() | {"LogServices": {"@odata.id": first}},
        first: members(f"{first}/SEL"),
        f"{first}/SEL": {"Entries": {"@odata.id": f"{first}/SEL/Entries"}},
        f"{first}/SEL/Entries": {"Members": [{}], "Members@odata.nextLink": f"{first}/SEL/Entries"},
    }
    assert len(FakeBmc(log).power().read_logs()[f"{first}/SEL"]) == 20
    elsewhere = {f"{first}/SEL/Entries": {"Members": [], "Members@odata.nextLink": "https://evil/redfish/"}}
    with pytest.raises(BmcError, match="invalid path"):
        FakeBmc(log | elsewhere).power().read_logs()
