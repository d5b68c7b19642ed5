"""The file next to a plan file that keeps the plan's id: read, and written once.

It is for plan files whose author wrote no `id`. The plan file without it is a plan with no id, which is
refused if VMs bear the plan's name.
"""

from __future__ import annotations

from pathlib import Path

from vgpu_cfg.documents import Limit, put_whole, read_bytes, take_name
from vgpu_cfg.errors import DocumentError, DocumentFault, StalePlan
from vgpu_cfg.model.identity import ID_FILE_SUFFIX, is_id

_LONGEST = Limit("", 4096)
_ABOUT = (
    "# The ID of the plan in {plan}. vgpu-cfg uses it to identify the plan's VMs.\n"
    "# Keep this file next to the plan file, and commit both.\n"
)


def id_file_of(path: Path) -> Path:
    """Return the place of a plan file's id: next to the file itself, if the path is a link to it."""
    target = path.resolve() if path.is_symlink() else path
    return target.with_name(f"{target.name}{ID_FILE_SUFFIX}")


def read_id_file(path: Path) -> str:
    """Return the id that an id file keeps, "" where there is no such file.

    Raises DocumentError for one that cannot be read, or holds anything but one id.
    """
    try:
        text = read_bytes(path, _LONGEST).decode("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise _unusable(path, 1, f"cannot read the ID file: {reason}") from error
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1)]
    found = [(number, line) for number, line in lines if line and not line.startswith("#")]
    if not found:
        raise _unusable(path, 1, "the ID file contains no ID")
    number, line = found[0]
    if not is_id(line):
        raise _unusable(path, number, "this is not a valid plan ID")
    if len(found) > 1:
        raise _unusable(path, found[1][0], "the ID file contains more than one ID")
    return line.lower()


def write_id_file(path: Path, plan_id: str) -> None:
    """Keep an id in a file that is there as a whole or not at all, and is never written over.

    Raises StalePlan if it holds another id by now, DocumentError if the file cannot be written.
    """
    text = f"{_ABOUT.format(plan=path.name.removesuffix(ID_FILE_SUFFIX))}{plan_id}\n"
    try:
        put_whole(path, text, lambda draft: take_name(draft, path), mode=0o644)
    except FileExistsError:
        found = read_id_file(path)
        if not found:
            raise _not_kept(path, plan_id, "a broken link has the same name") from None
        if found != plan_id:
            raise StalePlan(
                f"the plan now has the ID {found}, but this run started with {plan_id}",
                subject=str(path),
                remedy="another run created that ID; rerun this command, or run `plan` again",
            ) from None
    except OSError as error:
        raise _not_kept(path, plan_id, error.strerror or str(error)) from error


def _not_kept(path: Path, plan_id: str, reason: str) -> DocumentError:
    fault = DocumentFault(str(path), 1, 1, f"cannot save the plan's ID: {reason}")
    return DocumentError(
        [fault],
        remedy="nothing was changed. Make the file writable, or add this line to the top of the plan "
        f"file, then rerun the command: id: {plan_id}",
    )


def _unusable(path: Path, line: int, message: str) -> DocumentError:
    fault = DocumentFault(str(path), line, 1, message)
    return DocumentError(
        [fault],
        remedy="restore the committed file (one line with a UUID). If it is lost, the marks of the plan's "
        "VMs contain the ID (extraConfig vgpu_cfg.plan)",
    )
