"""What machines print, sick or healthy, as public reports have it, written down before the rules were read.

Sources: issues of open-gpu-kernel-modules, DCGM, gpud, and NVSentinel; the kernel's mlx5 and AER drivers.
"""

from __future__ import annotations

import json
from dataclasses import replace

from tests.unit.verification.health_plants import OF_VGPU, SOUND, Fault, answers, changed, recovery
from tests.unit.verification.two_workers import NOW, Scene
from vgpu_cfg.model.observed.own_items import HostAlarm

_X = "[ 6021.517312] NVRM: Xid (PCI:0000:3b:00): "
_NOBODY, _SOMEBODY = "pid='<unknown>', name=<unknown>, ", "pid=2115, name=python3, "
_MLX5, _NVIDIA = "[ 6021.6] mlx5_core 0000:5e:00.0", "[ 6021.7] nvidia 0000:3b:00.0"
_HANDLE = "Unable to determine the device handle for GPU0: 0000:3B:00.0: Unknown Error\n"
_DEMAND = _X + "154, GPU recovery action changed from {} to {}"
_NONE, _RESET, _REBOOT = "0x0 (None)", "0x1 (GPU Reset Required)", "0x2 (Node Reboot Required)"
_IN_USE, _LEAST = "Current : 16x", "Current : 4x"


def _log(rules: str, *lines: str) -> Fault:
    return Fault(rules, "", log="\n".join(lines))


def _smi(rules: str, text: str) -> Fault:
    return Fault(rules, "", smi=text)


def _alarms(rules: str, **alarms: str) -> Fault:
    """Return alarms of the host, by their colour."""
    shown = tuple(HostAlarm(name=name, is_red=kind == "red", since=NOW) for kind, name in alarms.items())

    def plant(scene: Scene) -> None:
        scene.hosts = [replace(host, alarms=shown) for host in scene.hosts]

    return Fault(rules, "", plant=plant)


def _dcgm(rules: str, overall: str, **errors: object) -> Fault:
    """Return `dcgmi health -c -j` of GPU 0, as DCGM's Health.cpp builds it."""
    systems = {"children": {name.replace("_", " "): seen for name, seen in errors.items()}}
    gpus = {"GPU": {"children": {"0": {"children": {"Errors": systems}, "value": overall}}}} if errors else {}
    body = {**gpus, "Overall Health": {"value": overall}}
    text = json.dumps({"body": body, "header": ["Health Monitor Report"]}, indent=3)
    return Fault(rules, "", plant=lambda scene: scene.answer("dcgmi", "health", "-c", "-j", by=text))


_INFOROM = {"value": "Failure", "overflow": ["A corrupt InfoROM has been detected in GPU 0."]}
_REPLAYS = {
    "value": "Warning",
    "overflow": ["Detected more than 8 PCIe replays per", "minute for GPU 0 : 11"],
}
PLANTED = (
    # Sick: the rules that report it.
    _log("gpu-lost", f"{_X}79, {_NOBODY}GPU has fallen off the bus."),
    _log(
        "gpu-lost kernel",
        f"{_X}79, {_NOBODY}GPU has fallen off the bus.",
        "[ 6021.6] NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.",
    ),
    _log(
        "memory-errors",
        f"{_X}48, pid=4321, name=python3, An uncorrectable double bit error (DBE) has been detected on GPU in"
        " the framebuffer at FBPA 9, subpartition 1.",
    ),
    _log(
        "memory-failed",
        f"{_X}64, {_NOBODY}Row Remapper Error: (0x0000000000fd8000) - All reserved rows are remapped",
    ),
    _log("memory-errors", f"{_X}95, {_NOBODY}Uncontained: FBHUB (0x1,0x0). RST: Yes, D-RST: No"),
    _log(
        "gpu-reset", f"{_X}119, pid=1393, name=python3, Timeout after 45s of waiting for RPC from GPU0 GSP!"
    ),
    _log("gpu-reset", f"{_X}62, {_NOBODY}31bb(31e8) 00000000 00000000"),
    _log("gpu-reset", _DEMAND.format(_NONE, _RESET)),
    _log("gpu-reset", _DEMAND.format(_RESET, _REBOOT)),
    _log("nvlink", f"{_X}149, NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x026001c6 0x00000000 0x00000000)"),
    _log("nvlink", f"{_X}74, {_NOBODY}NVLink: fatal error detected on link 6(0x10000, 0x0, 0x0, 0x0)"),
    _log(
        "kernel", "[ 6021.6] nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"
    ),
    _log("kernel", f"{_MLX5}: poll_health:825:(pid 0): device's health compromised - reached miss count"),
    _log("kernel", f"{_MLX5}: Port module event[error]: module 0, Cable error, High Temperature"),
    _log("kernel", f"{_NVIDIA}: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer"),
    _log("kernel", "[ 6021.6] NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x62:0x0:2327)"),
    _smi("memory-failed", changed("Remapping Failure Occurred : No", "Remapping Failure Occurred : Yes")),
    _smi("memory-repair", changed("Pending : No", "Pending : Yes")),
    _smi("gpu-reset", recovery("Drain and Reset")),
    _smi("pcie", changed(_IN_USE, _LEAST)),
    _smi("gpu-lost", _HANDLE),
    _smi("gpu-lost", f"{_HANDLE}No devices were found\n"),
    _smi("gpu-lost pcie", _HANDLE + changed(_IN_USE, _LEAST)),
    _smi("driver", "No devices were found\n"),
    _smi(
        "driver",
        SOUND.replace("Performance State                     : P0", "Performance State : Unknown Error"),
    ),
    _smi("licence", OF_VGPU.replace(": Licensed (", ": Unlicensed (Restricted) (")),
    _alarms("alarm", red="Host hardware power status"),
    _alarms("alarm warning", red="Host hardware fan status", yellow="Host hardware voltage"),
    _dcgm("dcgm", "Failure", InfoROM_system=_INFOROM),
    _dcgm("dcgm warning", "Failure", InfoROM_system=_INFOROM, PCIe_system=_REPLAYS),
    _dcgm("dcgm", "Failure"),
    # Noise: at most a note of a program, or a wait for the next maintenance; nothing may be cordoned.
    _log(
        "application",
        f"{_X}13, {_SOMEBODY}Graphics SM Warp Exception on (GPC 5, TPC 4): Out Of Range Address",
    ),
    _log(
        "application", f"{_X}31, {_SOMEBODY}Ch 0000001c. MMU Fault: ENGINE GRAPHICS faulted @ 0x7f1f_a2e00000"
    ),
    _log("application", f"{_X}43, {_SOMEBODY}Ch 00000010"),
    _log("application", *(f"{_X}45, {_SOMEBODY}Ch {number:08x}" for number in range(99))),
    _log("application", f"{_X}45, {_SOMEBODY}Ch 00000001 caused by previous Xid 149"),
    _log("application", f"{_X}43, pid=2115, name=(PCI:0000:3b:00): 79, Ch 00000010"),
    _log("application", f"{_X}68, pid=2115, name=ffmpeg, NVDEC0 exception"),
    _log("memory-repair", f"{_X}94, pid=1234, name=python3, Contained ECC error"),
    _log(
        "memory-repair",
        f"{_X}63, {_NOBODY}Row Remapper: New row marked for remapping, reset gpu to activate.",
    ),
    _log("other-xid", f"{_X}92, {_NOBODY}High single-bit ECC error rate"),
    _log("", f"{_X}145, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0409a0c2 0x00000008 0x00000001)"),
    _log("", "[ 6.6] nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress PRIV error"),
    _log(
        "",
        f"{_X}119, pid=1393, name=python3, Timeout after 45s of waiting for RPC from GPU0 GSP!",
        _DEMAND.format(_NONE, _RESET),
        _DEMAND.format(_RESET, _NONE),
    ),
    _log(
        "", "[ 6.6] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.133.20  Fri Mar 28 15:51:35 UTC 2025"
    ),
    _log("", f"{_MLX5} ens2np0: Link down", f"{_MLX5} ens2np0: Link up"),
    _log(
        "",
        f"{_MLX5}: mlx5_cmd_out_err:808:(pid 977): ACCESS_REG(0x805) op_mod(0x1) failed, status bad op",
    ),
    _log("", f"{_MLX5}: mlx5_pcie_event:299:(pid 0): Detected insufficient power on the PCIe slot (27W)."),
    _log("", f"{_NVIDIA}: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Transmitter ID)"),
    _log("", "[ 6.6] Memory cgroup out of memory: Killed process 2115 (python3) total-vm:182938472kB"),
    _log("", "[ 6.6] INFO: task python3:2115 blocked for more than 120 seconds."),
    _log("", "[ 6.6] python3[2115]: segfault at 10 ip 00007f3a1c2d4e5f error 4 in libtorch_cpu.so"),
    _smi("", changed("SW Power Cap : Not Active", "SW Power Cap : Active")),
    _smi("", changed("DRAM Correctable : 0", "DRAM Correctable : 9")),
    _smi("", recovery("N/A")),
    _smi("thermal", changed("SW Thermal Slowdown : Not Active", "SW Thermal Slowdown : Active")),
    _smi(
        "driver",
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 570.133\n",
    ),
    _smi("licence", OF_VGPU.replace(": Licensed (", ": Unlicensed (Unrestricted) (")),
    _alarms("warning", yellow="Host memory usage"),
    _alarms(""),
    _dcgm("warning", "Warning", PCIe_system=_REPLAYS),
    _dcgm("", "Healthy"),
    Fault("", "", plant=answers("dcgmi", by="Error: Health watches not enabled. Please enable watches. \n")),
    Fault("", "", plant=answers("dcgmi", by="Error: Unable to connect to host engine. Bad parameter.\n")),
)
"""Each with the rules that report it, and no others."""
