"""From guestinfo to a staged guest: real cloud-init reads the seed, and what it would write is run."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.unit.staging.sandbox import SEED, Sandbox, spec_of, tool
from vgpu_cfg.model.guests.base import GuestNic
from vgpu_cfg.model.guests.guest import GuestReport, GuestSpec
from vgpu_cfg.model.guests.modules import (
    HostEntry,
    HostNameModule,
    HostsModule,
    LicenceModule,
    LimitsModule,
    NetworkModule,
    UsersModule,
)
from vgpu_cfg.staging.netplan import network_config
from vgpu_cfg.staging.stager import Stager

# cloud-init takes guestinfo from the environment too: that is how its own tests feed the datasource.
READ = """
import json, sys
from cloudinit import helpers, util
from cloudinit.distros import debian, ug_util
from cloudinit.sources import DataSourceVMware
paths = helpers.Paths({"cloud_dir": sys.argv[1], "run_dir": sys.argv[1]})
distro = debian.Distro("debian", {"default_user": {"name": "debian"}}, paths)
source = DataSourceVMware.DataSourceVMware({}, distro, paths)
taken = source._get_data()
text = source.userdata_raw or ""
config = util.load_yaml(text) or {}
users, _ = ug_util.normalize_users_groups(config, distro)
print(json.dumps({"taken": taken, "metadata": source.metadata, "text": text,
                  "config": config, "users": users, "network": source.network_config}))
"""
NICS = (GuestNic(mac="00:50:56:00:00:01", dhcp=True, mtu=1500),)
SPEC = spec_of(
    HostNameModule(host_name="hvd-01"),
    UsersModule(machine_user="vgpu-cfg"),
    HostsModule(entries=(HostEntry(address="10.111.0.11", names=("hvd-01",)),)),
    NetworkModule(nics=NICS),
    LimitsModule(),
    LicenceModule(token="lic"),
)


def read_by_cloud_init(folder: Path, seed: Mapping[str, str]) -> dict[str, Any]:
    """Give a seed to cloud-init's VMware datasource, and return what it made of it."""
    tool("cloud-init")
    python = Path("/usr/bin/python3")  # the one that Debian's cloud-init runs with
    if not python.exists():
        pytest.skip("Debian's python3 is not here: install the package python3")
    environment = {f"VMX_{key.upper().replace('.', '_')}": value for key, value in seed.items()}
    done = subprocess.run(
        [python, "-W", "ignore", "-c", READ, folder],
        env={"PATH": "/usr/bin:/bin", "VMX_GUESTINFO": "yes", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def seed_of(spec: GuestSpec) -> dict[str, str]:
    return dict(Stager(SEED, {"lic": "the-token-itself"}, {}).seed(spec))


def test_cloud_inits_datasource_reads_the_seed(tmp_path: Path) -> None:
    found = read_by_cloud_init(tmp_path, seed_of(SPEC))
    assert found["taken"] is True
    assert found["text"].startswith("#cloud-config\n")
    assert found["metadata"]["local-hostname"] == "hvd-01"
    assert found["metadata"]["redact"] == ["userdata"]
    assert found["network"] == network_config(NICS)
    assert set(found["users"]) == {"debian", "vgpu-cfg"}
    assert found["users"]["vgpu-cfg"]["sudo"] == "ALL=(ALL) NOPASSWD:ALL"


def test_the_images_own_account_gives_way_to_a_list_of_the_users(tmp_path: Path) -> None:
    spec = SPEC.model_copy(update={"user_data": "#cloud-config\nusers:\n- name: ada\n"})
    assert set(read_by_cloud_init(tmp_path, seed_of(spec))["users"]) == {"ada", "vgpu-cfg"}


@pytest.mark.parametrize("key", ["guestinfo.userdata", "guestinfo.metadata"])
def test_a_value_that_was_cut_is_caught(tmp_path: Path, key: str) -> None:
    seed = seed_of(SPEC)
    seed[key] = seed[key][: len(seed[key]) // 2]
    with pytest.raises(AssertionError):
        read_by_cloud_init(tmp_path, seed)


def test_what_cloud_init_writes_and_runs_stages_the_guest(guest: Sandbox, tmp_path: Path) -> None:
    found = read_by_cloud_init(tmp_path, seed_of(SPEC))
    for one in found["config"]["write_files"]:
        guest.write(one["path"], one["content"], int(one["permissions"], 8))
    guest.real("flock", "timeout")
    guest.write("/proc/sys/kernel/hostname", "ubuntu\n")
    guest.stand_in("hostnamectl", 'printf "%s\\n" "$2" >"$ROOT/proc/sys/kernel/hostname"')
    guest.nic("ens160", NICS[0].mac, driver="vmxnet3")
    for name in ("ip", "systemctl", "netplan"):
        guest.stand_in(name)
    host_key = f"ssh-ed25519 {'A' * 68}"
    guest.write("/etc/ssh/ssh_host_ed25519_key.pub", f"{host_key} root@ubuntu\n")
    copies = ("/run/cloud-init/combined-cloud-config.json", "/run/cloud-init/instance-data-sensitive.json")
    for path in (*copies, "/var/lib/cloud/instances/i/user-data.txt"):
        guest.write(path, "what a user put into his own user data")
    guest.stand_in("vmtoolsd", 'printf "%s\\n" "$2" >"$ROOT/guestinfo"')
    for name in ("useradd", "usermod"):
        guest.stand_in(name, 'echo "vgpu-cfg:x:0:0::/home/vgpu-cfg:/bin/bash" >>"$ROOT/etc/passwd"')
    guest.write("/bin/bash", "", 0o755)
    guest.write("/etc/passwd", "")
    guest.real("visudo")
    program, *words = found["config"]["runcmd"][-1]
    done = subprocess.run(
        [tool("dash"), guest.path(program), *words],
        env={"PATH": str(guest.bin), "VGPU_CFG_ROOT": str(guest.root)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + guest.read("/var/log/vgpu-cfg.log")
    report = GuestReport.model_validate_json(guest.read("/guestinfo").split(" ", 2)[2])
    assert (report.run, report.spec, report.state) == ("first", SPEC.digest, "done")
    assert report.host_key == host_key
    assert {one.name: one.digest for one in report.modules} == {
        one.kind: one.digest for one in SPEC.modules if one.kind in SPEC.carried
    }
    assert {guest.read(path) for path in copies} == {"{}\n"}
    assert guest.read("/var/lib/cloud/instances/i/user-data.txt") == ""
    assert list(guest.path("/var/lib/vgpu-cfg/secrets").iterdir()) == []
