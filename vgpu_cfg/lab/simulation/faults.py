"""Faults to order: which call of which method fails, how, and which privileges the user lacks.

    faults:
    - {method: PowerOnVM_Task, nth: 2, kind: task, fault: GenericVmConfigFault, message: "…"}
    - {method: CloneVM_Task, kind: drop_after}
    - {method: "*", nth: 17, kind: restart_before, seconds: 60, starting: 30, forgets_tasks: true}
    lacking: [VirtualMachine.Interact.PowerOn]

`nth` counts from 1, per method and from the moment the fault was added; 0 means every call. The
method `*` is any, each call counting.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pyVmomi import VmomiSupport, vim, vmodl

from vgpu_cfg import documents
from vgpu_cfg.errors import Unreachable

FaultKind = Literal[
    "call",
    "task",
    "drop_before",
    "drop_after",
    "session_expired",
    "slow",
    "unavailable",
    "restart_before",
    "restart_after",
]
ANY_METHOD = "*"

FILE_NAME = "faults.yaml"


class ConnectionDropped(Unreachable):
    """The scripted end of a connection: the server gives no answer, as a Transport says it."""


def connection_dropped(estate: str, when: str) -> ConnectionDropped:
    """Return the end of a connection to the lab on an estate, "before Login"."""
    return ConnectionDropped(
        f"the lab dropped the connection {when}",
        subject=f"lab:{estate}",
        remedy=f"run the command again; it was scripted, in the {FILE_NAME} of the lab's state folder",
    )


class ScriptedFault(BaseModel):
    """One scripted fault.

    `call` refuses the method itself, `task` lets the task end in the fault, `drop_before` and `drop_after`
    cut the connection before or after the server acted, `session_expired` forgets the session first, `slow`
    answers after `seconds`. `unavailable` is the web front's 503, and `restart_before` and `restart_after`
    restart vCenter itself in place of an answer: it refuses connections for `seconds`, its web front is alone
    for `starting` more, and with `forgets_tasks` no task is known then.
    """

    model_config = ConfigDict(extra="forbid", validate_assignment=True)

    method: str
    nth: int = Field(default=1, ge=0)
    kind: FaultKind = "task"
    fault: str = "GenericVmConfigFault"
    message: str = ""
    seconds: float = 0.0
    starting: float = 0.0
    forgets_tasks: bool = False
    seen: int = Field(default=0, exclude=True)

    @field_validator("fault")
    @classmethod
    def _is_a_fault(cls, name: str) -> str:
        fault_type(name)
        return name

    def is_due(self) -> bool:
        """Count one call, and return whether this is the one."""
        self.seen += 1
        return self.nth in (0, self.seen)

    def make(self) -> Exception:
        """Return the vSphere fault."""
        return make_fault(self.fault, self.message)


class FaultScript(BaseModel):
    """The file `faults.yaml` in a lab's state folder."""

    model_config = ConfigDict(extra="forbid")

    faults: list[ScriptedFault] = []
    lacking: list[str] = []


class Faults:
    """The script that a lab plays, and the privileges its user lacks."""

    def __init__(self) -> None:
        self._script: list[ScriptedFault] = []
        self.lacking: set[str] = set()

    def add(
        self,
        method: str,
        *,
        nth: int = 1,
        kind: FaultKind = "task",
        fault: str = "GenericVmConfigFault",
        message: str = "",
        seconds: float = 0.0,
        starting: float = 0.0,
        forgets_tasks: bool = False,
    ) -> None:
        """Add one fault to the script; it counts calls from now on."""
        self._script.append(
            ScriptedFault(
                method=method,
                nth=nth,
                kind=kind,
                fault=fault,
                message=message,
                seconds=seconds,
                starting=starting,
                forgets_tasks=forgets_tasks,
            )
        )

    def load(self, folder: Path) -> None:
        """Take over a folder's `faults.yaml`, if there is one. Raises `DocumentError`."""
        path = folder / FILE_NAME
        if path.exists():
            script = documents.build(documents.read_document(path), FaultScript)
            self._script.extend(script.faults)
            self.lacking.update(script.lacking)

    def clear(self) -> None:
        """Let everything go right again."""
        self._script.clear()
        self.lacking.clear()

    def on_call(self, method: str) -> ScriptedFault | None:
        """Return what disturbs this call of a method, other than its task; counts the call."""
        return self._first(method, lambda entry: entry.kind != "task")

    def on_task(self, method: str) -> ScriptedFault | None:
        """Return what this task of a method ends in; counts the task."""
        return self._first(method, lambda entry: entry.kind == "task")

    def _first(self, method: str, wanted: Any) -> ScriptedFault | None:
        meant = (method, ANY_METHOD)
        due = [entry for entry in self._script if entry.method in meant and wanted(entry) and entry.is_due()]
        return due[0] if due else None


def fault_type(name: str) -> type[Exception]:
    """Return the fault class of a name, with or without its namespace. Raises ValueError."""
    for space in (vim.fault, vmodl.fault):
        found = getattr(space, name.rsplit(".", 1)[-1], None)
        if isinstance(found, type) and issubclass(found, Exception):
            return found
    raise ValueError(f"{name!r} is not a vSphere fault")


def make_fault(name: str, message: str) -> Exception:
    """Return a fault with its message where clients look for it, and every required field filled."""
    fault: Any = fault_type(name)()
    for field in fault._GetPropertyList():
        if not field.flags & VmomiSupport.F_OPTIONAL and getattr(fault, field.name) is None:
            setattr(fault, field.name, _some(field.type))
    fault.msg = message
    if hasattr(fault, "reason"):
        fault.reason = message
    made: Exception = fault
    return made


def _some(kind: Any) -> Any:
    """Return an empty value of a field's type: scripts state only the fault's name."""
    if issubclass(kind, VmomiSupport.ManagedObject):
        return (vim.VirtualMachine if kind is VmomiSupport.ManagedObject else kind)("none")
    if issubclass(kind, VmomiSupport.Enum):
        return kind(kind.values[0])
    return kind()
