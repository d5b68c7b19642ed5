"""Text for guests: jinja2 templates, the filters that quote for them, and the script of a module.

A script is built of a module's two halves: the common head, `check`, `apply`, and removal of secrets. The
bodies run under `set -eu`: a command that fails ends its half with that command's status. The head
(templates/head.sh.j2) says which functions they may use.

A file of `staging.modules` has one function `stage(module, context) -> Staged`. The result is files, and the
two halves of the script. `check` and `apply` are bodies of POSIX sh functions in which `why TEXT` says one
line to the user and the exit status says how it went (see docs/reference/guest-bundle.md).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from vgpu_cfg.errors import GuestError
from vgpu_cfg.model.guests.base import ModuleBase
from vgpu_cfg.model.guests.guest import UNKNOWN, GuestFile, GuestSpec
from vgpu_cfg.model.guests.modules import MODULE_ORDER
from vgpu_cfg.shells.keys import PlanKeyRing

if TYPE_CHECKING:
    from jinja2 import Environment

STATE_FOLDER = "/var/lib/vgpu-cfg"
SCRIPTS_FOLDER = f"{STATE_FOLDER}/modules"
FILES_FOLDER = f"{STATE_FOLDER}/files"
"""The folder of files without secrets until a module's script compares and installs them."""

SECRETS_FOLDER = "/var/lib/vgpu-cfg/secrets"
"""The folder of files with secrets until their module has installed them."""

_COMMENT = re.compile(r"\s*#(?!!| shellcheck )")

REBOOT, HAND = 10, 20
"""Exit statuses of `apply`: the guest restarts and goes on; the rest is a manual step."""


def render(template: str, **values: object) -> str:
    """Fill in a template of `staging/templates`; a value that it names and does not get is an error."""
    return environment().get_template(template).render(values)


def quote_sh(value: object) -> str:
    """Quote one word for a POSIX shell, whatever it holds; a NUL byte is not possible in one."""
    text = str(value)
    if "\0" in text:
        raise GuestError(
            "a value for the guest's shell contains a NUL byte", subject=repr(text), remedy="remove it"
        )
    return shlex.quote(text)


def quote_systemd(value: object) -> str:
    """Quote one word of a unit's Exec line so that systemd expands nothing in it (systemd.service(5)).

    A unit cannot carry control characters: those are refused.
    """
    text = str(value)
    if any(ord(sign) < 0x20 or ord(sign) == 0x7F for sign in text):
        raise GuestError(
            "a value for a systemd unit contains a control character", subject=repr(text), remedy="remove it"
        )
    for sign, escaped in (("\\", "\\\\"), ('"', '\\"'), ("%", "%%"), ("$", "$$")):
        text = text.replace(sign, escaped)
    return f'"{text}"'


def _lean(source: str) -> str:
    """Drop the comment lines of a script's template, except what its first lines say and shellcheck's."""
    lines = source.splitlines(keepends=True)
    begin = next((at for at, line in enumerate(lines) if not line.startswith("#")), 0)
    return "".join(lines[:begin]) + "".join(line for line in lines[begin:] if not _COMMENT.match(line))


@cache
def environment() -> Environment:
    """Return the environment of the templates in this package."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    class Lean(PackageLoader):
        """Templates of scripts without their comments: the user data of a guest has 64 KiB."""

        def get_source(self, environment: Environment, template: str) -> Any:
            source, *rest = super().get_source(environment, template)
            return (_lean(source) if template.endswith(".sh.j2") else source, *rest)

    made = Environment(  # noqa: S701 - autoescape is for HTML; the filters quote for sh and systemd
        loader=Lean("vgpu_cfg.staging"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {"sh": quote_sh, "systemd": quote_systemd}
    return made


def script_path(kind: str) -> str:
    """Return where the script of a module lies, numbered in the order of staging."""
    return f"{SCRIPTS_FOLDER}/{MODULE_ORDER.index(kind) + 1:02d}-{kind}.sh"


def source_file(name: str, content: str) -> GuestFile:
    """Make a file without a secret that a script finds at `source NAME`."""
    return GuestFile(path=f"{FILES_FOLDER}/{name}", content=content)


def secret_file(name: str, content: str) -> GuestFile:
    """Make a file that a script finds at `secret NAME`; it is removed once the module's check passes."""
    return GuestFile(path=f"{SECRETS_FOLDER}/{name}", content=content, mode=0o600)


def halves(template: str, *files: GuestFile, **parameters: object) -> Staged:
    """Render a module's template twice: `half` is "check" or "apply", the text outside of them is in both."""
    return Staged(
        check=render(template, half="check", **parameters),
        apply=render(template, half="apply", **parameters),
        files=files,
    )


def two_scripts(template: str, *files: GuestFile, **parameters: object) -> Staged:
    """Render the two templates of a module, TEMPLATE.check and TEMPLATE.apply."""
    return Staged(
        check=render(f"{template}.check.sh.j2", **parameters),
        apply=render(f"{template}.apply.sh.j2", **parameters),
        files=files,
    )


def timed_units(name: str, command: str, description: str, *, seconds: int) -> dict[str, tuple[str, str]]:
    """Return the units that run a command every so many seconds, by path: text and permissions."""
    values = {"command": command, "description": description, "seconds": seconds}
    return {
        f"/etc/systemd/system/vgpu-cfg-{name}.{kind}": (render(f"timed.{kind}.j2", **values), "644")
        for kind in ("service", "timer")
    }


def compose(kind: str, staged: Staged) -> str:
    """Return the text of a module's script."""
    secrets = [PurePosixPath(one.path).name for one in staged.files if one.path.startswith(SECRETS_FOLDER)]
    return render(
        "script.sh.j2", kind=kind, secrets=secrets, check=_body(staged.check), apply=_body(staged.apply)
    )


def _body(text: str) -> str:
    """Return a function's body; an empty one would be a fault of syntax."""
    return text.strip("\n") or ":"


@dataclass(frozen=True, slots=True)
class StagingContext:
    """The input of staging: the guest's whole spec, the values of secrets, the plan's keys.

    `host_keys` says of VMs by which host key their guests are known (see `model.guests.host_keys`).
    """

    spec: GuestSpec
    keys: PlanKeyRing
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    host_keys: Mapping[str, str] = field(default_factory=dict)

    def of(self, module: ModuleBase) -> StagingContext:
        """Return what one module may use: of the secrets those that it states, which are fetched for it."""
        own = {name: self.secrets[name] for name in module.secrets if name in self.secrets}
        return replace(self, secrets=own)

    def secret(self, name: str, what: str) -> str:
        """Return the value of a secret. Raises GuestError where it has none."""
        value = self.secrets.get(name, "").strip("\r\n")
        if not value.strip():
            remedy = "set a value in the source specified under the plan file's `secrets`"
            raise GuestError(f"{what} has no value", subject=f"{self.spec.vm}: secret {name}", remedy=remedy)
        return value

    def host_key(self, vm: str) -> str:
        """Return the public host key of a VM's guest, "" if it is not yet known."""
        return self.keys.public_host_key(vm, self.host_keys.get(vm, UNKNOWN))


@dataclass(frozen=True, slots=True)
class Staged:
    """The result of staging one module. `files` are there before its script runs."""

    check: str
    apply: str
    files: tuple[GuestFile, ...] = field(default=(), repr=False)
