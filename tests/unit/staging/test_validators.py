"""The programs that read what is generated read it: cloud-init, netplan, sshd, systemd, visudo, dash.

Each is also given a planted fault, which it must catch: a validator that takes everything proves nothing.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.unit.staging.sandbox import SEED, context, need_root, spec_of, tool
from vgpu_cfg.documents.foreign import read_foreign, write_foreign
from vgpu_cfg.model.guests.base import GuestNic
from vgpu_cfg.model.guests.modules import (
    AptMirror,
    CudaModule,
    DriverModule,
    GuestModule,
    HostEntry,
    HostNameModule,
    HostsModule,
    LicenceModule,
    LimitsModule,
    NcclModule,
    NetworkModule,
    NicFirmwareModule,
    NouveauModule,
    OfedModule,
    PeermemModule,
    RoceModule,
    SiteModule,
    SiteProxy,
    UsersModule,
    Wire,
)
from vgpu_cfg.model.plan_file import UserEntry
from vgpu_cfg.shells.keys import PlanKeyRing
from vgpu_cfg.staging.bundle import RUNNER, SERVICE, bundle_files, stage_module
from vgpu_cfg.staging.cloud_init import user_data
from vgpu_cfg.staging.netplan import network_config
from vgpu_cfg.staging.rendering import compose, render

SCHEMA = Path("/usr/lib/python3/dist-packages/cloudinit/config/schemas/schema-cloud-config-v1.json")
NICS = (
    GuestNic(mac="00:50:56:00:00:01", dhcp=True),
    GuestNic(
        driver="mlx5_core", name="roce0", addresses=("10.111.0.11/24",), gateway="10.111.0.1",
        dns=("10.0.0.53",), mtu=9000, optional=True,
    ),
)  # fmt: skip
FIXED = (GuestNic(mac="b8:3f:d2:00:00:01", name="roce0", addresses=("10.111.0.11/24",), mtu=9000),)
CERTIFICATE = f"-----BEGIN CERTIFICATE-----\n{'A' * 64}\n{'B' * 4}\n-----END CERTIFICATE-----\n"
PATH_OF_ALL_SIGNS = "/srv/a b'\"$(x)`y`%z.run"
WIRES = (Wire(node=0, switches=(1,)), Wire(node=1))
MODULES: tuple[GuestModule, ...] = (
    HostNameModule(host_name="hvd-01", domain="example.com"),
    UsersModule(users=(UserEntry(name="ada"), UserEntry(name="root"))),
    HostsModule(entries=(HostEntry(address="10.111.0.11", names=("hvd-01",)),)),
    NetworkModule(nics=NICS),
    SiteModule(
        proxy=SiteProxy(http="http://p.example.com:3128", no_proxy=("10.0.0.0/8",), user="u", password="lic"),
        apt=AptMirror(url="http://m.example.com/debian", security="http://m.example.com/debian-security"),
        dnf=("https://m.example.com/$releasever/$basearch",),
        runtime="docker",
        closed=True,
        registry_mirrors={"docker.io": "https://m.example.com:5000"},
        certificates=(CERTIFICATE,),
        hosts=(".example.com", "10.0.0.5"),
    ),
    NouveauModule(),
    DriverModule(package=PATH_OF_ALL_SIGNS, branches=("580", "570"), sha256="a" * 64),
    LicenceModule(token="lic"),
    OfedModule(),
    NicFirmwareModule(nics=NICS[1:], parameters={"ATS_ENABLED": "true"}),
    RoceModule(nics=NICS[1:]),
    CudaModule(version="12.8"),
    NcclModule(nics=NICS[1:], address="10.111.0.11", gpu_wires=WIRES, nic_wires=WIRES),
    LimitsModule(shared_memory="64GiB"),
)
OTHERS: tuple[GuestModule, ...] = (
    NetworkModule(),
    DriverModule(),
    OfedModule(stack="mlnx", package="/srv/a b.tgz"),
    PeermemModule(),
    PeermemModule(stack="mlnx", package="https://example.com/NVIDIA-Linux.run"),
    OfedModule(stack="doca", package="https://example.com/doca-host.rpm"),
    RoceModule(nics=NICS[1:], owns_port=False),
    CudaModule(version="13.0", package=PATH_OF_ALL_SIGNS),
    CudaModule(version="12.8", package="/srv/cuda repo.deb", sha256="a" * 64),
    NcclModule(traffic_class=106, is_direct=True),
    LimitsModule(),
    UsersModule(users=(), machine_user=""),
    HostsModule(),
    SiteModule(),
    SiteModule(
        closed=True, apt=AptMirror(url="http://m.example.com/u", suites=("noble",)), runtime="containerd"
    ),
    SiteModule(proxy=SiteProxy(http="http://p.example.com:3128"), runtime="docker"),
)
"""The other branches of the templates."""


def ran(*arguments: object) -> subprocess.CompletedProcess[str]:
    words = [str(one) for one in arguments]
    return subprocess.run(
        [tool(words[0]), *words[1:]],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )


PROGRAMS = ("files/vgpu-cfg-roce", "files/nccl-env", "files/cuda.sh")


def scripts() -> Iterable[tuple[str, str]]:
    for number, module in enumerate((*MODULES, *OTHERS)):
        spec = spec_of(module)
        yield f"{number}-{module.kind}", compose(module.kind, stage_module(module, context(spec, lic="x")))
    for one in bundle_files(context(spec_of(*MODULES), lic="x"), ["roce", "nccl", "cuda"]):
        if one.path == RUNNER or one.path.endswith(PROGRAMS):
            yield Path(one.path).name, one.content


# ---------------------------------------------------------------- sh


@pytest.mark.parametrize(("name", "text"), tuple(scripts()))
def test_dash_and_shellcheck_read_every_script(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / f"{name}.sh"
    path.write_text(text)
    done = ran("dash", "-n", path)
    assert done.returncode == 0, done.stderr
    # All have the same head, which sets variables: shellcheck reads it in one of them.
    _, _, body = ("", "", "") if name.startswith("0-") else text.partition("# ---- the module itself ----")
    path.write_text(body or text)
    done = ran("shellcheck", "--shell=sh", *(["--exclude=SC2034,SC2154"] if body else []), path)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("validator", "fault"), [("dash", "if true; then\n"), ("shellcheck", "rm -rf $HOME/$1\n")]
)
def test_a_fault_in_a_script_is_caught(tmp_path: Path, validator: str, fault: str) -> None:
    path = tmp_path / "x.sh"
    path.write_text(f"#!/bin/sh\n{fault}")
    assert ran(validator, *(["-n"] if validator == "dash" else ["--shell=sh"]), path).returncode != 0


# ---------------------------------------------------------------- cloud-init


def top_level_keys() -> set[str]:
    """Return what the schema lets stand at the top of a #cloud-config; `cloud-init schema` lets anything."""
    tool("cloud-init")
    schema = json.loads(SCHEMA.read_text())
    keys = set(schema.get("properties", {}))
    for part in schema["allOf"]:
        keys |= set(schema["$defs"][part["$ref"].rpartition("/")[2]].get("properties", {}))
    return keys


def complaints(path: Path) -> str:
    """Return what cloud-init, and its list of keys, have against a file; "" for nothing."""
    done = ran("cloud-init", "schema", "--config-file", path)
    said = "" if done.returncode == 0 and "Valid" in done.stdout else done.stdout + done.stderr
    unknown = set(read_foreign(path.read_text(), str(path))) - top_level_keys() if not said else set()
    return said + "".join(f"unknown key {key}" for key in sorted(unknown))


def our_user_data() -> str:
    spec = spec_of(*MODULES)
    made = context(spec, lic="x")
    return user_data(made, bundle_files(made, [one.kind for one in MODULES]))


def test_cloud_init_takes_the_user_data(tmp_path: Path) -> None:
    path = tmp_path / "user-data"
    path.write_text(our_user_data())
    assert complaints(path) == ""


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("#cloud-config\n", ""),
        ('"ssh_deletekeys": true', '"ssh_deletekeys": "perhaps"'),
        ('"runcmd":', '"runcmdd":'),
        ('"permissions": "0600"', '"permissionz": "0600"'),
        ('"lock_passwd": true', '"lock_passwd": [1]'),
        ('"write_files":', '"write_files": ['),
    ],
)
def test_a_fault_in_the_user_data_is_caught(tmp_path: Path, before: str, after: str) -> None:
    text = our_user_data()
    assert before in text
    path = tmp_path / "user-data"
    path.write_text(text.replace(before, after, 1))
    assert complaints(path) != ""


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        ("sysconfig", "etc/sysconfig/network-scripts/ifcfg-roce0"),
        ("network-manager", "etc/NetworkManager/system-connections/cloud-init-roce0.nmconnection"),
    ],
)
def test_cloud_init_itself_renders_the_first_boots_network(tmp_path: Path, kind: str, written: str) -> None:
    path = tmp_path / "network"
    path.write_text(write_foreign(network_config(FIXED)))
    done = ran("cloud-init", "devel", "net-convert", "--network-data", path, "--kind", "yaml",
               "--output-kind", kind, "-D", "rhel", "-d", tmp_path / "out")  # fmt: skip
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "out" / written).read_text()
    assert "10.111.0.11" in text
    assert "b8:3f:d2:00:00:01" in text.lower()


# ---------------------------------------------------------------- netplan


def netplan(root: Path, text: str) -> subprocess.CompletedProcess[str]:
    (root / "etc/netplan").mkdir(parents=True)
    path = root / "etc/netplan/60-vgpu-cfg.yaml"
    path.write_text(text)
    path.chmod(0o600)
    return ran("netplan", "generate", "--root-dir", root)


def test_netplan_takes_the_network(tmp_path: Path) -> None:
    done = netplan(tmp_path, write_foreign({"network": network_config(NICS)}))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    made = "".join(path.read_text() for path in sorted((tmp_path / "run/systemd/network").iterdir()))
    for line in ("Driver=mlx5_core", "Name=roce0", "Address=10.111.0.11/24", "MTUBytes=9000", "DHCP=ipv4",
                 "Gateway=10.111.0.1", "MACAddress=00:50:56:00:00:01", "ClientIdentifier=mac",
                 "DNS=10.0.0.53"):  # fmt: skip
        assert f"{line}\n" in made
    assert (
        min(path.name for path in (tmp_path / "run/systemd/network").iterdir()) < "10-netplan-ens160.network"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"ethernets":', '"etherents":'),
        ('"10.111.0.11/24"', '"10.111.0.11/99"'),
        ('"mtu": 9000', '"mtu": "large"'),
        ('"macaddress": "00:50:56:00:00:01"', '"macaddress": "00:50:56"'),
    ],
)
def test_a_fault_in_the_network_is_caught(tmp_path: Path, before: str, after: str) -> None:
    text = write_foreign({"network": network_config(NICS)})
    assert before in text
    assert netplan(tmp_path, text.replace(before, after)).returncode != 0


# ---------------------------------------------------------------- systemd


UNITS = {
    "vgpu-cfg-stage.service": next(
        one.content for one in bundle_files(context(spec_of(LimitsModule())), []) if one.path == SERVICE
    ),
    "vgpu-cfg-roce.service": render("vgpu-cfg-roce.service.j2", program="/usr/local/sbin/vgpu-cfg-roce"),
    "vgpu-cfg-nccl.service": render("vgpu-cfg-nccl.service.j2", program="/opt/vgpu-cfg/nccl-env"),
}


def verify(root: Path, name: str, text: str) -> str:
    for path in (RUNNER, "/usr/local/sbin/vgpu-cfg-roce", "/bin/sh"):
        program = root / path.lstrip("/")
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    unit = root / "etc/systemd/system" / name
    unit.parent.mkdir(parents=True)
    unit.write_text(text)
    done = ran("systemd-analyze", "verify", f"--root={root}", "--man=no", "--recursive-errors=no", name)
    return done.stderr + done.stdout + (f"status {done.returncode}" if done.returncode else "")


@pytest.mark.parametrize("name", UNITS)
def test_systemd_takes_the_units(tmp_path: Path, name: str) -> None:
    assert verify(tmp_path, name, UNITS[name]) == ""


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("vgpu-cfg-stage.service", "ExecStart=", "ExecStrat="),
        ("vgpu-cfg-stage.service", "After=", "Afterwards="),
        ("vgpu-cfg-stage.service", "/usr/local/sbin/", "/nowhere/"),
        ("vgpu-cfg-roce.service", "RemainAfterExit=yes", "RemainAfterExit=perhaps"),
        ("vgpu-cfg-roce.service", "/bin/sh ", "/bin/ash "),
        ("vgpu-cfg-nccl.service", "ExecStart=", "ExecStrat="),
    ],
)
def test_a_fault_in_a_unit_is_caught(tmp_path: Path, name: str, before: str, after: str) -> None:
    assert before in UNITS[name]
    assert verify(tmp_path, name, UNITS[name].replace(before, after)) != ""


# ---------------------------------------------------------------- sudo and ssh


def test_visudo_takes_the_rules_and_catches_a_fault(tmp_path: Path) -> None:
    module = UsersModule(users=(UserEntry(name="ada"),))
    files = {Path(one.path).name: one.content for one in stage_module(module, context(spec_of(module))).files}
    path = tmp_path / "sudoers"
    path.write_text(files["sudoers"])
    path.chmod(0o440)
    assert ran("visudo", "-c", "-f", path).returncode == 0
    path.chmod(0o640)
    path.write_text(files["sudoers"].replace("NOPASSWD:ALL", "NOPASWD:ALL:", 1))
    path.chmod(0o440)
    assert ran("visudo", "-c", "-f", path).returncode != 0


def test_openssh_takes_the_keys_and_catches_a_broken_one(tmp_path: Path) -> None:
    need_root()
    pair = PlanKeyRing(SEED).host_key("hvd-01")
    path = tmp_path / "host_key"
    path.write_text(pair.private)
    path.chmod(0o600)
    shown = ran("ssh-keygen", "-y", "-f", path)
    assert shown.stdout.split()[:2] == pair.public.split()[:2]
    config = tmp_path / "sshd_config"
    config.write_text(f"HostKey {path}\nPidFile none\n")
    Path("/run/sshd").mkdir(exist_ok=True)
    assert ran("sshd", "-t", "-f", config).returncode == 0
    path.chmod(0o600)
    path.write_text(pair.private.replace("AAAA", "AAAB", 1))
    assert ran("ssh-keygen", "-y", "-f", path).returncode != 0
    assert ran("sshd", "-t", "-f", config).returncode != 0
