"""vgpu-cfg and its peers on one served lab and one vcsim, near and far: round trips, bytes, seconds.

    script/build-contract
    script/build-peers
    .venv/bin/python -m tests.bench.side_by_side [--quick] [--vms 100 1000] [--delay 0 5 50] [--limit 300]

Each tool is asked the same in its own words, as a process of its own, behind a proxy that counts. A tool that
is not there is named and left out. Seconds hold the start of each process; tools that do one thing a call are
started once for each.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.bench.proxy import CountingProxy, Passed, proxy_to
from tests.bench.reading import served
from tests.contract.conftest import running_vcsim
from vgpu_cfg.settings.connection import LAB_PASSWORD, LAB_USER

ROOT = Path(__file__).resolve().parents[2]
GOVC = ROOT / ".cache" / "contract" / "govc"
PEERS = ROOT / ".cache" / "peers"
ANSIBLE = ROOT / ".cache" / "ansible"
MADE = 4
"""How many VMs are made."""
TEMPLATE = "ubuntu-22.04-efi"
PROFILE = "grid_a100-10c"
CLUSTER, HOST = "gpu", "esx-0001.lab"
"""Where the toolkit is told to make VMs: it looks for no host that has the profile."""
POOL = f"{CLUSTER}/Resources"
"""Where govc is told to: it wants to know where there are several clusters."""
VHPC = "import warnings; warnings.simplefilter('ignore'); from vhpc_toolkit.command import command; command()"

Commands = Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Account:
    """A server behind the proxy, and who logs in to it."""

    proxy: CountingProxy
    user: str
    password: str


@dataclass(frozen=True, slots=True)
class Tool:
    """A program, and the commands that answer a question; None of `missing` where it is there."""

    name: str
    commands: Commands
    missing: str | None = None


@dataclass(frozen=True, slots=True)
class Took:
    """What a tool took; CPU seconds are those of its processes. `failed` is why it has no answer."""

    passed: Passed
    seconds: float
    cpu_seconds: float = 0
    failed: str | None = None


def main(arguments: Sequence[str]) -> int:
    """Run every tool on every server, size and delay, and print a row each."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.side_by_side", description=__doc__)
    parser.add_argument("--vms", type=int, nargs="*", default=[100, 1000])
    parser.add_argument("--delay", type=int, nargs="*", default=[0, 5, 50], help="milliseconds a round trip")
    parser.add_argument(
        "--limit", type=float, default=300.0, help="seconds that a tool is given for a question"
    )
    parser.add_argument("--quick", action="store_true", help="100 VMs, without delay")
    chosen = parser.parse_args(arguments)
    sizes, delays = ([100], [0]) if chosen.quick else (chosen.vms, chosen.delay)
    heads = f"{'delay':>7}{'round trips':>13}{'MB':>8}{'CPU s':>8}{'seconds':>9}{'as vgpu-cfg':>13}"
    print(f"{'':32}{'tool':26}{heads}")
    with tempfile.TemporaryDirectory() as folder:
        for vms in sizes:
            with lab_of(vms) as account:
                print_rows(
                    f"lab, {vms:,} VMs",
                    questions(account, Path(folder), has_gpus=True),
                    account,
                    delays,
                    chosen.limit,
                )
            with vcsim_of(vms) as account:
                print_rows(
                    f"vcsim, {vms:,} VMs",
                    questions(account, Path(folder), has_gpus=False),
                    account,
                    delays,
                    chosen.limit,
                )
    return 0


@contextmanager
def lab_of(vms: int) -> Iterator[Account]:
    """Serve a fleet with ten VMs on each host, and proxy it."""
    with served(f"fleet-{vms // 10}x8-{vms}vms") as (address, *_), proxy_to(address) as proxy:
        yield Account(proxy, LAB_USER, LAB_PASSWORD)


@contextmanager
def vcsim_of(vms: int) -> Iterator[Account]:
    """Serve as many VMs by vcsim, which knows no vGPUs, and proxy it."""
    # Standalone hosts have as many VMs each as the cluster has.
    arguments = ["-hosts", str(vms // 10), "-standalone-hosts", "0", "-vms", str(vms)]
    with running_vcsim(arguments) as server, proxy_to(f"{server.host}:{server.port}") as proxy:
        yield Account(proxy, server.user, server.password)


def govc(name: str, *commands: Sequence[str]) -> Tool:
    """Return govc with its commands."""
    missing = None if GOVC.is_file() else "script/build-contract builds govc"
    return Tool(name, [[str(GOVC), *words] for words in commands], missing)


def questions(account: Account, folder: Path, *, has_gpus: bool) -> Mapping[str, Sequence[Tool]]:
    """Say how each tool is asked each question."""
    own = [sys.executable, "-m", "vgpu_cfg"]
    playbook = folder / "names.yaml"
    playbook.write_text(_PLAYBOOK, encoding="utf-8")
    inventory = folder / "estate.vms.yml"
    inventory.write_text("plugin: vmware.vmware.vms\nvalidate_certs: false\n", encoding="utf-8")
    ansible = ANSIBLE / "env" / "bin"
    no_ansible = None if (ANSIBLE / "fetched").is_file() else "script/build-ansible fetches Ansible"
    asked: dict[str, Sequence[Tool]] = {
        "who is there": [
            Tool("vgpu-cfg inventory", [[*own, "inventory", "--output", "json"]]),
            govc("govc vm.info", ["vm.info", "-json", "*"]),
            govc("govc find", ["find", "/", "-type", "m"]),
            Tool(
                "ansible vmware.vms",
                [[str(ansible / "ansible-inventory"), "-i", str(inventory), "--list"]],
                no_ansible,
            ),
            Tool(
                "ansible vmware_vm_info",
                [[str(ansible / "ansible-playbook"), "-i", "localhost,", str(playbook)]],
                no_ansible,
            ),
        ],
    }
    if has_gpus:
        asked["GPUs of all hosts"] = [
            Tool("vgpu-cfg inventory --gpus", [[*own, "inventory", "--gpus", "--output", "json"]]),
            govc("govc collect", ["collect", "-json", "-type", "h", "/", *GPU_FACTS]),
        ]
        asked[f"{MADE} VMs with a vGPU"] = making(account, folder)
    return asked


def making(account: Account, folder: Path) -> Sequence[Tool]:
    """Say how each tool makes some VMs with a vGPU each and starts them; no two make the same names."""
    plan = folder / "plan.yaml"
    plan.write_text(
        _PLAN.format(address=account.proxy.address, count=MADE, template=TEMPLATE, profile=PROFILE),
        encoding="utf-8",
    )
    apply = [sys.executable, "-m", "vgpu_cfg", "apply", "--yes", str(plan)]
    toolkit = [str(PEERS / "vhpc" / "bin" / "python"), "-c", VHPC]
    by_govc: list[list[str]] = []
    by_toolkit: list[list[str]] = []
    for number in range(MADE):
        vm = f"govc-{number}"
        by_govc += [
            ["vm.clone", "-vm", TEMPLATE, "-on=false", "-c", "4", "-m", "16384", "-pool", POOL, vm],
            ["vm.change", "-vm", vm, "-memory-pin"],
            ["gpu.vm.add", "-vm", vm, "-profile", PROFILE],
            ["vm.power", "-on", vm],
        ]
        vm = f"vhpc-{number}"
        by_toolkit += [
            [
                *toolkit,
                "clone",
                "--vm",
                vm,
                "--template",
                TEMPLATE,
                "--cluster",
                CLUSTER,
                "--host",
                HOST,
                "--resource_pool",
                "Resources",
                "--cpu",
                "4",
                "--memory",
                "16",
            ],
            [*toolkit, "cpumem", "--vm", vm, "--memory_reservation", "1"],
            [*toolkit, "vgpu", "--vm", vm, "--add", "--profile", PROFILE],
            [*toolkit, "power", "--vm", vm, "--on"],
        ]
    no_toolkit = None if (PEERS / "vhpc").is_dir() else "script/build-peers fetches vhpc-toolkit"
    return [
        Tool("vgpu-cfg apply", [apply]),
        govc("govc", *by_govc),
        Tool("vhpc-toolkit", by_toolkit, no_toolkit),
    ]


def print_rows(
    where: str,
    asked: Mapping[str, Sequence[Tool]],
    account: Account,
    delays: Sequence[int],
    limit_seconds: float,
) -> None:
    """Run every tool and print what it took, as a multiple of vgpu-cfg's seconds in the last column."""
    with tempfile.TemporaryDirectory() as home:
        environment = environment_of(account, Path(home))
        for question, tools in asked.items():
            # What is made is there afterwards: once, at the longest delay.
            for delay in delays[-1:] if question.endswith("vGPU") else delays:
                account.proxy.delay_seconds = delay / 1000
                own: float | None = None
                for tool in tools:
                    took = run(tool, account.proxy, environment, limit_seconds)
                    own = took.seconds if own is None else own
                    _print_row(f"{where}: {question}", tool, delay, took, own)


def _print_row(what: str, tool: Tool, delay: int, took: Took, own: float) -> None:
    begin = f"{what:32.32}{tool.name:26}{delay:>4} ms"
    if took.failed is not None:
        print(f"{begin}   {took.failed}", flush=True)
        return
    passed = took.passed
    mb = (passed.sent + passed.answered) / 1e6
    counts = f"{passed.requests:>13,}{mb:>8.1f}"
    times = f"{took.cpu_seconds:>8.1f}{took.seconds:>9.1f}{took.seconds / own:>13.1f}"
    print(f"{begin}{counts}{times}", flush=True)


def run(tool: Tool, proxy: CountingProxy, environment: Mapping[str, str], limit_seconds: float) -> Took:
    """Run a tool's commands one after the other, all of them within so many seconds."""
    proxy.taken()
    if tool.missing is not None:
        return Took(Passed(), 0, failed=f"SKIPPED: {tool.missing}")
    begun, worked = time.perf_counter(), _cpu_of_children()
    failed = None
    for command in tool.commands:
        left = limit_seconds - (time.perf_counter() - begun)
        done = _done(command, environment, max(left, 0.1))
        if done is None:
            failed = f"not done in {limit_seconds:.0f} s, after {proxy.taken().requests:,} round trips"
            break
        # The toolkit ends with 0 whatever came of it.
        if done.returncode != 0 or "[ERROR]" in done.stderr:
            words = (done.stderr or done.stdout).strip().splitlines() or ["no word"]
            failed = f"failed: {' '.join(command[1:3])}: {words[-1][:160]}"
            break
    return Took(proxy.taken(), time.perf_counter() - begun, _cpu_of_children() - worked, failed)


def _done(
    command: Sequence[str], environment: Mapping[str, str], seconds: float
) -> subprocess.CompletedProcess[str] | None:
    """Run a command; None where it took too long, and all that it started is gone then."""
    with subprocess.Popen(
        command,
        env=environment,
        # The toolkit writes a log to where it is started.
        cwd=environment["HOME"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            out, error = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            # Ansible's workers would go on asking, and be counted as the next tool's.
            for pid in _family(process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.communicate(timeout=30)
            return None
    return subprocess.CompletedProcess(command, process.returncode, out, error)


def _family(pid: int) -> list[int]:
    """Return a process and all below it, the uppermost first, as `ps` tells them."""
    words = ["ps", "-e", "-o", "pid=", "-o", "ppid="]
    told = subprocess.run(words, capture_output=True, text=True, check=True, timeout=30).stdout
    above = {int(one): int(parent) for one, parent in (line.split() for line in told.splitlines())}
    family = [pid]
    for one in family:
        family += [child for child, parent in above.items() if parent == one]
    return family


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def environment_of(account: Account, folder: Path) -> Mapping[str, str]:
    """Return the variables by which each tool finds the server; vgpu-cfg and govc verify its certificate.

    The toolkit reads a file in its home instead.
    """
    trusted = folder / "server.pem"
    trusted.write_bytes(account.proxy.certificate.certificate_pem)
    host, port = account.proxy.address.split(":")
    (folder / "vhpc_toolkit").mkdir()
    (folder / "vhpc_toolkit" / "vCenter.conf").write_text(
        f"server: {host}\nport: {port}\nusername: {account.user}\npassword: {account.password}\n",
        encoding="utf-8",
    )
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "VGPU_CFG_SERVER": account.proxy.address,
        "VGPU_CFG_USER": account.user,
        "VGPU_CFG_PASSWORD": account.password,
        "VGPU_CFG_CA_FILE": str(trusted),
        "GOVC_URL": f"https://{account.proxy.address}/sdk",
        "GOVC_USERNAME": account.user,
        "GOVC_PASSWORD": account.password,
        "GOVC_TLS_CA_CERTS": str(trusted),
        "VMWARE_HOST": host,
        "VMWARE_PORT": port,
        "VMWARE_USER": account.user,
        "VMWARE_PASSWORD": account.password,
        "VMWARE_VALIDATE_CERTS": "false",
        "ANSIBLE_COLLECTIONS_PATH": str(ANSIBLE),
        "ANSIBLE_PYTHON_INTERPRETER": str(ANSIBLE / "env" / "bin" / "python"),
        "ANSIBLE_LOCALHOST_WARNING": "false",
        "LC_ALL": "C.UTF-8",
    }


GPU_FACTS = ("name", "config.graphicsInfo", "config.graphicsConfig", "config.sharedGpuCapabilities")
_PLAYBOOK = """
- hosts: localhost
  connection: local
  gather_facts: false
  tasks:
  - community.vmware.vmware_vm_info:
"""
_PLAN = """
version: 1
name: side-by-side
vcenter: {address}
vms:
- name: "ours-{{1..{count}}}"
  template: {template}
  cpus: 4
  memory: 16GiB
  gpus: {profile}
"""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
