"""The host settings of network and licence, in the order in which they are written.

A switch first, then the VMkernel NIC on it, then what names that NIC.
"""

from __future__ import annotations

from vgpu_cfg.planning.settings.licence import LICENCE
from vgpu_cfg.planning.settings.pvrdma import PVRDMA, PVRDMA_FIREWALL
from vgpu_cfg.planning.settings.uplinks import UPLINK
from vgpu_cfg.planning.settings.vmknics import VMKNIC

NETWORK_SETTINGS = (UPLINK, VMKNIC, PVRDMA, PVRDMA_FIREWALL, LICENCE)
