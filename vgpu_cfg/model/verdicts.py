"""The verdicts on beliefs at one vCenter, and the file that keeps them next to the plans.

Admins who share the file plan alike: it says which beliefs of vgpu-cfg hold at this build of this vCenter.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from vgpu_cfg.model.frozen import Frozen, Moment

Uuid = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
Build = Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z]{1,40}$")]
Id = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=100)]


class Verdict(StrEnum):
    """The result of a belief's trial."""

    HOLDS = "holds"
    FAILS = "does not hold"
    OPEN = "not tried"


class VerdictRow(Frozen):
    """The verdict on one belief.

    by: how it was tried, a value of `knowledge.beliefs.Trial`.
    since: the first day of this verdict, by vCenter's clock.
    seen: the objects that confirm or contradict the belief.
    """

    verdict: Verdict
    by: Literal["reading", "object", "vm", "gpu", "shell"] = "reading"
    since: date | None = None
    seen: str = ""


class TriedVCenter(Frozen):
    """The vCenter of a file, which the file's name repeats, and the time of the last trial by its clock."""

    instance_uuid: Uuid
    version: str = ""
    build: Build
    tried_at: Moment


class HostKind(Frozen):
    """The number of hosts with one version and build of ESXi, one driver and the same boards."""

    esxi: str
    build: str = ""
    driver: str = ""
    boards: tuple[str, ...] = ()
    hosts: int = 1


class VerdictFile(Frozen):
    """The content of the file; `program` is the version of vgpu-cfg that wrote it."""

    version: Literal[1] = 1
    vcenter: TriedVCenter
    program: str
    hosts: tuple[HostKind, ...] = ()
    beliefs: Mapping[Id, VerdictRow] = Field(default_factory=dict)

    @property
    def file_name(self) -> str:
        """The name by which plans in the same folder find it."""
        return f"vcenter-{self.vcenter.instance_uuid}-{self.vcenter.build}.yaml"
