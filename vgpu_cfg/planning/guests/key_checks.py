"""What is told of a plan's keys and of secrets that are replaced: absent, foreign, stuck, to be revoked."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from vgpu_cfg.changes.change import StageGuest
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.guests.modules import LicenceModule
from vgpu_cfg.model.guests.training_modules import RegistryModule
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.guests.plan_keys import KEYS, Held, KeysOfGuests, keys_in, marks_of
from vgpu_cfg.planning.guests.stage import GuestUpdate
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm

_HOW_TO = "docs/how-to/share-a-plans-keys.md"


def keys_home(desired: DesiredPlan) -> str:
    """Say in a few words where the keys of a plan are kept."""
    name = desired.training.keys if desired.training is not None else None
    return f"the secret `{name}`" if name is not None else "keys/ in the state folder"


def is_printed_by_command(desired: DesiredPlan) -> bool:
    """Whether the keys of a plan are what a command prints, which nobody runs who only looks."""
    name = desired.training.keys if desired.training is not None else None
    return name is not None and name in desired.secrets and desired.secrets[name].kind == "command"


def remedy_absent(desired: DesiredPlan) -> str:
    """Say what to do where the keys that guests have are not here."""
    home = keys_home(desired)
    if is_printed_by_command(desired):
        return f"none: `apply` runs the command of {home} once it has asked"
    if desired.training is not None and desired.training.keys is not None:
        return f"let {home} be read here: {_HOW_TO}"
    return f"copy {home} from the machine that applied the plan, or share the keys: {_HOW_TO}"


def remedy_foreign(desired: DesiredPlan, *, is_former: bool) -> str:
    """Say what to do where guests have other keys; `is_former` are those that stand behind the new ones."""
    if is_former:
        return "`--rotate keys` replaces them in the guests"
    return (
        f"bring the keys that it was set up with back to {keys_home(desired)}; "
        "`--rotate keys` replaces them, where that is meant or they are lost"
    )


def check_keys(
    resolved: ResolvedVm,
    update: GuestUpdate,
    held: Held,
    keys: KeysOfGuests,
    desired: DesiredPlan,
    findings: Findings,
) -> None:
    """Say where a guest has keys that cannot be seen here, or others, and where the tool cannot get in."""
    vm, mark = resolved.desired, update.known.mark_text
    if held is Held.UNSEEN:
        message = "it has the plan's keys, which are not here: its secrets are not compared"
        message += "" if is_printed_by_command(desired) else ", and apply refuses"
        findings.add_vm(Code.KEYS_ABSENT, vm, message, remedy_absent(desired))
    elif held is Held.FOREIGN:
        message = "it was set up with other keys than the plan has here"
        remedy = remedy_foreign(desired, is_former=keys.reaches(mark))
        findings.add_vm(Code.KEYS_FOREIGN, vm, message, remedy)
    elif held is Held.FORMER and update.will_run and not (keys.reaches(mark) or update.spec.login.user):
        message = "its keys cannot be replaced: the one by which this tool logs in to it is not kept any more"
        remedy = (
            f"put the seed that it has behind the new one in {keys_home(desired)}, or write `guest.login`"
        )
        findings.add_vm(Code.KEYS_NOT_ROTATED, vm, message, remedy)


def check_rotation(
    desired: DesiredPlan,
    observed: Inventory,
    keys: KeysOfGuests,
    rotate: Collection[str],
    findings: Findings,
) -> None:
    """Say where there are no new keys to take, and where those before them are kept for nobody any more."""
    if not keys.is_taken:
        return
    subject = Subject(kind="plan", name=desired.name)
    home = keys_home(desired)
    marks = marks_of(desired.identity, observed).values()
    if keys.former and keys.is_over(marks):
        message = f"every guest has the new keys, and those before them are still kept in {home}"
        findings.add(Code.STAYS_VALID, subject, message, f"remove what stands behind the first in {home}")
    elif KEYS in rotate and not keys.former and all(keys_in(one) <= {keys.now} for one in marks):
        message = f"`--rotate keys`: every guest has the keys of {home} already"
        remedy = "put a new seed there, before the old one (`openssl rand -hex 32`), and type the same again"
        findings.add(Code.KEYS_NOT_ROTATED, subject, message, remedy)


def check_replaced(
    resolved: ResolvedVm,
    update: GuestUpdate,
    changes: Sequence[StageGuest],
    rotate: Collection[str],
    findings: Findings,
) -> None:
    """Say what is left to do at the issuer once a token or a registry's key is replaced."""
    brought = {name for change in changes for name in change.modules} & set(rotate) & update.known.mark.keys()
    for module in update.spec.modules:
        if module.kind not in brought:
            continue
        match module:
            case LicenceModule():
                what, where = "the licence token", "the portal of the licence server"
            case RegistryModule():
                what, where = f"the password of {module.server}", module.server
            case _:
                continue
        message = f"{what} that it has now stays valid until it is revoked"
        findings.add_vm(Code.STAYS_VALID, resolved.desired, message, f"revoke the old one at {where}")
