"""Each key of the plan file is applied once, from the file to its effect: in a guest, a VM, a host, a report.

`keys/*.yaml` are the cases: an estate, a plan, what is run, `later` another plan that follows, and for each
key that the case proves a regular expression. One under `seen` must match a line of the lab's state that was
not there before, one under `told` the output of a command. A key that no case proves fails. SHOW_KEYS=FILE
keeps what a case has brought about.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel
from pyVmomi import vim

from tests.cli.command_line import CommandLine
from vgpu_cfg.documents import parse_text
from vgpu_cfg.lab.simulation.sessions import LAB_CREDENTIALS
from vgpu_cfg.lab.state.host import Host
from vgpu_cfg.lab.state.inventory import Cluster, VirtualMachine
from vgpu_cfg.lab.state.store import encode_object, encode_values
from vgpu_cfg.model.plan_file.entries import PlanFile, VmEntry, VmKeys
from vgpu_cfg.shells.keys import PlanKeyRing
from vgpu_cfg.vsphere.wire.session import Session
from vgpu_cfg.vsphere.writing.writer import VCenterWriter

CASES = Path(__file__).parent / "keys"
PARSED = {"VgpuProfile", "DesiredNuma", "SecretReference"}
"""Models of one written word each: they have no keys of their own in a file."""
SECRETS = {
    name: f"value-of-{name.lower()}" for name in ("TOKEN", "NGC", "SEED", "ADMIN", "PROXY", "GRAFANA", "ESXI")
}
SECRETS |= {"ESXI": "lab", "SEED": "s" * 40, "LICENCE": "AB0C1-DE2F3-GH4I5-JK6L7-MN8O9", "BMC": "lab"}
OWN = PlanKeyRing(b"k" * 32).login_key()
"""A key pair: PUBLIC-KEY in an estate is its public half, the secret KEY the private one."""
SECRETS |= {"KEY": OWN.private}
LONG = (
    "guests of a site that train",
    "secrets that a clone carries, a key to log in, and torchrun",
    "what verify asks of RDMA",
)
"""Cases that are left to `--all`."""
_ECHOES = ("Event", "Task", "Alarm")
"""Objects of the lab that tell of changes, and are no effect of them."""


_ECHOED = ("vgpu_cfg.plan=", "/manifest.json.")
"""What repeats the plan file's words in a VM or guest."""


ELSEWHERE = {
    "LoginEntry.port": ("contract/test_guest_ssh.py", "port"),
    "AccessEntry.key": ("contract/test_lab_ssh.py", "key"),
    "AccessEntry.host_keys": ("contract/test_ssh_login.py", "host_keys"),
    "BmcEntry.system": ("contract/test_bmc.py", "system="),
    "VerifyEntry.watch": ("cli/test_verify.py", "verify: {watch: "),
    "WatchEntry.cordon": ("cli/test_verify.py", "cordon: ["),
    "WatchEntry.per_cluster": ("cli/test_verify.py", "per_cluster: 1"),
    "WatchEntry.after_minutes": ("unit/verification/test_watch.py", '"after_minutes": 5'),
    "BmcEntry.thumbprints": ("contract/test_bmc.py", "thumbprint="),
}
"""Keys that mean something on a wire or in a watch alone, with the test that has one, and its word."""


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from models_in(part)


@cache
def keys() -> frozenset[str]:
    """Return every key that a plan file may hold, as Model.key."""
    found: set[str] = set()
    waiting: list[type[BaseModel]] = [PlanFile]
    done: set[type[BaseModel]] = set()
    while waiting:
        model = waiting.pop()
        if model in done or model.__name__ in PARSED:
            continue
        done.add(model)
        inherited = set(VmKeys.model_fields) if model is VmEntry else set()
        for name, field in model.model_fields.items():
            waiting += models_in(field.annotation)
            if name not in inherited:
                found.add(f"{model.__name__}.{field.alias or name}")
    return frozenset(found)


def lines(value: object, path: str = "") -> Iterator[str]:
    """Write a document as lines of `path=value`."""
    match value:
        case Mapping():
            for key, one in value.items():
                yield from lines(one, f"{path}.{key}")
        case list():
            for one in value:
                yield from lines(one, f"{path}[]")
        case _:
            yield from (f"{path}={line}" for line in str(value).splitlines() or [""])


def state_of(run: CommandLine, estate: str) -> set[str]:
    """Return the state of the lab as lines, each with the kind and the name of its object."""
    state = run.lab(estate).state
    plain = {name: getattr(state, name) for name in ("custom_values", "tagging", "settings")}
    found = set(lines(encode_values(plain), "state"))
    for one in map(encode_object, state.objects.values()):
        if not str(one["$type"]).endswith(_ECHOES):
            found |= set(lines(one, f"{one['$type']} {one['name']} "))
    return found


@cache
def cases() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(CASES.glob("*.yaml")):
        found |= parse_text(path.read_text(encoding="utf-8"), path.name).root.value
    return found


def proven(case: Mapping[str, Any]) -> set[str]:
    return {*case.get("seen", {}), *case.get("told", {})}


def test_every_key_of_the_plan_file_has_a_case() -> None:
    of_cases = {key for case in cases().values() for key in proven(case)}
    assert sorted(keys() - of_cases - ELSEWHERE.keys()) == [], "keys without a case"
    assert sorted((of_cases | ELSEWHERE.keys()) - keys()) == [], "cases of keys that are none"
    for path, word in ELSEWHERE.values():
        assert word in (Path(__file__).parents[1] / path).read_text(encoding="utf-8")


def set_up(run: CommandLine, estate: str, case: Mapping[str, Any]) -> None:
    """Do in the lab what no estate file says: snapshots of templates, DRS host groups."""
    if not {"snapshots", "host_groups"} & case.keys():
        return
    lab = run.lab(estate)
    state = lab.state
    with Session(lab, "lab", LAB_CREDENTIALS.user, LAB_CREDENTIALS.password) as session:
        tasks = []
        for name in case.get("snapshots", ()):
            moid = next(one.moid for one in state.all(VirtualMachine) if one.name == name)
            vm = vim.VirtualMachine(moid, session.stub)
            tasks.append(vm.CreateSnapshot_Task("base", "", False, False))
        for name, hosts in case.get("host_groups", {}).items():
            cluster = next(one for one in state.all(Cluster) if one.name == "gpu")
            moids = [one.moid for one in state.all(Host) if one.name in hosts]
            info = vim.cluster.HostGroup(name=name, host=[vim.HostSystem(moid) for moid in moids])
            spec = vim.cluster.ConfigSpecEx(groupSpec=[vim.cluster.GroupSpec(operation="add", info=info)])
            entity = vim.ClusterComputeResource(cluster.moid, session.stub)
            tasks.append(entity.ReconfigureComputeResource_Task(spec, True))
        writer, open_tasks = VCenterWriter(session), [str(task._moId) for task in tasks]
        while open_tasks:
            over = [one.task for one in writer.wait_for_tasks(open_tasks, 60) if one.state.is_over]
            open_tasks = [one for one in open_tasks if one not in over]


def by_length() -> list[Any]:
    """Return the names of the cases, the long ones marked."""
    long = pytest.mark.long("each key of the plan file on the lab: tests/cli/test_every_key.py")
    return [pytest.param(name, marks=(long,) if name in LONG else ()) for name in cases()]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", by_length())
def test_the_keys_of_a_case_come_to_an_effect(vgpu_cfg: CommandLine, name: str) -> None:
    case = cases()[name]
    for path, text in case.get("files", {}).items():
        vgpu_cfg.write(path, text)
    estate = "estate.yaml"
    vgpu_cfg.write(estate, case["estate"].replace("PUBLIC-KEY", " ".join(OWN.public.split()[:2])))
    head = f"version: 1\nname: keys\nvcenter: {case.get('vcenter', f'lab:{estate}')}\n"
    vgpu_cfg.write("plan.yaml", head + case["plan"])
    vgpu_cfg("inventory", "--server", f"lab:{estate}")
    set_up(vgpu_cfg, estate, case)
    before = state_of(vgpu_cfg, estate)
    told = ""
    later = case.get("later", {})
    for words in (*case.get("run", ["apply plan.yaml --yes"]), None, *later.get("run", ())):
        if words is None:
            vgpu_cfg.write("plan.yaml", head + later.get("plan", ""))
            continue
        ran = vgpu_cfg(*words.split(), **SECRETS)
        told += f"\n$ {words}\nexit {ran.code}\n{ran.told}"
    new = state_of(vgpu_cfg, estate) - before
    evidence = "\n".join(sorted(line for line in new if not any(word in line for word in _ECHOED)))
    if show := os.environ.get("SHOW_KEYS"):
        Path(show).write_text(f"{told}\n{evidence}", encoding="utf-8")
    lacking = {
        key: want
        for key, want in case.get("seen", {}).items()
        if not re.search(str(want), evidence, re.MULTILINE)
    }
    untold = {
        key: want
        for key, want in case.get("told", {}).items()
        if not re.search(str(want), told, re.MULTILINE)
    }
    if lacking | untold:
        pytest.fail(f"{told[-3000:]}\nnot seen: {dict(list({**lacking, **untold}.items())[:20])}")
