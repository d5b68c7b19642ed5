"""Known failures of the NVIDIA driver in a guest, and of CUDA on it: dmesg, modprobe, programs."""

from __future__ import annotations

from vgpu_cfg.knowledge.fault_rows import Confidence, FaultRow

DRIVER_ROWS = (
    FaultRow(
        "driver-no-answer",
        (r"couldn't communicate with the NVIDIA driver", r"could not communicate with the NVIDIA driver"),
        sample=(
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that"
            " the latest NVIDIA driver is installed and running."
        ),
        symptom="nvidia-smi cannot talk to the NVIDIA driver",
        cause=(
            "the driver is not loaded; in this order: not installed, or not built for the kernel that runs"
            " since an update; nouveau holds the GPU; Secure Boot refused it; it was built and found no"
            " device it may drive (another branch than the host's, no GPU in the VM); on ESXi: the host"
            " driver is not installed, or the host was not restarted since"
        ),
        check=(
            "lsmod | grep -E 'nvidia|nouveau' in the guest: nothing, or nouveau",
            "uname -r; dkms status; ls /lib/modules/$(uname -r) in the guest: a module for this kernel",
            "mokutil --sb-state; dmesg | grep -iE 'nvidia|nvrm|nouveau|lockdown' in the guest: its reason",
            "lspci -d 10de: in the guest: the GPU is there",
            "vmkload_mod -l | grep nvidia; esxcli software vib list | grep -i nv on ESXi: loaded, installed",
        ),
        remedy=(
            "do the first of these that applies: install the driver (with headers of the running kernel) and"
            " load it by modprobe nvidia; blacklist nouveau; sign the module or switch Secure Boot off; take"
            " the host's branch; on ESXi install the host driver and restart the host"
        ),
        source=(
            "NVIDIA Linux driver README: common problems; NVIDIA AI Enterprise 5.0 user guide; Broadcom KB"
            " 367541 (the VIB on ESXi)"
        ),
        words="driver not running",
    ),
    FaultRow(
        "nouveau",
        (
            r"\bnouveau\b[^\n]*(obtained ownership|loaded|conflict|in use|bound)",
            r"obtained ownership of the NVIDIA",
            r"NVIDIA probe routine was not called",
            r"nouveau kernel driver is currently in use",
        ),
        sample=(
            "NVRM: The NVIDIA probe routine was not called for 1 device(s). NVRM: This can occur when a"
            " driver such as: nouveau, rivafb, nvidiafb or rivatv was loaded and obtained ownership of the"
            " NVIDIA device(s)."
        ),
        symptom="another driver, most often nouveau, holds the GPU",
        cause="the kernel's own driver for NVIDIA's GPUs was loaded before NVIDIA's",
        check=("lsmod | grep nouveau in the guest; lspci -nnk -d 10de: in the guest: Kernel driver in use",),
        remedy=(
            "write 'blacklist nouveau' and 'options nouveau modeset=0' to /etc/modprobe.d, rebuild the"
            " initramfs, restart the guest"
        ),
        source=(
            "the kernel module's own words (github.com/NVIDIA/open-gpu-kernel-modules); NVIDIA Linux driver"
            " README"
        ),
    ),
    FaultRow(
        "driver-versions-differ",
        (
            r"API mismatch: the client",
            r"driver/library version mismatch",
            r"kernel module has (NVRM: )?the version",
        ),
        sample=(
            "NVRM: API mismatch: the client has the version 535.54.03, but NVRM: this kernel module has the"
            " version 530.30.02."
        ),
        symptom="the driver's libraries and its kernel module are of two versions (kernel module mismatch)",
        cause=(
            "the driver was updated (often by unattended upgrades), and the module of the old one is still"
            " loaded"
        ),
        check=(
            "cat /proc/driver/nvidia/version: the loaded one; modinfo -F version nvidia: the installed one",
        ),
        remedy=(
            "restart the guest (or stop what uses the GPU and load the module again); hold the driver's"
            " packages: apt-mark hold"
        ),
        source=(
            "github.com/stackhpc/ansible-slurm-appliance/issues/287;"
            " github.com/canonical/ubuntu-server-documentation/pull/369"
        ),
        words="NVML mismatch after upgrade",
    ),
    FaultRow(
        "module-not-built",
        (
            r"module nvidia not found",
            (
                r"dkms[^\n]*(fail|error|bad return status)[^\n]*nvidia|nvidia[^\n]*dkms[^\n]*(fail|error|bad"
                r" return status)"
            ),
            r"unable to find the kernel source tree",
        ),
        sample="modprobe: FATAL: Module nvidia not found in directory /lib/modules/6.8.0-45-generic",
        symptom="there is no NVIDIA module for the kernel that runs",
        cause=(
            "the kernel was updated and the module was not built for it: headers, compiler or dkms are"
            " missing"
        ),
        check=("uname -r; dkms status; cat /var/lib/dkms/nvidia/*/build/make.log in the guest",),
        remedy=(
            "install linux-headers-$(uname -r), then dkms autoinstall; or hold the kernel at the version"
            " that the driver has"
        ),
        source=(
            "https://download.nvidia.com/XFree86/Linux-x86_64/455.38/README/commonproblems.html; the wording"
            " is recalled"
        ),
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "secure-boot",
        (
            r"key was rejected by service",
            r"required key not available",
            r"module verification failed[^\n]*nvidia",
            r"loading of unsigned module is (rejected|restricted)",
        ),
        sample="modprobe: ERROR: could not insert 'nvidia': Key was rejected by service",
        symptom="the kernel refuses NVIDIA's module because of its signature",
        cause=(
            "Secure Boot is on in the VM, and the module was built there and signed by no key that the VM"
            " knows"
        ),
        check=(
            "mokutil --sb-state in the guest: SecureBoot enabled",
            "VM > Edit Settings > VM Options > Boot Options: Secure Boot",
        ),
        remedy="switch Secure Boot off for the VM, take signed modules, or enrol the key (mokutil --import)",
        source=(
            "the Linux kernel's words for EKEYREJECTED; NVIDIA Linux driver README; recalled in this place"
        ),
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "module-no-device",
        (
            r"could not insert '?nvidia'?: no such device",
            r"no NVIDIA (graphics )?(device|adapter)[^\n]*(found|probe)",
        ),
        sample="modprobe: ERROR: could not insert 'nvidia': No such device",
        symptom="NVIDIA's module finds no GPU that it can drive",
        cause=(
            "the VM has no GPU, the driver is a bare-metal one without support for this vGPU, or open"
            " modules meet a GPU older than Turing"
        ),
        check=(
            "lspci -nn -d 10de: in the guest: the GPU and its ids",
            "dmesg | grep NVRM in the guest: why each device was left",
        ),
        remedy="give the VM its GPU; in a vGPU's guest install the guest (grid) driver of the host's branch",
        source="NVIDIA vGPU software user guide: installing the guest driver; the wording is recalled",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "bar-invalid",
        (
            r"PCI I/O region assigned to your NVIDIA device is invalid",
            r"BAR\d is 0M @ 0x0",
            r"BAR \d[^\n]*can't assign",
            r"64-bit BAR[^\n]*(not|fail|unassigned)",
        ),
        sample=(
            "NVRM: This PCI I/O region assigned to your NVIDIA device is invalid: NVRM: BAR1 is 0M @ 0x0"
            " (PCI:0000:02:01.0)"
        ),
        symptom="the GPU's memory window (64-bit BAR) got no place in the guest's address space",
        cause="the VM boots by BIOS, or its 64-bit MMIO window is off or too small for the GPU's memory",
        check=(
            "ls /sys/firmware/efi in the guest: it must be there",
            (
                "govc vm.info -e VM: pciPassthru.use64bitMMIO TRUE, pciPassthru.64bitMMIOSizeGB of twice the"
                " GPUs' memory, in powers of two"
            ),
        ),
        remedy=(
            "make the VM an EFI one (from an EFI template) with use64bitMMIO and a larger 64bitMMIOSizeGB:"
            " `vgpu-cfg` sets both"
        ),
        source=(
            "the kernel module's own words (github.com/NVIDIA/open-gpu-kernel-modules);"
            " https://www.dell.com/support/kbdoc/en-us/000199172; the wording is recalled"
        ),
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "adapter-init-failed",
        (r"RmInitAdapter failed", r"rm_init_adapter failed"),
        sample="NVRM: GPU 0000:02:01.0: RmInitAdapter failed! (0x26:0x56:1474)",
        symptom="the driver cannot initialise the GPU",
        cause=(
            "a passed-through GPU with too small a 64-bit MMIO window, a GPU left in a bad state by the VM"
            " before, or GSP firmware that does not load"
        ),
        check=(
            "dmesg | grep NVRM in the guest: the first lines, not the last",
            "lspci -vv -d 10de: in the guest: sizes of the memory regions",
        ),
        remedy=(
            "see the MMIO window and EFI first; power the VM off and on; then switch the host's power off"
            " and on"
        ),
        source=(
            "the kernel module's own words (github.com/NVIDIA/open-gpu-kernel-modules); the causes are"
            " recalled"
        ),
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "peermem-refused",
        (
            r"(insert|load)[^\n]*nvidia[_-]peermem",
            r"nvidia[_-]peermem[^\n]*(invalid argument|not found|fail|unknown symbol)",
        ),
        sample="modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument",
        symptom="nvidia-peermem does not load",
        cause=(
            "the NVIDIA driver was built before the RDMA stack (DOCA or MLNX_OFED) was installed, so it"
            " lacks the calls"
        ),
        check=("dmesg | tail in the guest, after modprobe nvidia-peermem; ofed_info -s: the RDMA stack",),
        remedy=(
            "install the RDMA stack first, then build the NVIDIA driver again (dkms); `vgpu-cfg` installs in"
            " this order"
        ),
        source="NVIDIA GPUDirect RDMA documentation: nvidia-peermem; the wording is recalled",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "cuda-no-device",
        (r"no CUDA-capable device is detected", r"CUDA_ERROR_NO_DEVICE|cudaErrorNoDevice"),
        sample="CUDA error: no CUDA-capable device is detected",
        symptom="CUDA finds no GPU",
        cause=(
            "the program sees none: CUDA_VISIBLE_DEVICES, a container without --gpus, a MIG GPU without"
            " compute instances, or no driver"
        ),
        check=(
            "echo $CUDA_VISIBLE_DEVICES; nvidia-smi -L, where the program runs",
            "nvidia-smi mig -lci in the guest, where the GPU is in MIG mode",
        ),
        remedy="start the container with --gpus all, make the compute instance, or name the GPU by its UUID",
        source="CUDA runtime API: error types; the wording is recalled",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "cuda-driver-too-old",
        (
            r"driver version is insufficient for CUDA runtime",
            r"cudaErrorInsufficientDriver",
            r"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        ),
        sample="CUDA error: CUDA driver version is insufficient for CUDA runtime version",
        symptom="the driver is older than the program's CUDA",
        cause="the program or image was built for a newer CUDA than the guest's driver has",
        check=("nvidia-smi in the guest: CUDA Version at its top; nvcc --version in the image",),
        remedy="take an older image, or a newer guest driver of a branch that the host takes",
        source="CUDA runtime API: error types; the wording is recalled",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "cuda-out-of-memory",
        (
            r"CUDA out of memory",
            r"CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation",
            r"CUDA error: out of memory",
        ),
        sample="torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        symptom="a program wants more GPU memory than there is",
        cause="the vGPU's profile is smaller than the program needs, or another process holds memory",
        check=("nvidia-smi in the guest: memory used, and by which process",),
        remedy=(
            "make batches smaller, stop the other process, or give the VM a larger profile (`vgpu-cfg"
            " profiles BOARD`)"
        ),
        source="CUDA runtime API: error types; the wording is recalled",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "cuda-busy",
        (
            r"CUDA-capable device\(s\) is/are busy or unavailable",
            r"devices? (are|is) busy or unavailable",
            r"cudaErrorDevicesUnavailable",
        ),
        sample="CUDA error: CUDA-capable device(s) is/are busy or unavailable",
        symptom="CUDA says that the GPUs are busy or unavailable",
        cause=(
            "another process holds a GPU in exclusive mode, or the GPU is in MIG mode and has no compute"
            " instance"
        ),
        check=(
            "nvidia-smi -q -d COMPUTE in the guest: Compute Mode",
            "nvidia-smi mig -lci in the guest: instances",
        ),
        remedy="nvidia-smi -c DEFAULT, stop the other process, or make the compute instance",
        source="CUDA runtime API: error types; the wording is recalled",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "cuda-ecc",
        (r"uncorrectable ECC error", r"CUDA_ERROR_ECC_UNCORRECTABLE|cudaErrorECCUncorrectable"),
        sample="CUDA error: uncorrectable ECC error encountered",
        symptom="a program was stopped by an ECC error that could not be corrected",
        cause="memory of the GPU failed while it was used (the host and the guest log an Xid 48, 94 or 95)",
        check=(
            "dmesg | grep -i xid, in the guest and on the host",
            "nvidia-smi -q -d ECC,ROW_REMAPPER on the host",
        ),
        remedy="restart the host so that the bad row is remapped; have the board replaced where it repeats",
        source=(
            "CUDA runtime API: error types; https://docs.nvidia.com/deploy/xid-errors/; the wording is"
            " recalled"
        ),
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "fabric-not-ready",
        (
            r"system not yet initialized",
            r"cudaErrorSystemNotReady|CUDA_ERROR_SYSTEM_NOT_READY",
            r"error 802\b",
        ),
        sample="CUDA error 802: system not yet initialized",
        symptom="CUDA waits for the NVLink fabric of an NVSwitch server",
        cause="the Fabric Manager does not run, or is of another version than the driver",
        check=(
            (
                "nvidia-smi -q: Fabric State; systemctl status nvidia-fabricmanager, where it belongs (the"
                " host's, for vGPUs)"
            ),
        ),
        remedy="start the Fabric Manager of the driver's version, then what uses the GPUs",
        source="NVIDIA Fabric Manager user guide; CUDA runtime API: error types; the wording is recalled",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "no-kernel-image",
        (r"no kernel image is available for execution",),
        sample="CUDA error: no kernel image is available for execution on the device",
        symptom="the program has no code for this GPU",
        cause="it was built for older GPUs (a new board, an old image)",
        check=("nvidia-smi --query-gpu=compute_cap --format=csv in the guest: what it must be built for",),
        remedy="take an image that knows the GPU, or build with its compute capability",
        source="CUDA runtime API: error types; the wording is recalled",
        confidence=Confidence.INFERRED,
    ),
)
