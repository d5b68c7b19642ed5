"""A datastore cluster is a folder of datastores, and each datastore knows it."""

from __future__ import annotations

from collections.abc import Callable

from tests.contract.conftest import Govc, running_vcsim, vcenter_at
from tests.contract.vcenters import FixedClock
from vgpu_cfg.ports import ReadScope
from vgpu_cfg.vsphere.reading.reader import VCenterReader


def test_datastores_know_their_cluster(govc: Callable[..., Govc]) -> None:
    with running_vcsim() as server:
        run = govc(server)
        run("folder.create", "-pod", "/DC0/datastore/DC0_POD0")
        run("object.mv", "/DC0/datastore/LocalDS_0", "/DC0/datastore/DC0_POD0")
        with vcenter_at(server).session() as session:
            found = VCenterReader(session, FixedClock()).read_inventory(ReadScope())
    (store,) = found.datastores
    assert store.inventory_path == "/DC0/datastore/DC0_POD0/LocalDS_0"
    assert store.pod is not None
    assert (store.pod.name, store.pod.inventory_path) == ("DC0_POD0", "/DC0/datastore/DC0_POD0")
