"""The host settings of network and licence, in the order in which they are written.

A switch first, then the VMkernel NIC on it, then what names that NIC.
"""

from __future__ import annotations

from vgpu_cfg.planning.host_settings.licence import LICENCE
from vgpu_cfg.planning.host_settings.nics.pvrdma import PVRDMA, PVRDMA_FIREWALL
from vgpu_cfg.planning.host_settings.nics.uplinks import UPLINK
from vgpu_cfg.planning.host_settings.nics.vmknics import VMKNIC

NETWORK_SETTINGS = (UPLINK, VMKNIC, PVRDMA, PVRDMA_FIREWALL, LICENCE)
