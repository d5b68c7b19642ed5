"""A command's plan: the request with its file or reviewed plan, its id, and the signature of a saved plan.

The run that first writes makes the id, before it writes. Signatures are made by OpenSSH's ssh-keygen, over
the file's bytes. Its manual describes `-Y sign`, `-Y find-principals`, `-Y verify`, and the format of a
file of allowed signers. A signature is next to the plan, in `<plan>.json.sig`, and is made for one purpose,
its namespace.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from vgpu_cfg.cli.options import typed
from vgpu_cfg.cli.output import show
from vgpu_cfg.errors import DocumentError, DocumentFault, StalePlan, UnsafePlan

if TYPE_CHECKING:
    from vgpu_cfg.changes.plan import Plan
    from vgpu_cfg.model.desired import DesiredPlan
    from vgpu_cfg.settings.connection import Connection
    from vgpu_cfg.settings.secrets import SecretStore

NAMESPACE = "vgpu-cfg"
"""The purpose of signatures: one made for another purpose is not accepted."""
SUFFIX = ".sig"
_KEYGEN = "ssh-keygen"
_PATIENCE_SECONDS = 60
_LONGEST_SIGNATURE = 65_536
_WITH_ONLY = ("plan", "apply", "destroy", "import", "forget")


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """The user's request: a plan file's content, or a reviewed plan.

    A plan file comes from `path`, with the `variables` and `variable_files` of the command line. `folder` is
    where a new id of the plan is kept: next to the plan file, or next to the reviewed plan. `content` is a
    reviewed plan's file as it was read.
    """

    desired: DesiredPlan
    folder: Path
    reviewed: Plan | None = None
    path: Path = Path()
    variables: Mapping[str, str] = field(default_factory=dict)
    variable_files: tuple[Path, ...] = ()
    content: bytes = b""

    def secrets(self) -> SecretStore:
        """Return the plan's secrets, each to be fetched once; a run takes one store for all of itself."""
        from vgpu_cfg.settings.secrets import SecretStore

        return SecretStore(self.desired.secrets, self.folder)


def _refuse_folder(path: Path) -> None:
    """Raise DocumentError with the plans of a folder, for a command that takes one plan."""
    from vgpu_cfg.errors import DocumentError, DocumentFault
    from vgpu_cfg.plan_loading.folder import find_plans

    plans = ", ".join(map(str, find_plans(path)))
    fault = DocumentFault(str(path), 1, 1, "this is a folder, but the command requires a single plan")
    remedy = f"specify one: {plans}; only `plan`, `status` and `validate` accept a folder"
    raise DocumentError([fault], remedy=remedy)


def _refuse_vm(path: Path) -> None:
    """Raise DocumentError for a name that is no file's, such as a VM's, with the plan files there."""
    from vgpu_cfg.documents import did_you_mean
    from vgpu_cfg.plan_loading.folder import find_plans

    if path.exists() or path.suffix in typed.PLAN_SUFFIXES or not path.parent.is_dir():
        return
    plans: tuple[Path, ...] = ()
    with suppress(DocumentError):
        plans = find_plans(path.parent)
    if did_you_mean(path.name, (one.name for one in plans)):
        return
    verb = next((word for word in sys.argv[1:] if not word.startswith("-")), "plan")
    only = ("--only", path.name) if verb in _WITH_ONLY else ()
    lines = [f"`{shlex.join(['vgpu-cfg', verb, str(one), *only])}`" for one in plans[:3]]
    fault = DocumentFault(str(path), 1, 1, "the command requires a plan file, but this file does not exist")
    remedy = f"if {path.name} is a VM of a plan: {' or '.join(lines)}" if lines else "specify a plan file"
    raise DocumentError([fault], remedy=remedy)


def read_request(path: Path, variables: dict[str, str], variable_files: tuple[Path, ...]) -> PlanRequest:
    """Read a plan file, or a plan.json that `plan -o` wrote.

    Raises DocumentError with every fault of the file.
    """
    typed.of_plan(path)
    if path.is_dir():
        _refuse_folder(path)
    _refuse_vm(path)
    if path.suffix == ".json":
        if variables or variable_files:
            raise typer.BadParameter("variables in a saved plan are already resolved", param_hint="--set")
        from vgpu_cfg.cli.kept.saved_plan import load_plan_json
        from vgpu_cfg.plan_loading.side_files import read_all_verdicts

        reviewed, content = load_plan_json(path)
        file = Path(os.path.normpath(path.parent / reviewed.desired.file))
        typed.of_plan(path, file if file.is_file() else None)
        _refuse_other_id(reviewed.desired, path)
        verdicts = read_all_verdicts(path.parent) or reviewed.desired.verdicts
        desired = reviewed.desired.model_copy(update={"verdicts": verdicts})
        return PlanRequest(desired, path.parent, reviewed, path, content=content)
    from vgpu_cfg.plan_loading import load_plan
    from vgpu_cfg.plan_loading.side_files import id_file_of

    loaded = load_plan(path, variables=variables, variable_files=variable_files)
    return PlanRequest(loaded.desired, id_file_of(path).parent, None, path, variables, variable_files)


def _refuse_other_id(desired: DesiredPlan, path: Path) -> None:
    """Raise StalePlan if a plan was saved with a new ID, and its plan file has another one since."""
    from vgpu_cfg.plan_loading.side_files import read_id_file

    file = _id_file(desired, path.parent)
    if file is not None and read_id_file(file) not in ("", desired.id):
        raise StalePlan(
            "the plan was saved before its plan file was first applied, so it has a different ID",
            subject=str(path),
            remedy="save it again with `vgpu-cfg plan PLAN`, then review and apply it",
        )


def refuse_unknown_profiles(desired: DesiredPlan) -> None:
    """Raise DoesNotFit if VMs request profiles that no board in the catalog has: no vCenter's plan could."""
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.errors import DoesNotFit
    from vgpu_cfg.model.ranges import fold_names

    catalog = load_catalog()
    vms: dict[tuple[str, ...], list[str]] = {}
    for vm in desired.vms:
        for gpu in vm.gpus:
            names = tuple(profile.name for profile in gpu.profile)
            if names and not any(map(catalog.by_profile, names)):
                vms.setdefault(names, []).append(vm.name)
    if not vms:
        return
    names, those = next(iter(vms.items()))
    message, remedy = catalog.without(names)
    more = f" (and {len(vms) - 1} more)" if len(vms) > 1 else ""
    raise DoesNotFit(f"VG101 {message}{more}", subject=f"vm {fold_names(those)}", remedy=remedy)


def with_id(desired: DesiredPlan) -> DesiredPlan:
    """Return a plan with an id: its own, else a new one, which is kept nowhere yet."""
    from vgpu_cfg.cli.compose import make_id

    return desired if desired.id else desired.model_copy(update={"id": make_id()})


def proposed(request: PlanRequest, out: Path) -> PlanRequest:
    """Return a request whose plan has an id, for a plan that is saved to `out`.

    Applying that plan comes to the same id, and finds from there where it is kept, and the encrypted files of
    its secrets.
    """
    file = os.path.relpath(request.path.resolve(), out.parent.resolve())
    desired = with_id(request.desired).model_copy(update={"file": file})
    way = Path(os.path.relpath(request.folder.resolve(), out.parent.resolve())).as_posix()
    secrets = {name: one.seen_from(way) for name, one in desired.secrets.items()}
    desired = desired.model_copy(update={"secrets": secrets})
    if desired.id_file:
        path = (request.folder / desired.id_file).resolve()
        desired = desired.model_copy(update={"id_file": os.path.relpath(path, out.parent.resolve())})
    return replace(request, desired=desired)


def keep_id(desired: DesiredPlan, folder: Path) -> None:
    """Write a new id down, unless that was done; nothing may be written to vCenter before.

    Raises DocumentError with the line for the plan file where the folder cannot be written, and StalePlan
    where another id is kept there by now.
    """
    from vgpu_cfg.plan_loading.side_files import write_id_file

    path = _id_file(desired, folder)
    if path is None:
        return
    is_new = not path.exists()
    write_id_file(path, desired.id)
    if is_new:
        show.say(f"{path}: the plan's new ID; keep it next to {path.stem}, and commit both")


def _id_file(desired: DesiredPlan, folder: Path) -> Path | None:
    """Return the place of a new ID, None if the plan has kept one."""
    if not desired.id_file:
        return None
    path = folder / desired.id_file
    # A saved plan may have gone on without its plan file, as from one job of CI to the next.
    return path if path.with_suffix("").exists() else folder / path.name


def sign_plan(path: Path, key: Path) -> Path:
    """Sign a saved plan with a private key, or with a public one whose private half an agent has.

    ssh-keygen itself asks for a passphrase. Raises DocumentError where it does not sign.
    """
    signature = path.with_name(path.name + SUFFIX)
    signature.unlink(missing_ok=True)  # ssh-keygen would ask whether to write over it
    words = ["-Y", "sign", "-n", NAMESPACE, "-f", str(key.expanduser().absolute()), str(path.absolute())]
    done = _keygen(words, b"", None)
    if done.returncode != 0 or not signature.exists():
        fault = DocumentFault(str(path), 1, 1, f"cannot sign with {key}: {_last_words(done)}")
        raise DocumentError(
            [fault], remedy="specify your private key, or the public half of a key in your SSH agent"
        )
    return signature


def refuse_unsigned(request: PlanRequest, connection: Connection, signers: Path | None) -> None:
    """Raise UnsafePlan unless the plan was saved, and signed by a signer that each signers file allows.

    That of the command line counts, and those of every context of the server, under any name.
    """
    from vgpu_cfg.settings.environment import config_file

    asked = [(signers, "--require-signature")] if signers is not None else []
    asked += [
        (one.signers, f"the context {one.name} in {config_file()}")
        for one in connection.requiring
        if one.signers is not None
    ]
    for file, who in asked:
        if request.reviewed is None:
            raise UnsafePlan(
                f"{who} requires a signed plan, but this is a plan file",
                subject=str(request.path),
                remedy="save and sign it with `vgpu-cfg plan -o plan.json --sign KEY`, then apply that file",
            )
        show.say(f"{request.path}: signed by {_signer(request, file.expanduser(), who)}")


def _signer(request: PlanRequest, signers: Path, who: str) -> str:
    """Return which allowed signer signed the plan's bytes as they were read."""
    signature = request.path.with_name(request.path.name + SUFFIX)
    if not signers.is_file():
        raise typer.BadParameter(f"{signers} is not an allowed signers file ({who})", param_hint=who)
    if not signature.is_file() or signature.stat().st_size > _LONGEST_SIGNATURE:
        raise UnsafePlan(
            f"{who} requires a signed plan, but this plan has no signature file",
            subject=str(signature),
            remedy=f"review the plan, then sign it: `{_KEYGEN} -Y sign -n {NAMESPACE} -f KEY {request.path}`",
        )
    allowed = ["-s", str(signature.absolute()), "-f", str(signers.absolute())]
    found = _keygen(["-Y", "find-principals", *allowed], b"", request.path)
    for name in found.stdout.decode(errors="replace").splitlines():
        words = ["-Y", "verify", "-n", NAMESPACE, "-I", name, *allowed]
        if not name.startswith("-") and _keygen(words, request.content, request.path).returncode == 0:
            return name
    raise UnsafePlan(
        f"{who} does not allow the signer, or the plan was changed after signing",
        subject=str(signature),
        remedy=f"check who signed it and whether {signers} lists them; if the plan was changed, review and "
        "sign it again",
    )


def _keygen(words: Sequence[str], content: bytes, subject: Path | None) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(  # noqa: S603 - no shell; file names are absolute, and a name is no option
            [_KEYGEN, *words], input=content, capture_output=True, timeout=_PATIENCE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = "no response" if isinstance(error, subprocess.TimeoutExpired) else error.strerror
        raise UnsafePlan(
            f"cannot run {_KEYGEN}: {reason}",
            subject=str(subject or _KEYGEN),
            remedy="install OpenSSH 8.9 or later, or make sure that its ssh-keygen is first in PATH",
        ) from error


def _last_words(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"ssh-keygen failed with exit code {done.returncode}"
