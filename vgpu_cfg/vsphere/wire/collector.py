"""Read many properties of many objects in few round trips.

Everything goes through RetrievePropertiesEx with the paths that are wanted and no
others: a whole `config` costs ten times its leaves. A property that is unset, that
the account may not see or that the server is too old to know is simply absent from
the answer; so is an object that went away between two pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, TypeVar

from pyVmomi import VmomiSupport, vim, vmodl

from vgpu_cfg.errors import TooMuch
from vgpu_cfg.vsphere.wire.decoding import Read, Shape
from vgpu_cfg.vsphere.wire.faults import is_session_over, translated
from vgpu_cfg.vsphere.wire.flight import Ahead
from vgpu_cfg.vsphere.wire.session import Session
from vgpu_cfg.vsphere.wire.stub import Answer

PAGE_SIZE = 2000
SLACK = 10
"""The maximum size of a page, as a multiple of the requested one: some simulators ignore the size."""
MOST_EMPTY_PAGES = 3
"""The maximum number of empty pages in a row: their objects have gone since."""
MOST_RESTARTS = 5
MOST_RENEWALS = 3
"""So often is a reading begun anew whose session has ended: a vCenter may restart more than once."""

Result = TypeVar("Result")
Made = TypeVar("Made")
_COLLECTOR: Any = vmodl.query.PropertyCollector
_RETRIEVE, _CONTINUE = (
    method.info for method in (_COLLECTOR.RetrievePropertiesEx, _COLLECTOR.ContinueRetrievePropertiesEx)
)


@dataclass(frozen=True, slots=True)
class Paths:
    """The property paths that are read of a type, by its vmodl name ("vim.VirtualMachine").

    Paths of a type hold for its subtypes too. With `kept`, a table of the parts of a property to keep, values
    are plain (`wire.kept`); without it they are pyvmomi's.
    """

    type_name: str
    paths: tuple[str, ...]
    kept: Mapping[str, Shape] | None = field(default=None, hash=False, compare=False)


@dataclass(frozen=True, slots=True)
class Item:
    """One object's answer: WSDL type, managed object id, and those properties that are set.

    `faults` says of properties that were refused why. Values are as `Paths` says, faults pyvmomi's; they do
    not leave this room.
    """

    type_name: str
    moid: str
    values: Mapping[str, Any]
    faults: Mapping[str, Any] = field(default_factory=dict)

    def get(self, path: str, default: Any = None) -> Any:
        """Return a property, or the default where it is absent."""
        return self.values.get(path, default)

    def moid_of(self, path: str) -> str | None:
        """Return the id of the object that a property refers to."""
        found = self.values.get(path)
        return None if found is None else str(found._moId)

    def moids_of(self, path: str) -> tuple[str, ...]:
        """Return the ids of the objects that a property refers to."""
        return tuple(str(found._moId) for found in self.values.get(path) or ())


@dataclass(frozen=True, slots=True)
class Start:
    """The start of a collection: one object, or the objects that its property `follow` refers to.

    With `is_read` the object itself is read, too.
    """

    type_name: str
    moid: str
    follow: str | None = None
    is_read: bool = False


def collect_all(
    session: Session, everywhere: Sequence[Paths], wanted: Sequence[Paths] = (), starts: Iterable[Start] = ()
) -> list[Item]:
    """Read every object of these types in the whole inventory, through the session's view.

    In the same round trip comes what `collect_from` reads of some objects.
    """
    names = {paths.type_name.rpartition(".")[2] for paths in everywhere}
    is_kept, starts = session.has_view, tuple(starts)
    named = {start.moid for start in starts}
    found = made_from(session, wanted, starts, _itself, everywhere)
    if not is_kept or any(item.type_name in names and item.moid not in named for item in found):
        return found
    # A view that has gone with its session shows nothing, and not every server says why.
    session.forget_view()
    return made_from(session, wanted, starts, _itself, everywhere)


def collect_from(session: Session, wanted: Sequence[Paths], starts: Iterable[Start]) -> list[Item]:
    """Read the named objects, or the objects they refer to; those that have gone are left out."""
    return made_from(session, wanted, starts, _itself)


def made_from(
    session: Session,
    wanted: Sequence[Paths],
    starts: Iterable[Start],
    make: Callable[[Item], Made],
    everywhere: Sequence[Paths] = (),
) -> list[Made]:
    """Read as `collect_from` does; of each object only the result of `make` is kept.

    If a reading begins anew, the results are made again. The paths of `everywhere` are read of all objects of
    the inventory.
    """
    left = list(starts)

    def attempt() -> list[Made]:
        objects = [_object_spec(session, start) for start in left]
        filters = [_filter(session, wanted, objects)] if objects else []
        if everywhere:
            filters.append(_filter(session, everywhere, [_view_spec(session)]))
        return _retrieve(session, filters, (*wanted, *everywhere), make)

    with translated("reading the inventory", session.address):
        for _ in range(MOST_RESTARTS):
            try:
                return renewing(session, attempt) if left or everywhere else []
            except vmodl.fault.ManagedObjectNotFound as fault:
                gone = getattr(fault.obj, "_moId", None)
                fewer = [start for start in left if start.moid != gone]
                if len(fewer) == len(left):
                    raise
                left = fewer
        return renewing(session, attempt)


def renewing(session: Session, attempt: Callable[[], Result]) -> Result:
    """Run a reading; where the session has ended, log in again and start the reading anew."""
    for _ in range(MOST_RENEWALS):
        renewals = session.renewals
        try:
            return attempt()
        except (vim.fault.NotAuthenticated, vmodl.fault.ManagedObjectNotFound) as fault:
            if not is_session_over(fault):
                raise
            if session.renewals == renewals:
                session.renew()
    return attempt()


def _itself(item: Item) -> Item:
    return item


def _filter(session: Session, wanted: Sequence[Paths], starts: Sequence[Any]) -> Any:
    # Objects that went away since they were listed are no error; vcsim reports them all the same.
    return vmodl.query.PropertyCollector.FilterSpec(
        propSet=[property_spec(paths.type_name, paths.paths, session.stub.version) for paths in wanted],
        objectSet=list(starts),
        reportMissingObjectsInResults=True,
    )


def _retrieve(
    session: Session, filters: Sequence[Any], wanted: Sequence[Paths], make: Callable[[Item], Made]
) -> list[Made]:
    """Read what filters select; `wanted` is what all of them together ask for."""
    collector, stub = session.service_content.propertyCollector, session.stub
    options = vmodl.query.PropertyCollector.RetrieveOptions(maxObjects=PAGE_SIZE)
    readers: dict[str, Read] = {}
    for paths in wanted:
        if paths.kept is not None:
            known = property_spec(paths.type_name, paths.paths, stub.version)
            readers |= stub.readers(paths.type_name, known.pathSet, paths.kept)
    pages = Pages(session.limits.answer_pages, session.address)
    made: list[Made] = []
    answer: Answer | None = stub.send(collector, _RETRIEVE, (list(filters), options))
    while answer is not None:
        page = _Page(pages, lambda mark: stub.send(collector, _CONTINUE, (mark,)))
        try:
            for found in stub.objects(_RETRIEVE, answer, readers, page.leads_to):
                page.takes()
                made.append(make(Item(*found)))
                page.goes_on()
        except Exception:
            page.end()
            raise
        answer = None  # it is large: the next one need not lie beside it
        answer = page.next()
    return made


class _Page:
    """One page of an answer, and the next, which is fetched while this one is read.

    It is asked for once this one is known to hold something: of pages without anything only a few may come.
    """

    def __init__(self, pages: Pages, fetch: Callable[[str], Answer]) -> None:
        self._pages = pages
        self._fetch = fetch
        self._mark = ""
        self._count = 0
        self._ahead: Ahead[Answer] | None = None

    def leads_to(self, mark: str) -> None:
        """Take the mark of the next page."""
        self._mark = mark

    def takes(self) -> None:
        """Count an object of this page. Raises TooMuch if there are more than were asked for."""
        self._count += 1
        if self._count > PAGE_SIZE * SLACK:
            raise self._pages.too_many(self._count)

    def goes_on(self) -> None:
        """Fetch the next page in parallel, if there is one and its mark is known."""
        if self._mark and self._ahead is None:
            self._turn(is_empty=False)

    def next(self) -> Answer | None:
        """Return the next page, None after the last."""
        if self._mark and self._ahead is None:
            self._turn(is_empty=True)
        return None if self._ahead is None else self._ahead.result()

    def end(self) -> None:
        """Wait for the request under way: the connection is used by nothing else meanwhile."""
        if self._ahead is not None:
            self._ahead.wait()

    def _turn(self, *, is_empty: bool) -> None:
        self._pages.turn(self._mark, is_empty=is_empty)
        self._ahead = Ahead(partial(self._fetch, self._mark))


class Pages:
    """Counts the pages of an answer, and sees that they come to an end."""

    def __init__(self, most: int, address: str) -> None:
        self._most = most
        self._address = address
        self._marks: set[str] = set()
        self._turned = 0
        self._empty = 0

    def turn(self, mark: str, *, is_empty: bool) -> None:
        """Go on to the page that `mark` leads to. Raises TooMuch where that does not seem to end."""
        self._turned += 1
        self._empty = self._empty + 1 if is_empty else 0
        if mark in self._marks:
            raise self._endless("repeats a page")
        if self._empty > MOST_EMPTY_PAGES:
            raise self._endless(f"sent {self._empty} empty pages in a row")
        if self._turned >= self._most:
            raise self._endless(f"has more than {self._most} pages")
        self._marks.add(mark)

    def too_many(self, count: int) -> TooMuch:
        """Return the error for a page of so many objects."""
        return TooMuch(
            f"a response page has {count} or more objects, but {PAGE_SIZE} were requested",
            subject=self._address,
            remedy="check that the address belongs to a vCenter",
        )

    def _endless(self, why: str) -> TooMuch:
        return TooMuch(
            f"the response does not end: vCenter {why}",
            subject=self._address,
            remedy="if this vCenter is that large, raise `answer_pages` (VGPU_CFG_ANSWER_PAGES); otherwise "
            "check which server responds at this address",
        )


@cache
def property_spec(type_name: str, paths: tuple[str, ...], version: str) -> Any:
    """Name the paths that a version has. pyvmomi checks each of them, so once must do."""
    return vmodl.query.PropertyCollector.PropertySpec(
        type=VmomiSupport.GetVmodlType(type_name),
        all=False,
        pathSet=[path for path in paths if is_known(type_name, path, version)],
    )


def _view_spec(session: Session) -> Any:
    collector = vmodl.query.PropertyCollector
    through = collector.TraversalSpec(name="view", type=vim.view.ContainerView, path="view", skip=False)
    return collector.ObjectSpec(obj=session.view, skip=True, selectSet=[through])


def _object_spec(session: Session, start: Start) -> Any:
    kind = VmomiSupport.GetVmodlType(start.type_name)
    collector = vmodl.query.PropertyCollector
    if start.follow is None:
        return collector.ObjectSpec(obj=kind(start.moid, session.stub), skip=False)
    through = collector.TraversalSpec(name=start.follow, type=kind, path=start.follow, skip=False)
    return collector.ObjectSpec(
        obj=kind(start.moid, session.stub), skip=not start.is_read, selectSet=[through]
    )


@cache
def is_known(type_name: str, path: str, version: str) -> bool:
    """Whether an API version has a property path; a path that is too new would fail the whole reading.

    Raises AttributeError for a path that no version has.
    """
    owner = VmomiSupport.GetVmodlType(type_name)
    for step in path.split("[", 1)[0].split("."):
        if issubclass(owner, list):
            owner = owner.Item
        # pyvmomi keeps the types of properties by their name on the wire, which is the path's.
        found = owner._GetPropertyInfo(step)
        if version != found.version and found.version not in VmomiSupport.GetVersionParents(version):
            return False
        owner = found.type
    return True
