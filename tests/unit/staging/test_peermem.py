"""The way from the NIC into GPU memory: dma-buf where it holds, else nvidia-peermem, built anew."""

from __future__ import annotations

import pytest

from tests.unit.staging.sandbox import Sandbox
from vgpu_cfg.model.guests.modules import MODULE_ORDER, PeermemModule

LOADED = 'echo "nvidia_peermem 16384 0 - Live 0x0" >>"$ROOT/proc/modules"'
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {}  Release Build  (dvs-builder@U22)\n"
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23 10:11:16 UTC 2025\n"
SYMBOLS = "0000000000000000 T ib_register_peer_memory_client\t[ib_core]\n"
RUN = "/srv/NVIDIA-Linux-x86_64-580.95.05-grid.run"


@pytest.fixture
def guest(guest: Sandbox) -> Sandbox:
    """NVIDIA's closed modules on a kernel whose RDMA takes peers; peermem was not built."""
    guest.stand_in("uname", "echo 5.15.0-91-generic")
    guest.write("/proc/driver/nvidia/version", CLOSED)
    guest.write("/sys/module/nvidia/version", "580.95.05\n")
    guest.write("/proc/kallsyms", SYMBOLS)
    guest.stand_in("modprobe", f'[ "$1" != nvidia-peermem ] || {{ [ -f "$ROOT/built" ] && {LOADED}; }}')
    return guest


def dkms(guest: Sandbox, status: str, *, fails: bool = False) -> None:
    done = "exit 1" if fails else ': >"$ROOT/built"'
    guest.stand_in("dkms", f'case "$1" in status) printf "%b\\n" "{status}" ;; *) {done} ;; esac')


def test_the_rdma_stack_comes_before_the_driver_and_peermem_after_both() -> None:
    kinds = [kind for kind in MODULE_ORDER if kind in ("ofed", "driver", "peermem", "roce")]
    assert kinds == ["ofed", "driver", "peermem", "roce"]


def test_a_driver_that_was_built_after_the_stack_has_it(guest: Sandbox) -> None:
    guest.write("/built", "")
    guest.bring(guest.stage(PeermemModule()))
    assert guest.read("/etc/modules-load.d/vgpu-cfg-peermem.conf") == "nvidia-peermem\n"
    assert guest.calls("dkms") == []


@pytest.mark.parametrize(
    ("version", "kernel", "config", "told"),
    [("580.95.05", "5.15.0-91-generic", "", True), ("515.43.04", "6.8.0-49-generic", "y", True),
     ("580.95.05", "5.12.0", "", True), ("580.95.05", "6.1.0-25-amd64", "y", True),
     ("580.95.05", "5.11.22", "", False), ("580.95.05", "4.18.0-553.el8.x86_64", "", False),
     ("510.47.03", "5.15.0-91-generic", "", False), ("580.95.05", "6.8.0", "n", False)],
)  # fmt: skip
def test_dma_buf_takes_kernel_and_driver(
    guest: Sandbox, version: str, kernel: str, config: str, told: bool
) -> None:
    guest.write("/proc/driver/nvidia/version", OPEN.format(version))
    guest.stand_in("uname", f"echo {kernel}")
    if config:
        line = "CONFIG_DMA_SHARED_BUFFER=y" if config == "y" else "# CONFIG_DMA_SHARED_BUFFER is not set"
        guest.write(f"/boot/config-{kernel}", f"{line}\n")
    ran = guest.run(guest.stage(PeermemModule()), "check")
    assert (ran.status == 0) is told, ran
    assert ran.why.startswith("GPU memory uses dma-buf") is told
    if told:
        assert guest.run(guest.stage(PeermemModule()), "apply").status == 0
        assert "modprobe nvidia-peermem" not in guest.calls()


@pytest.mark.parametrize(
    ("status", "module"),
    [("nvidia/580.95.05, 5.15.0-91-generic, x86_64: installed", "nvidia"),
     ("nvidia, 580.95.05, 5.15.0-91-generic, x86_64: installed", "nvidia"),
     ("nvidia-srv/580.95.05, 5.15.0-91-generic, x86_64: installed", "nvidia-srv")],
)  # fmt: skip
def test_a_driver_older_than_the_stack_is_built_anew(guest: Sandbox, status: str, module: str) -> None:
    dkms(guest, f"mlnx-ofed-kernel/23.10, 5.15.0-91-generic, x86_64: installed\\n{status}")
    guest.bring(guest.stage(PeermemModule(stack="mlnx")))
    words = f"--force -m {module} -v 580.95.05 -k 5.15.0-91-generic"
    assert [line for line in guest.calls("dkms") if "status" not in line] == [
        f"dkms build {words}",
        f"dkms install {words}",
    ]


def test_a_run_file_builds_its_modules_anew_by_its_own_installer(guest: Sandbox) -> None:
    guest.write(RUN, '#!/bin/sh\necho "$*" >"$VGPU_CFG_ROOT/installer"\n: >"$VGPU_CFG_ROOT/built"\n')
    guest.bring(guest.stage(PeermemModule(stack="doca", package=RUN)))
    assert guest.read("/installer") == "--silent -K\n"
    assert list(guest.path("/var/lib/vgpu-cfg/packages").iterdir()) == []


def test_a_driver_of_the_template_that_nothing_can_build_anew_fails_with_its_meaning(guest: Sandbox) -> None:
    dkms(guest, "mlnx-ofed-kernel/23.10, 5.15.0-91-generic, x86_64: installed")
    ran = guest.run(guest.stage(PeermemModule(stack="mlnx")), "apply")
    assert (ran.status, ran.why) == (
        1,
        "driver 580.95.05 was built before the RDMA stack was installed, and without "
        "DKMS: use a template without this driver, and set guest.driver",
    )


def test_a_kernel_that_takes_no_peers_is_told(guest: Sandbox) -> None:
    """The distribution's RDMA of Debian or Red Hat: nothing that is built anew would load."""
    guest.write("/proc/kallsyms", "0000000000000000 T ib_register_client\t[ib_core]\n")
    dkms(guest, "nvidia/580.95.05, 5.15.0-91-generic, x86_64: installed")
    ran = guest.run(guest.stage(PeermemModule()), "apply")
    assert ran.status == 1
    assert ran.why.startswith(
        "this kernel's RDMA stack does not support peer memory: GPUDirect requires guest.ofed mlnx or doca"
    )
    assert [line for line in guest.calls("dkms") if "build" in line] == []


@pytest.mark.parametrize(
    ("version", "told"),
    [("580.95.05", "NVIDIA's modules could not be rebuilt"), ("", "NVIDIA's driver is not loaded either")],
)
def test_what_fails_is_told(guest: Sandbox, version: str, told: str) -> None:
    dkms(guest, "nvidia/580.95.05, 5.15.0-91-generic, x86_64: installed", fails=True)
    guest.write("/sys/module/nvidia/version", f"{version}\n" if version else "")
    ran = guest.run(guest.stage(PeermemModule()), "apply")
    assert ran.status == 1
    assert told in ran.why
