"""The options of modules that take a plan file, as Ansible documents them."""

from __future__ import annotations


class ModuleDocFragment:
    """Which plan file, with which variables, and what of it."""

    DOCUMENTATION = r"""
options:
  plan:
    description: The plan file.
    type: path
    required: true
  vars:
    description: Values for the C(${names}) in the plan file.
    type: dict
    default: {}
  only:
    description: Only these VMs (C(hvd-*)), or those on a host (C(host:esx-01)).
    type: list
    elements: str
    default: []
"""
