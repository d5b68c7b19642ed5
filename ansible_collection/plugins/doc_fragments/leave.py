"""The options that allow what a plan may not do by itself, as Ansible documents them."""

from __future__ import annotations


class ModuleDocFragment:
    """The leave that the command line gives with flags of the same names."""

    DOCUMENTATION = r"""
options:
  allow_power_cycle:
    description: Let running VMs be shut down for changes that need it.
    type: bool
    default: false
  allow_move:
    description: Let VMs of the plan be moved to the host, cluster or datastore that the file names.
    type: bool
    default: false
  allow_destroy:
    description: Let so many VMs be deleted where they are many.
    type: int
  delete:
    description: Also delete these VMs of the plan, which the plan file does not name.
    type: list
    elements: str
    default: []
"""
