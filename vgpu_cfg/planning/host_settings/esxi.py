"""The ESXi build of a host, which its cluster's image brings; a later build is kept.

Belief: base-image-ends-in-build.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vgpu_cfg.changes.values import Impact
from vgpu_cfg.model.desired import DesiredHosts
from vgpu_cfg.model.observed.host_facts import BASE_IMAGE, ClusterImage
from vgpu_cfg.planning.host_settings.entry import DesiredSetting, HostSetting, HostView, Instructions, Reading
from vgpu_cfg.planning.host_settings.gpus.driver import components_of, is_driver_component


def build_number(build: str) -> int:
    """Return a build as a number, 0 for none."""
    return int(build) if build.isdecimal() else 0


def wanted_esxi(build: str) -> DesiredSetting:
    """Return the setting of a build."""
    return DesiredSetting("esxi", build)


def base_image_of(image: ClusterImage, build: str) -> str:
    """Return the version of the base image with a build, "" if neither the image nor the depot holds it."""
    known = (image.components.get(BASE_IMAGE, ""), *image.depot.get(BASE_IMAGE, ()))
    return next((one for one in known if one.rpartition(".")[2] == build), "")


def components_for(image: ClusterImage, desired: DesiredSetting) -> Mapping[str, str]:
    """Return the components that an image must have for a setting; none if the depot does not hold them."""
    if desired.setting != "esxi":
        return components_of(image, desired)
    version = base_image_of(image, desired.value)
    return {BASE_IMAGE: version} if version else {}


def held_for(image: ClusterImage, desired: DesiredSetting) -> tuple[str, ...]:
    """Return the builds or driver versions that the depot holds for a setting, the oldest first."""
    if desired.setting == "esxi":
        return tuple(one.rpartition(".")[2] for one in image.depot.get(BASE_IMAGE, ()))
    names = (name for name in image.depot if is_driver_component(name))
    return tuple(dict.fromkeys(one.partition("-")[0] for name in names for one in image.depot[name]))


def _desired_settings(entry: DesiredHosts, _view: HostView) -> Iterable[DesiredSetting]:
    if entry.esxi is not None:
        yield wanted_esxi(str(entry.esxi.build))


def _read(view: HostView, _device: str) -> Reading:
    if not build_number(view.host.build):
        return Reading(unread="the host does not report its build")
    return Reading(configured=view.host.build)


def _how(_view: HostView, _desired: DesiredSetting) -> Instructions:
    return Instructions(
        why="the cluster's image determines the ESXi release on its hosts",
        client="in vSphere Lifecycle Manager, edit the image on the cluster's Updates tab",
        expected="the host is compliant and reports the new build",
        verify=("esxcli system version get",),
        undo=("# ESXi is not downgraded; to boot the previous release, press Shift+R in the boot loader",),
    )


ESXI = HostSetting(
    key="esxi",
    title="ESXi build",
    source="vSphere Automation API, Clusters.Software.Drafts.Software.BaseImage",
    desired_settings=_desired_settings,
    read=_read,
    same=lambda desired, found: build_number(found) >= build_number(desired),
    write=lambda _view, _desired: (),
    impact=lambda _view, _desired: Impact.HOST_REBOOT,
    how=_how,
    group="esxi",
    in_file="the plan file does not specify a build",
    remembered=None,
    by_image=lambda _desired: True,
    stays=lambda _before: "ESXi is never downgraded",
)
