"""`guest`, `training` and addresses of plan files that are right: what they come to, VM by VM."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.plan_loading.plan_files import HEADER, Loader, VmLoader, asked, load_fixture, load_vm_fixture
from vgpu_cfg.errors import DocumentError
from vgpu_cfg.model.desired import DesiredGuest, DesiredLicence, DesiredNetwork, DesiredTraining, DesiredVm
from vgpu_cfg.model.plan_file import (
    LoginEntry,
    MonitoringEntry,
    OfedEntry,
    PackageEntry,
    RegistryEntry,
    SharedFolderEntry,
    TrafficEntry,
    TrainingRoceEntry,
    UserEntry,
    check_host_name,
    host_name_of,
    registry_of,
)
from vgpu_cfg.model.plan_file.guest_values import check_image, check_mount, check_package, parse_duration

__all__ = ["load_fixture", "load_vm_fixture"]

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGXqY02bdYqg1BcIf2x08zs60rS6XhlBSQ4qE47o5gb1"
BOB = UserEntry.model_validate(
    {"name": "bob", "keys": (f"{KEY} bob@home",), "sudo": False, "shell": "/bin/sh"}
)
SUM = "0123456789abcdef" * 4


def guest_of(vm: DesiredVm) -> DesiredGuest:
    assert vm.guest is not None
    return vm.guest


def training_of(load: Loader, text: str, files: dict[str, str] | None = None) -> DesiredTraining:
    training = load(HEADER + text, files).desired.training
    assert training is not None
    return training


# ---------------------------------------------------------------- networks and NICs


def test_networks_have_addresses_and_may_be_cabling_alone(load: Loader) -> None:
    text = (
        "networks:\n"
        "- {name: 'rail-{1..2}', physical: true, vlan: 5, mtu: 9000, subnet: '10.20{i}.0.0/24',"
        " pool: '10.20{i}.0.11-10.20{i}.0.99'}\n"
        "- {name: lab, subnet: 10.1.0.0/24, gateway: 10.1.0.1, dns: 10.0.0.53}\n"
    )
    rail, second, lab = load(HEADER + text).desired.networks
    assert rail.model_copy(update={"origin": ""}) == DesiredNetwork(
        name="rail-1",
        vlan=5,
        mtu=9000,
        is_physical=True,
        subnet="10.201.0.0/24",
        pool=("10.201.0.11", "10.201.0.99"),
    )
    assert second.pool == ("10.202.0.11", "10.202.0.99")
    assert (lab.gateway, lab.dns, lab.is_physical) == ("10.1.0.1", ("10.0.0.53",), False)


def test_every_nic_of_a_count_has_an_address_of_its_own(load_vm: VmLoader) -> None:
    vm = load_vm('nics: [{network: "n-{k}", ip: "10.1.{k}.5/24", count: 2}, {network: n, ip: dhcp}, n]')
    assert [(nic.network, nic.ip) for nic in vm.nics] == [
        ("n-1", "10.1.1.5/24"),
        ("n-2", "10.1.2.5/24"),
        ("n", "dhcp"),
        ("n", None),
    ]


def test_a_paravirtual_rdma_nic_is_none_of_a_function(load_vm: VmLoader) -> None:
    (nic,) = load_vm("nics: [{network: n, type: pvrdma, rdma: host}]").nics
    assert (nic.is_pvrdma, nic.function, nic.rdma) == (True, None, "host")
    (plain,) = load_vm("nics: [n]").nics
    assert (plain.is_pvrdma, plain.rdma) == (False, None)


def test_a_passed_through_nic_may_say_by_which_address_the_guest_knows_it(load_vm: VmLoader) -> None:
    (nic,) = load_vm('nics: [{type: passthrough, mac: "B8:59:9F:00:00:01", ip: 10.1.0.5/24}]').nics
    assert (nic.mac, nic.ip) == ("b8:59:9f:00:00:01", "10.1.0.5/24")


# ---------------------------------------------------------------- guests


def test_a_vm_of_which_nothing_is_asked_has_no_guest(load_vm: VmLoader) -> None:
    assert load_vm("nics: [n]").guest is None


@pytest.mark.parametrize("keys", ["guest: {}", "nics: [{network: n, ip: dhcp}]"])
def test_a_guest_of_which_little_is_said_is_called_as_its_vm(keys: str, load_vm: VmLoader) -> None:
    assert load_vm(keys).guest == DesiredGuest(host_name="a")


def test_rdma_brings_the_distributions_stack_unless_the_guest_is_left_alone(load_vm: VmLoader) -> None:
    nics = "nics: [{network: n, type: sriov, rdma: host}]\n"
    assert guest_of(load_vm(nics)).ofed == OfedEntry(stack="inbox")
    assert guest_of(load_vm(f"{nics}guest: {{ofed: leave}}")).ofed is None
    assert guest_of(load_vm(f"{nics}guest: {{ofed: doca}}")).ofed == OfedEntry(stack="doca")


def test_every_key_of_a_guest(load: Loader) -> None:
    text = f"""secrets: {{lic: env:LIC, pw: env:PW, id: file:/etc/id}}
vms:
- name: hvd-{{01..02}}
  template: t
  guest:
    by: ssh
    hostname: node-{{n}}
    domain: lab.example
    login: {{user: ubuntu, password: {{secret: pw}}, key: {{secret: id}}, port: 2200}}
    users: [anna, {{name: bob, keys: "{KEY} bob@home", sudo: false, shell: /bin/sh}}]
    licence: {{token: {{secret: lic}}, type: 1}}
    driver: {{package: "https://repo.example/d.deb", sha256: {SUM.upper()}}}
    ofed: {{stack: mlnx, package: /opt/ofed.tgz}}
    containers: apptainer
    toolkit_repository: https://mirror.example/nvidia/
    shared_memory: 64GiB
    wait: 1h
"""
    first, second = load(HEADER + text).desired.vms
    assert first.guest == DesiredGuest(
        by="ssh",
        host_name="node-01",
        domain="lab.example",
        login=LoginEntry(user="ubuntu", password="pw", key="id", port=2200),
        users=(
            UserEntry(name="anna"),
            BOB,
        ),
        licence=DesiredLicence(token="lic", feature_type=1),
        driver=PackageEntry(package="https://repo.example/d.deb", sha256=SUM),
        ofed=OfedEntry(stack="mlnx", package="/opt/ofed.tgz"),
        runtime="apptainer",
        toolkit_repository="https://mirror.example/nvidia",
        shared_memory="65536m",
        wait_seconds=3600,
    )
    assert guest_of(second).host_name == "node-02"
    assert first.is_managed("guest")


def test_guests_merge_as_mappings_do(load: Loader) -> None:
    text = """secrets: {lic: env:LIC, pw: env:PW}
defaults: {template: t, guest: {licence: {secret: lic}, domain: lab.example, login: {user: ubuntu}}}
vms:
- name: a-{1..2}
  guest: {login: {password: {secret: pw}}}
  except: {a-2: {guest: {domain: other.example, driver: template}}}
"""
    first, second = (guest_of(vm) for vm in load(HEADER + text).desired.vms)
    assert (first.domain, first.driver, first.login.password) == ("lab.example", None, "pw")
    assert (second.domain, second.driver) == ("other.example", PackageEntry())
    assert first.licence == second.licence == DesiredLicence(token="lic")
    assert second.login == LoginEntry(user="ubuntu", password="pw")


def test_what_the_layers_contradict_in_is_told_where_it_stands(load: Loader) -> None:
    text = "defaults: {template: t, guest: {login: {user: ubuntu}}}\nvms: [{name: a, guest: {by: ssh}}]\n"
    with pytest.raises(DocumentError) as caught:
        load(HEADER + text)
    (fault,) = caught.value.faults
    assert (fault.line, fault.message) == (4, "the login of 'ubuntu' has neither `password` nor `key`")


USER_DATA = "#cloud-config\npackages: [nfs-common]\n"


STAGED = "by: ssh, login: {user: root, key: {secret: k}}"


@pytest.mark.parametrize(
    ("guest", "staged"), [("spec: farm, hostname: h, domain: d.lab", False), (f"spec: farm, {STAGED}", True)]
)
def test_a_specification_alone_stages_nothing(guest: str, staged: bool, load: Loader) -> None:
    text = "secrets: {k: 'env:K'}\nvms: [{name: a, template: t, guest: {" + guest + "}}]\n"
    (vm,) = load(HEADER + text).desired.vms
    assert (guest_of(vm).spec, guest_of(vm).is_staged) == ("farm", staged)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("guest: {spec: farm, by: cloud-init}", "`spec` is for guests without cloud-init"),
        ("guest: {spec: farm, time: ntp.lab}", "sets only the host name and addresses, not `time`"),
        ("guest: {spec: farm, users: anna}", "sets only the host name and addresses, not `users`"),
        (
            "guest: {spec: farm}, nics: [{type: passthrough, ip: dhcp}]",
            "a customization specification cannot configure a passthrough NIC",
        ),
        (
            "guest: {spec: farm}, nics: [{network: n, type: pvrdma, rdma: host}]",
            "RDMA requires adapter settings that a customization specification cannot provide",
        ),
    ],
)
def test_what_a_specification_cannot_give_is_refused(keys: str, message: str, load: Loader) -> None:
    with pytest.raises(DocumentError, match=message):
        load(HEADER + "vms: [{name: a, template: t, " + keys + "}]\n")


def test_a_specification_is_of_clones_and_trains_nobody(load: Loader) -> None:
    scratch = (
        "{name: a, template: {scratch: ubuntu64Guest}, cpus: 2, memory: 4GiB, disks: [{size: 9GiB}], guest: "
    )
    with pytest.raises(DocumentError, match="only clones of a template can be customized"):
        load(HEADER + "vms: [" + scratch + "{spec: farm}}]\n")
    worker = "vms: [{name: a, template: t, gpus: grid_a100-40c, guest: {spec: farm}}]\n"
    with pytest.raises(DocumentError, match=r"'a' has only `guest\.spec`"):
        load(HEADER + worker + "training: {workers: a}\n")


def test_user_data_is_read_from_beside_the_file_that_names_it(load: Loader) -> None:
    files = {
        "site/site.yaml": "defaults: {template: t, guest: {user_data: 'of-{n}.yaml'}}\n",
        "site/of-1.yaml": USER_DATA,
        "site/of-2.yaml": "\ufeff#cloud-config\r\nruncmd: [ls]\r\n",
        "own.yaml": "#cloud-config\n{}\n",
    }
    text = (
        "include: site/site.yaml\nvms: [{name: 'a-{1..3}', except: {a-3: {guest: {user_data: own.yaml}}}}]\n"
    )
    found = [guest_of(vm).user_data for vm in load(HEADER + text, files).desired.vms]
    assert found == [USER_DATA, "#cloud-config\nruncmd: [ls]\n", "#cloud-config\n{}\n"]


def test_a_plan_with_other_user_data_is_another_plan(load: Loader) -> None:
    text = HEADER + "vms: [{name: a, template: t, guest: {user_data: u.yaml}}]\n"
    first = asked(load(text, {"u.yaml": USER_DATA}))
    assert asked(load(text, {"u.yaml": USER_DATA})) == first
    assert asked(load(text, {"u.yaml": USER_DATA + "runcmd: [ls]\n"})) != first


def test_user_data_that_cannot_fit_is_refused(load: Loader) -> None:
    text = HEADER + "vms: [{name: a, template: t, guest: {user_data: u.yaml}}]\n"
    with pytest.raises(DocumentError) as caught:
        load(text, {"u.yaml": USER_DATA + "#" * 300_000})
    (fault,) = caught.value.faults
    assert fault.message.endswith("it exceeds 262,144 bytes")


# ---------------------------------------------------------------- training


def test_of_a_training_little_must_be_said(load: Loader) -> None:
    text = "vms: [{name: 'hvd-{1..2}', template: t, gpus: grid_a100-40c}]\ntraining: {workers: hvd-*}\n"
    plan = load(HEADER + text).desired
    assert plan.training is not None
    assert plan.training.model_copy(update={"origin": ""}) == DesiredTraining(workers=("hvd-1", "hvd-2"))
    assert plan.vms[0].guest == DesiredGuest(host_name="hvd-1", driver=PackageEntry())


def test_every_key_of_a_training(load: Loader) -> None:
    text = """secrets: {ngc: env:NGC, seed: env:SEED, pw: env:PW}
vms:
- {name: z, template: t, gpus: grid_a100-40c, nics: [{network: r, type: sriov, rdma: host, ip: dhcp}]}
- {name: head, template: t, guest: {containers: docker}}
- {name: a, template: t, gpus: grid_a100-40c, nics: [{network: r, type: sriov, rdma: host, ip: dhcp}]}
- {name: other, template: t}
training:
  framework: none
  image: registry.example:5000/team/train:1.2
  archive: /opt/train.tar
  workers: [a, "?"]
  head: HEAD
  slots: 1
  rdma_network: r
  registry: {user: robot, password: {secret: ngc}}
  port: 2022
  keys: {secret: seed}
  mounts: ["/srv/data:/data"]
  environment: {OMP_NUM_THREADS: 8, NCCL_DEBUG: INFO}
  shared_folder: /srv/shared
  monitoring:
    exporter: nvidia-smi
    images: {grafana: "grafana/grafana:12.0"}
    grafana_password: {secret: pw}
  traffic: {link: 25Gbps, control: 500Mbps}
  roce: {dscp: 24, priority: 4}
"""
    plan = load(HEADER + text).desired
    assert plan.training is not None
    assert plan.training.origin.endswith("plan.yaml:11:3")
    assert plan.training.model_copy(update={"origin": ""}) == DesiredTraining(
        framework="none",
        image="registry.example:5000/team/train:1.2",
        archive="/opt/train.tar",
        workers=("z", "a"),
        head="head",
        slots=1,
        rdma_network="r",
        registry=RegistryEntry(server="registry.example:5000", user="robot", password="ngc"),
        port=2022,
        keys="seed",
        mounts=("/srv/data:/data",),
        environment={"OMP_NUM_THREADS": "8", "NCCL_DEBUG": "INFO"},
        shared_folder=SharedFolderEntry(path="/srv/shared"),
        monitoring=MonitoringEntry(
            exporter="nvidia-smi", images={"grafana": "grafana/grafana:12.0"}, grafana_password="pw"
        ),
        traffic=TrafficEntry(link=25_000, control=500),
        roce=TrainingRoceEntry(dscp=24, priority=4),
    )
    guests = {vm.name: vm.guest for vm in plan.vms}
    assert guests["other"] is None
    head, worker = guests["head"], guests["z"]
    assert head is not None
    assert worker is not None
    assert (head.driver, head.runtime) == (None, "docker")
    assert (worker.driver, worker.runtime, worker.ofed) == (PackageEntry(), "docker", OfedEntry())


@pytest.mark.parametrize(
    ("written", "shared", "monitored"),
    [
        ("shared_folder: true, monitoring: true", SharedFolderEntry(), MonitoringEntry()),
        ("shared_folder: false, monitoring: false", None, None),
        ("shared_folder: '${on}', monitoring: '${on}'", SharedFolderEntry(), MonitoringEntry()),
    ],
)
def test_what_helps_is_switched_on_by_a_word(
    written: str,
    shared: SharedFolderEntry | None,
    monitored: MonitoringEntry | None,
    load: Loader,
) -> None:
    unused = "" if "${on}" in written else "x-"
    text = f"{unused}vars: {{on: true}}\nvms: [{{name: a, template: t}}]\n"
    training = training_of(load, f"{text}training: {{workers: a, slots: 1, {written}}}\n")
    assert (training.shared_folder, training.monitoring) == (shared, monitored)


def test_where_the_file_says_leave_training_brings_nothing(load: Loader) -> None:
    keys = "gpus: grid_a100-40c, guest: {driver: leave, containers: leave}"
    text = f"vms: [{{name: a, template: t, {keys}}}]\ntraining: {{workers: a}}\n"
    (vm,) = load(HEADER + text).desired.vms
    assert (guest_of(vm).driver, guest_of(vm).runtime) == (None, None)


def test_where_a_training_stands_does_not_change_the_plan(load: Loader) -> None:
    vms = "vms: [{name: a, template: t, gpus: grid_a100-40c}]\n"
    training = "training: {workers: a}\n"
    assert asked(load(HEADER + vms + training)) == asked(load(HEADER + training + "\n\n" + vms))


# ---------------------------------------------------------------- single values


@pytest.mark.parametrize(
    ("vm", "host"),
    [
        ("hvd-01", "hvd-01"),
        ("Train VM (1)", "train-vm-1"),
        ("a.b_c", "a-b-c"),
        ("01", "vm-01"),
        ("-x-", "x"),
        ("_._", ""),
        ("x" * 80, "x" * 63),
        ("x; $(reboot) `id`\n", "x-reboot-id"),
    ],
)
def test_a_vms_name_becomes_a_host_name(vm: str, host: str) -> None:
    assert host_name_of(vm) == host


@given(st.text(max_size=80))
def test_whatever_a_vm_is_called_its_host_name_is_one(name: str) -> None:
    made = host_name_of(name)
    assert not made or check_host_name(made) == made


@pytest.mark.parametrize(
    ("image", "registry"),
    [
        ("ubuntu", "docker.io"),
        ("horovod/horovod:0.28.1", "docker.io"),
        ("index.docker.io/library/x", "docker.io"),
        ("nvcr.io/nvidia/tensorflow:21.07-tf1-py3", "nvcr.io"),
        ("localhost/x", "localhost"),
        ("r:5000/x@sha256:" + SUM, "r:5000"),
    ],
)
def test_an_image_is_of_a_registry(image: str, registry: str) -> None:
    assert registry_of(check_image(image)) == registry


@pytest.mark.parametrize(
    "image",
    [
        "",
        "x y",
        "x;id",
        "$(id)",
        "`id`",
        "x\ny",
        "NVCR.io/x",
        "-x",
        "X/y",
        "x:",
        "x@sha256:1",
        "a/" * 300 + "b",
        "x%y",
    ],
)
def test_what_cannot_be_an_image_is_refused(image: str) -> None:
    with pytest.raises(ValueError, match="is not a valid image name"):
        check_image(image)


@pytest.mark.parametrize("path", ["/opt/it's a $(driver).run", "/opt/%n `x`.deb"])
def test_paths_in_guests_may_have_odd_characters_but_no_line_breaks(path: str) -> None:
    assert check_package(path) == path
    assert check_mount(f"{path}:/data") == f"{path}:/data"
    for wrong in (f"{path}\n", f"{path}\r", f"{path}\x1b[2J"):
        with pytest.raises(ValueError, match="package"):
            check_package(wrong)
        with pytest.raises(ValueError, match="mount"):
            check_mount(f"{wrong}:/data")


@pytest.mark.parametrize(("text", "seconds"), [("1m", 60), ("90 s", 90), ("24h", 86_400)])
def test_a_duration_has_a_unit(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds
