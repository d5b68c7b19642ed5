"""Debian and Ubuntu guests under systemd: what a clone carries and what follows over a shell, by real tools.

cloud-init reads its VMware datasource from guestinfo, and the report goes back by vmtoolsd. All modules that
need neither RDMA nor images are staged; a second run finds all of them; one value changed stages one. A head
shares a folder with two workers, and `train` starts on them from there.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.proof.booted import DEBIAN, UBUNTU, Booted, boot, check_bootable, is_made, wait_for_boot
from tests.proof.guests import MESH, SEED, plan_specs, secrets_of
from tests.proof.hosts import NotPermitted, switch
from tests.unit.staging.sandbox import tool
from vgpu_cfg.model.guests.guest import REPORT_KEY, GuestReport, GuestSpec, outdated, parse_mark
from vgpu_cfg.model.guests.modules import LimitsModule, NetworkModule
from vgpu_cfg.model.guests.training_modules import LauncherModule
from vgpu_cfg.staging.bundle import RUNNER
from vgpu_cfg.staging.stager import Stager

HEAD, WORKERS = "head-01", ("hvd-01", "hvd-02")
FLEETS = {
    "both": (UBUNTU, UBUNTU, DEBIAN),
    "ubuntu": (UBUNTU, UBUNTU, UBUNTU),
    "debian": (DEBIAN, DEBIAN, DEBIAN),
}
"""The releases of the head and the workers."""
PLAN = Path(__file__).with_name("guests.yaml")
LEFT_OUT = {
    "roce": "there is no RDMA device",
    "nic-firmware": "there is no firmware to set",
    "registry": "there is no registry to log in to",
    "image": "there is no image to pull",
    "worker": "there is no image to run",
    "monitoring": "its containers are pulled from registries",
}
"""What is not staged in these guests, and why."""


@dataclass(slots=True)
class Site:
    """The guests, a head and two workers, what the plan asks of each, and their host keys."""

    guests: dict[str, Booted]
    releases: dict[str, str]
    specs: dict[str, GuestSpec]
    host_keys: dict[str, str]
    first: dict[str, GuestReport]
    """What each told of its first boot."""

    def bring(self, name: str, spec: GuestSpec, *modules: str) -> GuestReport:
        """Stage modules over a shell, as `apply` does, and return the report."""
        guest = self.guests[name]
        bundle = Stager(SEED, secrets_of(self.specs), {}).bundle(spec, modules, "proof", self.host_keys)
        for one in bundle.files:
            guest.write(one.path, one.content, one.mode)
        done = guest.execute(*bundle.command, seconds=400)
        log = guest.execute("tail", "-n", "40", "/var/log/vgpu-cfg.log").stdout
        assert done.returncode == 0, done.stdout + done.stderr + log
        return report_of(guest)


def report_of(guest: Booted) -> GuestReport:
    return GuestReport.model_validate_json(guest.told(REPORT_KEY))


def states(report: GuestReport) -> Mapping[str, str]:
    return {one.name: one.state for one in report.modules}


ONE_RELEASE = pytest.mark.exhaustive("three more guests that boot, all of one release")


@pytest.fixture(
    scope="module",
    params=["both", *(pytest.param(one, marks=ONE_RELEASE) for one in ("ubuntu", "debian"))],
)
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Boot the guests of the plan with what their clones carry, and bring the rest over a shell."""
    try:
        check_bootable()
        folder = tmp_path_factory.mktemp("plan")
        specs = {
            name: without_what_is_left_out(spec)
            for name, spec in plan_specs(with_a_ca(folder), folder).items()
        }
        releases = {
            name: release if is_made(release) else DEBIAN
            for name, release in zip((HEAD, *WORKERS), FLEETS[request.param], strict=True)
        }
        stager = Stager(SEED, secrets_of(specs), {})
        with ExitStack() as leaving:
            on = leaving.enter_context(switch(["vm-network"]))
            guests = {
                name: leaving.enter_context(
                    boot(
                        name,
                        releases[name],
                        number,
                        mac_of(spec),
                        on,
                        stager.seed(spec),
                        folder / name,
                        shares=name == HEAD,
                    )
                )
                for number, (name, spec) in enumerate(specs.items(), 1)
            }
            for guest in guests.values():
                wait_for_boot(guest)
            first = {name: report_of(guest) for name, guest in guests.items()}
            made = Site(guests, releases, specs, {name: one.host_key for name, one in first.items()}, first)
            for name, spec in specs.items():
                rest = [one.kind for one in spec.modules if one.kind not in spec.carried]
                made.bring(name, spec, *rest)
            yield made
    except NotPermitted as reason:
        pytest.skip(f"no guest can be booted under systemd here: {reason}")


@pytest.fixture(scope="module")
def meshed(site: Site) -> Site:
    """Start the mesh's sshd on the workers."""
    for name in WORKERS:
        site.guests[name].start_mesh()
    return site


def with_a_ca(folder: Path) -> Path:
    """Return the plan file, with its CA beside it."""
    words = [
        tool("openssl"),
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
    ]
    words += [
        "-keyout",
        "/dev/null",
        "-out",
        str(folder / "site-ca.pem"),
        "-days",
        "1",
        "-subj",
        "/CN=a site",
    ]
    subprocess.run(words, check=True, capture_output=True, timeout=120)
    return Path(shutil.copy(PLAN, folder))


def without_what_is_left_out(spec: GuestSpec) -> GuestSpec:
    return spec.model_copy(update={"modules": tuple(one for one in spec.modules if one.kind not in LEFT_OUT)})


def mac_of(spec: GuestSpec) -> str:
    module = spec.get(NetworkModule)
    assert module is not None
    return module.nics[0].mac


@pytest.mark.parametrize(("kind", "why"), sorted(LEFT_OUT.items()))
def test_what_is_left_out(kind: str, why: str) -> None:
    pytest.skip(f"the module {kind} is not staged in a guest that boots: {why}")


def test_guests_of_both_releases(site: Site) -> None:
    if not is_made(UBUNTU):
        pytest.skip("no guest of Ubuntu is booted: script/build-guest-root says why")
    for name, guest in site.guests.items():
        assert f"VERSION_CODENAME={site.releases[name]}\n" in guest.read("/etc/os-release")


def test_the_first_boot_stages_what_the_clone_carries(site: Site) -> None:
    for name, guest in site.guests.items():
        spec, report = site.specs[name], site.first[name]
        assert report.state == "done", (name, report, guest.read("/var/log/vgpu-cfg.log"))
        log = guest.execute("cloud-init", "status", "--long").stdout
        assert "DataSourceVMware [seed=guestinfo]" in log
        assert "errors: []" in log
        assert (report.spec, report.run) == (spec.digest, "first")
        assert tuple(states(report)) == spec.carried
        assert guest.told("guestinfo.userdata") == "---", "cloud-init has redacted it"
        assert guest.execute("hostname").stdout.strip() == name


def test_a_second_run_finds_everything(site: Site) -> None:
    for name, guest in site.guests.items():
        done = guest.execute(RUNNER)
        assert done.returncode == 0, done.stdout
        found = states(report_of(guest))
        assert set(found) == {one.kind for one in site.specs[name].modules}
        assert found == dict.fromkeys(found, "present")


def test_one_value_changed_stages_one_module(site: Site) -> None:
    name = WORKERS[0]
    spec, stager = site.specs[name], Stager(SEED, secrets_of(site.specs), {})
    mark = stager.mark(spec, [one.kind for one in spec.modules], "", site.host_keys)
    limits = LimitsModule(shared_memory="128MiB")
    changed = spec.model_copy(
        update={"modules": tuple(limits if one.kind == "limits" else one for one in spec.modules)}
    )
    assert outdated(changed.modules, parse_mark(mark), {}) == ("limits",)
    report = site.bring(name, changed, "limits")
    assert states(report) == {"limits": "done"}
    assert "size=131072k" in site.guests[name].execute("grep", " /dev/shm ", "/proc/mounts").stdout
    site.bring(name, spec, "limits")


def test_what_the_real_tools_say(site: Site) -> None:
    guest = site.guests["hvd-01"]
    assert "10.20.1." in guest.execute("networkctl", "status", "eth0").stdout
    assert "class htb 1:10" in guest.execute("tc", "class", "show", "dev", "eth0").stdout
    assert guest.execute("sudo", "-l", "-U", "ada").returncode == 0
    info = json.loads(guest.execute("docker", "info", "--format", "{{json .}}").stdout)
    assert info["RegistryConfig"]["Mirrors"] == ["https://mirror.example.com:5000/"]
    assert info["HttpProxy"] == "http://proxy.example.com:3128"
    assert "nvidia" in info["Runtimes"]
    assert guest.execute("dockerd", "--validate", "--config-file", "/etc/docker/daemon.json").returncode == 0
    assert "Version" in guest.execute("ib_write_bw", "--version").stdout
    # NCCL's settings, as a user takes them and as the unit of the next boot computes them.
    told = guest.execute("sh", "-c", ". /opt/vgpu-cfg/nccl.env; echo $NCCL_SOCKET_IFNAME")
    assert told.stdout.strip() == "=eth0", told.stderr
    assert guest.execute("systemctl", "restart", "vgpu-cfg-nccl").returncode == 0
    assert guest.execute("/opt/vgpu-cfg/nccl-env", "check").returncode == 0
    verified = guest.execute(
        "openssl", "verify", "-CAfile", "/etc/ssl/certs/ca-certificates.crt",
        "/usr/local/share/ca-certificates/vgpu-cfg-1.crt",
    )  # fmt: skip
    assert verified.returncode == 0, verified.stderr


def test_guests_reach_each_other_by_the_mesh(meshed: Site) -> None:
    for there in WORKERS:
        done = meshed.guests[HEAD].execute("ssh", "-F", f"{MESH}/ssh_config", there, "hostname")
        assert done.stdout.strip() == there, done.stderr


def test_the_head_shares_a_folder_with_the_plans_network_alone(site: Site) -> None:
    head, worker = (site.guests[name] for name in (HEAD, WORKERS[0]))
    assert "/srv/training" in head.execute("exportfs", "-s").stdout
    head.execute("sh", "-c", "echo of the head >/srv/training/data")
    for one in (head, worker):
        done = one.execute("apt-get", "-y", "-qq", "--no-download", "install", "libnfs-utils")
        assert done.returncode == 0, done.stderr
    url = "nfs://10.20.1.11/srv/training/{}?version=4"
    wait = "until ss -Hltn sport = :2049 | grep -q LISTEN; do sleep 0.1; done"
    assert head.execute("timeout", "100", "sh", "-c", wait).returncode == 0
    read = worker.execute("nfs-cat", url.format("data"))
    assert read.stdout == "of the head\n", read.stderr + head.execute("cat", "/var/log/ganesha.log").stdout
    # A rank is root in its container, and writes.
    done = worker.execute("nfs-cp", "/etc/hostname", url.format("by-a-worker"))
    assert head.execute("cat", "/srv/training/by-a-worker").stdout == "hvd-01\n", done.stdout + done.stderr
    refused = head.execute("nfs-cat", "nfs://127.0.0.1/srv/training/data?version=4")
    assert (refused.returncode != 0, refused.stdout) == (True, "")


def test_a_workers_folder_is_mounted_at_its_first_use(site: Site) -> None:
    worker = site.guests[WORKERS[0]]
    assert "autofs" in worker.execute("grep", " /srv/training ", "/proc/mounts").stdout
    listed = worker.execute("ls", "/srv/training")
    if "nfs" in Path("/proc/filesystems").read_text(encoding="ascii").split():
        assert listed.stdout.split(), listed.stderr
        return
    # mount.nfs4 has understood its options, and asked the kernel.
    said = worker.execute("journalctl", "--no-pager", "-u", "srv-training.mount").stdout
    assert "mount.nfs" in said, said
    pytest.skip("no folder is mounted by NFS: this kernel has no NFS client")


@pytest.mark.parametrize(("by", "rank_in"), [("none", "NODE_RANK"), ("mpi", "OMPI_COMM_WORLD_RANK")])
def test_train_starts_on_the_workers_of_a_head(meshed: Site, by: str, rank_in: str) -> None:
    head, spec = meshed.guests[HEAD], meshed.specs[HEAD]
    launcher = spec.get(LauncherModule)
    assert launcher is not None
    # The releases have different Open MPIs, which cannot train together.
    like_the_head = [one for one in launcher.workers if meshed.releases[one.name] == meshed.releases[HEAD]]
    workers = launcher.workers if by == "none" else tuple(like_the_head)
    if workers != launcher.workers:
        fewer = launcher.model_copy(update={"workers": workers})
        modules = tuple(fewer if one.kind == fewer.kind else one for one in spec.modules)
        meshed.bring(HEAD, spec.model_copy(update={"modules": modules}), fewer.kind)
    program = f'echo "RANK ${rank_in} on $(hostname)"'
    done = head.execute("/opt/vgpu-cfg/train", "--by", by, "--", "sh", "-c", program)
    assert done.returncode == 0, done.stdout + done.stderr
    logs = head.execute("sh", "-c", "cat $(ls -d /var/log/vgpu-cfg/2* | tail -n 1)/rank-*.log").stdout
    assert logs.splitlines() == [f"RANK {number} on {one.name}" for number, one in enumerate(workers)]
    meshed.bring(HEAD, spec, launcher.kind)
