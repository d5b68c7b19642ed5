from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyVmomi import vmodl

from tests.extent import each
from tests.unit.lab.wire.client import connect, filter_spec, open_virtual
from vgpu_cfg.lab import estate_names
from vgpu_cfg.lab.api.references import reference, vim_class, wire_type
from vgpu_cfg.lab.api.versions import is_at_least
from vgpu_cfg.lab.renderers.tables import RENDERERS, table_of
from vgpu_cfg.lab.simulation import directory
from vgpu_cfg.lab.state.inventory import Cluster, Host, Managed
from vgpu_cfg.lab.vcenter import Lab

NEWEST = "vim.version.v9_1_1_0"
AT = "vim.version.v8_0_3_0"
ESTATES = [*estate_names(), "fleet-4x8-10vms"]


def every_object(lab: Lab) -> Iterator[Managed]:
    yield from lab.state.objects.values()
    for host in lab.state.all(Host):
        for prefix in directory.OF_HOST:
            yield directory.service_of(host, prefix)
    for cluster in lab.state.all(Cluster):
        for prefix in directory.OF_CLUSTER:
            yield directory.service_of(cluster, prefix)


def singletons(instance: Any) -> list[Any]:
    stub = instance._stub
    return [vim_class(kind)(moid, stub) for moid, kind in directory.SINGLETONS.items()]


def retrieve(instance: Any, objects: list[Any], kind: Any, paths: list[str] | None) -> list[Any]:
    collector = instance.content.propertyCollector
    options = vmodl.query.PropertyCollector.RetrieveOptions()
    page = collector.RetrievePropertiesEx([filter_spec(objects, kind, paths)], options)
    return [] if page is None else list(page.objects)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("estate", ESTATES)
def test_every_object_can_be_read_whole(estate: str) -> None:
    lab = open_virtual(estate)
    instance = connect(lab)
    references = [reference(thing) for thing in every_object(lab)] + singletons(instance)
    for thing in references:
        for content in retrieve(instance, [thing], type(thing), None):
            assert not content.missingSet
            # Of an empty array only its kind is sent; clients break on a property without a value.
            assert [one.name for one in content.propSet if one.val is None] == []


FIRST = ("hgx-h100", "mixed-fleet", "no-gpu")
"""Between them they have every type of object; a type has the same paths everywhere."""
BETWEEN = pytest.mark.exhaustive("clients of the versions between the first and the last")
PATHS = "every path of every type on each estate: tests/unit/lab/wire"


@pytest.mark.parametrize("estate", each(((name,) for name in ESTATES), PATHS, FIRST.__contains__, one_of=0))
def test_every_path_of_every_type_can_be_read_by_itself(estate: str) -> None:
    lab = open_virtual(estate)
    instance = connect(lab)
    by_kind = {wire_type(thing): thing for thing in every_object(lab)}
    for kind, thing in by_kind.items():
        table = table_of(kind)
        for path in table.every_path():
            if not all(is_at_least(AT, since) for since in table.reader(path, NEWEST).since):
                continue
            retrieve(instance, [reference(thing)], vim_class(kind), [path])


@pytest.mark.parametrize(
    "version_id",
    ["6.5", *(pytest.param(one, marks=BETWEEN) for one in ("6.7", "7.0.2.0", "8.0.0.1")), "8.0.3.0"],
)
def test_every_object_can_be_read_whole_by_a_client_of_any_version(version_id: str) -> None:
    lab = open_virtual("mixed-fleet")
    instance = connect(lab, version_id)
    for thing in every_object(lab):
        if wire_type(thing) != "HostAssignableHardwareManager":
            retrieve(instance, [reference(thing)], vim_class(wire_type(thing)), None)


def test_whole_objects_and_their_parts_agree() -> None:
    lab = open_virtual("two-a100")
    instance = connect(lab)
    host = reference(lab.state.all(Host)[0])
    (whole,) = retrieve(instance, [host], type(host), ["hardware"])
    (part,) = retrieve(instance, [host], type(host), ["hardware.cpuInfo.hz"])
    assert whole.propSet[0].val.cpuInfo.hz == part.propSet[0].val


@pytest.mark.parametrize("kind", sorted(RENDERERS))
def test_every_table_names_properties_that_exist(kind: str) -> None:
    assert table_of(kind).kind is vim_class(kind)
