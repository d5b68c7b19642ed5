"""Guests to try: bundles as the contract has them, VMs that boot with them, and what they report."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyVmomi import vim

from tests.unit.lab.rig import Rig
from vgpu_cfg import documents
from vgpu_cfg.lab.guest.login import LabGuestShell, open_guest_shell
from vgpu_cfg.lab.guest.system.creation import guest_of
from vgpu_cfg.lab.state.guest import Guest
from vgpu_cfg.lab.state.host import Host, HostDriver, Passthrough
from vgpu_cfg.lab.state.host_defaults import load_driver
from vgpu_cfg.lab.state.inventory import VirtualMachine

STAGE, FOLDER = "/usr/local/sbin/vgpu-cfg-stage", "/var/lib/vgpu-cfg"
UNIT = "/etc/systemd/system/vgpu-cfg-stage.service"
REPORT = "guestinfo.vgpu_cfg.report"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIC0000000000000000000000000000000000000000000"
GPU, NIC = "0000:21:00.0", "0000:24:00.0"
IMAGE = "nvcr.io/nvidia/tensorflow:21.07-tf1-py3"
DRIVER = "https://files.lab/nvidia-linux-grid-580_580.95.05_amd64.deb"

Files = dict[str, tuple[str, int]]


def module(name: str, secrets: Sequence[str] = (), **parameters: Any) -> dict[str, Any]:
    """Return a module of a manifest; its script drops the secrets that it names."""
    return {"name": name, "secrets": list(secrets), "parameters": {"kind": name, **parameters}}


def bundle(*modules: Mapping[str, Any], secrets: Mapping[str, str] | None = None) -> Files:
    """Return the files of a bundle: path to text and permissions."""
    files: Files = {STAGE: ("#!/bin/sh\n", 0o755), UNIT: ("[Unit]\n", 0o644)}
    entries = []
    for number, one in enumerate(modules, start=1):
        script = f"{FOLDER}/modules/{number:02d}-{one['name']}.sh"
        files[script] = (
            "#!/bin/sh\n" + "".join(f"drop_secret {name}\n" for name in one["secrets"]),
            0o644,
        )
        digest = f"{number:010x}"
        entry = {"name": one["name"], "digest": digest, "script": script, "parameters": one["parameters"]}
        entries.append(entry)
    manifest = {"v": 1, "plan": "p", "vm": "a", "spec": "0123456789", "modules": entries}
    files[f"{FOLDER}/manifest.json"] = (json.dumps(manifest), 0o644)
    for name, text in (secrets or {}).items():
        files[f"{FOLDER}/secrets/{name}"] = (text, 0o600)
    return files


def packed(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode())).decode()


def user_data(files: Files, **more: Any) -> str:
    """Return a #cloud-config that writes files and runs the stage command."""
    written = [
        {"path": path, "content": text, "permissions": f"0{mode:o}"} for path, (text, mode) in files.items()
    ]
    content = {"write_files": written, "runcmd": [[STAGE, "--run", "first"]], **more}
    return f"#cloud-config\n{documents.dump(content)}"


def guestinfo(text: str, **metadata: Any) -> dict[str, str]:
    """Return the extraConfig of a clone for cloud-init."""
    content = {"instance-id": "i-1", "local-hostname": "hvd-01", "redact": ["userdata"], **metadata}
    return {
        "guestinfo.userdata": packed(text),
        "guestinfo.userdata.encoding": "gzip+base64",
        "guestinfo.metadata": packed(documents.dump(content)),
        "guestinfo.metadata.encoding": "gzip+base64",
    }


class GuestRig(Rig):
    """A lab on `two-hosts-roce` whose hosts have a driver, and hand their ConnectX-6 Dx through."""

    def __init__(self, estate: str | Path = "two-hosts-roce", **options: Any) -> None:
        super().__init__(estate, **options)
        with self.lab.transaction():
            for host in self.lab.state.all(Host):
                host.driver = HostDriver()
                load_driver(host)
                for gpu in host.gpus:
                    gpu.graphics_type = "sharedDirect"
                host.configured_default_graphics_type = "sharedDirect"
                host.kernel["atsSupport"].configured = host.kernel["atsSupport"].runtime = "TRUE"
                host.passthrough[NIC] = Passthrough(enabled=True, active=True)
                self.lab.state.touch(host)

    def up(
        self, name: str, extra: Mapping[str, str] | None = None, *, number: int = 1, **more: Any
    ) -> VirtualMachine:
        """Clone a VM with a whole A100 and the NIC beside it, power it on, and wait until nothing happens."""
        host = self.host(f"esx-roce-0{number}.lab")
        backing = vim.vm.device.VirtualPCIPassthrough.DeviceBackingInfo(
            id=NIC, deviceId="101d", systemId=host.system_id, vendorId=0x15B3, deviceName="ConnectX-6 Dx"
        )
        keys = {"pciPassthru.allowP2P": "TRUE", "pciPassthru.RelaxACSforP2P": "TRUE", **(extra or {})}
        more.setdefault("source", "ubuntu-22.04-plain")
        vm = self.clone(name, "grid_a100-40c", host=host.name, extra=keys, devices=(backing,), **more)
        self.done(vm, "PowerOnVM_Task", host=vim.HostSystem(host.moid))
        self.booted(vm)
        return vm

    def staged(self, *modules: Mapping[str, Any], secrets: Mapping[str, str] | None = None) -> Guest:
        """Stage modules in a new VM `a` by cloud-init, and return its guest."""
        vm = self.up("a", guestinfo(user_data(bundle(*modules, secrets=secrets))))
        return guest_of(vm)

    def report(self, name: str = "a") -> Any:
        """Return what a guest reported."""
        return json.loads(self.vm(name).extra_config[REPORT])

    def states(self, name: str = "a") -> dict[str, str]:
        return {one["name"]: one["state"] for one in self.report(name)["modules"]}

    def states_or_none(self, name: str) -> str | None:
        """Return the state of a guest's first module, None before the first report."""
        return next(iter(self.states(name).values())) if REPORT in self.vm(name).extra_config else None

    def why(self, kind: str, name: str = "a") -> str:
        return str(next(one["why"] for one in self.report(name)["modules"] if one["name"] == kind))

    def shell(self, vm: VirtualMachine) -> LabGuestShell:
        """Log in as root, by a key that the guest is given."""
        guest_of(vm).accounts["root"].keys = (KEY,)
        return open_guest_shell(self.lab, vm.moid, "root", public_key=KEY)

    def mac(self, number: int = 1) -> str:
        """Return the MAC of a host's ConnectX-6 Dx."""
        return next(nic.mac for nic in self.host(f"esx-roce-0{number}.lab").nics if nic.pci.pci_id == NIC)

    def bring_firmware(self) -> None:
        """Let the NICs' firmware hold what was set, as a restart of the hosts does; the VMs run on here."""
        for host in self.lab.state.all(Host):
            for nic in host.nics:
                for parameter in nic.firmware.values():
                    parameter.current = parameter.next_boot


def training(number: int, mac: str, *, peers: int = 2) -> list[dict[str, Any]]:
    """Return the modules that make a worker of a VM, the launcher on the first."""
    nic = {"mac": mac, "driver": "", "name": "", "addresses": [f"192.168.10.{10 + number}/24"], "mtu": 9000}
    names = [f"hvd-{count:02d}" for count in range(1, peers + 1)]
    entries = [
        {"address": f"192.168.10.{10 + count}", "names": [name]} for count, name in enumerate(names, 1)
    ]
    modules = [
        module("host-name", host_name=names[number - 1], domain=""),
        module("hosts", entries=entries),
        module("network", nics=[nic]),
        module("ssh-mesh", ["host_key", "id"], vm=names[number - 1], user="root", port=2222, peers=entries),
        module("nouveau"),
        module("driver", package=DRIVER, sha256="", branches=["580", "570"], refused=["470"]),
        module("licence", ["token"], token="token", feature_type=4),
        module("ofed", stack="mlnx", package="https://files.lab/ofed.tgz", sha256=""),
        module("peermem", stack="mlnx", package="", sha256=""),
        module("nic-firmware", nics=[nic], parameters={"ATS_ENABLED": "true"}),
        module("roce", nics=[nic], trust="dscp", dscp=26, priority=3, owns_port=True),
        module("containers", runtime="docker", minimum_free_gib=20),
        module("toolkit", runtime="docker", repository="https://nvidia.github.io/libnvidia-container"),
        module("image", **image()),
        module("worker", runtime="docker", image=IMAGE, gpus=True, rdma=True),
    ]
    if number == 1:
        workers = [{"name": name, "slots": 1} for name in names]
        modules.append(module("launcher", workers=workers, environment={"NCCL_DEBUG": "WARN"}))
    return modules


def image(**changes: Any) -> dict[str, Any]:
    """Return the parameters of the module `image`."""
    known = {
        "runtime": "docker",
        "image": IMAGE,
        "archive": "",
        "framework": "horovod",
        "minimum_free_gib": 40,
    }
    return known | changes


SECRETS = {"token": "TOKEN", "host_key": "PRIVATE HOST", "id": "PRIVATE MESH"}


def pair(rig: GuestRig) -> tuple[VirtualMachine, VirtualMachine]:
    """Return two workers that were staged."""
    first, second = (
        rig.up(
            f"hvd-0{number}",
            guestinfo(user_data(bundle(*training(number, rig.mac(number)), secrets=SECRETS))),
            number=number,
        )
        for number in (1, 2)
    )
    return first, second
