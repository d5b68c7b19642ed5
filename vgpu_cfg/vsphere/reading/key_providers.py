"""The key providers of a vCenter, without which no VM can have a virtual TPM.

Source: vSphere API reference, CryptoManagerKmip.kmipServers. That a native key provider is listed there too
is not proven.

Belief: native-key-provider-is-listed.
"""

from __future__ import annotations

from vgpu_cfg.vsphere.wire.collector import Paths, Start, collect_from
from vgpu_cfg.vsphere.wire.session import Session

_MANAGER = "vim.encryption.CryptoManagerKmip"
_PROVIDERS = (Paths(_MANAGER, ("kmipServers",)),)


def read_key_providers(session: Session) -> tuple[str, ...] | None:
    """Return the names of the key providers; None where the account may not read them."""
    manager = session.service_content.cryptoManager
    if manager is None:
        return ()
    found = collect_from(session, _PROVIDERS, [Start(_MANAGER, str(manager._moId))])
    if not found or "kmipServers" in found[0].faults:
        return None
    return tuple(str(cluster.clusterId.id) for cluster in found[0].get("kmipServers") or ())
