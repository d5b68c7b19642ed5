"""Which hosts an entry means, which of them may be touched, and who shares a limit."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.planning.desired_plans import codes, plan_for, planned
from tests.unit.planning.hosts.plans import estate, free, host, resolved, wanted
from vgpu_cfg.model.desired import DesiredHosts
from vgpu_cfg.planning.host_settings.resolved_host import clusters_of, hosts_of

ROWS = {"esx-2": {"cluster": "a"}, "esx-10": {"cluster": "a"}, "dl-1": {"cluster": "b"}}
SITE = {"hosts": ROWS, "clusters": {"a": {}, "b": {}}}


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"cluster": "a"}, ["esx-2", "esx-10"]),
        ({"names": ("esx-*",)}, ["esx-2", "esx-10"]),
        ({"names": ("ESX-2",)}, ["esx-2"]),
        ({"cluster": "a", "names": ("dl-*",)}, []),
        ({"cluster": "/dc1/host/b"}, ["dl-1"]),
        ({"names": ("*",)}, ["dl-1", "esx-2", "esx-10"]),
    ],
)
def test_an_entry_means_hosts_in_the_order_people_count(entry: dict[str, Any], expected: list[str]) -> None:
    found = hosts_of(DesiredHosts.model_validate(entry), plan_for(), estate(**SITE))
    assert [one.name for one in found] == expected


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        ({"cluster": "a"}, []),
        ({"cluster": "c"}, ["VG425"]),
        ({"cluster": "a", "names": ("esx-*", "dl-1")}, ["VG506"]),
        ({"cluster": None, "names": ("esx-*", "dl-1")}, []),
    ],
)
def test_every_name_means_something(entry: dict[str, Any], found: list[str]) -> None:
    assert codes(planned(wanted(**entry), estate(**SITE))) == found


@pytest.mark.parametrize(
    ("second", "found"), [({"names": ["esx-02"]}, []), ({"names": ["esx-*"]}, ["VG507"])]
)
def test_a_host_belongs_to_one_entry(second: dict[str, Any], found: list[str]) -> None:
    entries = [{"names": ["esx-01"], "ats": False}, second | {"ats": False}]
    made = planned(plan_for(hosts=entries), estate(host(), host()))
    assert codes(made) == found
    touched = {change.subject.name for change in free(made)}
    assert touched == ({"esx-02"} if found else {"esx-01", "esx-02"})


@pytest.mark.parametrize(("clusters", "found"), [(["gpu"], ["VG004"]), (["vdi"], [])])
def test_a_protected_cluster_is_left_alone(clusters: list[str], found: list[str]) -> None:
    desired = wanted(ats=False).model_copy(
        update={"protect": plan_for(protect={"clusters": clusters}).protect}
    )
    made = planned(desired, estate(host()))
    assert codes(made) == found
    assert bool(made.changes) == (not found)


def test_hosts_are_grouped_by_cluster() -> None:
    observed = estate(**SITE)
    resolved_hosts = [resolved(observed, name) for name in ROWS]
    assert {moid: len(group) for moid, group in clusters_of(resolved_hosts).items()} == {
        "cluster-a": 2,
        "cluster-b": 1,
    }
