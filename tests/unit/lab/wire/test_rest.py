"""The lab's REST side, and JSON-RPC beside it: libraries, lists of the inventory, calls and refusals."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.unit.lab.wire.client import open_virtual
from vgpu_cfg.lab.simulation.clock import VirtualClock
from vgpu_cfg.lab.state.inventory import (
    CHILD_TYPES,
    Datacenter,
    Datastore,
    Folder,
    Host,
    VirtualMachine,
)
from vgpu_cfg.lab.vcenter import Lab
from vgpu_cfg.settings.connection import LAB_PASSWORD, LAB_USER

LOCAL = "/rest/com/vmware/content/local-library"
LIBRARY = "/rest/com/vmware/content/library"
TEMPLATES = "/rest/vcenter/vm-template/library-items"


class Client:
    """Asks a lab by REST, and by JSON-RPC with the same session."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        both = base64.b64encode(f"{LAB_USER}:{LAB_PASSWORD}".encode()).decode()
        headers = {"Authorization": f"Basic {both}"}
        _, _, body = lab.exchange("POST", "/rest/com/vmware/cis/session", headers, b"")
        self.session = json.loads(body)["value"]

    def rest(self, method: str, path: str, **body: Any) -> tuple[int, Any]:
        headers = {"vmware-api-session-id": self.session}
        status, _, answer = self.lab.exchange(method, path, headers, json.dumps(body).encode())
        told = json.loads(answer) if answer else {}
        return status, told.get("value") if status == 200 else told["type"].rpartition(".")[2]

    def call(self, service: str, operation: str, **given: Any) -> Any:
        """Return the result of a call: `output` or `error`."""
        context = {"schemeId": "com.vmware.vapi.std.security.session_id", "sessionId": self.session}
        return self.ask(service, operation, context, given)["result"]

    def ask(self, service: str, operation: str, context: Any, given: Any) -> Any:
        asked = {
            "serviceId": service,
            "operationId": operation,
            "input": {"STRUCTURE": {"operation-input": given}},
            "ctx": {"appCtx": {}, "securityCtx": context},
        }
        body = {"jsonrpc": "2.0", "id": "7", "method": "invoke", "params": asked}
        status, _, answer = self.lab.exchange("POST", "/api", {}, json.dumps(body).encode())
        assert status == 200
        told = json.loads(answer)
        assert told["id"] == "7"
        return told


@pytest.fixture
def client() -> Client:
    return Client(open_virtual("two-a100"))


def backing(client: Client) -> list[dict[str, str]]:
    (store,) = client.lab.state.all(Datastore)
    return [{"type": "DATASTORE", "datastore_id": store.moid}]


def test_a_library_is_made_changed_and_deleted(client: Client) -> None:
    spec = {"name": "isos", "type": "LOCAL", "storage_backings": backing(client)}
    _, made = client.rest("POST", LOCAL, create_spec=spec)
    assert client.rest("GET", LOCAL) == (200, [made])
    assert client.rest("PATCH", f"{LIBRARY}/id:{made}", update_spec={"description": "images"})[0] == 200
    _, shown = client.rest("GET", f"{LOCAL}/id:{made}")
    assert (shown["name"], shown["description"], shown["storage_backings"]) == (
        "isos",
        "images",
        backing(client),
    )
    assert client.rest("PATCH", f"{LOCAL}/id:{made}", update_spec={"description": ""})[0] == 200
    assert client.rest("GET", f"{LOCAL}/id:{made}")[1]["description"] == ""
    nameless = client.rest("PATCH", f"{LOCAL}/id:{made}", update_spec={"name": ""})
    assert nameless == (400, "invalid_argument")
    _, other = client.rest("POST", LOCAL, create_spec=spec)
    assert other != made
    assert client.rest("DELETE", f"{LOCAL}/id:{made}") == (200, None)
    assert client.rest("GET", LIBRARY) == (200, [other])


@pytest.mark.parametrize(
    ("privilege", "method", "path"),
    [
        ("CreateLocalLibrary", "POST", LOCAL),
        ("UpdateLocalLibrary", "PATCH", f"{LOCAL}/id:{{made}}"),
        ("UpdateLibrary", "PATCH", f"{LIBRARY}/id:{{made}}"),
        ("DeleteLocalLibrary", "DELETE", f"{LOCAL}/id:{{made}}"),
    ],
)
def test_what_is_done_to_a_library_takes_its_privilege(
    client: Client, privilege: str, method: str, path: str
) -> None:
    spec = {"name": "isos", "storage_backings": backing(client)}
    _, made = client.rest("POST", LOCAL, create_spec=spec)
    client.lab.faults.lacking.add(f"ContentLibrary.{privilege}")
    asked = {"create_spec": spec, "update_spec": {"description": "images"}}
    assert client.rest(method, path.format(made=made), **asked) == (403, "unauthorized")
    client.lab.faults.lacking.clear()
    assert client.rest(method, path.format(made=made), **asked)[0] == 200


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({"name": ""}, "invalid_argument"),
        ({"storage_backings": []}, "invalid_argument"),
        ({"storage_backings": [{"datastore_id": "datastore-999"}]}, "invalid_argument"),
        ({"storage_backings": [{}, {}]}, "unsupported"),
    ],
)
def test_a_library_that_cannot_be_is_refused(client: Client, changed: dict[str, Any], kind: str) -> None:
    spec = {"name": "isos", "storage_backings": backing(client), **changed}
    assert client.rest("POST", LOCAL, create_spec=spec) == (400, kind)
    assert client.rest("GET", LOCAL) == (200, [])
    assert client.rest("DELETE", f"{LOCAL}/id:none") == (404, "not_found")
    assert client.rest("POST", "/rest/com/vmware/content/subscribed-library") == (400, "unsupported")


def test_a_call_names_the_kinds_of_its_values(client: Client) -> None:
    spec = {"name": "team", "description": "", "cardinality": "SINGLE", "associable_types": []}
    made = client.call(
        "com.vmware.cis.tagging.category",
        "create",
        create_spec={"STRUCTURE": {"com.vmware.cis.tagging.category.create_spec": spec}},
    )["output"]
    found = client.call("com.vmware.cis.tagging.category", "get", category_id=made)["output"]
    shown = found["STRUCTURE"]["com.vmware.cis.tagging.category_model"]
    assert (shown["id"], shown["name"], shown["cardinality"]) == (made, "team", "SINGLE")
    library = {"name": {"OPTIONAL": "isos"}, "description": {"OPTIONAL": None}}
    store = {"STRUCTURE": {"x": {name: {"OPTIONAL": one} for name, one in backing(client)[0].items()}}}
    made = client.call(
        "com.vmware.content.local_library",
        "create",
        create_spec={"STRUCTURE": {"x": {**library, "storage_backings": {"OPTIONAL": [store]}}}},
    )["output"]
    told = client.call("com.vmware.content.library", "get", library_id=made)["output"]["STRUCTURE"]
    assert told["com.vmware.content.library_model"]["name"] == {"OPTIONAL": "isos"}
    assert client.call("com.vmware.content.library.item", "list", library_id=made)["output"] == []


def test_a_session_is_opened_by_a_call_and_a_refusal_is_a_result(client: Client) -> None:
    context = {
        "schemeId": "com.vmware.vapi.std.security.user_pass",
        "userName": LAB_USER,
        "password": LAB_PASSWORD,
    }
    session = client.ask("com.vmware.cis.session", "create", context, {})["result"]["output"]
    assert set(session) == {"SECRET"}
    for wrong in ({**context, "password": "no"}, {}):
        (refused,) = client.ask("com.vmware.cis.session", "create", wrong, {})["result"]["error"]["ERROR"]
        assert refused == "com.vmware.vapi.std.errors.unauthenticated"
    (missing,) = client.call("com.vmware.content.library", "get", library_id="none")["error"][
        "ERROR"
    ].values()
    assert missing["error_type"] == {"OPTIONAL": "NOT_FOUND"}


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"params": 1}', b'{"params": {"ctx": {}, "input": []}}']
)
def test_what_is_no_call_is_told_so(client: Client, body: bytes) -> None:
    status, _, answer = client.lab.exchange("POST", "/api", {}, body)
    assert (status, json.loads(answer)["error"]["code"]) == (200, -32600)


def test_a_vm_template_is_put_into_a_library_and_goes_with_its_item(client: Client) -> None:
    spec = {"name": "gold", "storage_backings": backing(client)}
    _, library = client.rest("POST", LOCAL, create_spec=spec)
    (source,) = (vm for vm in client.lab.state.all(VirtualMachine) if vm.is_template)
    wanted = {"name": "ubuntu", "library": library, "source_vm": source.moid}
    status, item = client.rest("POST", TEMPLATES, spec=wanted)
    assert status == 200
    _, told = client.rest("GET", f"{TEMPLATES}/{item}")
    template = client.lab.state.get(told["vm_template"], VirtualMachine)
    assert (template.name, template.is_template, template.parent) == ("ubuntu", True, source.parent)
    assert client.rest("POST", TEMPLATES, spec=wanted) == (400, "already_exists")
    assert client.rest("POST", TEMPLATES, spec={**wanted, "name": source.name}) == (400, "invalid_argument")
    assert client.rest("POST", TEMPLATES, spec={**wanted, "source_vm": "vm-0"})[1] == "already_exists"
    assert client.rest("DELETE", f"{LIBRARY}/item/id:{item}") == (200, None)
    assert client.lab.state.find(template.moid, VirtualMachine) is None
    assert client.rest("POST", TEMPLATES, spec={**wanted, "source_vm": "vm-0"}) == (404, "not_found")


def lists(client: Client, path: str) -> list[str]:
    """Return the names in a list of the inventory."""
    status, found = client.rest("GET", f"/rest/vcenter/{path}")
    assert status == 200
    return [one["name"] for one in found]


def test_the_inventory_is_listed_by_filters() -> None:
    client = Client(open_virtual("mixed-fleet"))
    state = client.lab.state
    host, other = state.all(Host)[:2]
    both = [host.name, other.name]
    assert lists(client, "host") == [one.name for one in state.all(Host)]
    assert lists(client, f"host?filter.hosts.1={host.moid}&filter.hosts.2={other.moid}") == both
    assert lists(client, f"host?hosts={host.moid}&hosts={other.moid}") == both
    assert lists(client, f"host?hosts={host.moid}&names={other.name}") == []
    assert lists(client, "folder?filter.type=DATACENTER") == ["Datacenters"]
    assert lists(client, f"datastore?filter.datacenters={state.all(Datacenter)[0].moid}") == [
        store.name for store in state.all(Datastore)
    ]
    told = client.rest("GET", "/rest/vcenter/host")[1]
    states = {(one["connection_state"], one.get("power_state")) for one in told}
    assert states == {("CONNECTED", "POWERED_ON"), ("NOT_RESPONDING", None)}
    assert client.rest("GET", "/rest/vcenter/host?colour=red") == (400, "invalid_argument")


def test_vms_are_listed_without_templates_and_told_whole(client: Client) -> None:
    template = client.lab.state.all(VirtualMachine)[0]
    assert (template.is_template, lists(client, "vm")) == (True, [])
    template.is_template = False
    assert lists(client, "vm?filter.power_states=POWERED_OFF") == [template.name]
    assert lists(client, "vm?filter.power_states=POWERED_ON") == []
    _, told = client.rest("GET", f"/rest/vcenter/vm/{template.moid}")
    assert (told["cpu"]["count"], told["boot"]["type"], told["guest_OS"]) == (4, "EFI", "UBUNTU_64")
    assert [one["key"] for one in told["nics"]] == ["4000"]
    assert client.rest("GET", "/rest/vcenter/vm/vm-0") == (404, "not_found")
    client.lab.faults.lacking.add("System.Read")
    assert lists(client, "vm") == []


def test_more_than_may_match_are_refused(client: Client) -> None:
    state = client.lab.state
    parent = state.all(Datacenter)[0].vm_folder
    for number in range(1001):
        state.add(Folder(moid=f"group-x{number}", name="f", parent=parent, child_types=CHILD_TYPES["vm"]))
    assert client.rest("GET", "/rest/vcenter/folder") == (400, "unable_to_allocate_resource")


def test_below_api_a_value_stands_alone_and_a_map_is_one(client: Client) -> None:
    def ask(method: str, path: str, **headers: str) -> tuple[int, Any]:
        status, _, answer = client.lab.exchange(method, f"/api{path}", headers, b"")
        return status, json.loads(answer) if answer else None

    both = base64.b64encode(f"{LAB_USER}:{LAB_PASSWORD}".encode()).decode()
    status, session = ask("POST", "/session", Authorization=f"Basic {both}")
    assert status == 201
    mine = {"vmware-api-session-id": session}
    template = client.lab.state.all(VirtualMachine)[0]
    _, told = ask("GET", f"/vcenter/vm/{template.moid}", **mine)
    assert told["nics"]["4000"]["backing"]["type"] == "STANDARD_PORTGROUP"
    assert ask("GET", "/content/library", **mine) == (200, [])
    status, refused = ask("GET", "/vcenter/vm/vm-0", **mine)
    assert (status, refused["error_type"]) == (404, "NOT_FOUND")
    assert ask("DELETE", "/session", **mine) == (204, None)
    assert ask("GET", "/vcenter/vm", **mine)[0] == 401


ITEM = f"{LIBRARY}/item"


def item_of(client: Client, **changed: str) -> str:
    """Make a library with an item, and return the item's id."""
    _, made = client.rest("POST", LOCAL, create_spec={"name": "isos", "storage_backings": backing(client)})
    status, item = client.rest("POST", ITEM, create_spec={"library_id": made, "name": "boot", **changed})
    assert status == 200
    return str(item)


def put(client: Client, address: str, body: bytes) -> int:
    status, _, _ = client.lab.exchange("PUT", address.removeprefix("https://"), {}, body)
    return status


def test_a_file_is_put_into_an_item_copied_got_again_and_deleted(client: Client) -> None:
    item = item_of(client)
    _, session = client.rest("POST", f"{ITEM}/update-session", create_spec={"library_item_id": item})
    adding = f"{ITEM}/updatesession/file/id:{session}?~action=add"
    _, added = client.rest("POST", adding, file_spec={"name": "boot.iso", "source_type": "PUSH"})
    ending = f"{ITEM}/update-session/id:{session}?~action=complete"
    assert client.rest("POST", ending) == (400, "not_allowed_in_current_state")
    address = added["upload_endpoint"]["uri"]
    assert put(client, address.replace("boot.iso", "other.iso"), b"no") == 404
    assert put(client, address, b"\x00\xff") == 200
    assert client.rest("GET", f"{ITEM}/file?library_item_id={item}") == (200, [])
    assert client.rest("POST", ending) == (200, None)
    assert put(client, address, b"late") == 404
    _, told = client.rest("GET", f"{ITEM}/id:{item}")
    assert (told["type"], told["size"]) == ("iso", 2)
    (store,) = client.lab.state.all(Datastore)
    (stored,) = client.rest("GET", f"{ITEM}/storage?library_item_id={item}")[1]
    path = f"contentlib-{told['library_id']}/{item}/boot.iso"
    assert stored["storage_uris"] == [f"{store.url}{path}"]
    assert store.files == {path: "\x00\xff"}
    _, copy = client.rest("POST", f"{ITEM}/id:{item}?~action=copy", destination_create_spec={"name": "again"})
    _, download = client.rest("POST", f"{ITEM}/download-session", create_spec={"library_item_id": copy})
    preparing = f"{ITEM}/downloadsession/file/id:{download}?~action=prepare"
    _, prepared = client.rest("POST", preparing, file_name="boot.iso")
    found = client.lab.exchange("GET", prepared["download_endpoint"]["uri"].removeprefix("https://"), {}, b"")
    assert (found[0], found[2]) == (200, b"\x00\xff")
    for one in (item, copy):
        assert client.rest("DELETE", f"{ITEM}/id:{one}") == (200, None)
    assert store.files == {}


@pytest.mark.parametrize(
    ("privilege", "path", "body"),
    [
        ("AddLibraryItem", ITEM, "create_spec"),
        ("UpdateSession", f"{ITEM}/update-session", "create_spec"),
        ("DownloadSession", f"{ITEM}/download-session", "create_spec"),
    ],
)
def test_what_is_done_to_items_takes_its_privilege(
    client: Client, privilege: str, path: str, body: str
) -> None:
    item = item_of(client)
    _, told = client.rest("GET", f"{ITEM}/id:{item}")
    spec = {"library_id": told["library_id"], "name": "other", "library_item_id": item}
    client.lab.faults.lacking.add(f"ContentLibrary.{privilege}")
    assert client.rest("POST", path, **{body: spec}) == (403, "unauthorized")
    client.lab.faults.lacking.clear()
    assert client.rest("POST", path, **{body: spec})[0] == 200


def test_a_session_ends_by_itself_after_an_hour(client: Client) -> None:
    item = item_of(client)
    _, session = client.rest("POST", f"{ITEM}/update-session", create_spec={"library_item_id": item})
    assert client.rest("GET", f"{ITEM}/update-session/id:{session}")[1]["state"] == "ACTIVE"
    assert isinstance(client.lab.clock, VirtualClock)
    client.lab.clock.advance(3601)
    client = Client(client.lab)
    assert client.rest("GET", f"{ITEM}/update-session") == (200, [])
    assert client.rest("GET", f"{ITEM}/update-session/id:{session}") == (404, "not_found")


def test_what_items_do_not_take_is_refused(client: Client) -> None:
    item = item_of(client)
    _, told = client.rest("GET", f"{ITEM}/id:{item}")
    again = {"library_id": told["library_id"], "name": "boot"}
    assert client.rest("POST", ITEM, create_spec=again) == (400, "already_exists")
    assert client.rest("PATCH", f"{ITEM}/id:{item}", update_spec={"name": "start"}) == (200, None)
    assert client.rest("GET", f"{ITEM}/id:{item}")[1]["name"] == "start"
    _, session = client.rest("POST", f"{ITEM}/update-session", create_spec={"library_item_id": item})
    adding = f"{ITEM}/updatesession/file/id:{session}?~action=add"
    pulled = {"name": "a", "source_type": "PULL"}
    assert client.rest("POST", adding, file_spec=pulled) == (400, "unsupported")
    assert client.rest("POST", f"{ITEM}/id:{item}?~action=publish") == (400, "unsupported")
