"""Images of clusters in the REST API (vSphere Lifecycle Manager), and the tasks that they start.

Paths, fields and words are those of the vSphere Automation API 7.0.3 to 9.1 (esx.settings.clusters.software,
its drafts, commits, compliance and apply-impact; esx.settings.depot-content.components; cis.tasks). One
remediation at a time per cluster, one draft per account, and the errors for both are documented there.
Assumed: the texts of notifications and impacts; that compliance is always current; that a host in maintenance
mode stays there after its remediation; that a component of the lab is one VIB. The lab remediates no host out
of maintenance mode.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from pyVmomi import vmodl

from vgpu_cfg.lab.operations.hosts import power
from vgpu_cfg.lab.rest.answer import Accepted, Refused, Request, moment
from vgpu_cfg.lab.simulation import tasks
from vgpu_cfg.lab.simulation.clock import VIRTUAL_START
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.cluster import Cluster, Image
from vgpu_cfg.lab.state.host import Host, Vib
from vgpu_cfg.lab.state.host_defaults import DAEMON_VIB, driver_name, release_of
from vgpu_cfg.lab.state.inventory import Task

_SOFTWARE = "com.vmware.esx.settings.clusters.software"
_DRAFTS = f"{_SOFTWARE}.drafts"
_READ = "VcIntegrity.lifecycleSoftwareSpecification.Read"
_WRITE = "VcIntegrity.lifecycleSoftwareSpecification.Write"
_SETTINGS = "VcIntegrity.lifecycleSettings.Read"
_CHECK = "VcIntegrity.lifecycleSoftwareRemediation.Read"
_APPLY = "VcIntegrity.lifecycleSoftwareRemediation.Write"
_HEALTH = "VcIntegrity.lifecycleHealth.Read"

_STATES = {"queued": "PENDING", "running": "RUNNING", "success": "SUCCEEDED", "error": "FAILED"}
_SECONDS = {"validate": 20.0, "commit": 5.0, "check": 60.0, "apply": 30.0}
_APPLY_SECONDS = 7200.0
_BASE, _BASE_VIB = "ESXi", "esx-base"
"""The name of base images in an estate's depot, and of the VIB that represents one on a host."""
_EFFECTS = ("The host will be put into maintenance mode.", "The host will be rebooted.")

Handler = Callable[..., Any]


def handle(lab: Simulation, request: Request) -> Any:
    """Answer a request about images or their tasks. Raises Refused, also where the lab knows no such path."""
    path = f"{request.path}/{request.id}" if request.id else request.path
    for pattern, handler in _PATHS:
        found = re.fullmatch(pattern, path)
        if found is not None:
            return handler(lab, request, *found.groups())
    raise Refused(404, "not_found", f"The lab has no resource at {request.path}")


def _software(lab: Simulation, request: Request, moid: str) -> Any:
    cluster, image = _managed(lab, moid)
    if request.method == "GET":
        _check(lab, moid, _READ)
        return _document(lab, image.base_image, image.components)
    _check(lab, moid, _HEALTH, _APPLY if request.action == "apply" else _CHECK)
    if request.action not in ("apply", "check"):
        raise Refused(404, "not_found", f"Action {request.action} not found.")
    _check_free(lab, cluster)
    hosts = request.texts("hosts") or list(cluster.hosts)
    if not set(hosts) <= set(cluster.hosts):
        raise Refused(400, "invalid_argument", "A host is not in the cluster.")
    if request.action == "apply" and request.body.get("accept_eula") is not True:
        raise Refused(500, "error", "The EULA has not been accepted.")
    return _start(lab, cluster, request.action, hosts=hosts)


def _drafts(lab: Simulation, request: Request, moid: str) -> Any:
    _cluster, image = _managed(lab, moid)
    if request.method == "GET":
        _check(lab, moid, _READ)
        return {draft: {"metadata": _metadata(lab, one)} for draft, one in image.drafts.items()}
    _check(lab, moid, _WRITE)
    if any(one["owner"] == _owner(lab.user) for one in image.drafts.values()):
        raise Refused(400, "already_exists", "A draft created by this user exists.")
    image.number += 1
    draft = str(image.number)
    image.drafts[draft] = {
        "owner": _owner(lab.user),
        "created": moment(lab.clock.now()),
        "base_image": image.base_image,
        "components": dict(image.components),
    }
    lab.state.touch()
    return draft


def _draft(lab: Simulation, request: Request, moid: str, draft: str) -> Any:
    cluster, image = _managed(lab, moid)
    found = _known(image, draft)
    if request.method == "GET":
        _check(lab, moid, _READ)
        software = _document(lab, found["base_image"], found["components"])
        return {"metadata": _metadata(lab, found), "software": software}
    if request.method == "DELETE":
        _check(lab, moid, _WRITE)
        del image.drafts[draft]
        lab.state.touch()
        return None
    _check(lab, moid, _READ if request.action == "validate" else _WRITE)
    if request.action not in ("validate", "commit"):
        raise Refused(404, "not_found", f"Action {request.action} not found.")
    message = str(request.body.get("message", ""))
    return _start(lab, cluster, request.action, draft=draft, message=message)


def _components(lab: Simulation, request: Request, moid: str, draft: str) -> None:
    _cluster, image = _managed(lab, moid)
    _check(lab, moid, _WRITE)
    components = _known(image, draft)["components"]
    for name in request.texts("components_to_delete"):
        components.pop(name, None)
    wanted = request.body.get("components_to_set") or {}
    if request.method != "PATCH" or not isinstance(wanted, Mapping):
        raise Refused(400, "invalid_argument", "components_to_set is not a map.")
    components.update((str(name), str(version)) for name, version in wanted.items())
    lab.state.touch()


def _base_image(lab: Simulation, request: Request, moid: str, draft: str) -> None:
    _cluster, image = _managed(lab, moid)
    _check(lab, moid, _WRITE)
    found = _known(image, draft)
    if request.method != "PUT":
        raise Refused(400, "invalid_argument", "The base image can only be set.")
    found["base_image"] = str(request.body.get("version", ""))
    lab.state.touch()


def _commit_of(lab: Simulation, request: Request, moid: str, commit: str) -> Any:
    _cluster, image = _managed(lab, moid)
    _check(lab, moid, _READ)
    if commit not in image.commits:
        raise Refused(404, "not_found", f"Commit {commit} not found.")
    return image.commits[commit]


def _compliance(lab: Simulation, request: Request, moid: str) -> Any:
    cluster, image = _managed(lab, moid)
    _check(lab, moid, _READ)
    hosts = {one: _compliance_of(image, lab.state.get(one, Host), lab) for one in cluster.hosts}
    bad = [one for one, found in hosts.items() if found["status"] != "COMPLIANT"]
    return {
        "status": "NON_COMPLIANT" if bad else "COMPLIANT",
        "impact": "REBOOT_REQUIRED" if bad else "NO_IMPACT",
        "notifications": {},
        "scan_time": moment(lab.clock.now()),
        "commit": image.commit,
        "compliant_hosts": [one for one in hosts if one not in bad],
        "non_compliant_hosts": bad,
        "incompatible_hosts": [],
        "unavailable_hosts": [],
        **({} if lab.state.denies("image-compliance-fields") else {"hosts": hosts}),
        "host_info": {one: {"name": lab.state.get(one, Host).name} for one in hosts},
    }


def _compliance_of(image: Image, host: Host, lab: Simulation) -> dict[str, Any]:
    components = {}
    esxi = host.software[_BASE_VIB].version
    for name, version in image.components.items():
        vib = host.software.get(_vib_of(name, host))
        is_same = vib is not None and vib.version == version
        components[name] = {
            "status": "COMPLIANT" if is_same else "NON_COMPLIANT",
            "current": {"version": vib.version} if vib is not None else None,
            "target": {"version": version},
            "notifications": {},
        }
    base: dict[str, Any] = {
        "status": "COMPLIANT" if esxi == image.base_image else "NON_COMPLIANT",
        "current": {"version": _shown(lab, esxi)},
        "target": {"version": _shown(lab, image.base_image)},
        "notifications": {},
    }
    is_compliant = all(one["status"] == "COMPLIANT" for one in (base, *components.values()))
    return {
        "status": "COMPLIANT" if is_compliant else "NON_COMPLIANT",
        "impact": "NO_IMPACT" if is_compliant else "REBOOT_REQUIRED",
        "notifications": {},
        "scan_time": moment(lab.clock.now()),
        "commit": image.commit,
        "base_image": base,
        "add_on": {"status": "COMPLIANT", "notifications": {}},
        "components": components,
        "solutions": {},
    }


def _impact(lab: Simulation, request: Request, moid: str) -> Any:
    cluster, image = _managed(lab, moid)
    _check(lab, moid, _CHECK)
    hosts = [lab.state.get(one, Host) for one in cluster.hosts]
    bad = [one for one in hosts if _compliance_of(image, one, lab)["status"] != "COMPLIANT"]
    steps = [{"message": _message(text)} for text in _EFFECTS]
    return {
        "impact": [],
        "host_impact": {one.moid: steps if one in bad else [] for one in hosts},
        "commit": image.commit,
        "host_info": {one.moid: {"name": one.name} for one in hosts},
    }


def _depot(lab: Simulation, request: Request) -> Any:
    _check(lab, lab.state.root, _SETTINGS)
    return [
        {
            "name": name,
            "display_name": name,
            "vendor": "NVIDIA",
            "versions": [_release(one) | {"urgency": "GENERAL", "category": "GENERAL"} for one in versions],
        }
        for name, versions in _in_depot(lab).items()
        if name != _BASE
    ]


def _base_images(lab: Simulation, request: Request) -> Any:
    _check(lab, lab.state.root, _SETTINGS)
    versions = _in_depot(lab).get(_BASE, ())
    bases = (_release(_shown(lab, one)) for one in versions)
    return [one | {"display_name": "ESXi", "category": "BUGFIX"} for one in bases]


def _in_depot(lab: Simulation) -> dict[str, list[str]]:
    """Return the versions of all components; those of base images under their name in estates."""
    found: dict[str, list[str]] = {}
    for cluster in lab.state.all(Cluster):
        for name, versions in (cluster.image.depot if cluster.image is not None else {}).items():
            known = found.setdefault(name, [])
            known += [version for version in versions if version not in known]
    return found


def _shown(lab: Simulation, base_image: str) -> str:
    return f"{base_image}-standard" if lab.state.denies("base-image-ends-in-build") else base_image


def _release(version: str) -> dict[str, Any]:
    return {
        "version": version,
        "display_version": version,
        "summary": "",
        "kb": "https://docs.nvidia.com",
        "release_date": moment(VIRTUAL_START),
    }


def _tasks(lab: Simulation, request: Request) -> Any:
    wanted = request.mapping("filter_spec")
    services = {str(one) for one in wanted.get("services") or ()}
    if request.action != "list" or not services:
        raise Refused(400, "invalid_argument", "Either tasks or services must be specified.")
    found = (lab.state.get(moid, Task) for moid in lab.state.tasks)
    infos = {_task_id(task): _info(lab, task) for task in found if task.description_id.startswith(_SOFTWARE)}
    states = set(wanted.get("status") or ())
    return {
        task: info
        for task, info in infos.items()
        if info["service"] in services and (not states or info["status"] in states)
    }


def _task(lab: Simulation, request: Request, task: str) -> Any:
    found = lab.state.find(task.partition(":")[0], Task)
    if found is None or not found.description_id.startswith(_SOFTWARE):
        raise Refused(404, "not_found", f"Task {task} not found.")
    return _info(lab, found)


def _task_id(task: Task) -> str:
    return f"{task.moid}:{task.description_id.rpartition('.')[0]}"


def _info(lab: Simulation, task: Task) -> dict[str, Any]:
    service, _, operation = task.description_id.rpartition(".")
    info: dict[str, Any] = {
        "description": _message(f"{operation} of {task.entity_name}"),
        "service": service,
        "operation": f"{operation}$task",
        "target": {"type": "ClusterComputeResource", "id": task.entity},
        "status": _STATES[task.state],
        "cancelable": False,
        "user": _owner(task.user),
    }
    if task.state != "queued":
        progress = 100 if task.ended_at is not None else task.progress or 0
        info["start_time"] = moment(task.started_at or task.queued_at)
        info["progress"] = {"total": 100, "completed": progress, "message": _message(operation)}
    if task.ended_at is not None:
        info["end_time"] = moment(task.ended_at)
    if task.state == "success" and not lab.state.denies("image-task-in-result"):
        info["result"] = json.loads(task.result)
    if task.state == "error":
        info["error"] = {"error_type": "ERROR", "messages": [_message(getattr(task.fault, "msg", ""))]}
    return info


def _start(lab: Simulation, cluster: Cluster, action: str, **arguments: Any) -> Accepted:
    service = _DRAFTS if action in ("validate", "commit") else _SOFTWARE
    task = tasks.start(
        lab,
        cluster,
        f"image.{action}",
        work=cluster.wsdl_type,
        description_id=f"{service}.{action}",
        arguments=arguments,
        seconds=_SECONDS[action],
    )
    return Accepted(_task_id(task))


def _validate(lab: Simulation, cluster: Cluster, *, draft: str, message: str) -> str:
    image = _image(cluster)
    errors = _wrong(lab, image, _known(image, draft))
    return json.dumps({"notifications": {"errors": errors} if errors else {}})


def _commit(lab: Simulation, cluster: Cluster, *, draft: str, message: str) -> str:
    image = _image(cluster)
    found = _known(image, draft)
    if _wrong(lab, image, found):
        raise vmodl.fault.InvalidArgument(msg="The draft is not valid.")
    image.number += 1
    image.commit, image.components = str(image.number), dict(found["components"])
    image.base_image = found["base_image"]
    image.commits[image.commit] = {
        "author": found["owner"],
        "commit_time": moment(lab.clock.now()),
        "description": message,
        "apply_status": "NOT_APPLIED",
    }
    del image.drafts[draft]
    lab.state.touch(cluster)
    return json.dumps(image.commit)


def _wrong(lab: Simulation, image: Image, draft: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the notifications of components that the depot lacks, or that the estate says do not fit."""
    components, base = draft["components"], draft["base_image"]
    texts = [f"Base image {base} is not in the depot."] * (
        base != image.base_image and base not in image.depot.get(_BASE, ())
    )
    texts += [
        f"Component {name}({version}) is not in the depot."
        for name, version in components.items()
        if version not in image.depot.get(name, ()) and image.components.get(name) != version
    ]
    texts += [
        text for name, text in image.conflicts.items() if components.get(name) != image.components.get(name)
    ]
    at = moment(lab.clock.now())
    return [{"id": "lab.invalid", "time": at, "type": "ERROR", "message": _message(text)} for text in texts]


def _check_hosts(lab: Simulation, cluster: Cluster, *, hosts: list[str]) -> str:
    result = {"status": "OK", "commit": _image(cluster).commit, "host_info": {}, "entity_results": []}
    return json.dumps({**result, "start_time": moment(lab.clock.now()), "end_time": moment(lab.clock.now())})


def _remediate(lab: Simulation, cluster: Cluster, *, hosts: list[str]) -> str:
    """Bring hosts to the image, one after the other: stage its packages, reboot, and wait for the host."""
    image = _image(cluster)
    for host in (lab.state.get(moid, Host) for moid in hosts):
        if not host.in_maintenance:
            raise vmodl.fault.SystemError(msg=f"{host.name}: the host is not in maintenance mode.")
        wanted = {_vib_of(name, host): version for name, version in image.components.items()}
        wanted[_BASE_VIB] = image.base_image
        is_away = host.moid in lab.state.leaving or host.moid in lab.state.booting
        is_as_wanted = all(
            name in host.software and host.software[name].version == version
            for name, version in wanted.items()
        )
        if is_away or not is_as_wanted:
            if not is_away and not host.staged:
                host.staged = {
                    name: Vib(name, version, "VMware" if name == _BASE_VIB else "NVIDIA")
                    for name, version in wanted.items()
                }
                power.begin_shutdown(lab, host, for_good=False)
            gone = vmodl.fault.SystemError(msg=f"{host.name}: the host did not reconnect.")
            raise tasks.Blocked(_APPLY_SECONDS, gone)
        host.in_maintenance = not lab.state.denies("remediation-keeps-maintenance")
        lab.state.touch(host)
    image.commits.get(image.commit, {})["apply_status"] = "APPLIED"
    begun = moment(lab.clock.now())
    fine = {"status": "OK", "notifications": {}, "start_time": begun, "end_time": moment(lab.clock.now())}
    result = {
        "status": fine,
        "commit": image.commit,
        "host_info": {},
        "host_status": dict.fromkeys(hosts, fine),
    }
    return json.dumps({**result, "successful_hosts": hosts, "failed_hosts": [], "skipped_hosts": []})


_WORKS: Mapping[str, Handler] = {
    "validate": _validate,
    "commit": _commit,
    "check": _check_hosts,
    "apply": _remediate,
}
tasks.WORK.update({(Cluster.wsdl_type, f"image.{action}"): work for action, work in _WORKS.items()})


def _check_free(lab: Simulation, cluster: Cluster) -> None:
    for task in (lab.state.get(moid, Task) for moid in lab.state.open_tasks):
        if task.entity == cluster.moid and task.description_id.startswith(f"{_SOFTWARE}."):
            raise Refused(400, "not_allowed_in_current_state", "Another operation is in progress.")


def _vib_of(component: str, host: Host) -> str:
    """Return the name of the VIB of a component."""
    name, major = component.casefold().removeprefix("gpu-"), release_of(host)[0]
    if name.startswith("nvd-gpu-mgmt"):
        return DAEMON_VIB
    if name.startswith("nvd-"):
        return driver_name("nvd-aie" if name.startswith("nvd-aie") else "vgpu", major)
    return component


def _managed(lab: Simulation, moid: str) -> tuple[Cluster, Image]:
    cluster = lab.state.find(moid, Cluster)
    if cluster is None or not cluster.image_managed:
        raise Refused(404, "not_found", f"No cluster {moid} managed by an image found.")
    return cluster, _image(cluster)


def _image(cluster: Cluster) -> Image:
    if cluster.image is None:
        cluster.image = Image()
    return cluster.image


def _known(image: Image, draft: str) -> dict[str, Any]:
    if draft not in image.drafts:
        raise Refused(404, "not_found", f"Draft {draft} not found.")
    return image.drafts[draft]


def _check(lab: Simulation, moid: str, *privileges: str) -> None:
    if any(lab.lacks(moid, one) for one in privileges):
        raise Refused(403, "unauthorized", "Permission to perform this operation was denied.")


def _document(lab: Simulation, base_image: str, components: Mapping[str, str]) -> dict[str, Any]:
    return {
        "base_image": {"version": _shown(lab, base_image)},
        "components": {name: {"version": version} for name, version in components.items()},
        "solutions": {},
    }


def _metadata(lab: Simulation, draft: Mapping[str, Any]) -> dict[str, Any]:
    owner = draft["owner"]
    if lab.state.denies("one-draft-per-account"):
        owner = owner.rpartition("\\")[2]
    return {"owner": owner, "status": "VALID", "creation_time": draft["created"]}


def _owner(user: str) -> str:
    """Return an account as Lifecycle Manager spells it: assumed."""
    name, _, domain = user.rpartition("\\")[2].partition("@")
    return f"{domain.upper()}\\{name}" if domain else user


def _message(text: str) -> dict[str, Any]:
    return {"id": "lab", "default_message": text, "args": []}


_CLUSTER = r"/esx/settings/clusters/([^/]+)/software"
_PATHS: tuple[tuple[str, Handler], ...] = (
    (_CLUSTER, _software),
    (f"{_CLUSTER}/compliance", _compliance),
    (f"{_CLUSTER}/reports/apply-impact", _impact),
    (f"{_CLUSTER}/commits/([^/]+)", _commit_of),
    (f"{_CLUSTER}/drafts", _drafts),
    (f"{_CLUSTER}/drafts/([^/]+)", _draft),
    (f"{_CLUSTER}/drafts/([^/]+)/software/components", _components),
    (f"{_CLUSTER}/drafts/([^/]+)/software/base-image", _base_image),
    (r"/esx/settings/depot-content/components", _depot),
    (r"/esx/settings/depot-content/base-images", _base_images),
    (r"/com/vmware/cis/tasks", _tasks),
    (r"/com/vmware/cis/tasks/([^/]+)", _task),
)
