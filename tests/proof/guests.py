"""The guests of the example's plan on hosts of namespaces: what a clone carries, staged by cloud-init.

The plan is made by the command line on the lab. A guest's data reach cloud-init by its NoCloud datasource,
since VMware's asks a hypervisor; what they hold is the same, byte for byte.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.proof.hosts import Host, Port, host, switch
from vgpu_cfg.changes.change import StageGuest
from vgpu_cfg.cli.kept.saved_plan import load_plan_json
from vgpu_cfg.documents.foreign import read_foreign
from vgpu_cfg.model.guests.guest import GuestReport, GuestSpec
from vgpu_cfg.model.guests.modules import GuestModule, NetworkModule
from vgpu_cfg.shells.keys import PlanKeyRing
from vgpu_cfg.staging.stager import Stager

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "multi-node-horovod.yaml"
ESTATE = ROOT / "vgpu_cfg" / "lab" / "estates" / "two-hosts-roce.yaml"
SEED = bytes(range(32))
MESH_PORT = 2222
NETWORKS = ("vm-network", "roce-111")
MESH = "/etc/vgpu-cfg/mesh"
STAGED_HERE = ("host-name", "users", "hosts", "ssh-mesh", "rank", "launcher")
"""The modules that need no GPU, no NIC and no container runtime of the guest."""

SECONDS_TO_END = 4
"""The time that a job's processes have to end by themselves; a quarter of what guests give."""

SEED_FOLDER = "/var/lib/cloud/seed/nocloud"
KNOWN_WARNINGS = (
    "SSH service 'ssh' is not available",
    "udevadm",
    "failed stage init-local",
    "scripts-user",
    "Failed to run module scripts",
    "Failed to run /var/lib/cloud/instance/scripts/runcmd",
)
"""What cloud-init warns of without systemd and udev. Its runcmd is our runner, which stops at `network`."""

STAGES = ("init --local", "init", "modules --mode=config", "modules --mode=final")


@dataclass(slots=True)
class Guests:
    """The running guests, and what the plan said of them."""

    hosts: list[Host]
    specs: dict[str, GuestSpec]
    keys: PlanKeyRing
    on: str
    taken: list[str] = field(default_factory=list)
    host_keys: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Host:
        return next(one for one in self.hosts if one.name == name)

    def is_known(self, line: str) -> bool:
        """Whether a warning comes of the missing systemd."""
        return any(known in line for known in KNOWN_WARNINGS)

    def ssh(self, there: str) -> list[str]:
        """Return the ssh of the mesh, as strict as it is written."""
        return ["ssh", "-F", f"{MESH}/ssh_config", there]

    def train(
        self, name: str, programs: Path, program: str, *options: str, seconds: float = 420.0
    ) -> subprocess.CompletedProcess[str]:
        """Start a program on all workers by the plan's own `train`; a rank has one thread, cores are few."""
        on = self[name]
        for one in self.hosts:
            one.write("/tmp/program.py", program)
        settings = [f"PATH={programs}:/usr/sbin:/usr/bin:/sbin:/bin", "OMP_NUM_THREADS=1"]
        words = ["timeout", str(int(seconds)), "env", *settings, "/opt/vgpu-cfg/train", *options, "--"]
        return on.execute(*words, str(programs / "python"), "/tmp/program.py", seconds=seconds + 30)

    def launch(
        self,
        by: str,
        program: str,
        *options: str,
        name: str = "hvd-01",
        programs: str = "",
        before: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Start a program on all workers by one of the launchers; Debian's torchrun wants two more words.

        Debian 12 has torch 1.13 with Python 3.11, where `--redirects 0`, its default, is not understood.
        """
        for one in self.hosts:
            one.write("/tmp/program.py", program)
        path = f"{programs}:/usr/sbin:/usr/bin:/sbin:/bin".lstrip(":")
        settings = [f"PATH={path}", "OMP_NUM_THREADS=1"]
        settings += [f"{key}={value}" for key, value in (environment or {}).items()]
        settings += [] if programs else ["PET_REDIRECTS=1", "PET_TEE=1"]
        words = ["timeout", "300", "env", *settings, "/opt/vgpu-cfg/train", "--by", by, *options, "--"]
        return self[name].execute(*words, *before, "python3", "/tmp/program.py", seconds=330)

    def interrupt(
        self, by: str, program: str, signal: int, *, programs: str = "", before: Sequence[str] = ()
    ) -> tuple[int, str]:
        """Send `train` a signal once all ranks are up; return its status and what was said."""
        for one in self.hosts:
            one.write("/tmp/program.py", program)
        path = f"{programs}:/usr/sbin:/usr/bin:/sbin:/bin".lstrip(":")
        self["hvd-01"].write("/tmp/interrupt.py", INTERRUPT)
        words = ["env", f"PATH={path}", "OMP_NUM_THREADS=1", "PET_REDIRECTS=1", "PET_TEE=1", "timeout", "300"]
        words += ["/usr/bin/python3", "/tmp/interrupt.py", str(signal), "/opt/vgpu-cfg/train", "--by", by]
        done = self["hvd-01"].execute(*words, "--", *before, "python3", "/tmp/program.py", seconds=330)
        return done.returncode, done.stdout + done.stderr

    def left(self) -> list[str]:
        """List what runs of a job on any host; the dead that nobody buried have no words."""
        look = "cd /proc; grep -laF VGPU_CFG_JOB= [0-9]*/environ; grep -lE 'orted|program.py' [0-9]*/cmdline"
        found = []
        for one in self.hosts:
            for path in one.execute("sh", "-c", look).stdout.split():
                read = one.execute("cat", f"/proc/{path.partition('/')[0]}/cmdline")
                words = read.stdout.replace("\0", " ").strip()
                found += [f"{one.name}: {words}"] if words else []
        return found

    def logs(self) -> dict[str, str]:
        """Return what the newest job's ranks wrote, as it lies on the first host."""
        on = self["hvd-01"]
        folder = on.execute("sh", "-c", "ls -d /var/log/vgpu-cfg/2* | tail -n 1").stdout.strip()
        names = on.execute("ls", folder).stdout.split()
        return {name: on.read(f"{folder}/{name}") for name in names}

    def result_of(self, output: str) -> dict[str, Any]:
        """Return what rank 0 printed; horovodrun puts the rank before each line."""
        line = next(line for line in output.splitlines() if "RESULT" in line)
        found: dict[str, Any] = json.loads(line.partition("RESULT")[2])
        return found

    def restage(self, name: str, spec: GuestSpec, *modules: str) -> None:
        """Bring modules with other parameters into a guest that runs, as `apply` does over a shell."""
        bundle = Stager(SEED, {}, {}).bundle(spec, modules, "again", self.host_keys)
        for one in bundle.files:
            self[name].write(one.path, one.content, one.mode)
        done = self[name].execute(*bundle.command)
        assert done.returncode == 0, done.stdout + done.stderr
        if "rank" in modules:
            self.shorten_the_wait(name)

    def shorten_the_wait(self, name: str) -> None:
        """Give a job's processes less time to end by themselves, before they are ended by force."""
        path, said = "/opt/vgpu-cfg/node", "\nseconds=15\n"
        node = self[name].read(path)
        assert node.count(said) == 1
        self[name].write(path, node.replace(said, f"\nseconds={SECONDS_TO_END}\n"), 0o755)

    @contextmanager
    def unplugged(self, name: str) -> Iterator[None]:
        """Take a host's training NIC down."""
        link = ["ip", "-n", self[name].namespace, "link", "set", "eth1"]
        subprocess.run([*link, "down"], check=True, timeout=120)
        try:
            yield
        finally:
            subprocess.run([*link, "up"], check=True, timeout=120)

    @contextmanager
    def stranger_at(self, name: str) -> Iterator[None]:
        """Let another host key answer at a host: that of no VM of the plan."""
        path = f"{MESH}/host_key"
        before = self[name].read(path)
        self[name].write(path, self.keys.host_key("a stranger").private, 0o600)
        try:
            # sshd reads its keys once.
            self.restart_sshd(name)
            yield
        finally:
            self[name].write(path, before, 0o600)
            self.restart_sshd(name)

    def restart_sshd(self, name: str) -> None:
        """Start the mesh's sshd anew, as the worker's container starts it."""
        on = self[name]
        on.execute("sh", "-c", "[ ! -e /run/mesh.pid ] || kill $(cat /run/mesh.pid)")
        words = ["-D", "-e", "-f", f"{MESH}/sshd_config", "-o", "PidFile=/run/mesh.pid"]
        on.start("/usr/sbin/sshd", *words)
        wait_for_port(on, MESH_PORT)


INTERRUPT = """
import os, signal, subprocess, sys, threading
pipe = subprocess.PIPE
train = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL, stdout=pipe, stderr=subprocess.STDOUT)
threading.Timer(240, train.terminate).start()
said, up = [], 0
for line in train.stdout:
    said.append(line)
    up += b"UP" in line
    if up == 2 and b"UP" in line:
        train.send_signal(int(sys.argv[1]))
        if int(sys.argv[1]) == signal.SIGKILL:
            break
status = train.wait()
sys.stdout.buffer.writelines(said)
sys.stdout.flush()
os._exit(status if status >= 0 else 128 - status)
"""
"""It starts `train`, and sends it a signal once two ranks have said that they are up."""


def wait_for_port(on: Host, port: int) -> None:
    """Return once somebody listens; the kernel's table is looked at, so nobody is disturbed."""
    look = f"timeout 100 sh -c 'until ss -Hltn sport = :{port} | grep -q LISTEN; do sleep 0.1; done'"
    done = on.execute("sh", "-c", look)
    assert done.returncode == 0, f"nobody listens on port {port} of {on.name}"


@contextmanager
def open_guests(folder: Path, plan: Path = EXAMPLE) -> Iterator[Guests]:
    """Boot the guests of a plan, by default the example's."""
    specs = plan_specs(plan, folder)
    keys = PlanKeyRing(SEED)
    with ExitStack() as leaving:
        on = leaving.enter_context(switch(NETWORKS))
        hosts = [
            leaving.enter_context(host("template", ports_of(spec, number), on, NETWORKS, number))
            for number, spec in enumerate(specs.values(), 1)
        ]
        guests = Guests(hosts, specs, keys, on)
        stager = Stager(SEED, secrets_of(specs), {})
        booting = []
        for one, spec in zip(hosts, specs.values(), strict=True):
            seed_guest(one, stager.seed(spec))
            booting.append(one.start("sh", "-c", BOOT))
        for one, spec, boot in zip(hosts, specs.values(), booting, strict=True):
            boot.wait(timeout=600)
            one.name = spec.vm
        for one, spec in zip(hosts, specs.values(), strict=True):
            guests.host_keys[one.name] = stage(one, spec)
        for one, spec in zip(hosts, specs.values(), strict=True):
            guests.restage(one.name, spec, *(name for name in chosen_of(spec) if name not in spec.carried))
            guests.restart_sshd(one.name)
        yield guests


BOOT = "; ".join(f"cloud-init {stage}" for stage in STAGES) + f"; rm {SEED_FOLDER}/user-data"
"""What a boot does; VMware's datasource would redact the user data now."""


def chosen_of(spec: GuestSpec) -> list[str]:
    """Name the modules that can be staged here."""
    return [name for name in STAGED_HERE if spec.module(name) is not None]


def stage(on: Host, spec: GuestSpec) -> str:
    """Stage what the clone carries and can be staged here, and return the host key that the guest tells.

    cloud-init's run has failed where systemd must bring a network up.
    """
    report = json.loads(on.read("/var/lib/vgpu-cfg/report.json"))
    states = {one["name"]: one["state"] for one in report["modules"]}
    assert report["spec"] == spec.digest
    assert report["state"] == "failed", report
    assert states["network"] == "failed", states
    chosen = [name for name in chosen_of(spec) if name in spec.carried]
    done = on.execute("/usr/local/sbin/vgpu-cfg-stage", "--run", "proof", *chosen)
    assert done.returncode == 0, done.stdout + done.stderr
    told = GuestReport.model_validate_json(on.read("/var/lib/vgpu-cfg/report.json")).host_key
    assert told, "the guest has told no host key"
    return told


def seed_guest(on: Host, seed: dict[str, str] | Any) -> None:
    """Put what a clone carries where cloud-init's NoCloud datasource looks."""
    metadata = unpack(seed["guestinfo.metadata"])
    on.write(f"{SEED_FOLDER}/user-data", unpack(seed["guestinfo.userdata"]), 0o600)
    on.write(f"{SEED_FOLDER}/meta-data", metadata)
    network = read_foreign(metadata, "metadata").get("network")
    if network:
        # VMware's datasource takes it from the metadata, NoCloud from a file of its own.
        on.write(f"{SEED_FOLDER}/network-config", json.dumps(network))
    on.execute("rm", "-f", "/etc/cloud/cloud-init.disabled")
    on.write("/etc/cloud/cloud.cfg.d/99-nocloud.cfg", "datasource_list: [NoCloud]\nlocale: C.UTF-8\n")


def changed(spec: GuestSpec, module: GuestModule) -> GuestSpec:
    """Return the spec with another module of the same kind."""
    modules = [module if one.kind == module.kind else one for one in spec.modules]
    return spec.model_copy(update={"modules": tuple(modules)})


def unpack(value: str) -> str:
    """Undo gzip+base64."""
    return gzip.decompress(base64.b64decode(value)).decode()


def secrets_of(specs: dict[str, GuestSpec]) -> dict[str, str]:
    """Return a value for each secret that the plan names."""
    names = {name for spec in specs.values() for name in spec.secrets}
    return {name: f"value-of-{name}" for name in names}


def ports_of(spec: GuestSpec, number: int) -> list[Port]:
    """Return the NICs that a VM of the plan has, with the addresses that its guest is told."""
    found = []
    module = spec.module("network")
    nics = module.nics if isinstance(module, NetworkModule) else ()
    for index, network in enumerate(NETWORKS):
        nic = nics[index] if index < len(nics) else None
        mac = nic.mac if nic and nic.mac else f"00:50:56:00:{index:02x}:{number:02x}"
        address = nic.addresses[0] if nic and nic.addresses else f"192.0.2.{number}/24"
        found.append(Port(network, mac, address))
    return found


def with_four_workers(folder: Path) -> Path:
    """Write the example's plan and estate with four workers, each on a host of its own."""
    plan, estate = EXAMPLE.read_text(encoding="utf-8"), ESTATE.read_text(encoding="utf-8")
    hosts = [f"esx-roce-{number:02}.lab" for number in range(1, 5)]
    here = folder / "four.yaml"
    here.write_text(estate.replace(f"[{', '.join(hosts[:2])}]", f"[{', '.join(hosts)}]"), encoding="utf-8")
    path = folder / "plan.yaml"
    path.write_text(
        plan.replace("lab:two-hosts-roce", f"lab:{here}").replace("{01..02}", "{01..04}"), encoding="utf-8"
    )
    return path


def plan_specs(path: Path, folder: Path) -> dict[str, GuestSpec]:
    """Plan a plan file on the lab by the command line, and return what each guest shall have."""
    saved = folder / "plan.json"
    done = subprocess.run(
        [sys.executable, "-m", "vgpu_cfg", "plan", str(path), "-o", str(saved)],
        env={**os.environ, "HOME": str(folder), "VGPU_CFG_LAB_SPEED": "0"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    plan, _ = load_plan_json(saved)
    return {one.vm.name: one.spec for one in plan.changes if isinstance(one, StageGuest)}
