"""The options that all modules share, as Ansible documents them."""

from __future__ import annotations


class ModuleDocFragment:
    """What reaches vCenter; what is left out vgpu-cfg finds in its config file or environment."""

    DOCUMENTATION = r"""
options:
  executable:
    description: The vgpu-cfg program. A name is searched on the PATH.
    type: str
    default: vgpu-cfg
  server:
    description: vCenter's address, or C(lab:ESTATE) for the simulated one.
    type: str
  context:
    description: A context of vgpu-cfg's config file.
    type: str
  user:
    description: The account.
    type: str
  password:
    description: The password. It is passed in the environment, never on a command line.
    type: str
  ca_file:
    description: PEM file of the CA to trust.
    type: path
  thumbprint:
    description: Trust only the certificate with this SHA-256 thumbprint.
    type: str
"""
