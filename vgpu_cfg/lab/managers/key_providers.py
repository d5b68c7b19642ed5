"""The crypto manager: which key providers vCenter has, and which is the default (vim `CryptoManagerKmip`).

That a native provider is listed with those with key servers is as govmomi's `kms.ls` reads it. Nothing is
encrypted in the lab.
"""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.renderers.services import provider_info
from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.simulation.operations import Context, answers, task
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.inventory import KeyProvider, Managed

STATUS = "encryption.CryptoManagerKmip.retrieveKmipServersStatus"


@answers("CryptoManagerKmip", "ListKmipServers")
def list_kmip_servers(context: Context, thing: Managed, *, limit: int | None) -> list[Any]:
    """List the key providers, at most as many as asked."""
    return [provider_info(provider) for provider in context.state.key_providers][:limit]


@answers("CryptoManagerKmip", "ListKmsClusters")
def list_kms_clusters(
    context: Context,
    thing: Managed,
    *,
    includeKmsServers: bool | None,
    managementTypeFilter: int | None,
    statusFilter: int | None,
) -> list[Any]:
    """List them with their servers, or without. The filters are not played."""
    found = [provider_info(provider) for provider in context.state.key_providers]
    for provider in found:
        if not includeKmsServers:
            provider.servers = []
    return found


@task("CryptoManagerKmip", "RetrieveKmipServersStatus_Task", description_id=STATUS, seconds=0.5)
def kmip_servers_status(lab: Simulation, root: Managed, *, clusters: list[Any] | None = None) -> Any:
    """Show the status of the named key providers: all answer."""
    named = {one.clusterId.id for one in clusters or ()}
    manager: Any = vim.encryption.CryptoManagerKmip
    found = [provider for provider in lab.state.key_providers if provider.name in named]
    return manager.ClusterStatus.Array([_status(manager, provider) for provider in found])


def _status(manager: Any, provider: KeyProvider) -> Any:
    shown = provider_info(provider)
    status = manager.ClusterStatus(
        clusterId=shown.clusterId, overallStatus="green", managementType=provider.kind
    )
    servers = [
        manager.ServerStatus(name=server.name, status="green", connectionStatus="connected")
        for server in shown.servers
    ]
    if servers:
        status.servers = servers
    return status


@answers("CryptoManagerKmip", "GetDefaultKmsCluster")
def get_default_kms_cluster(
    context: Context, thing: Managed, *, entity: Any, defaultsToParent: bool | None
) -> Any:
    """Return the default key provider, unset where there is none; no entity has one of its own."""
    provider = context.state.default_key_provider
    return None if provider is None else vim.encryption.KeyProviderId(id=provider.name)


@answers("CryptoManagerKmip", "IsKmsClusterActive")
def is_kms_cluster_active(context: Context, thing: Managed, *, cluster: Any) -> bool:
    """Show whether a key provider answers, the default one if none is named: all do."""
    state = context.state
    return (state.default_key_provider if cluster is None else _named(context, cluster)) is not None


@answers("CryptoManagerKmip", "MarkDefault")
def mark_default(context: Context, thing: Managed, *, clusterId: Any) -> None:
    """Make a key provider the default. Raises InvalidArgument for one that there is not."""
    chosen = _named(context, clusterId)
    if chosen is None:
        raise refusals.bad_argument("clusterId")
    context.state.key_providers = tuple(
        KeyProvider(provider.name, provider.kind, provider.name == chosen.name)
        for provider in context.state.key_providers
    )
    context.state.touch()


def _named(context: Context, wanted: Any) -> KeyProvider | None:
    return next((found for found in context.state.key_providers if found.name == wanted.id), None)
