"""Words of other tools, with what does the same here; for other words, the closest spelling."""

from __future__ import annotations

from collections.abc import Collection

from vgpu_cfg.documents import by_word, close_to

_COMMANDS = by_word(
    {
        "apply": "create deploy start run up",
        "cordon": "disable block",
        "destroy": "delete remove rm down",
        "drain": "evacuate maintenance empty migrate",
        "explain": "why error",
        "export --init": "init new",
        "fit": "capacity free room",
        "freeze --thaw": "thaw unfreeze",
        "forget": "unmanage release",
        "history": "logs log events audit",
        "import": "adopt register",
        "inventory": "hosts gpus host gpu nics",
        "plan": "diff preview",
        "privileges": "roles permissions role",
        "status": "list ls show get vms vm",
        "uncordon": "enable",
        "uncordon --restore": "restore",
        "validate": "lint",
        "validate or verify": "check test",
        "--help": "help",
        "--version": "version",
        "": "undo rollback revert",
    }
)
_OPTIONS = by_word(
    {
        "--dry-run": "--check --noop --what-if",
        "--gpus": "--gpu --free",
        "--only": "--target --limit --vm --host --cluster",
        "--output": "--json --format",
        "--power-off": "--allow-power-cycle --allow-move",
        "--server": "--vcenter --url --address",
        "--set": "--var",
        "--user": "--username",
        "--yes": "--force --auto-approve --no-confirm --assume-yes",
    }
)


def meant_command(word: str, known: Collection[str]) -> str:
    """Return the command, or option, that a word means; "" if there is none."""
    meant = _COMMANDS.get(word.casefold())
    return next(iter(close_to(word, known, 1)), "") if meant is None else meant


def meant_option(word: str, known: Collection[str]) -> str:
    """Return the option of a command that a word means; "" if there is none."""
    meant = _OPTIONS.get(word)
    if meant is not None:
        return meant if meant in known else ""
    names = {one.lstrip("-"): one for one in known if one.startswith("--")}
    return next((names[one] for one in close_to(word.lstrip("-"), names, 1)), "")
