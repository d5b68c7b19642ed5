#!/usr/bin/python
"""Say what differs from a plan file, and who brought it about."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.vgpu_cfg.vsphere.plugins.module_utils.command import (
    CONNECTION,
    PLAN_FILE,
    plan_words,
    run,
)

DOCUMENTATION = r"""
module: status
short_description: Report differences from a vgpu-cfg plan file
description:
  - Reads vCenter and compares. Read-only; differences do not fail the task.
extends_documentation_fragment:
  - vgpu_cfg.vsphere.connection
  - vgpu_cfg.vsphere.plan_file
attributes:
  check_mode:
    support: full
    description: Same as without check mode.
author: the maintainers of vgpu-cfg
"""

EXAMPLES = r"""
- name: Report drift
  vgpu_cfg.vsphere.status:
    plan: plan.yaml
  register: found

- ansible.builtin.debug:
    msg: "{{ item.subject.name }}: {{ item.what }} is {{ item.found }}, by {{ item.by or 'an unknown user' }}"
  loop: "{{ found.differences }}"
"""

RETURN = r"""
is_in_sync:
  description: Whether the VMs and hosts match the plan file.
  returned: always
  type: bool
differences:
  description: Each difference, with the expected value, the actual value, who changed it, and when.
  returned: always
  type: list
  elements: dict
told:
  description: The output of C(vgpu-cfg status --output json).
  returned: always
  type: dict
"""


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=CONNECTION | PLAN_FILE, supports_check_mode=True)
    told = run(module, ["status", *plan_words(module.params)])[1]
    module.exit_json(changed=False, is_in_sync=told["is_in_sync"], differences=told["differences"], told=told)


if __name__ == "__main__":
    main()
