"""ESXi builds: a later one is right, and the image of the cluster brings the wanted one."""

from __future__ import annotations

from tests.unit.planning.settings.situations import Case, Situation
from tests.unit.planning.settings.views import hosts, view
from vgpu_cfg.model.observed.host_facts import ClusterImage
from vgpu_cfg.planning.host_settings.esxi import components_for, wanted_esxi

BUILD = "24280767"
ENTRY = hosts(esxi={"build": int(BUILD)})
OLD, NEW, LATER = (view(build=build) for build in ("24022510", BUILD, "24674464"))
IMAGE = "edit the image on the cluster's Updates tab"

CASES = (
    Case("esxi", Situation.RIGHT, NEW, ENTRY, BUILD),
    Case("esxi", Situation.RIGHT, LATER, ENTRY, BUILD),
    Case("esxi", Situation.WRONG, OLD, ENTRY, BUILD, found="24022510", by_hand=IMAGE),
    Case("esxi", Situation.OFF, OLD, ENTRY, BUILD, by_hand=IMAGE),
    Case("esxi", Situation.PENDING, OLD, ENTRY, BUILD, has_one_value=True),
    Case("esxi", Situation.NOT_OFFERED, OLD, ENTRY, BUILD, by_hand=IMAGE),
    Case("esxi", Situation.UNREAD, view(build=""), ENTRY, BUILD, unread="does not report its build"),
)


def test_the_base_image_is_that_with_the_build() -> None:
    image = ClusterImage(
        components={"ESXi": "8.0.3-0.0.24022510"}, depot={"ESXi": ("8.0.3-0.35.24280767", "9.0.0-0.24755229")}
    )
    assert components_for(image, wanted_esxi(BUILD)) == {"ESXi": "8.0.3-0.35.24280767"}
    assert components_for(image, wanted_esxi("24022510")) == {"ESXi": "8.0.3-0.0.24022510"}
    assert components_for(image, wanted_esxi("4280767")) == {}
