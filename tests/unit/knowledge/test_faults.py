from __future__ import annotations

import pytest

from vgpu_cfg.knowledge.faults import Confidence, _rows, explain_fault, explain_log

SAMPLES = {
    "mmio-too-small": "PCIPassthru: total number of pages needed (4206594) exceeds limit (917504), failing",
    "graphics-resources": (
        "The amount of graphics resource available in the parent resource pool is insufficient for"
        " the operation."
    ),
    "vgpu-plugin": "Could not initialize plugin 'libnvidia-vgx.so' for vGPU 'grid_a100-40c'",
    "no-device-for-profile": "No graphics device is available for vGPU 'nvidia_a40-1a'.",
    "memory-not-reserved": (
        "Invalid memory setting: memory reservation (sched.mem.min) should be equal to memsize(32768)."
    ),
    "not-a-passthrough-device": (
        "Failed to start the virtual machine. Device 6:0.0 is not a passthrough device."
    ),
    "wrong-system-id": (
        "The systemId does not match the current system or the deviceId, and the vendorId does not"
        " match the device currently at 97:0.0."
    ),
    "viommu-with-vgpu": (
        "The virtual machine cannot be powered on because IOMMU virtualization is not allowed with VGPU"
    ),
    "hot-migration-off": (
        "Migration was temporarily disabled due to another migration activity. vGPU hot migration"
        " is not enabled."
    ),
    "migration-feature": 'A required migration feature is not supported on the "Source" host',
    "migration-hosts-differ": "Cannot migrate: ECC state of the hosts is not the same",
    "bios-to-efi": "EFI Network... unsuccessful.",
    "device-backing": "Invalid device backing specified for the operation.",
    "parameter-ignored": "pciPassthru0.cfg.enable_uvm is ignored",
    "snapshot-refused": "A snapshot cannot be taken of a VM with a passthrough device",
    "interrupt-vectors": "vmkernel: out of interrupt vectors",
    "p2p-through-pcie": "topology shows PIX instead of NV12",
    "ats-half-speed": "GPUDirect reaches half the bandwidth after enabling ATS",
    "nic-firmware-no-ats": "mlxconfig -d 0000:3c:00.0 query | grep -i ATS prints nothing",
    "mig-pending": "MIG mode is pending enable",
    "fragmented-by-breadth": "a larger profile cannot start",
    "placement-gaps": "no free placement id for this vGPU",
    "mig-4g-slice": "unable to create GPU instance 4g.20gb",
    "graphics-driver-only": "no C-series profiles shown",
    "driver-does-not-claim": "   Module Name: pciPassthru",
    "console-black": "the console is black after the driver install",
    "gsp-firmware": (
        "Invalid feature requested for the underlying GSP firmware configuration. Disable GSP"
        " firmware to use this feature."
    ),
    "t4-sriov": "Tesla T4: SR-IOV enabled, needs reboot",
    "no-peer-access": "cuDeviceCanAccessPeer = 0",
    "fabric-manager-missing": "Fabric Manager is not running",
    "guest-driver-branch": "nvidia-smi: No devices were found",
    "drs-does-not-balance": "vGPU VMs are not balanced by DRS",
    "passthrough-on-nvswitch": "GPU passthrough fails on HGX",
    "guestinfo-denied": "vmware-rpctool info-get guestinfo.metadata: Permission denied",
    "maintenance-blocked": "The host cannot enter maintenance mode",
    "hvd-init-hangs": "training hangs at hvd.init()",
    "nvml-lost": "Failed to initialize NVML: Unknown Error",
    "mig-instances-lost": "compute instances are gone after the reboot",
    "roce-drops": "RoCE is unstable, with drops",
    "mode-reverted": "mixed-size mode was reset by a reboot",
    "concurrent-access": "vim.fault.ConcurrentAccess",
    "duplicate-name": "The name 'hvd-01' already exists.",
    "task-in-progress": "Another task is already in progress.",
    "no-permission": "Permission to perform this operation was denied.",
    "memory-resources": "The host does not have sufficient memory resources to satisfy the reservation.",
    "hardware-version": "The virtual machine version is not supported by this host.",
    "device-power-on": "Module 'DevicePowerOn' power on failed.",
}


def test_every_row_has_a_sample_and_every_sample_a_row() -> None:
    assert set(SAMPLES) == {row.key for row in _rows()}
    assert len(_rows()) == len(SAMPLES)


@pytest.mark.parametrize(("key", "text"), SAMPLES.items(), ids=str)
def test_a_text_is_explained_by_its_own_row(key: str, text: str) -> None:
    found = explain_fault(text)
    assert found is not None
    assert found.key == key
    assert found.cause
    assert found.remedy
    assert explain_fault(text.upper().replace(" ", "  ")) == found


def test_a_text_nobody_knows_is_not_explained() -> None:
    assert explain_fault("The operation is not supported on the object.") is None
    assert explain_fault("") is None
    assert explain_log("all is well") == ()


def test_a_faults_type_helps_where_the_text_does_not() -> None:
    found = explain_fault("Es sind nicht genügend Ressourcen da.", "InsufficientGraphicsResourcesFault")
    assert found is not None
    assert found.key == "graphics-resources"
    assert explain_fault("A general system error occurred.", "SystemError") is None


def test_the_telling_row_comes_before_the_general_one() -> None:
    log = f"{SAMPLES['device-power-on']}\n2026-03-02 vmx| {SAMPLES['mmio-too-small']}"
    assert [found.key for found in explain_log(log)] == ["mmio-too-small"]
    assert [found.key for found in explain_log(SAMPLES["device-power-on"])] == ["device-power-on"]


def test_what_rests_on_recall_says_so() -> None:
    inferred = {row.key for row in _rows() if row.confidence is Confidence.INFERRED}
    assert inferred == {
        "bios-to-efi",
        "driver-does-not-claim",
        "mig-instances-lost",
        "mode-reverted",
        "nvml-lost",
        "parameter-ignored",
        "roce-drops",
        "snapshot-refused",
    }
