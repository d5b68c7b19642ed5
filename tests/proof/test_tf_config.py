"""TensorFlow reads the TF_CONFIG that is handed over, and knows each worker by it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from vgpu_cfg.model.host_list import HostList, ListedHost
from vgpu_cfg.staging.export import FORMATS, ExportOptions

PYTHON = Path(__file__).resolve().parents[2] / ".cache" / "proof" / "env" / "bin" / "python"
pytestmark = [
    pytest.mark.long("TensorFlow takes seconds to import"),
    pytest.mark.skipif(not PYTHON.exists(), reason="TensorFlow is not there: script/build-proof says why"),
]
READ = """
import json, os, sys, tensorflow
for text in sys.argv[1:]:
    os.environ["TF_CONFIG"] = text
    found = tensorflow.distribute.cluster_resolver.TFConfigClusterResolver()
    print(json.dumps([found.task_type, found.task_id, found.cluster_spec().as_dict()]))
"""
"""It prints a line for each TF_CONFIG that it is given."""


def test_tensorflow_knows_all_workers_and_which_it_is() -> None:
    workers = tuple(
        ListedHost(vm=f"w-{n}", host_name=f"w-{n}", training_address=f"10.111.0.{n}", slots=2) for n in (1, 2)
    )
    files = FORMATS["tf-config"].write(HostList(plan="p", workers=workers), ExportOptions(port=2000)).files
    ran = subprocess.run(
        [PYTHON, "-c", READ, *files.values()],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    cluster = {"worker": ["10.111.0.1:2000", "10.111.0.2:2000"]}
    expected = [["worker", number, cluster] for number in range(2)]
    assert [json.loads(line) for line in ran.stdout.splitlines()[-2:]] == expected
