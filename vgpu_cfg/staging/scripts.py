"""How a module's two halves become one script: the common head, `check`, `apply`, and the way out of secrets.

The bodies run under `set -eu`: a command that fails ends its half with that command's status. The
head (templates/head.sh.j2) says which functions they may use.
"""

from __future__ import annotations

from pathlib import PurePosixPath

from vgpu_cfg.model.guests.guest import GuestFile
from vgpu_cfg.model.guests.modules import MODULE_ORDER
from vgpu_cfg.staging.module import SECRETS_FOLDER, Staged
from vgpu_cfg.staging.rendering import render

STATE_FOLDER = "/var/lib/vgpu-cfg"
SCRIPTS_FOLDER = f"{STATE_FOLDER}/modules"
FILES_FOLDER = f"{STATE_FOLDER}/files"
"""Where files without secrets lie until a module's script compares them and puts them in their place."""


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
    """Render a module's template twice: `half` is "check" or "apply", what stands outside is in both."""
    return Staged(
        check=render(template, half="check", **parameters),
        apply=render(template, half="apply", **parameters),
        files=files,
    )


def compose(kind: str, staged: Staged) -> str:
    """Return the text of a module's script."""
    secrets = [PurePosixPath(one.path).name for one in staged.files if one.path.startswith(SECRETS_FOLDER)]
    return render(
        "script.sh.j2", kind=kind, secrets=secrets, check=_body(staged.check), apply=_body(staged.apply)
    )


def _body(text: str) -> str:
    """Return a function's body; an empty one would be a fault of syntax."""
    return text.strip("\n") or ":"
