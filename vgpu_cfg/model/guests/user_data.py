"""What a user's own #cloud-config may say beside what this tool sends with a clone.

Lists that both have are joined, any other key that both set must be set alike, and no account and no file
may come from both: the later one would win without a word.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

HEADER = "#cloud-config"
JOINED = ("users", "write_files", "runcmd")
OWN_VALUES: Mapping[str, object] = {
    "preserve_hostname": False,
    "ssh_deletekeys": True,
}
"""Keys with the value that this tool gives each in every guest."""
_PRIVATE = "ssh_keys"
"""Who may read a VM's configuration may read user data, so nobody's private keys stand in it."""
_NAMED_BY = {"users": "name", "write_files": "path"}
OWN_FILES = ("/var/lib/vgpu-cfg/", "/etc/vgpu-cfg/", "/opt/vgpu-cfg/", "/usr/local/sbin/vgpu-cfg-stage")
"""Files and folders that this tool writes in guests."""


@dataclass(frozen=True, slots=True)
class Clash:
    """What cannot be merged, where in the user's file, and what to do."""

    loc: tuple[str | int, ...]
    message: str
    remedy: str


def clashes(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> Iterator[Clash]:
    """Yield what keeps a user's #cloud-config from being merged under ours."""
    for key in JOINED:
        if key in theirs and not isinstance(theirs[key], list):
            yield Clash((key,), f"its {key} is no list", f"write {key} as a list")
        elif key in _NAMED_BY:
            yield from _doubles(key, theirs.get(key, ()), ours.get(key, ()))
    if _PRIVATE in theirs:
        message = f"it sets {_PRIVATE}, and private keys are not to stand in it"
        yield Clash((_PRIVATE,), message, f"leave {_PRIVATE} out of it")
    for key in theirs.keys() & ours.keys() - {*JOINED, _PRIVATE}:
        if theirs[key] != ours[key]:
            message = f"it sets {key}, which vgpu-cfg sets otherwise"
            yield Clash((key,), message, f"leave {key} out of it")


def _doubles(key: str, theirs: list[Any], ours: list[Any]) -> Iterator[Clash]:
    by = _NAMED_BY[key]
    mine = {one[by] for one in ours if isinstance(one, dict)}
    for index, one in enumerate(theirs):
        name = one.get(by) if isinstance(one, dict) else one
        if isinstance(name, str) and (name in mine or name.startswith(OWN_FILES)):
            message = f"its {key} hold {name}, which vgpu-cfg brings too"
            yield Clash((key, index), message, "leave it out of the user data, or out of the plan file")
