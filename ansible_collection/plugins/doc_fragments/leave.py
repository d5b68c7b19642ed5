"""The options that allow what a plan may not do by itself, as Ansible documents them."""

from __future__ import annotations


class ModuleDocFragment:
    """The leave that the command line gives with flags of the same names."""

    DOCUMENTATION = r"""
options:
  allow_power_cycle:
    description: Allow running VMs to be shut down for changes that require it.
    type: bool
    default: false
  allow_move:
    description: Allow the plan's VMs to be moved to the host, cluster, or datastore in the plan file.
    type: bool
    default: false
  allow_destroy:
    description: Allow this many VMs to be deleted, if there are many.
    type: int
  delete:
    description: Also delete these VMs, which belong to the plan but are not in the plan file.
    type: list
    elements: str
    default: []
"""
