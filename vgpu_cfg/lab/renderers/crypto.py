"""How the key providers of a vCenter show (vim `KmipClusterInfo`, `CryptoManagerKmip`)."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.api.references import Service
from vgpu_cfg.lab.renderers.entity import constant
from vgpu_cfg.lab.renderers.table import Render
from vgpu_cfg.lab.simulation.context import Context
from vgpu_cfg.lab.state.inventory import KeyProvider


def provider_info(provider: KeyProvider) -> Any:
    """Render a key provider. A native one has no servers, and was backed up: else it could not be used."""
    is_native = provider.kind == "nativeProvider"
    server: Any = vim.encryption.KmipServerInfo
    return vim.encryption.KmipClusterInfo(
        clusterId=vim.encryption.KeyProviderId(id=provider.name),
        servers=[] if is_native else [server(name=provider.name, address=f"{provider.name}.lab", port=5696)],
        useAsDefault=provider.is_default,
        managementType=provider.kind,
        hasBackup=True if is_native else None,
    )


def _providers(context: Context, _thing: Service) -> list[Any]:
    return [provider_info(provider) for provider in context.state.key_providers]


CRYPTO_MANAGER: dict[str, Render] = {"enabled": constant(value=True), "kmipServers": _providers}
