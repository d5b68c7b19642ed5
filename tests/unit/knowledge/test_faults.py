"""Every failure that is known is known by its own words, and says how to be sure and what to do."""

from __future__ import annotations

import re

import pytest

from vgpu_cfg.knowledge.fault_rows import FaultRow
from vgpu_cfg.knowledge.faults import (
    Confidence,
    _rows,
    count_known,
    explain_fault,
    explain_lines,
    explain_log,
    explanation_of,
)

REFERENCE = {
    1: ("graphics-resources", "amount of graphics resource available in the parent resource pool"),
    2: ("vgpu-plugin", "Could not initialize plugin 'libnvidia-vgx.so' for vGPU"),
    3: ("no-device-for-profile", "No graphics device is available for vGPU"),
    4: ("memory-not-reserved", "memory reservation (sched.mem.min) should be equal to memsize"),
    5: ("mmio-too-small", "DevicePowerOn; total number of pages needed exceeds limit"),
    6: ("not-a-passthrough-device", "Device 6:0.0 is not a passthrough device"),
    7: ("wrong-system-id", "The systemId does not match the current system or the deviceId"),
    8: ("viommu-with-vgpu", "IOMMU virtualization is not allowed with VGPU"),
    9: ("interrupt-vectors", "power-on fails with many devices, vmkernel interrupt-vector exhaustion"),
    10: ("hot-migration-off", "vGPU hot migration is not enabled"),
    11: ("migration-feature", "A required migration feature is not supported on the Source host"),
    12: ("migration-hosts-differ", "migration incompatible: ECC, MIG, NVLink topology, GPU type differs"),
    13: ("p2p-through-pcie", "NCCL slow in VM, guest topology shows PIX not NV12"),
    14: ("ats-half-speed", "GPUDirect half bandwidth after enabling ATS"),
    15: ("nic-firmware-no-ats", "mlxconfig query, grep ATS prints nothing"),
    16: ("mig-pending", "MIG stays pending"),
    17: ("bios-to-efi", "guest does not boot after BIOS to EFI"),
    18: ("fragmented-by-breadth", "larger profile cannot start though GPUs are half empty"),
    19: ("placement-gaps", "mixed-size: fits by sum but fails"),
    20: ("mig-4g-slice", "4-slice MIG profile fails while 3 slices are used"),
    21: ("graphics-driver-only", "profiles missing, only B and Q types shown"),
    22: ("driver-does-not-claim", "Module Name: pciPassthru"),
    23: ("console-black", "VM console black after driver install"),
    24: ("gsp-firmware", "Invalid feature requested for the underlying GSP firmware configuration"),
    25: ("parameter-ignored", "plugin parameter silently ignored"),
    26: ("device-backing", "wrong device attached, InvalidDeviceBacking"),
    27: ("t4-sriov", "T4 says that SR-IOV needs a reboot for ever"),
    28: ("no-peer-access", "cuDeviceCanAccessPeer is 0 with allowP2P"),
    29: ("fabric-manager-missing", "HGX B200 or B300: no NVLink on Infra 9.0"),
    30: ("guest-driver-branch", "guest nvidia-smi: no device, vGPU disabled"),
    31: ("drs-does-not-balance", "vGPU VMs not balanced by DRS"),
    32: ("passthrough-on-nvswitch", "GPU passthrough on HGX fails, no NVLink"),
    33: ("guestinfo-denied", "guestinfo read fails with Permission denied"),
    34: ("maintenance-blocked", "host cannot enter maintenance mode"),
    35: ("snapshot-refused", "snapshot or suspend refused"),
    36: ("hvd-init-hangs", "hangs at hvd.init()"),
    37: ("nvml-lost", "Failed to initialize NVML"),
    38: ("mig-instances-lost", "VM gets half the MIG GPU count after a reboot"),
    39: ("roce-drops", "RoCE unstable, drops"),
    40: ("mode-reverted", "mode reverted: mixed size or MIG off after a reboot"),
}
"""The forty symptoms that the project's collection of facts lists, by their number, and the row of each."""

COMMAND = re.compile(
    r"\b(govc|vgpu-cfg|esxcli|nvidia-smi|mlxconfig|mlnx_qos|lspci|grep|cat|dmesg|docker|ping|ip|ssh|vmtoolsd)\b"
    r"|/etc/|/sys/| > "
)
"""A program that is there to be typed, a file, or a place in the vSphere Client ("VM > Edit Settings")."""

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
    assert len(_rows()) == len(SAMPLES) == count_known()


def test_every_symptom_of_the_facts_has_its_row() -> None:
    assert sorted(REFERENCE) == list(range(1, 41))
    keys = [key for key, _ in REFERENCE.values()]
    assert len(set(keys)) == 40
    assert set(keys) <= {row.key for row in _rows()}


@pytest.mark.parametrize("row", _rows(), ids=lambda row: row.key)
def test_every_row_says_what_is_seen_why_how_to_be_sure_and_what_to_do(row: FaultRow) -> None:
    assert all((row.symptom, row.cause, row.remedy, row.check))
    for text in (row.symptom, row.cause, row.remedy, *row.check):
        assert text == " ".join(text.split()), text
        assert not text.endswith("."), text
    assert explanation_of(row.key) is not None


@pytest.mark.parametrize("row", _rows(), ids=lambda row: row.key)
def test_how_to_be_sure_names_a_command_or_a_place(row: FaultRow) -> None:
    for line in row.check:
        assert COMMAND.search(line), line


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


def test_lines_of_a_log_are_told_by_the_row_that_they_show() -> None:
    telling = SAMPLES["mmio-too-small"]
    log = f"first\n{SAMPLES['device-power-on']}\nthird\n{telling}\n{telling}"
    (line,) = explain_lines(log)
    assert (line.index, line.key) == (3, "mmio-too-small")
    (general,) = explain_lines(SAMPLES["device-power-on"])
    assert (general.index, general.key) == (0, "device-power-on")
    assert explain_lines("all\nis\nwell") == ()


def test_the_name_of_a_fault_explains_where_no_words_do() -> None:
    assert [found.key for found in explain_log("vim.fault.InvalidDeviceBacking")] == ["device-backing"]
    both = f"vim.fault.InvalidDeviceBacking: {SAMPLES['mmio-too-small']}"
    assert [found.key for found in explain_log(both)] == ["mmio-too-small"]


def test_a_row_is_found_by_its_key() -> None:
    found = explanation_of("roce-drops")
    assert found is not None
    assert found.confidence is Confidence.INFERRED
    assert explanation_of("nothing") is None


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("power-on fails with many devices, vmkernel interrupt-vector exhaustion", "interrupt-vectors"),
        ("MIG stays pending", "mig-pending"),
        ("guest does not boot after BIOS to EFI", "bios-to-efi"),
        ("mixed-size: fits by sum but fails", "placement-gaps"),
        ("4-slice MIG profile fails while 3 slices used", "mig-4g-slice"),
        ("plugin parameter silently ignored", "parameter-ignored"),
        ("guest nvidia-smi: no device / vGPU disabled", "guest-driver-branch"),
        ("snapshot/suspend refused", "snapshot-refused"),
        ("VM gets half MIG GPU count after reboot", "mig-instances-lost"),
        ("vSphere plan OK on paper, mode reverted", "mode-reverted"),
    ],
)
def test_a_symptom_in_a_persons_own_words_is_known_too(text: str, key: str) -> None:
    found = explain_fault(text)
    assert found is not None
    assert found.key == key
