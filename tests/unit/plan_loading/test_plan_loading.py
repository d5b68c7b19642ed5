"""A plan spread over files: header, includes, variables, secrets, and the digest of it all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.plan_loading.plan_files import HEADER, Loader, asked, load_fixture
from vgpu_cfg.errors import DocumentError
from vgpu_cfg.model.desired import DesiredNic, DesiredPlan, TemplateSource
from vgpu_cfg.model.plan_file import ProtectEntry
from vgpu_cfg.model.plan_values import SecretReference

__all__ = ["load_fixture"]


def test_header_sections(load: Loader) -> None:
    desired = load(
        """
version: 1
name: horovod-a100
vcenter: {server: vc01.example.com, datacenter: dc1}
secrets: {ngc: env:NGC_KEY, lic: file:/etc/nls.tok, esxi: keyring:esxi, bmc: command:op read x}
protect: {folders: [/dc1/vm/VDI], names: "vdi-*", clusters: [vdi]}
checks: {VG031: warning}
networks: [vm-network, {name: "rail-{1..2}"}]
x-any: &a {b: c}
"""
    ).desired
    assert (desired.vcenter, desired.datacenter) == ("vc01.example.com", "dc1")
    assert {name: str(secret) for name, secret in desired.secrets.items()} == {
        "ngc": "env:NGC_KEY",
        "lic": "file:/etc/nls.tok",
        "esxi": "keyring:esxi",
        "bmc": "command:op read x",
    }
    assert desired.secrets["ngc"] == SecretReference(kind="env", value="NGC_KEY")
    assert desired.protect == ProtectEntry(folders=("/dc1/vm/VDI",), names=("vdi-*",), clusters=("vdi",))
    assert desired.checks == {"VG031": "warning"}
    assert [network.name for network in desired.networks] == ["vm-network", "rail-1", "rail-2"]


def test_includes_come_first_and_the_plan_goes_before_them(load: Loader) -> None:
    loaded = load(
        HEADER
        + """
include: [site/all.yaml, site/net.yaml]
defaults: {cpus: 8}
protect: {names: [b]}
vms: [{name: a, nics: ["${net}"]}]
""",
        {
            "site/all.yaml": "include: net.yaml\nvcenter: other\nprotect: {names: [a], clusters: [vdi]}\n"
            "defaults: {template: site, cpus: 2, memory: 4GiB}\nsecrets: {k: env:A}\n",
            "site/net.yaml": "vars: {net: from-net}\nnetworks: [n]\ndefaults: {template: net, cpus: 1}\n",
        },
    )
    (vm,) = loaded.desired.vms
    assert (vm.source, vm.cpus, vm.memory_mib) == (TemplateSource(path_or_name="site"), 8, 4096)
    assert vm.nics == (DesiredNic(network="from-net"),)
    assert loaded.desired.vcenter == "prod"
    assert loaded.desired.protect == ProtectEntry(names=("a", "b"), clusters=("vdi",))
    assert [Path(document.name).name for document in loaded.documents] == [
        "net.yaml",
        "all.yaml",
        "plan.yaml",
    ]


def test_variables_in_the_order_of_their_strength(load: Loader, tmp_path: Path) -> None:
    (tmp_path / "more.yaml").write_text("b: file\nc: file\nunused: x\n", encoding="utf-8")
    plan = (
        HEADER + "include: [site.yaml]\nvars: {a: plan, b: plan, c: plan, n: 016, yes: TRUE}\n"
        "vms:\n- name: ${s}-${a}-${b}-${c}\n  template: $${x}\n  cpus: ${n}\n  lock: ${yes}\n  folder: ${n}\n"
    )
    (vm,) = load(
        plan,
        {"site.yaml": "vars: {s: site, a: site}\n"},
        variables={"c": "set"},
        variable_files=[tmp_path / "more.yaml"],
    ).desired.vms
    assert vm.name == "site-plan-file-set"
    assert vm.source == TemplateSource(path_or_name="${x}")
    assert (vm.cpus, vm.lock, vm.folder) == (16, True, "016")


def test_what_is_wrong_with_set_and_vars_files(load: Loader, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("a: [1]\na: 2\n", encoding="utf-8")
    (tmp_path / "list.yaml").write_text("a: [1]\n", encoding="utf-8")
    with pytest.raises(DocumentError) as caught:
        load(
            HEADER + "vars: {network: a}\n",
            variables={"netwrok": "b", "a b": "c", "network": "fine"},
            variable_files=[tmp_path / "bad.yaml", tmp_path / "list.yaml", tmp_path / "absent.yaml"],
        )
    assert [str(fault).removeprefix(f"{tmp_path}/") for fault in caught.value.faults] == [
        "--set:1:1: 'a b' is not a valid variable name (use name=value)",
        "--set:1:1: the variable 'netwrok' is not defined in any file (did you mean 'network'?)",
        "absent.yaml:1:1: cannot read the file: No such file or directory",
        "bad.yaml:2:1: the key 'a' is repeated (first on line 1) (keep one of them)",
        "list.yaml:1:1: the variable 'a' must be text (variables are plain text and cannot contain "
        "expressions)",
    ]


def test_one_run_tells_the_faults_of_text_content_and_included_files(load: Loader, tmp_path: Path) -> None:
    with pytest.raises(DocumentError) as caught:
        load(
            HEADER + "name: q\ninclude: [site.yaml]\nvms:\n- {name: a, template: t, cpu: 4}\n",
            {"site.yaml": "defaults: {memory: 64}\ndefaults: {}\n"},
        )
    assert [str(fault).removeprefix(f"{tmp_path}/") for fault in caught.value.faults] == [
        "plan.yaml:4:1: the key 'name' is repeated (first on line 2) (keep one of them)",
        "plan.yaml:7:26: unknown key 'cpu' (did you mean 'cpus'?)",
        "site.yaml:1:20: the size 64 has no unit (example: 64GiB)",
        "site.yaml:2:1: the key 'defaults' is repeated (first on line 1) (keep one of them)",
    ]


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("  ram: 32GiB", "memory'?"),
        ("  vcpus: 6", "cpus'?"),
        ("  image: ubuntu", "template'?"),
        ("  ds: vsan", "datastore'?"),
        ("  owner: bob", "attributes'?"),
        ("  count: 4", "name: train-{01..04}'?"),
        ("cluster: gpu", "cluster' in 'defaults', 'hosts' or 'vms'?"),
        ("ram: 32GiB", "memory' in 'defaults' or 'vms'?"),
        ("kind: Plan", ""),
    ],
)
def test_a_word_of_another_tool_is_answered_with_the_key(line: str, hint: str, load: Loader) -> None:
    with pytest.raises(DocumentError) as caught:
        load(f"{HEADER}vms:\n- name: a\n  template: t\n{line}\n")
    (found,) = caught.value.faults
    assert found.hint == (f"did you mean '{hint}" if hint else "")


def test_comments_order_and_variables_change_nothing_of_what_is_asked(load: Loader) -> None:
    one = asked(load(HEADER + "vms: [{name: a, template: t, cpus: 4}]\n"))
    other_text = "# a comment\n\nvms:\n- {cpus: '${n}', name: a}\ndefaults: {template: t}\nvars: {n: 4}\n"
    assert asked(load(other_text + HEADER)) == one
    assert asked(load(HEADER + "vms: [{name: a, template: t, cpus: 8}]\n")) != one


def test_a_desired_plan_survives_plan_json(load: Loader) -> None:
    desired = load(
        HEADER
        + "secrets: {a: env:A}\nnetworks: [n]\nvms:\n"
        + "- {name: 'a-{1..2}', template: t, gpus: [grid_a100-10c, {pin: '3b:00.0'}], numa: [0]}\n"
        + "- {name: b, template: {scratch: x}, cpus: 1, memory: 1GiB, disks: [{size: 1GiB}]}\n"
        + "- {name: c, template: t, expires: 2027-01-01, ignore: [cpus, memory]}\n"
    ).desired
    assert DesiredPlan.model_validate_json(desired.model_dump_json()) == desired
    assert (
        desired.model_dump_json()
        == DesiredPlan.model_validate_json(desired.model_dump_json()).model_dump_json()
    )
