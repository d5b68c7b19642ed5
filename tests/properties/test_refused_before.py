"""What `validate` and `plan` let through no guest refuses: plan files with odd words, staged in the end."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.extent import examples
from tests.plans.estate import PLAN_ID, make_inventory
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.change import StageGuest
from vgpu_cfg.errors import DocumentError
from vgpu_cfg.model.guests.guest import DERIVED
from vgpu_cfg.plan_loading import load_plan
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.planner import make_plan
from vgpu_cfg.staging.stager import Stager

CATALOG = load_catalog()
SECRETS = {"lic": "a token", "ngc": "a key", "graf": "a password"}
HOST = {"gpus": [{"board": "A100", "pci": f"0000:{bus}:00.0", "node": 0} for bus in ("21", "22", "23")]}
ESTATE = make_inventory({"hosts": {"esx-01": HOST}})
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGXqY02bdYqg1BcIf2x08zs60rS6XhlBSQ4qE47o5gb1"
SUM = "0123456789abcdef" * 4

ODD = [
    "", " ", "/", "//", "a b", "/bin/my shell", "/srv/a b", "-rf", "$(x)", "`x`", "a'b", 'a"b', "ä", "{n}",
    "{k}", "{{ x }}", "10.0.0.{n}/24", "10.0.0.300", "::1", "a:b", "/a:/b", "x" * 300, "/etc/hosts",
    "/etc//hosts", "0", "-1", "01", "1e3", "a/../b", "/a/../b", "https://x/y", "https://x/y?a=b",
    "https://x/a b", "https://x/%7e", "https://x/y.deb", "https://x/y.tgz", "/srv/y.rpm", "/srv/y.run",
    "/srv/é.deb", "/srv/y.deb?x", "file:///x.deb", "a.example.com", "a_b", "A", "root", "vgpu-cfg",
    "default", "localhost", "yes", "null", "~", "\u202e", "\u00a0", "a\tb", "a\u2028b", "%i", "%h", "\\",
    "@", "ghcr.io/x/y:1", "x/y@sha256:" + SUM, "a--b.c/x", "x:99999", "X.example/y", "999999TiB", "1000TiB",
    "1MiB", "64 GiB",
]  # fmt: skip
"""Words that some reader in a guest could not carry."""
USER_DATA = [
    "", "packages: [htop]\n", "users: [default, {name: ada}]\n", "users: ada\n", "users: [{name: [a]}]\n",
    "users: [vgpu-cfg]\n", "runcmd: [[ls]]\n", "runcmd: ls\n",
    "write_files: [{path: /etc/motd, content: x}]\n",
    "write_files: [{path: /var/lib/vgpu-cfg/manifest.json}]\n", "write_files: {path: /x}\n",
    "hostname: a\n", "fqdn: a.b\n", "ssh_keys: {ed25519_private: x}\n", "ssh_keys:\n",
    "ssh_deletekeys: no\n", "manage_etc_hosts: on\n", "preserve_hostname: off\n", "x: 2020-02-30\n",
    "x: 2020-02-03\n", "yes: 1\n", "a: 0o7\n", "- a\n", "x: &a [*a]\n", 'a: "\\ud800"\n', 'a: "\\x9b"\n',
    "a: !!binary aGk=\n", "a: .inf\n", "a: 1_000\n", "a: 190:20:30\n", "a: {? b : c}\n",
]  # fmt: skip
"""What may follow the first line of a user's #cloud-config."""

GUEST: dict[str, list[Any]] = {
    "by": ["cloud-init", "ssh", "guest-operations"],
    "hostname": ["node", "hvd-{n}"],
    "domain": ["example.com"],
    "users": [["ada"], [{"name": "ada", "keys": [KEY], "shell": "/bin/bash"}], [{"name": "ada"}, "bob"]],
    "licence": [{"secret": "lic"}, {"token": {"secret": "lic"}, "type": 1}],
    "driver": ["template", "leave", "/srv/d.run", {"package": "https://x.example/d.deb", "sha256": SUM}],
    "ofed": [
        "inbox",
        "leave",
        {"stack": "mlnx", "package": "/o.tgz"},
        {"stack": "doca", "package": "/o.deb"},
    ],
    "containers": ["docker", "containerd", "apptainer", "leave"],
    "toolkit_repository": ["https://mirror.example.com/t", "https://mirror.example.com/"],
    "shared_memory": ["8GiB", "1TiB"],
    "user_data": ["user.yaml"],
    "login": [{"user": "ubuntu", "password": {"secret": "ngc"}}],
}
TRAINING: dict[str, list[Any]] = {
    "framework": ["horovod", "none"],
    "image": ["nvcr.io/nvidia/tensorflow:21.07-tf1-py3", "ghcr.io/x/y"],
    "archive": ["/srv/image.tar", "https://x.example/i.tar"],
    "head": ["hvd-1"],
    "slots": [1, 4],
    "registry": [{"secret": "ngc"}, {"user": "ada", "password": {"secret": "ngc"}}],
    "port": [2222, 22, 2022],
    "mounts": [["/srv/data:/data"], "/a:/b"],
    "environment": [{"NCCL_DEBUG": "INFO"}, {"A": 1}],
    "shared_folder": [True, "/srv/training", {"path": "/data/x/"}],
    "monitoring": [True, {"exporter": "nvidia-smi"}, {"grafana_password": {"secret": "graf"}}],
    "traffic": [{"link": "10Gbps", "control": "200Mbps"}],
    "roce": [{"dscp": 26, "priority": 3}],
}
NIC = {"network": "vm-network", "ip": "pool"}
NETWORK = {
    "name": "vm-network",
    "subnet": "10.0.0.0/24",
    "pool": "10.0.0.11-10.0.0.20",
    "gateway": "10.0.0.1",
    "dns": ["10.0.0.2"],
}


def _keys(known: dict[str, list[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional={key: st.sampled_from(values) for key, values in known.items()})


def _places(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """List the places of single values, in lists and mappings too."""
    if isinstance(value, dict):
        return [found for key, one in value.items() for found in _places(one, (*place, key))]
    if isinstance(value, list):
        return [found for index, one in enumerate(value) for found in _places(one, (*place, index))]
    return [place]


def _put(value: Any, place: tuple[Any, ...], odd: str) -> Any:
    if not place:
        return odd
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[place[0]] = _put(value[place[0]], place[1:], odd)
    return copied


@st.composite
def plan_files(draw: st.DrawFn) -> tuple[dict[str, Any], str]:
    """Make a plan file of words that are right, but for one or two, and the user data that it may name."""
    names = draw(st.sampled_from(["hvd-{1..2}", "hvd-{01..03}", "HVD {1..2}", "hvd_{1..2}", "ä-{1..2}"]))
    line: dict[str, Any] = {"name": names, "template": "ubuntu", "cluster": "gpu", "folder": "training"}
    line |= {"cpus": 4, "memory": "16GiB", "guest": draw(_keys(GUEST)), "nics": [NIC]}
    if draw(st.booleans()):
        line["gpus"] = "grid_a100-10c"
    content = {
        "version": 1,
        "name": "demo",
        "id": PLAN_ID,
        "vcenter": "vc.example",
        "networks": [NETWORK],
        "vms": [line],
        "secrets": {name: f"env:{name.upper()}" for name in SECRETS},
    }
    if draw(st.booleans()):
        content["training"] = draw(_keys(TRAINING)) | {"workers": "*"}
    for _ in range(draw(st.integers(0, 2))):
        part = draw(st.sampled_from([key for key in ("vms", "training", "networks") if key in content]))
        place = draw(st.sampled_from(_places(content[part])))
        content[part] = _put(content[part], place, draw(st.sampled_from(ODD)))
    return content, draw(st.sampled_from(USER_DATA))


def _carried(content: dict[str, Any], user_data: str) -> str:
    """Return how far this file came: refused when read, found by a check, or staged without a refusal."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "plan.yaml"
        path.write_text(json.dumps(content), encoding="utf-8")
        (Path(folder) / "user.yaml").write_text(f"#cloud-config\n{user_data}", encoding="utf-8")
        try:
            desired = load_plan(path).desired
        except DocumentError:
            return "refused"
    plan = make_plan(desired, ESTATE, CATALOG, PlanOptions())
    if plan.errors:
        return "found"
    stager = Stager(b"a seed of 32 bytes, and no fewer", SECRETS, {})
    for change in plan.changes:
        if isinstance(change, StageGuest):
            kinds = [module.kind for module in change.spec.modules]
            stager.bundle(change.spec, kinds, "run", dict.fromkeys([vm.name for vm in desired.vms], DERIVED))
            if change.spec.by == "cloud-init":
                stager.seed(change.spec)
    return "staged"


def test_what_is_planned_is_carried_by_its_guests() -> None:
    seen: Counter[str] = Counter()

    @settings(max_examples=examples(40, 100), deadline=None, suppress_health_check=list(HealthCheck))
    @given(plan_files())
    def carried(file: tuple[dict[str, Any], str]) -> None:
        seen[_carried(*file)] += 1

    carried()
    assert seen["refused"] > 0, "no odd word among those tried was refused"
    assert seen["staged"] > 0, "none of the files tried came to its guests"
