"""Experiments that read what `doctor` leaves out: events, counters, images, policies, the REST API."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_cfg.contact.bench import Bench, Verdicts, rejection, verdict_on
from vgpu_cfg.model.observed.host_facts import BASE_IMAGE, ClusterImage
from vgpu_cfg.model.observed.inventory import Host
from vgpu_cfg.model.vgpu import Sharing
from vgpu_cfg.model.wording import counted
from vgpu_cfg.planning.doctor.trials import COUNTERS, IMAGES, PAST, POLICIES, REST
from vgpu_cfg.planning.doctor.tried import Evidence, verdict_of
from vgpu_cfg.planning.host_settings.esxi import base_image_of
from vgpu_cfg.planning.host_settings.gpus.driver import driver_version, is_driver_component
from vgpu_cfg.vsphere.history.collectors import PAGE_SIZE
from vgpu_cfg.vsphere.reading.gpu_use import METRICS_AT_ONCE, NO_SAMPLES, NOT_ALLOWED, NOT_KEPT


def _past(bench: Bench) -> Verdicts:
    """Read two pages of events, and look at those of clones, edits and clusters."""
    first, more, seen = bench.tools.things.newest()
    pages = [(counted(first, "event"), first == PAGE_SIZE)] if more else []
    yield verdict_of("event-pages-of-1000", pages)
    for belief in PAST.beliefs[1:]:
        yield verdict_of(belief, [(name, is_so) for about, name, is_so in seen if about == belief])


def _hosts(bench: Bench) -> tuple[Host, ...]:
    return bench.observed.hosts if bench.observed is not None else ()


def _counters(bench: Bench) -> Verdicts:
    """Read the use of the last day, and which GPUs the counters name."""
    hosts, base, mig, most = _hosts(bench), *COUNTERS.beliefs
    found = bench.tools.reader.read_gpu_use(hosts, days=1)
    names = {host.moid: host.name for host in hosts}
    devices = [(f"{names[use.host_moid]}/{use.pci_id}", True) for use in found.gpus]
    yield verdict_of(base, devices + [(names[moid], False) for moid in found.unplaced])
    modes = ((host, gpu, found.of(host.moid, gpu.pci_id)) for host in hosts for gpu in host.gpus)
    yield verdict_of(
        mig,
        [
            (f"{host.name}/{gpu.pci_id}", not gpu.is_passthrough)
            for host, gpu, use in modes
            if use is not None and (gpu.is_passthrough or gpu.sharing is Sharing.MIG)
        ],
    )
    is_refused = found.unread not in ("", NOT_KEPT, NO_SAMPLES, NOT_ALLOWED)
    asked = [(f"{METRICS_AT_ONCE} at once", True)] if len(found.gpus) >= METRICS_AT_ONCE else []
    yield verdict_of(most, [(found.unread, False)] if is_refused else asked)


def _images(bench: Bench) -> Verdicts:
    """Compare the images of clusters with the builds and drivers of their hosts."""
    drivers, builds = IMAGES.beliefs
    yield verdict_of(drivers, list(_components(bench)))
    yield verdict_of(builds, list(_base_images(bench)))


def _components(bench: Bench) -> Evidence:
    """Yield whether an image names the driver that hosts have, which vCenter says are as the image is."""
    for host, image in _compliant(bench):
        software = bench.observed.facts.hosts[host.moid].software if bench.observed is not None else ()
        version = driver_version(host, software).partition("-")[0]
        if version:
            held = [one for name, one in image.components.items() if is_driver_component(name)]
            yield host.name, any(one.startswith(version) for one in held)


def _base_images(bench: Bench) -> Evidence:
    for host, image in _compliant(bench):
        if BASE_IMAGE in image.components:
            yield host.name, bool(base_image_of(image, host.build))


def _compliant(bench: Bench) -> Iterator[tuple[Host, ClusterImage]]:
    clusters = bench.observed.facts.clusters if bench.observed is not None else {}
    by_moid = {host.moid: host for host in _hosts(bench)}
    for image in (facts.image for facts in clusters.values() if facts.image is not None):
        for moid, host in image.hosts.items():
            if host.is_compliant and moid in by_moid:
                yield by_moid[moid], image


def _policies(bench: Bench) -> Verdicts:
    """Ask for the policies of the disks that policies list, and of all VMs."""
    by_key, omitted = POLICIES.beliefs
    seen = bench.tools.things.policies()
    yield verdict_of(by_key, [(one.key, one.has_policy) for one in seen if one.is_listed])
    without = [(one.key, not one.is_answered) for one in seen if not one.has_policy and not one.is_listed]
    yield verdict_of(omitted, without)


def _rest(bench: Bench) -> Verdicts:
    (belief,) = REST.beliefs
    vms = bench.tools.things.vms("")[:1]
    said = rejection(lambda: bench.tools.reader.read_attached_tags(vms))
    if vms:
        yield verdict_on(belief, said or "the tags of a VM were read", is_so=not said)


COURSES = {
    PAST.does: _past,
    COUNTERS.does: _counters,
    IMAGES.does: _images,
    POLICIES.does: _policies,
    REST.does: _rest,
}
