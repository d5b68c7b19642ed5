"""The methods of each type that the lab carries out, a call's context, and the objects in its arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pyVmomi import vmodl

from vgpu_cfg.lab.api.references import reference
from vgpu_cfg.lab.api.versions import version_name
from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.simulation import tasks
from vgpu_cfg.lab.simulation.sessions import LAB_CREDENTIALS, Credentials, Session
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.inventory import LabState, Managed, ManagedT, Task

Operation = Callable[..., Any]

OPERATIONS: dict[tuple[str, str], Operation] = {}
"""(wsdl type, wsdl method) → `op(lab, subject, **arguments)`, which answers a value, an object, or a Task."""

FALLBACK = {
    "ClusterComputeResource": "ComputeResource",
    "VmwareDistributedVirtualSwitch": "DistributedVirtualSwitch",
}
"""The base type for a type without a method of its own; all others fall back to ManagedEntity."""

Seconds = float | Callable[..., float]
Check = Callable[..., None]

Method = Callable[..., Any]

METHODS: dict[tuple[str, str], Method] = {}
"""(wsdl type, method) → `method(context, thing, **arguments)`; answers pyvmomi values or state objects."""

UNLOCKED: set[str] = set()
"""Methods that take the lab's lock by themselves, because they wait."""


def operation(wsdl_type: str, method: str) -> Callable[[Operation], Operation]:
    """Register a method that answers at once."""

    def register(function: Operation) -> Operation:
        OPERATIONS[wsdl_type, method] = function
        return function

    return register


def task(
    wsdl_type: str,
    method: str,
    *,
    description_id: str,
    seconds: Seconds,
    check: Check | None = None,
    cancelable: bool = False,
) -> Callable[[Operation], Operation]:
    """Register a method that starts a task; the function decorated is the work, done when it is due.

    `check` is called with the same arguments when the method is, and may refuse it then.
    `seconds` is how long it takes, or a function of the same arguments.
    """

    def register(work: Operation) -> Operation:
        def begin(lab: Simulation, subject: Managed, **arguments: Any) -> Task:
            if check is not None:
                check(lab, subject, **arguments)
            lasts = seconds(lab, subject, **arguments) if callable(seconds) else seconds
            return tasks.start(
                lab,
                subject,
                method,
                work=wsdl_type,
                description_id=description_id,
                arguments=arguments,
                seconds=lasts,
                cancelable=cancelable,
            )

        OPERATIONS[wsdl_type, method] = begin
        tasks.WORK[wsdl_type, method] = work
        return work

    return register


def find_operation(wsdl_type: str, method: str) -> Operation:
    """Return the handler of a method on a type or on its ancestors. KeyError if there is none."""
    for name in (wsdl_type, FALLBACK.get(wsdl_type, ""), "ManagedEntity"):
        if (name, method) in OPERATIONS:
            return OPERATIONS[name, method]
    raise KeyError(f"{wsdl_type}.{method}")


def answers(wsdl_type: str, *methods: str, waits: bool = False) -> Callable[[Method], Method]:
    """Register a function as one or several methods of a managed type."""

    def register(function: Method) -> Method:
        for name in methods:
            METHODS[wsdl_type, name] = function
            if waits:
                UNLOCKED.add(name)
        return function

    return register


@dataclass(slots=True)
class Context:
    """The context for a method or a renderer. `session` is None before login; `version` is pyvmomi's name."""

    lab: Simulation
    version: str
    session: Session | None = None
    credentials: Credentials = LAB_CREDENTIALS
    user_agent: str = ""
    token_subject: str = ""

    @property
    def signed_in(self) -> Session:
        """The caller's session, in a method that is refused without one (its privilege is not anonymous)."""
        if self.session is None:
            raise RuntimeError("a method that requires a session was called without one")
        return self.session

    @property
    def state(self) -> LabState:
        """The lab's current state; a stored lab may load another one between calls."""
        return self.lab.state


def referred(context: Context, moids: Iterable[str]) -> list[Any]:
    """Return the references of objects by moid; one that is gone is left out."""
    objects = context.state.objects
    return [reference(objects[moid]) for moid in moids if moid in objects]


def reference_to(context: Context, moid: str | None) -> Any:
    """Return the reference of one object by moid, None for none."""
    thing = context.state.objects.get(moid or "")
    return None if thing is None else reference(thing)


def vcenter_version(context: Context) -> str:
    """Return the newest API version of this vCenter, by pyvmomi's name."""
    return version_name(context.state.api_version) or context.version


def moid_of(reference: Any) -> str:
    """Return the moid in a reference."""
    return str(reference._GetMoId())


def resolve(state: LabState, reference: Any, kind: type[ManagedT]) -> ManagedT:
    """Return the object that a reference means. Raises ManagedObjectNotFound."""
    found = state.find(moid_of(reference), kind)
    if found is None:
        raise vmodl.fault.ManagedObjectNotFound(
            obj=reference, msg="The object has already been deleted or has not been completely created."
        )
    return found


def resolve_or_none(state: LabState, reference: Any, kind: type[ManagedT]) -> ManagedT | None:
    """Return the object that a reference means, None for no reference. Raises ManagedObjectNotFound."""
    return None if reference is None else resolve(state, reference, kind)


def required(state: LabState, reference: Any, kind: type[ManagedT], path: str) -> ManagedT:
    """Return the object that a reference means. Raises InvalidArgument where there is no reference."""
    if reference is None:
        raise refusals.bad_argument(path)
    return resolve(state, reference, kind)
