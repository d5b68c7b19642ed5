"""Which property paths an API version has."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping

import pytest
from pyVmomi import vim, vmodl

from tests.unit.vsphere.facts_vcenter import AnsweringTransport, session_on
from tests.unit.vsphere.scripted import Scripted, content, item, reading, user_session
from tests.unit.vsphere.scripted import session_on as scripted_session
from tests.unit.vsphere.soap_answers import Answer, soap
from vgpu_cfg.errors import TooMuch, Unreachable
from vgpu_cfg.model.plan_values import Limits
from vgpu_cfg.vsphere.host_facts import passes as facts_paths
from vgpu_cfg.vsphere.reading import passes
from vgpu_cfg.vsphere.wire.collector import (
    PAGE_SIZE,
    Item,
    Paths,
    Start,
    collect_all,
    collect_from,
    is_known,
    made_from,
)
from vgpu_cfg.vsphere.wire.session import Session

V65 = "vim.version.version11"
V703 = "vim.version.v7_0_3_0"
V803 = "vim.version.v8_0_3_0"


@pytest.mark.parametrize(
    ("type_name", "path", "version", "expected"),
    [
        ("vim.HostSystem", "config.graphicsInfo", V65, True),
        ("vim.HostSystem", "configManager.assignableHardwareManager", V65, False),
        ("vim.HostSystem", "configManager.assignableHardwareManager", V803, True),
        ("vim.VirtualMachine", 'config.extraConfig["vgpu_cfg.plan"]', V65, True),
        ("vim.VirtualMachine", "config.deviceGroups", V65, False),
        ("vim.ComputeResource", "lifecycleManaged", V65, False),
        ("vim.ComputeResource", "configManagerEnabled", V703, False),
        ("vim.ComputeResource", "lifecycleManaged", V703, True),
        ("vim.ComputeResource", "configManagerEnabled", V803, True),
    ],
)
def test_a_path_newer_than_the_api_is_not_asked_for(
    type_name: str, path: str, version: str, *, expected: bool
) -> None:
    assert is_known(type_name, path, version) is expected


def test_a_path_that_no_version_has_is_a_bug() -> None:
    with pytest.raises(AttributeError):
        is_known("vim.HostSystem", "config.nosuch", V803)


@pytest.mark.parametrize(
    "paths",
    [
        *passes.FIRST_PASS,
        *passes.CLOSE_PASS,
        *passes.VM_AGAIN,
        *passes.HOST_AGAIN,
        *passes.HOLDERS,
        *facts_paths.HOST_PASS,
        *facts_paths.NETWORK_PASS,
        *facts_paths.PROFILE_PASS,
    ],
    ids=lambda paths: paths.type_name,
)
def test_every_path_that_is_read_exists(paths: Paths) -> None:
    assert all(is_known(paths.type_name, path, V803) for path in paths.paths)


def test_what_was_not_answered_is_absent() -> None:
    item = Item("VirtualMachine", "vm-1", {})
    assert item.get("name") is None
    assert item.get("name", "x") == "x"
    assert item.moid_of("parent") is None
    assert item.moids_of("datastore") == ()


def found_of(start: Start) -> tuple[list[Item], str]:
    """Collect from one start, where the server tells one property and refuses another."""
    collector = vmodl.query.PropertyCollector
    lacking = vim.fault.NoPermission(object=vim.HostSystem("host-1"), privilegeId="System.Read")
    answer = collector.ObjectContent(
        obj=vim.HostSystem("host-1"),
        propSet=[vmodl.DynamicProperty(name="name", val="esx-01")],
        missingSet=[collector.MissingProperty(path="customValue", fault=lacking)],
    )
    transport = AnsweringTransport(
        {"RetrievePropertiesEx": soap("RetrievePropertiesEx", collector.RetrieveResult(objects=[answer]))}
    )
    with session_on(transport) as session:
        return collect_from(
            session, [Paths("vim.HostSystem", ("name", "customValue"))], [start]
        ), transport.bodies[0]


def test_a_property_that_was_refused_is_absent_and_has_its_reason() -> None:
    (item,), _ = found_of(Start("vim.HostSystem", "host-1"))
    assert item.values == {"name": "esx-01"}
    assert item.faults["customValue"].privilegeId == "System.Read"


@pytest.mark.parametrize(
    ("start", "skips", "follows"),
    [
        (Start("vim.HostSystem", "host-1"), False, False),
        (Start("vim.HostSystem", "host-1", follow="parent"), True, True),
        (Start("vim.HostSystem", "host-1", follow="parent", is_read=True), False, True),
    ],
)
def test_what_an_object_refers_to_is_read_with_it_or_instead(
    start: Start, *, skips: bool, follows: bool
) -> None:
    _, body = found_of(start)
    assert (">host-1</obj><skip>true</skip>" in body) is skips
    assert ("<path>parent</path>" in body) is follows


# ---------------------------------------------------------------- pages without an end


class Endless:
    """A vCenter whose readings lead from page to page, as `next_token` says; `empty` pages bring nothing."""

    def __init__(self, *, repeats: bool = False, empty: bool = False) -> None:
        self.turned = 0
        self._repeats = repeats
        self._empty = empty

    def exchange(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        if b"RetrievePropertiesEx" not in body:
            return Scripted(answers=SERVICE).exchange(method, path, headers, body)
        self.turned += 1
        token = "again" if self._repeats else f"page-{self.turned}"
        found = [item(vim.VirtualMachine("vm-1"), {})]
        page = vmodl.query.PropertyCollector.RetrieveResult(token=token, objects=found)
        name = "ContinueRetrievePropertiesEx" if b"ContinueRetrieve" in body else "RetrievePropertiesEx"
        status, headers, answer = soap(name, page)
        return status, headers, re.sub(b"<objects.*</objects>", b"", answer) if self._empty else answer

    def close(self) -> None:
        """Nothing is held."""


SERVICE = {"RetrieveServiceContent": [content()], "Login": [user_session()], "Logout": [None]}


@pytest.mark.parametrize(
    ("server", "turned", "why"),
    [
        (Endless(), 7, "has more than 7 pages"),
        (Endless(repeats=True), 2, "repeats a page"),
        (Endless(empty=True), 4, "sent 4 empty pages in a row"),
    ],
    ids=["more and more", "the same", "nothing"],
)
def test_pages_come_to_an_end(server: Endless, turned: int, why: str) -> None:
    start = Start("vim.VirtualMachine", "vm-1")
    with (
        Session(server, "vc01", "u", "p", limits=Limits(answer_pages=7)) as session,
        pytest.raises(TooMuch, match=why) as caught,
    ):
        collect_from(session, [Paths("vim.VirtualMachine", ("name",))], [start])
    assert server.turned == turned
    assert "VGPU_CFG_ANSWER_PAGES" in caught.value.remedy


@pytest.mark.parametrize(("count", "is_read"), [(PAGE_SIZE, True), (30_000, False)])
def test_a_page_of_many_more_objects_than_asked_for_is_not_read(count: int, *, is_read: bool) -> None:
    page = reading(*(item(vim.VirtualMachine(f"vm-{number}"), {}) for number in range(count)))
    start, wanted = Start("vim.VirtualMachine", "vm-1"), [Paths("vim.VirtualMachine", ("name",))]
    with scripted_session({"RetrievePropertiesEx": [page]}) as (session, _):
        if is_read:
            assert len(collect_from(session, wanted, [start])) == count
            return
        with pytest.raises(TooMuch, match=r"a response page has 20001 or more objects"):
            collect_from(session, wanted, [start])


def test_a_view_that_shows_nothing_is_made_anew_whatever_comes_beside() -> None:
    service = content()
    service.viewManager = vim.view.ViewManager("ViewManager")
    beside = item(service.rootFolder, {})
    whole = reading(beside, item(vim.Folder("group-v3"), {"name": "vm"}))
    answers = {
        "CreateContainerView": [vim.view.ContainerView("view-1")],
        "RetrievePropertiesEx": [whole, reading(beside), whole],
    }
    folders = [Paths("vim.Folder", ("name",))]
    with scripted_session(answers, service=service) as (session, script):
        for views in (1, 2):
            found = collect_all(session, folders, folders, [Start("vim.Folder", "group-d1")])
            assert [one.moid for one in found] == ["group-d1", "group-v3"]
            assert script.methods.count("CreateContainerView") == views


# ---------------------------------------------------------------- pages that are fetched meanwhile


class Paged:
    """A vCenter whose reading has two pages; the second is what `second` returns."""

    def __init__(self, second: Callable[[], Answer]) -> None:
        self.asked = threading.Event()
        self._second = second

    def exchange(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        if b"ContinueRetrieve" in body:
            self.asked.set()
            return self._second()
        if b"RetrievePropertiesEx" not in body:
            return Scripted(answers=SERVICE).exchange(method, path, headers, body)
        return page_of("vm-1", "vm-2", token="1")

    def close(self) -> None:
        """Nothing is held."""


def page_of(*moids: str, token: str | None = None) -> Answer:
    found = [item(vim.VirtualMachine(moid), {}) for moid in moids]
    page = vmodl.query.PropertyCollector.RetrieveResult(objects=found)
    if token is not None:
        page.token = token
    return soap("RetrievePropertiesEx", page)


def moids_of(server: Paged, make: Callable[[Item], str]) -> list[str]:
    start = Start("vim.VirtualMachine", "vm-1")
    with Session(server, "vc01", "u", "p") as session:
        return made_from(session, [Paths("vim.VirtualMachine", ("name",))], [start], make)


def test_the_next_page_is_fetched_while_one_is_read_and_comes_after_it() -> None:
    server = Paged(lambda: page_of("vm-3"))

    def make(found: Item) -> str:
        if found.moid == "vm-2":
            assert server.asked.wait(60)
        return found.moid

    assert moids_of(server, make) == ["vm-1", "vm-2", "vm-3"]


def test_a_page_that_does_not_come_is_told_after_the_one_before_it() -> None:
    def lost() -> Answer:
        raise Unreachable("it broke", subject="vc01", remedy="")

    made: list[str] = []

    def make(found: Item) -> str:
        made.append(found.moid)
        return found.moid

    with pytest.raises(Unreachable, match="it broke"):
        moids_of(Paged(lost), make)
    assert made == ["vm-1", "vm-2"]


def test_whoever_interrupts_does_not_wait_for_the_page_under_way() -> None:
    release = threading.Event()

    def late() -> Answer:
        assert release.wait(60)
        return page_of()

    server = Paged(late)

    def make(found: Item) -> str:
        if found.moid == "vm-2":
            assert server.asked.wait(60)
            raise KeyboardInterrupt
        return found.moid

    with pytest.raises(KeyboardInterrupt):
        moids_of(server, make)
    assert not release.is_set()
    release.set()


def test_what_goes_wrong_with_a_page_waits_for_the_one_under_way() -> None:
    ended: list[bool] = []

    def second() -> Answer:
        ended.append(True)
        return page_of()

    server = Paged(second)

    def make(found: Item) -> str:
        if found.moid == "vm-2":
            raise ValueError(found.moid)
        return found.moid

    with pytest.raises(ValueError, match="vm-2"):
        moids_of(server, make)
    assert ended == [True]
