"""Files next to plan files: a plan's id, the site's pins of downloads, and the verdicts at each vCenter.

An id file is for plan files whose author wrote no `id`, and is written once. The plan file without it is a
plan with no id, which is refused if VMs bear the plan's name. `validate --pin` writes the pins, `doctor
--save` the verdicts on beliefs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from vgpu_cfg.documents import Limit, build, dump, put_whole, read_bytes, read_document, take_name
from vgpu_cfg.errors import DocumentError, DocumentFault, StalePlan
from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.guests.downloads import PIN_FILE, check_pin
from vgpu_cfg.model.identity import ID_FILE_SUFFIX, is_id
from vgpu_cfg.model.verdicts import VerdictFile

_LONGEST_ID = Limit("", 4096)
_ABOUT_ID = (
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
        text = read_bytes(path, _LONGEST_ID).decode("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "the file is not UTF-8 text"
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
    text = f"{_ABOUT_ID.format(plan=path.name.removesuffix(ID_FILE_SUFFIX))}{plan_id}\n"
    try:
        put_whole(path, text, lambda draft: take_name(draft, path), mode=0o644)
    except FileExistsError:
        found = read_id_file(path)
        if not found:
            raise _not_kept(path, plan_id, "a broken symbolic link with this name already exists") from None
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
        remedy="restore the committed file (one line with a UUID). If the file is lost, copy the ID from "
        "one of the plan's VMs (extraConfig vgpu_cfg.plan)",
    )


_ABOUT_PINS = (
    "# Checksums, digests and versions of guest downloads. Keep this file next to the plan files, and\n"
    "# commit it. To renew it: vgpu-cfg validate PLAN --pin\n"
)


class PinFile(Frozen):
    """The file's content: the pin of each address, image or package."""

    version: Literal[1] = 1
    downloads: Mapping[Annotated[str, Field(max_length=2000)], Annotated[str, AfterValidator(check_pin)]] = (
        Field(default_factory=dict, max_length=1000)
    )


def pin_file_of(plan: Path) -> Path:
    """Return the place of the pins of a plan file's folder."""
    target = plan.resolve() if plan.is_symlink() else plan
    return target.with_name(PIN_FILE)


def read_pins(path: Path) -> Mapping[str, str]:
    """Return a folder's pins, none if it has no such file. Raises DocumentError with all its faults."""
    return dict(build(read_document(path), PinFile).downloads) if path.exists() else {}


def pins_text(pins: Mapping[str, str]) -> str:
    """Write a file: a line for each pin, so that versions can be compared."""
    return _ABOUT_PINS + dump({"version": 1, "downloads": dict(sorted(pins.items()))})


_NAME = re.compile(r"vcenter-[0-9a-f-]{36}-\w+\.yaml")
MOST_FILES = 100
_ABOUT_VERDICTS = (
    "# vgpu-cfg's assumptions, as tested on one vCenter. Keep this file next to the plan files, and\n"
    "# commit it. To refresh it: vgpu-cfg doctor --save FOLDER\n"
)


def read_all_verdicts(folder: Path) -> tuple[VerdictFile, ...]:
    """Read the files of a folder in the order of their names. Raises DocumentError with all their faults."""
    found: list[VerdictFile] = []
    faults: list[DocumentFault] = []
    paths = sorted(path for path in folder.glob("vcenter-*.yaml") if _NAME.fullmatch(path.name))
    if len(paths) > MOST_FILES:
        message = f"this folder contains {len(paths)} verdict files; the limit is {MOST_FILES}"
        faults.append(DocumentFault(str(folder), 1, 1, message, "delete the files for older builds"))
    for path in paths[:MOST_FILES]:
        try:
            found.append(read_verdicts(path))
        except DocumentError as error:
            faults += error.faults
    if faults:
        raise DocumentError(faults, remedy="save it again with `vgpu-cfg doctor --save FOLDER`, or delete it")
    return tuple(found)


def read_verdicts(path: Path) -> VerdictFile:
    """Read one file. Raises DocumentError with all its faults, also if it has the name of another vCenter."""
    document = read_document(path)
    found = build(document, VerdictFile)
    if _NAME.fullmatch(path.name) and path.name != found.file_name:
        message = f"this content belongs in {found.file_name}"
        raise DocumentError(
            [document.fault(("vcenter",), message, "rename the file, or save the verdicts again")]
        )
    return found


def verdicts_text(found: VerdictFile) -> str:
    """Write a file: a line for each value, so that versions can be compared."""
    return _ABOUT_VERDICTS + dump(found.model_dump(mode="json", exclude_defaults=True) | {"version": 1})
