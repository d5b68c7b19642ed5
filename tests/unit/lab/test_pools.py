"""Resource pools: made, named, given shares, and gone with what they hold left to the pool above."""

from __future__ import annotations

import pytest
from pyVmomi import vim, vmodl

from tests.unit.lab.rig import Rig
from vgpu_cfg.lab.state.inventory import ResourcePool


def spec(**cpu: int) -> vim.ResourceConfigSpec:
    return vim.ResourceConfigSpec(cpuAllocation=vim.ResourceAllocationInfo(**cpu))


def test_a_pool_keeps_what_somebody_sets_of_it() -> None:
    rig = Rig()
    top = rig.find(ResourcePool, "Resources")
    pool = rig.lab.call(top, "CreateResourcePool", name="ml", spec=spec(limit=1000))
    rig.lab.call(pool, "UpdateConfig", name="ml2", config=spec(reservation=500))
    assert (pool.name, pool.cpu.limit, pool.cpu.reservation) == ("ml2", 1000, 500)
    rig.lab.call(pool, "UpdateConfig", name=None, config=None)
    assert (pool.name, pool.cpu.limit) == ("ml2", 1000)


def test_names_of_pools_are_theirs_alone() -> None:
    rig = Rig()
    top = rig.find(ResourcePool, "Resources")
    pools = [rig.lab.call(top, "CreateResourcePool", name=name, spec=None) for name in ("a", "b")]
    with pytest.raises(vim.fault.DuplicateName):
        rig.lab.call(pools[0], "UpdateConfig", name="b", config=None)
    with pytest.raises(vmodl.fault.InvalidArgument):
        rig.lab.call(top, "UpdateConfig", name="top", config=None)


def test_pools_below_go_with_one_call() -> None:
    rig = Rig()
    top = rig.find(ResourcePool, "Resources")
    pool = rig.lab.call(top, "CreateResourcePool", name="a", spec=None)
    rig.lab.call(pool, "CreateResourcePool", name="b", spec=None)
    rig.lab.call(top, "DestroyChildren")
    assert rig.lab.state.all(ResourcePool) == [top]
