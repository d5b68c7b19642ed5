"""Edit the image that manages a cluster's hosts, and bring one host to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from vgpu_cfg.changes import privileges
from vgpu_cfg.changes.base import ChangeBase, Face, HostChangeBase, Restart, setting_rows
from vgpu_cfg.changes.by_hand import Part
from vgpu_cfg.changes.places import Places
from vgpu_cfg.changes.privileges import Needed
from vgpu_cfg.changes.reach import Disturbed, Reach
from vgpu_cfg.changes.tables import Tables
from vgpu_cfg.changes.values import Placement, Row, SettingTarget, plain, plain_rows, set_to

_IMAGE = "Updates > Hosts > Image"


class SetImage(ChangeBase):
    """Draft the cluster's image with these components (name: version), validate it, and commit it.

    `hosts` are checked against it afterwards, before any of them is taken down. `message` is the commit's.
    `leaves` names the other hosts of the cluster, which the plan does not bring to the image.
    """

    face = Face("set", "image edited", done="image* edited", noun="image")
    for_good = (
        "the image keeps its new components",
        "to return to the previous commit, revert them on the cluster's Updates tab, then remediate",
    )

    kind: Literal["set_image"] = "set_image"
    cluster_moid: str
    components: Mapping[str, str]
    hosts: tuple[str, ...]
    message: str
    leaves: tuple[str, ...] = ()

    def head(self, place: Placement | None) -> Row:
        return "image", plain("draft, validate, and commit; then check the hosts against it")

    def rows(self, place: Placement | None, tables: Tables) -> Iterator[Row]:
        yield from ((edit.key, set_to(edit, unset="not in the image")) for edit in self.edits)
        if self.leaves:
            yield "not remediated", plain(f"{', '.join(self.leaves)}: non-compliant from then on")

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        name = self.subject.name
        left = f"; do not remediate {', '.join(self.leaves)}" if self.leaves else ""
        back = ", ".join(
            f"remove {edit.key}" if edit.before is None else f"set {edit.key} back to {edit.before}"
            for edit in self.edits
        )
        return (
            Part(
                what=f"Edit the image of cluster {name}: add these components, validate, and save.",
                why=(
                    "the image controls all software on the hosts; a package installed with esxcli is removed"
                ),
                client=f"{name} > {_IMAGE} > Edit > Components; then Validate, Save, and Run Pre-Check",
                expected=f"the image is valid, and its hosts are non-compliant until remediated{left}",
                undo=(f"in the same place, {back}, and save; then remediate the hosts again",),
                rows=plain_rows(self.edits),
            ),
        )

    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        return ()

    def privileges(self, at: Places) -> Iterator[Needed]:
        yield from at.at_root(privileges.EDIT_IMAGE)
        yield from at.at_root(privileges.REMEDIATE)

    def no_way_back(self, tables: Tables) -> Iterator[str]:
        was = ", ".join(f"{edit.key} {edit.before or 'absent'}" for edit in self.edits)
        yield f"the image keeps its new components; to return to the previous commit, set: {was}"


class RemediateHost(HostChangeBase):
    """Let vCenter bring a host in maintenance mode to its cluster's image; it restarts the host.

    `settles` must hold then. The end-user licence agreement of the image is accepted. `also` are other
    components that differ from the image, and change with it. `compliance` is the last check before the plan.
    `changes` names all components that may change: if the image brings others by then, the run fails.
    """

    face = Face("restart", "remediated", sign=" ", restart=Restart.REBOOT)

    kind: Literal["remediate_host"] = "remediate_host"
    cluster_moid: str
    cluster_name: str
    settles: tuple[SettingTarget, ...] = ()
    also: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    compliance: str = ""

    @property
    def in_force(self) -> tuple[SettingTarget, ...]:
        return self.settles

    @property
    def brings(self) -> tuple[SettingTarget, ...]:
        return tuple(one for one in self.settles if one.setting in ("driver", "esxi"))

    @property
    def writes(self) -> tuple[SettingTarget, ...]:
        return self.brings

    def likeness(self, name: str) -> object:
        return (self.cluster_name, self.also, self.compliance)

    def head(self, place: Placement | None) -> Row:
        words = f"by the image of {self.cluster_name} (accepts its EULA); the host reboots, then verify"
        return "remediate", plain(words)

    def rows(self, place: Placement | None, tables: Tables) -> Iterator[Row]:
        yield from ((edit.key, set_to(edit, unset="")) for edit in self.edits)
        yield from (("also", plain(one)) for one in self.also)
        if self.compliance:
            yield "last check", plain(self.compliance)

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        name = self.host.name
        also = f"; also changed: {', '.join(self.also)}" if self.also else ""
        return (
            Part(
                what=f"Remediate {name} with the image of cluster {self.cluster_name}, and wait until it is "
                "connected again.",
                why="the image installs the software, which loads only after the reboot",
                client=f"{self.cluster_name} > {_IMAGE} > Image Compliance > {name} > Actions > Remediate",
                expected=f"{name} is connected and compliant, and the values of this step are active{also}",
                rows=setting_rows(self.settles, tables),
            ),
        )

    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        return ()

    def privileges(self, at: Places) -> Iterator[Needed]:
        yield from at.at_root(privileges.REMEDIATE)
        yield Needed(privileges.MAINTENANCE, self.host.moid)
        yield from at.host_mark(self.host.moid)

    def no_way_back(self, tables: Tables) -> Iterator[str]:
        yield "the host keeps the software from the image; revert the image, then remediate the host again"
