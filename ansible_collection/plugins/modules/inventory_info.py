#!/usr/bin/python
"""Tell of hosts, GPUs and VMs, and of the GPUs as a pool."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.vgpu_cfg.vsphere.plugins.module_utils.command import CONNECTION, run

DOCUMENTATION = r"""
module: inventory_info
short_description: Gather facts about the hosts, GPUs, and VMs in a vCenter
description:
  - Reads a vCenter, optionally limited by O(host) and O(cluster). Read-only.
options:
  gpus:
    description: Report the GPU pool, with used, free, and stranded capacity.
    type: bool
    default: false
  host:
    description: Only hosts that match one of these globs.
    type: list
    elements: str
    default: []
  cluster:
    description: Only clusters that match one of these globs.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - vgpu_cfg.vsphere.connection
attributes:
  check_mode:
    support: full
    description: Same as without check mode.
author: the maintainers of vgpu-cfg
"""

EXAMPLES = r"""
- name: Read the GPU pool
  vgpu_cfg.vsphere.inventory_info:
    context: prod
    gpus: true
  register: pool
"""

RETURN = r"""
told:
  description: The output of C(vgpu-cfg inventory --output json); see its reference.
  returned: always
  type: dict
"""


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec=CONNECTION
        | {
            "gpus": {"type": "bool", "default": False},
            "host": {"type": "list", "elements": "str", "default": []},
            "cluster": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    words = ["inventory"]
    if module.params["gpus"]:
        words.append("--gpus")
    for option in ("host", "cluster"):
        for glob in module.params[option]:
            words += ["--" + option, glob]
    module.exit_json(changed=False, told=run(module, words)[1])


if __name__ == "__main__":
    main()
