"""Values for the chart of NVIDIA's gpu-operator, and the licence that its driver takes where it brings one.

Where the plan sees to the guest's driver, or says nothing of the guest, the driver is in the VM and holds its
own licence: the operator leaves both alone. Else it brings a vGPU guest driver, from an image that its
maker builds and keeps in a registry of his own, since NVIDIA's may not be published. That driver takes the
licence from a secret with gridd.conf and client_configuration_token.tok (docs.nvidia.com, GPU Operator,
"Using NVIDIA vGPU": driver.licensingConfig.secretName; older charts take a ConfigMap, by configMapName).
"""

from __future__ import annotations

from typing import Any

from vgpu_cfg.model.ranges import HostList
from vgpu_cfg.staging.export.parts import Exported, header, yaml_of

LICENCE_SECRET, NAMESPACE = "licensing-config", "gpu-operator"
VALUES = "gpu-operator-values.yaml"
_COMPUTE = 4
"""FeatureType of gridd.conf for compute."""


def write_gpu_operator(host_list: HostList) -> Exported:
    """Write the chart's values, and a script that makes the licence's secret where the operator needs it."""
    with_gpus = [host for host in host_list.workers if host.gpus]
    own = [host for host in with_gpus if host.driver_in_guest]
    is_brought = bool(with_gpus) and not own
    has_vgpus = any(gpu.profile for host in with_gpus for gpu in host.gpus)
    driver: dict[str, Any] = {"enabled": is_brought}
    if is_brought and has_vgpus:
        driver["licensingConfig"] = {"secretName": LICENCE_SECRET, "nlsEnabled": True}
    if is_brought and any(host.has_rdma for host in with_gpus):
        driver["rdma"] = {"enabled": True, "useHostMofed": True}
    values = {"driver": driver, "toolkit": {"enabled": True}, "migManager": {"enabled": False}}
    files = {VALUES: yaml_of(host_list, values)}
    notes = [f"helm install gpu-operator nvidia/gpu-operator -n {NAMESPACE} -f {VALUES}"]
    if not is_brought:
        notes.append("the driver and its licence are in the guests: the operator brings neither")
    if own and len(own) < len(with_gpus):
        without = ", ".join(host.vm for host in with_gpus if not host.driver_in_guest)
        notes.append(f"the plan sees to no driver in {without}, and the operator brings one to all or none")
    if is_brought and has_vgpus:
        files["licence-secret.sh"] = _secret(host_list)
        notes.append("the driver's image is yours: --set driver.repository=... --set driver.version=...")
        notes.append("run licence-secret.sh with the path of the licence's token before helm")
    return Exported(files, tuple(notes))


def _secret(host_list: HostList) -> str:
    lines = [
        "#!/bin/sh",
        *header(host_list),
        "# sh licence-secret.sh TOKEN_FILE [more words for kubectl]",
        "set -eu",
        "token=${1:?the path of the client configuration token is missing}",
        "shift",
        f"printf 'FeatureType=%s\\n' {_COMPUTE} |",
        f"    kubectl create secret generic {LICENCE_SECRET} --namespace {NAMESPACE} \\",
        '        --from-file=gridd.conf=/dev/stdin --from-file=client_configuration_token.tok="$token" "$@"',
    ]
    return "".join(f"{line}\n" for line in lines)
