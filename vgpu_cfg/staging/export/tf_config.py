"""TF_CONFIG for TensorFlow's MultiWorkerMirroredStrategy: one JSON for each worker.

Its form is that of tf.distribute.cluster_resolver.TFConfigClusterResolver: `cluster.worker` lists
`host:port` of all, the same everywhere, and `task` says which of them reads it. Worker 0 is the chief.
"""

from __future__ import annotations

import json

from vgpu_cfg.model.host_list import HostList
from vgpu_cfg.staging.export.parts import Exported, ExportOptions, with_port

DEFAULT_PORT = 12345
"""TensorFlow names no default; this is the port of its documents' examples."""


def write_tf_config(host_list: HostList, options: ExportOptions) -> Exported:
    """Write what each worker's environment variable TF_CONFIG holds."""
    port = options.port or DEFAULT_PORT
    workers = [with_port(host.peer_address, port) for host in host_list.workers]
    files = {
        f"tf-config-{host.host_name}.json": json.dumps(
            {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
        )
        + "\n"
        for index, host in enumerate(host_list.workers)
    }
    first = next(iter(files))
    return Exported(
        files,
        (
            f'on {host_list.workers[0].host_name}: export TF_CONFIG="$(cat {first})"',
            "one process per VM, with access to all of the VM's GPUs",
        ),
    )
