"""How a module runs vgpu-cfg: options become words, a password a variable, its JSON what is returned."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

CONNECTION = {
    "executable": {"type": "str", "default": "vgpu-cfg"},
    "server": {"type": "str"},
    "context": {"type": "str"},
    "user": {"type": "str"},
    "password": {"type": "str", "no_log": True},
    "ca_file": {"type": "path"},
    "thumbprint": {"type": "str"},
}
PLAN_FILE = {
    "plan": {"type": "path", "required": True},
    "vars": {"type": "dict", "default": {}},
    "only": {"type": "list", "elements": "str", "default": []},
}
LEAVE = {
    "allow_power_cycle": {"type": "bool", "default": False},
    "allow_move": {"type": "bool", "default": False},
    "allow_destroy": {"type": "int"},
    "delete": {"type": "list", "elements": "str", "default": []},
}
_FLAGS = ("server", "context", "user", "ca_file", "thumbprint")
WAITS = 7
"""The exit code of a run that waits for a hand."""
REFUSED = 4
"""The exit code of a plan that a finding stands against; it is printed all the same."""


def plan_words(params: Mapping[str, Any]) -> list[str]:
    """Return the words that name the plan file, its variables and what of it is meant."""
    words = [params["plan"]]
    for name, value in sorted(params["vars"].items()):
        words += ["--set", f"{name}={value}"]
    for part in params["only"]:
        words += ["--only", part]
    return words


def leave_words(params: Mapping[str, Any]) -> list[str]:
    """Return the words that allow what a plan may not do by itself."""
    words = []
    if params["allow_power_cycle"]:
        words.append("--allow-power-cycle")
    if params["allow_move"]:
        words.append("--allow-move")
    if params["allow_destroy"] is not None:
        words += ["--allow-destroy", str(params["allow_destroy"])]
    for name in params["delete"]:
        words += ["--delete", name]
    return words


def run(module: AnsibleModule, words: Sequence[str], ends: Sequence[int] = (0,)) -> tuple[int, Any]:
    """Run a command that prints JSON, and return the exit code and what it told.

    Fails the module with vgpu-cfg's own message, subject and remedy where it ends with none of `ends`, or
    without JSON.
    """
    params = module.params
    program = params["executable"]
    if os.sep not in program:
        program = module.get_bin_path(program, required=True)
    for flag in _FLAGS:
        if params[flag] is not None:
            words = [*words, "--" + flag.replace("_", "-"), params[flag]]
    environment = {} if params["password"] is None else {"VGPU_CFG_PASSWORD": params["password"]}
    code, out, err = module.run_command([program, *words, "--output", "json"], environ_update=environment)
    told = _parsed(out)
    if told is None or code not in ends:
        _fail(module, code, told, err)
    return code, told


def _fail(module: AnsibleModule, code: int, told: Any, err: str) -> NoReturn:
    error = next((found for found in map(_parsed, reversed(err.splitlines())) if is_error(found)), None)
    if error is None:
        words = err.strip().splitlines() or ["no output"]
        module.fail_json(msg=f"vgpu-cfg ended with {code}: {words[-1]}", rc=code, stderr=err, told=told)
    parts = [error["message"], error.get("subject"), error.get("remedy")]
    module.fail_json(msg=". ".join(filter(None, parts)), rc=code, error=error, told=told)


def is_error(found: Any) -> bool:
    """Whether a line of standard error is vgpu-cfg's error as JSON."""
    return isinstance(found, dict) and found.get("kind") == "error"


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def diff_of(plan: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the edits of a plan as Ansible shows a difference: one entry a change, a line for each edit."""
    return [
        {
            "before_header": change["id"],
            "after_header": change["id"],
            "before": _lines(change["edits"], "before"),
            "after": _lines(change["edits"], "after"),
        }
        for change in plan["changes"]
    ]


def _lines(edits: Sequence[Mapping[str, Any]], side: str) -> str:
    return "".join(f"{edit['key']}: {_value(edit[side])}\n" for edit in edits if edit[side] is not None)


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
