#!/usr/bin/python
"""Show what a plan file changes."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.vgpu_cfg.vsphere.plugins.module_utils.command import (
    CONNECTION,
    LEAVE,
    PLAN_FILE,
    REFUSED,
    diff_of,
    leave_words,
    plan_words,
    run,
)

DOCUMENTATION = r"""
module: plan
short_description: Show the changes in a vgpu-cfg plan
description:
  - Reads vCenter and shows the changes that C(apply) would make. Read-only.
  - A plan with errors does not fail the task, unless O(fail_on_errors) is set.
options:
  dest:
    description: Save the plan to this file, for review and for use as O(plan) in C(apply).
    type: path
  fail_on_errors:
    description: Fail if the plan has errors.
    type: bool
    default: false
extends_documentation_fragment:
  - vgpu_cfg.vsphere.connection
  - vgpu_cfg.vsphere.plan_file
  - vgpu_cfg.vsphere.leave
attributes:
  check_mode:
    support: full
    description: Same as without check mode, except that O(dest) is not written.
  diff_mode:
    support: full
    description: Shows the edits.
author: the maintainers of vgpu-cfg
"""

EXAMPLES = r"""
- name: What would change?
  vgpu_cfg.vsphere.plan:
    plan: plan.yaml
  register: planned

- ansible.builtin.assert:
    that: planned.is_in_sync
"""

RETURN = r"""
is_in_sync:
  description: Whether the VMs and hosts match the plan file.
  returned: always
  type: bool
digest:
  description: Eight hex digits; plans with the same digest make the same changes.
  returned: always
  type: str
errors:
  description: The number of errors in the plan.
  returned: always
  type: int
told:
  description: The output of C(vgpu-cfg plan --output json).
  returned: always
  type: dict
"""


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec=CONNECTION
        | PLAN_FILE
        | LEAVE
        | {"dest": {"type": "path"}, "fail_on_errors": {"type": "bool", "default": False}},
        supports_check_mode=True,
    )
    words = ["plan", *plan_words(module.params), *leave_words(module.params)]
    is_saved = module.params["dest"] is not None and not module.check_mode
    if is_saved:
        words += ["--out", module.params["dest"]]
    ends = (0,) if module.params["fail_on_errors"] else (0, REFUSED)
    told = run(module, words, ends)[1]
    module.exit_json(
        changed=False,
        is_in_sync=told["is_in_sync"],
        digest=told["digest"],
        errors=told["errors"],
        told=told,
        diff=diff_of(told["plan"]),
    )


if __name__ == "__main__":
    main()
