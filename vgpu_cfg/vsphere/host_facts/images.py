"""Read the image of a cluster by vCenter's REST API, and who owns it.

Sources: vSphere Automation API 7.0.3 to 9.1 (esx.settings.clusters.software, its compliance and
reports.apply-impact, esx.settings.depot-content.components and base-images).

Belief: image-compliance-fields, sddc-manager-extension.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from vgpu_cfg.errors import LoginFailed, NotFound, NotPermitted, ReachError, Unreachable
from vgpu_cfg.model.observed.host_facts import BASE_IMAGE, COMPLIANT, ClusterImage, HostImage
from vgpu_cfg.vsphere.wire.faults import translated
from vgpu_cfg.vsphere.wire.rest import list_of, mapping_of, text_of
from vgpu_cfg.vsphere.wire.session import Session

CLUSTERS = "/api/esx/settings/clusters"
DEPOT = "/api/esx/settings/depot-content"
MANAGERS: Mapping[str, str] = {"com.vmware.sddcManager": "SDDC Manager (VMware Cloud Foundation)"}
"""The extensions by which products register that own the images of a vCenter's clusters."""


def software_path(cluster_moid: str) -> str:
    """Return the path of a cluster's image."""
    return f"{CLUSTERS}/{quote(cluster_moid)}/software"


def read_image(session: Session, cluster_moid: str) -> ClusterImage:
    """Read an image, its components in the depot, and compliance: six round trips. A refusal is `unread`."""
    what = "reading the cluster's image"
    try:
        manager = _manager(session)
        found = mapping_of(
            session.rest.call("GET", software_path(cluster_moid), None, what), what, session.address
        )
        depot, bases = (
            list_of(session.rest.call("GET", f"{DEPOT}/{kind}", None, what), what, session.address)
            for kind in ("components", "base-images")
        )
        compliance = _report(session, cluster_moid, "compliance")
        impact = _impact(session, cluster_moid)
    except (Unreachable, LoginFailed):
        raise
    except ReachError as error:
        return ClusterImage(unread=error.message)
    base = mapping_of(found.get("base_image"), what, session.address)
    return ClusterImage(
        components=_versions({**(found.get("components") or {}), BASE_IMAGE: base}),
        depot={
            text_of(one, "name", what, session.address): tuple(map(_version, one.get("versions") or ()))
            for one in depot
        }
        | {BASE_IMAGE: tuple(map(_version, bases))},
        hosts=dict(_hosts(compliance, impact.get("host_impact") or {})),
        manager=manager,
    )


def _manager(session: Session) -> str:
    """Return the product that owns this vCenter's images, "" for none."""
    extensions = session.service_content.extensionManager
    for key, name in MANAGERS.items() if extensions is not None else ():
        with translated(f"looking for {name}", session.address):
            if extensions.FindExtension(key) is not None:
                return name
    return ""


def _report(session: Session, cluster_moid: str, name: str) -> Mapping[str, Any]:
    """Return a report on the last check, empty if there was none."""
    what = f"reading the cluster's {name.rpartition('/')[2]}"
    try:
        found = session.rest.call("GET", f"{software_path(cluster_moid)}/{name}", None, what)
    except NotFound:
        return {}
    return mapping_of(found or {}, what, session.address)


def _impact(session: Session, cluster_moid: str) -> Mapping[str, Any]:
    """Return the expected steps of a remediation, empty for an account that may not remediate."""
    try:
        return _report(session, cluster_moid, "reports/apply-impact")
    except NotPermitted:
        return {}


def _hosts(compliance: Mapping[str, Any], expected: Mapping[str, Any]) -> Iterator[tuple[str, HostImage]]:
    for moid, one in (compliance.get("hosts") or {}).items():
        parts = (one.get("components") or {}).items()
        differs = {
            name: (_version(part.get("current")), _version(part.get("target")))
            for name, part in parts
            if part.get("status") != COMPLIANT
        }
        base = one.get("base_image") or {}
        if base and base.get("status") != COMPLIANT:
            differs[BASE_IMAGE] = (_version(base.get("current")), _version(base.get("target")))
        status, impact = str(one.get("status") or ""), str(one.get("impact") or "")
        told = ((step.get("message") or {}).get("default_message") for step in expected.get(moid) or ())
        effects = tuple(str(text) for text in told if text)
        yield str(moid), HostImage(status=status, impact=impact, differs=differs, effects=effects)


def _versions(components: Any) -> dict[str, str]:
    return {str(name): _version(one) for name, one in (components or {}).items()}


def _version(one: Any) -> str:
    return str((one or {}).get("version") or "")
