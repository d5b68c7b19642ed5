"""Pieces of plan files in guides and pages of checks: with the rest of a plan around them, each loads.

The rest is `PLAN`. A piece that needs more is preceded by a comment that readers don't see,
`<!-- with: {…} -->`; YAML for another program by `<!-- not a plan -->`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from functools import reduce
from pathlib import Path
from shutil import copy
from textwrap import dedent
from typing import Any

import pytest

from tests.architecture.sources import ROOT, named
from vgpu_cfg.documents import parse_text
from vgpu_cfg.errors import DocumentError
from vgpu_cfg.lab.soap.server import make_certificate
from vgpu_cfg.plan_loading import load_plan

FOLDERS = ("docs/how-to", "docs/tutorial", "docs/reference/checks")
PAGES = [
    page for folder in FOLDERS for page in sorted((ROOT / folder).glob("*.md")) if page.stem != "use-ansible"
]
BLOCK = re.compile(
    r"(?:^ *<!-- (?:with: (?P<around>.*?)|(?P<other>not a plan)) -->\n)?^ *```yaml\n(?P<text>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)
WHOLE = re.compile(r"^(version|owners|about|contexts|faults|journal_folder|drift|lacking):", re.MULTILINE)
"""Whole files, which tests/unit/test_docs.py reads, and pieces of other files."""
OTHERS = ("allow_failure", "args", "datasource_list", "kind", "on", "password", "pool", "vgpu_cfg_exists")
"""First keys of code spans that belong to other programs, or to other files."""
FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<!`)`(\{?[a-z_]+: [^`]+)`(?!`)")
PLACEHOLDER = re.compile(r"…|\.\.\.|\b[A-Z]+\b(?!-)")
SECRET = re.compile(r'"secret": "([\w-]+)"')
PLAN = """
version: 1
name: demo
vcenter: lab:two-hosts-roce
networks:
- {name: vm-network, subnet: 10.20.0.0/24, pool: 10.20.0.11-10.20.0.60}
- {name: roce-111, physical: true, vlan: 111, subnet: 10.111.0.0/24, pool: 10.111.0.11-10.111.0.60}
defaults: {template: ubuntu-22.04-efi}
"""
VMS = """
vms:
- name: train-{01..02}
  gpus: grid_a100-40c
  nics:
  - {network: vm-network, ip: dhcp}
  - {network: roce-111, type: passthrough, ip: dhcp, rdma: gpudirect}
- {name: head, nics: [{network: vm-network, ip: dhcp}]}
"""
TRAINING = "{workers: train-*, rdma_network: roce-111, image: registry.example.com/team/image}"
LEVELS: dict[str, tuple[tuple[str | int, ...], dict[str, object]]] = {
    "the plan": ((), {}),
    "a VM": (("vms", 0), {}),
    "an entry of hosts": (("hosts", 0), {"cluster": "gpu"}),
    "training": (("training",), {}),
    "guest": (("vms", 0, "guest"), {}),
    "place": (("vms", 0, "place"), {}),
    "gpus": (("vms", 0, "gpus"), {"profile": "grid_a100-40c", "count": 2}),
    "a GPU that is in passthrough mode": (("vms", 0, "gpus"), {}),
    "nics": (("vms", 0, "nics"), {"network": "vm-network"}),
    "a NIC that is in passthrough mode": (
        ("vms", 0, "nics"),
        {"network": "roce-111", "type": "passthrough", "ip": "pool"},
    ),
    "networks": (("networks", 0), {"name": "vm-network", "switch": "dvs"}),
    "disks": (("vms", 0, "disks", 0), {}),
    "disruption": (("hosts", 0, "disruption"), {"allow": ["maintenance", "reboot"]}),
    "access": (("hosts", 0, "access"), {}),
    "a driver of hosts": (
        ("hosts", 0, "driver"),
        {"kind": "nvd-aie", "version": "580.*", "depot": "/vmfs/x.zip"},
    ),
    "a rule for GPUs": (("hosts", 0, "gpus"), {"match": {"model": "A100"}, "use": "vgpu"}),
    "a rule for NICs": (("hosts", 0, "nics"), {"match": {"vmnic": "vmnic4"}}),
    "a rule for virtual functions": (
        ("hosts", 0, "nics"),
        {"match": {"vmnic": "vmnic4"}, "use": "sriov", "vfs": 4},
    ),
}
"""Where a piece may belong, and what it is a part of there: the first that accepts it counts."""


def loaded(text: str) -> Any:
    return deepcopy(parse_text(text, "piece.yaml").data)


def pieces(page: Path) -> Iterator[Any]:
    """Yield the blocks of a page, and its code spans, that are neither whole files nor for other programs."""
    text = page.read_text(encoding="utf-8")
    for match in BLOCK.finditer(text):
        if not match["other"] and not WHOLE.search(match["text"]):
            line = text.count("\n", 0, match.start("text"))
            yield pytest.param(dedent(match["text"]), match["around"] or "{}", id=f"{named(page)}:{line}")
    for span in sorted({" ".join(one.split()) for one in INLINE.findall(FENCED.sub("", text))}):
        if not span.startswith(tuple(f"{key}:" for key in OTHERS)) and not PLACEHOLDER.search(span):
            yield pytest.param(span, "{}", id=f"{named(page)}:{span}")


def plan_with(piece: Any, at: tuple[str | int, ...], around: Any) -> str:
    """Put a piece into a plan, whose own keys it replaces."""
    where = reduce(lambda inner, key: [inner] if key == 0 else {key: inner}, reversed(at), piece)
    own = merged(merged({}, around), where)
    plan = merged(loaded(PLAN), {"vms": loaded(VMS)["vms"]} | own)
    if at[:1] == ("vms",):
        first, *others = loaded(VMS)["vms"]
        plan["vms"] = [first | own["vms"][0], *others]
    if "training" in own:
        plan["training"] = merged(loaded(TRAINING), own["training"])
    plan["hosts"] = [
        entry if "names" in entry else {"cluster": "gpu"} | entry for entry in own.get("hosts", ())
    ]
    # JSON is YAML, and takes a tenth of the time to write.
    secrets = dict.fromkeys(SECRET.findall(json.dumps(plan)), "env:SECRET")
    if secrets:
        plan["secrets"] = secrets | plan.get("secrets", {})
    return json.dumps(plan)


def merged(first: Any, second: Any) -> Any:
    if isinstance(first, dict) and isinstance(second, dict):
        return first | {key: merged(first.get(key), value) for key, value in second.items()}
    return second


def refusals(piece: str, around: str, plan: Path) -> list[str]:
    """Return why a piece belongs nowhere; nothing if one of the levels accepts it."""
    found = []
    for name, (at, base) in LEVELS.items():
        plan.write_text(plan_with(merged(base, loaded(piece)), at, loaded(around)), encoding="utf-8")
        try:
            load_plan(plan)
        except DocumentError as error:
            found.append(f"{name}: {error}")
        else:
            return []
    return found


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """Return where a plan may be written, with the files beside it that the guides name."""
    (tmp_path / "site-ca.pem").write_bytes(make_certificate().certificate_pem)
    (tmp_path / "site.yaml").write_text("site: {}\n", encoding="utf-8")
    copy(ROOT / "examples/service/notebook.cloud-config.yaml", tmp_path)
    return tmp_path / "plan.yaml"


@pytest.mark.parametrize(("piece", "around"), [one for page in PAGES for one in pieces(page)])
def test_a_piece_of_a_plan_loads(piece: str, around: str, plan: Path) -> None:
    assert refusals(piece, around, plan) == []


@pytest.mark.parametrize(
    "piece", ["guest: {driver: {}}", "{network: roce-111, type: nonsense}", "near: here"]
)
def test_a_piece_that_belongs_nowhere_is_refused(piece: str, plan: Path) -> None:
    assert len(refusals(piece, "{}", plan)) == len(LEVELS)
