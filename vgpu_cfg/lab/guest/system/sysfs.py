"""Files that the kernel makes up: RDMA devices and their GIDs, interfaces, the release of the system.

Paths and contents are the kernel's (documentation of sysfs ABIs).
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import NAMESPACE_DNS, uuid5

from vgpu_cfg.catalog.nic import load_nics
from vgpu_cfg.lab.guest.system.creation import guest_of
from vgpu_cfg.lab.guest.system.gpus import driver_loads
from vgpu_cfg.lab.guest.system.nics import SeenNic, is_down, nics_of_guest
from vgpu_cfg.lab.guest.system.rdma import gbps_of, gids_of, hardware_counters, rdma_nics
from vgpu_cfg.lab.state.guest import Guest, altered_files, fault_of
from vgpu_cfg.lab.state.inventory import LabState, VirtualMachine

MADE = (
    "/sys/",
    "/proc/",
    "/etc/os-release",
    "/etc/hostname",
    "/run/cloud-init/",
    "/usr/sbin/sshd",
    "/lib/modules/",
    "/dev/infiniband",
)
FULL_STACKS = frozenset({"mlnx", "doca"})
NAMES = {
    "ubuntu": "Ubuntu",
    "debian": "Debian GNU/Linux",
    "rhel": "Red Hat Enterprise Linux",
    "rocky": "Rocky Linux",
}
GID_SLOTS = 16
MELLANOX = 0x15B3
BOOT_ID = "/proc/sys/kernel/random/boot_id"
NO_GID = "0000:0000:0000:0000:0000:0000:0000:0000"
FIRMWARE = "22.36.1010"


def firmware_of(guest: Guest) -> str:
    """Return the firmware version of a guest's NICs."""
    return fault_of(guest, "firmware") or FIRMWARE


def read(state: LabState, vm: VirtualMachine, path: str) -> str | None:
    """Return the content of a made-up file, None where the path is none."""
    if not path.startswith(MADE):
        return None
    return altered_files(guest_of(vm)).get(path) or dict(_files(state, vm)).get(path)


def exists(state: LabState, vm: VirtualMachine, path: str) -> bool:
    """Whether a made-up file or folder is at a path."""
    return path.startswith(MADE) and any(
        each == path or each.startswith(path.rstrip("/") + "/") for each, _ in _files(state, vm)
    )


def paths(state: LabState, vm: VirtualMachine) -> set[str]:
    """Return every made-up path, folders included."""
    found: set[str] = set()
    for path, _ in _files(state, vm):
        above = path
        while above and above not in found:
            found.add(above)
            above = above.rpartition("/")[0]
    return found


def listing(state: LabState, vm: VirtualMachine, folder: str) -> list[str]:
    """Return the content of a simulated folder, by name; nothing if there is none."""
    if not folder.startswith(MADE):
        return []
    prefix = folder.rstrip("/") + "/"
    return sorted(
        {each[len(prefix) :].partition("/")[0] for each, _ in _files(state, vm) if each.startswith(prefix)}
    )


def pcie_of(nic: SeenNic) -> tuple[str, int]:
    """Return the link that a board is made for: PCIe 5.0 from 200 Gb/s on, else 4.0; 16 lanes, few ones 8."""
    gbps = made_for_gbps(nic)
    return ("32.0" if gbps > 200 else "16.0"), (16 if gbps >= 100 else 8)


def made_for_gbps(nic: SeenNic) -> float:
    """Return the capability of a board's port, regardless of its current rate."""
    if nic.nic is None:
        return gbps_of(nic)
    model = load_nics().by_pci(MELLANOX, nic.nic.pci.device_id)
    return float(model.line_gbps) if model is not None and model.line_gbps else gbps_of(nic)


def _files(state: LabState, vm: VirtualMachine) -> Iterator[tuple[str, str]]:
    guest = guest_of(vm)
    name, _, version = guest.os.partition("-")
    yield "/etc/os-release", f'ID={name}\nVERSION_ID="{version}"\nNAME="{NAMES.get(name, name)}"\n'
    yield "/etc/hostname", f"{guest.host_name}\n"
    yield "/proc/mounts", f"/dev/sda1 / ext4 {fault_of(guest, 'root') or 'rw'},relatime 0 0\n"
    yield "/proc/sys/kernel/osrelease", f"{guest.kernel}\n"
    if vm.firmware == "efi":
        yield "/sys/firmware/efi/fw_platform_size", "64\n"
    if guest.cloud_init:
        yield "/run/cloud-init/cloud-id", f"{guest.datasource}\n"
    if guest.sshd:
        yield "/usr/sbin/sshd", ""
    if guest.headers:
        yield f"/lib/modules/{guest.kernel}/build/Makefile", ""
    yield BOOT_ID, f"{uuid5(NAMESPACE_DNS, f'{vm.uuid}.{guest.boots}')}\n"
    devices = rdma_nics(state, vm)
    for number in range(len(devices)):
        yield f"/dev/infiniband/uverbs{number}", ""
    if devices:
        yield "/dev/infiniband/rdma_cm", ""
    if driver_loads(state, vm):
        text = f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {guest.driver}  Release Build\n"
        yield "/proc/driver/nvidia/version", text
    for nic in nics_of_guest(state, vm):
        folder = f"/sys/class/net/{nic.name}"
        yield f"{folder}/address", f"{nic.mac}\n"
        yield f"{folder}/mtu", f"{nic.mtu}\n"
        yield f"{folder}/operstate", f"{'down' if is_down(vm, nic) else 'up'}\n"
        yield f"{folder}/carrier", f"{int(not is_down(vm, nic))}\n"
        if nic.is_whole:
            speed, width = pcie_of(nic)
            now_speed, _, now_width = fault_of(guest, "pcie").partition(" ")
            yield f"{folder}/device/current_link_speed", f"{now_speed or speed} GT/s PCIe\n"
            yield f"{folder}/device/current_link_width", f"{now_width or width}\n"
            yield f"{folder}/device/max_link_speed", f"{speed} GT/s PCIe\n"
            yield f"{folder}/device/max_link_width", f"{width}\n"
        if nic.rdma and guest.ofed in FULL_STACKS:
            roce = guest.roce.get(nic.mac)
            for priority in range(8):
                is_on = roce is not None and roce.priority == priority
                for side in ("roce_np", "roce_rp"):
                    yield f"{folder}/ecn/{side}/enable/{priority}", f"{int(is_on)}\n"
    for nic in rdma_nics(state, vm):
        folder = f"/sys/class/infiniband/{nic.rdma}"
        yield f"{folder}/fw_ver", f"{firmware_of(guest)}\n"
        yield f"{folder}/ports/1/state", f"{'1: DOWN' if is_down(vm, nic) else '4: ACTIVE'}\n"
        yield f"{folder}/ports/1/phys_state", f"{'3: Disabled' if is_down(vm, nic) else '5: LinkUp'}\n"
        yield f"{folder}/ports/1/link_layer", "Ethernet\n"
        yield f"{folder}/ports/1/rate", f"{gbps_of(nic):g} Gb/sec (4X EDR)\n"
        yield f"{folder}/device/net/{nic.name}/address", f"{nic.mac}\n"
        for counter, value in hardware_counters(guest, nic).items():
            yield f"{folder}/ports/1/hw_counters/{counter}", f"{value}\n"
        gids = {gid.index: gid for gid in gids_of(nic)}
        for index in range(GID_SLOTS):
            gid = gids.get(index)
            yield f"{folder}/ports/1/gids/{index}", f"{gid.gid if gid else NO_GID}\n"
            if gid is not None:
                kind = "RoCE v2" if gid.version == "v2" else "IB/RoCE v1"
                yield f"{folder}/ports/1/gid_attrs/types/{index}", f"{kind}\n"
                yield f"{folder}/ports/1/gid_attrs/ndevs/{index}", f"{nic.name}\n"
        if guest.ofed in FULL_STACKS:
            roce = guest.roce.get(nic.mac)
            text = f"Global tclass={roce.dscp << 2 | 2}\n" if roce is not None and roce.dscp else ""
            yield f"{folder}/tc/1/traffic_class", text
