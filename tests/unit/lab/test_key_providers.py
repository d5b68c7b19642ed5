"""The key providers of a vCenter, as an estate says them and a client reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyVmomi import vim, vmodl

from tests.unit.lab.rig import Rig, built, estate_of
from tests.unit.lab.wire.client import connect
from vgpu_cfg.errors import DocumentError

ESTATE = """
about: key providers
vcenter: {{key_providers: {providers}}}
clusters:
- {{name: gpu, hosts: [{{name: esx-1}}]}}
"""
TWO = "[{name: own}, {name: kms, kind: standard, default: false}]"


def rig_with(providers: str, tmp_path: Path) -> Rig:
    return Rig(estate_of(ESTATE.format(providers=providers), tmp_path))


def manager_of(rig: Rig) -> Any:
    manager = connect(rig.lab).content.cryptoManager
    assert type(manager) is vim.encryption.CryptoManagerKmip
    return manager


def names(providers: Any) -> list[tuple[str, str, bool]]:
    return [(found.clusterId.id, found.managementType, found.useAsDefault) for found in providers]


def test_they_are_listed_with_their_kind(tmp_path: Path) -> None:
    rig = rig_with(TWO, tmp_path)
    manager = manager_of(rig)
    expected = [("own", "nativeProvider", True), ("kms", "vCenter", False)]
    assert names(manager.kmipServers) == expected
    assert names(manager.ListKmipServers()) == expected
    assert names(manager.ListKmipServers(limit=1)) == expected[:1]
    assert [len(found.servers) for found in manager.ListKmsClusters(includeKmsServers=True)] == [0, 1]
    assert [len(found.servers) for found in manager.ListKmsClusters()] == [0, 0]
    task = manager.RetrieveKmipServersStatus_Task(manager.kmipServers)
    rig.lab.run_until_idle()
    told = {one.clusterId.id: (one.overallStatus, len(one.servers)) for one in task.info.result}
    assert told == {"own": ("green", 0), "kms": ("green", 1)}
    assert manager.GetDefaultKmsCluster().id == "own"
    assert manager.IsKmsClusterActive() is True


def test_a_vcenter_has_none_unless_its_estate_says_so() -> None:
    manager = manager_of(Rig())
    assert list(manager.kmipServers) == []
    assert list(manager.ListKmipServers()) == []
    assert manager.GetDefaultKmsCluster() is None
    assert manager.IsKmsClusterActive() is False


def test_another_one_becomes_the_default(tmp_path: Path) -> None:
    rig = rig_with(TWO, tmp_path)
    manager = manager_of(rig)
    provider: Any = vim.encryption.KeyProviderId
    with pytest.raises(vmodl.fault.InvalidArgument):
        manager.MarkDefault(clusterId=provider(id="nobody"))
    manager.MarkDefault(clusterId=provider(id="kms"))
    assert manager.GetDefaultKmsCluster().id == "kms"
    rig.lab.faults.lacking.add("Cryptographer.ManageKeyServers")
    with pytest.raises(vim.fault.NoPermission):
        manager.MarkDefault(clusterId=provider(id="own"))


def test_an_estate_names_one_default_at_most() -> None:
    with pytest.raises(DocumentError, match="only one key provider can be the default"):
        built(ESTATE.format(providers="[{name: a}, {name: b}]"))
