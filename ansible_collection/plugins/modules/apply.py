#!/usr/bin/python
"""Make the VMs and hosts of a plan file what it says."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.vgpu_cfg.vsphere.plugins.module_utils.command import (
    CONNECTION,
    LEAVE,
    PLAN_FILE,
    WAITS,
    diff_of,
    leave_words,
    plan_words,
    run,
)

DOCUMENTATION = r"""
module: apply
short_description: Apply a vgpu-cfg plan file
description:
  - Plans, applies the changes, and verifies the result. Idempotent.
  - If the plan has errors, the task fails before any change is made.
  - In diff mode, the plan is saved first and then applied, so that exactly the changes shown are made.
options:
  plan:
    description: The plan file, or a plan saved by C(plan), which accepts neither O(vars) nor approvals.
    type: path
    required: true
  rollback_on_failure:
    description: If a change fails, undo the changes of this run as far as possible.
    type: bool
    default: false
  stop_on_failure:
    description: Do not start any other changes after the first failure.
    type: bool
    default: false
  parallel:
    description: Maximum number of concurrent tasks.
    type: int
  change:
    description: The change ID in your change management system.
    type: str
  reason:
    description: The reason for the run. Do not include secrets; many people can read it.
    type: str
  fail_on_waiting:
    description:
      - Fail if a manual step remains. Otherwise, the task succeeds and RV(waiting_for) lists the steps.
    type: bool
    default: true
extends_documentation_fragment:
  - vgpu_cfg.vsphere.connection
  - vgpu_cfg.vsphere.plan_file
  - vgpu_cfg.vsphere.leave
attributes:
  check_mode:
    support: full
    description: Plans, and reports whether changes would be made.
  diff_mode:
    support: full
    description: Shows the edits.
author: the maintainers of vgpu-cfg
"""

EXAMPLES = r"""
- name: Apply the plan file
  vgpu_cfg.vsphere.apply:
    plan: plan.yaml
    vars: {net: prod}
    change: CHG0042
"""

RETURN = r"""
changed:
  description: Whether changes were made or, in check mode, would be made.
  returned: always
  type: bool
waiting_for:
  description: The manual steps that block the remaining changes.
  returned: when changes were made
  type: list
  elements: str
told:
  description: The output of C(vgpu-cfg apply --output json), or of C(plan) in check mode.
  returned: always
  type: dict
"""


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec=CONNECTION
        | PLAN_FILE
        | LEAVE
        | {
            "rollback_on_failure": {"type": "bool", "default": False},
            "stop_on_failure": {"type": "bool", "default": False},
            "parallel": {"type": "int"},
            "change": {"type": "str"},
            "reason": {"type": "str"},
            "fail_on_waiting": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    words = [*plan_words(module.params), *leave_words(module.params)]
    if module.check_mode:
        told = run(module, ["plan", *words])[1]
        module.exit_json(changed=bool(told["plan"]["changes"]), told=told, diff=diff_of(told["plan"]))
    if not module._diff:
        _apply(module, words, [])
    with tempfile.TemporaryDirectory() as folder:
        saved = str(Path(folder) / "plan.json")
        shown = run(module, ["plan", *words, "--out", saved])[1]
        if not shown["plan"]["changes"]:
            module.exit_json(changed=False, told=shown, diff=[])
        _apply(module, [saved], diff_of(shown["plan"]))


def _apply(module: AnsibleModule, words: Sequence[str], diff: Sequence[Any]) -> NoReturn:
    params = module.params
    words = ["apply", "--yes", *words]
    for flag in ("rollback_on_failure", "stop_on_failure"):
        if params[flag]:
            words.append("--" + flag.replace("_", "-"))
    for option in ("parallel", "change", "reason"):
        if params[option] is not None:
            words += ["--" + option, str(params[option])]
    code, told = run(module, words, (0, WAITS))
    done = [found for found in told["outcomes"] if found["status"] == "done"]
    result = {"changed": bool(done), "waiting_for": told["waiting_for"], "told": told, "diff": diff}
    if code == WAITS and params["fail_on_waiting"]:
        module.fail_json(
            msg=f"manual steps required: {', '.join(told['waiting_for']) or 'see told'}", rc=code, **result
        )
    module.exit_json(**result)


if __name__ == "__main__":
    main()
