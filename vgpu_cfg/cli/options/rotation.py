"""What `--rotate` can name, and what of it a plan has."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from vgpu_cfg.model.desired import DesiredPlan


class Rotation(StrEnum):
    """What can be replaced in guests, whether it differs or not."""

    KEYS = "keys"
    LICENCE = "licence"
    REGISTRY = "registry"


RotateOption = Annotated[
    list[Rotation] | None,
    typer.Option(
        "--rotate",
        help="Replace the plan's keys, the licence tokens or the registry's password in its guests.",
        show_default=False,
        rich_help_panel="What is allowed, and of what part",
    ),
]


def rotated(rotate: list[Rotation] | None, desired: DesiredPlan) -> tuple[str, ...]:
    """Return what `--rotate` named, each once. Raises BadParameter for what no guest of the plan has."""
    guests = [vm.guest for vm in desired.vms if vm.guest is not None]
    has = {
        Rotation.KEYS: bool(guests),
        Rotation.LICENCE: any(guest.licence is not None for guest in guests),
        Rotation.REGISTRY: desired.training is not None and desired.training.registry is not None,
    }
    for one in rotate or ():
        if not has[one]:
            raise typer.BadParameter(f"no guest of the plan has {_NAMES[one]}", param_hint="--rotate")
    return tuple(dict.fromkeys(one.value for one in rotate or ()))


_NAMES = {
    Rotation.KEYS: "keys: it sets up no guests",
    Rotation.LICENCE: "a licence token: `guest.licence` names it",
    Rotation.REGISTRY: "a registry's password: `training.registry` names it",
}
