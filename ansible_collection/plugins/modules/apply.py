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
short_description: Carry a plan file of vgpu-cfg out
description:
  - Plans, then does what the plan says, and reads the result back. A second time it does nothing.
  - A finding against the plan fails the task before anything is touched.
  - In diff mode the plan is saved first and that one is carried out, so that what is done is what was shown.
options:
  plan:
    description: The plan file, or a plan that C(plan) saved; a saved one takes no O(vars) and no leave.
    type: path
    required: true
  rollback_on_failure:
    description: Where a change fails, take back what this run did, as far as it can be.
    type: bool
    default: false
  stop_on_failure:
    description: Begin nothing more after the first failure.
    type: bool
    default: false
  parallel:
    description: At most this many tasks at once.
    type: int
  change:
    description: The change that this is for, as your own system names it.
    type: str
  reason:
    description: Why, in words; no secrets, since many can read it.
    type: str
  fail_on_waiting:
    description:
      - Fail where the rest waits for a step by hand. Else the task succeeds and RV(waiting_for) names them.
    type: bool
    default: true
extends_documentation_fragment:
  - vgpu_cfg.vsphere.connection
  - vgpu_cfg.vsphere.plan_file
  - vgpu_cfg.vsphere.leave
attributes:
  check_mode:
    support: full
    description: Plans, and says whether anything would be done.
  diff_mode:
    support: full
    description: Shows the edits.
author: the maintainers of vgpu-cfg
"""

EXAMPLES = r"""
- name: VMs as the plan file says
  vgpu_cfg.vsphere.apply:
    plan: plan.yaml
    vars: {net: prod}
    change: CHG0042
"""

RETURN = r"""
changed:
  description: Whether something was done or, in check mode, would be.
  returned: always
  type: bool
waiting_for:
  description: The manual steps that the rest waits for.
  returned: when something was carried out
  type: list
  elements: str
told:
  description: All that C(vgpu-cfg apply --output json) prints, in check mode what C(plan) prints.
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
            msg=f"waiting for a hand: {', '.join(told['waiting_for']) or 'see told'}", rc=code, **result
        )
    module.exit_json(**result)


if __name__ == "__main__":
    main()
