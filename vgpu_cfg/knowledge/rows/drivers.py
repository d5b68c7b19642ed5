"""Known failures of the NVIDIA driver in a guest, of CUDA, and of licenses: dmesg, programs, nvidia-gridd."""

from __future__ import annotations

from vgpu_cfg.knowledge.fault_rows import Confidence, FaultRow

_LARGE_BAR = (
    r"(?<!VF\x20)\bBAR [0-5](?=[^\n]*(?:can't assign|failed to assign|no space))"
    r"[^\n]*\bmem size 0x0*[1-9a-f][0-9a-f]{7}"
)
"""A BAR of at least 256 MiB without an address, in any kernel's words (drivers/pci/setup-res.c)."""

DRIVER_ROWS = (
    FaultRow(
        "driver-no-answer",
        (r"couldn't communicate with the NVIDIA driver", r"could not communicate with the NVIDIA driver"),
        sample=(
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that"
            " the latest NVIDIA driver is installed and running."
        ),
        symptom="nvidia-smi cannot communicate with the NVIDIA driver",
        cause=(
            "the driver is not loaded, usually for one of these reasons: it is not installed or was not"
            " built for the running kernel, nouveau is using the GPU, Secure Boot rejected it, or it found"
            " no supported device (a different branch from the host's, or no GPU in the VM); on ESXi, the"
            " host driver is not installed, or the host was not rebooted"
        ),
        check=(
            "lsmod | grep -E 'nvidia|nouveau' in the guest: no output, or nouveau",
            (
                "uname -r; dkms status; ls /lib/modules/$(uname -r) in the guest: whether there is a module"
                " for this kernel"
            ),
            "mokutil --sb-state; dmesg | grep -iE 'nvidia|nvrm|nouveau|lockdown' in the guest: the reason",
            "lspci -d 10de: in the guest: the GPU must be listed",
            (
                "vmkload_mod -l | grep nvidia; esxcli software vib list | grep -i nv on ESXi: whether the"
                " driver is loaded and installed"
            ),
        ),
        remedy=(
            "take the first step that applies: install the driver and the headers for the running kernel"
            " and run modprobe nvidia, blacklist nouveau, sign the module or disable Secure Boot, or use"
            " the host's driver branch; on ESXi, install the host driver and reboot the host"
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
            r"\bnouveau\b[^\n]*(obtained ownership|loaded|conflict|in use|bound|unknown chipset)",
            r"obtained ownership of the NVIDIA",
            r"NVIDIA probe routine was not called",
            r"nouveau kernel driver is currently in use",
        ),
        sample=(
            "NVRM: The NVIDIA probe routine was not called for 1 device(s). NVRM: This can occur when a"
            " driver such as: nouveau, rivafb, nvidiafb or rivatv was loaded and obtained ownership of the"
            " NVIDIA device(s)."
        ),
        symptom="another driver, usually nouveau, is using the GPU",
        cause="the kernel's built-in driver for NVIDIA GPUs was loaded before NVIDIA's own driver",
        check=('lsmod | grep nouveau; lspci -nnk -d 10de: in the guest: the line "Kernel driver in use"',),
        remedy=(
            "add 'blacklist nouveau' and 'options nouveau modeset=0' to a file in /etc/modprobe.d, rebuild"
            " the initramfs, and reboot the guest"
        ),
        source=(
            "the kernel module's own messages (github.com/NVIDIA/open-gpu-kernel-modules); NVIDIA Linux"
            " driver README"
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
        symptom="the driver's libraries and kernel module have different versions (kernel module mismatch)",
        cause=(
            "the driver was updated (often by unattended-upgrades), but the old kernel module is still loaded"
        ),
        check=(
            (
                "cat /proc/driver/nvidia/version: the loaded version; modinfo -F version nvidia: the"
                " installed version"
            ),
        ),
        remedy=(
            "reboot the guest, or stop the programs that use the GPU and reload the module; to prevent"
            " this, hold the driver packages with apt-mark hold"
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
            r"failed to install the kernel module through DKMS",
        ),
        sample="modprobe: FATAL: Module nvidia not found in directory /lib/modules/6.8.0-45-generic",
        symptom="there is no NVIDIA module for the running kernel",
        cause=(
            "the kernel was updated, but the module was not built for the new kernel because the headers,"
            " compiler, or dkms are missing"
        ),
        check=("uname -r; dkms status; cat /var/lib/dkms/nvidia/*/build/make.log in the guest",),
        remedy=(
            "install linux-headers-$(uname -r), then run dkms autoinstall; or hold the kernel at the version"
            " the driver was built for"
        ),
        source=(
            "https://download.nvidia.com/XFree86/Linux-x86_64/455.38/README/commonproblems.html"
            " (wording from memory, not verified)"
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
            r"unsigned module loading is restricted",
            r"failed to load\W+Secure boot is enabled",
            r"PKCS#7 signature not signed with a trusted key",
        ),
        sample="modprobe: ERROR: could not insert 'nvidia': Key was rejected by service",
        symptom="the kernel rejects the NVIDIA module because of its signature",
        cause=(
            "Secure Boot is enabled for the VM, and the module was built in the guest without a signature"
            " that the VM trusts"
        ),
        check=(
            "mokutil --sb-state in the guest: SecureBoot enabled",
            "VM > Edit Settings > VM Options > Boot Options: Secure Boot",
        ),
        remedy="disable Secure Boot for the VM, use signed modules, or enroll the key (mokutil --import)",
        source=(
            "the Linux kernel's message for EKEYREJECTED; NVIDIA Linux driver README; the link to NVIDIA's"
            " modules is from memory"
        ),
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "module-no-device",
        (
            r"could not insert '?nvidia'?: no such device",
            r"no NVIDIA (graphics )?(device|adapter|GPU)[^\n]*(found|probe)",
        ),
        sample="modprobe: ERROR: could not insert 'nvidia': No such device",
        symptom="the NVIDIA module cannot find a supported GPU",
        cause=(
            "the VM has no GPU, the driver is for bare metal and does not support this vGPU, or the GPU is"
            " older than Turing, which the open modules do not support"
        ),
        check=(
            "lspci -nn -d 10de: in the guest: the GPU and its IDs",
            "dmesg | grep NVRM in the guest: why each device was skipped",
        ),
        remedy=(
            "add the GPU to the VM; for a vGPU, install the vGPU guest driver (grid) from the host's branch"
        ),
        source=(
            "NVIDIA vGPU software user guide: installing the guest driver (wording from memory, not verified)"
        ),
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "bar-invalid",
        (
            r"PCI I/O region assigned to your NVIDIA device is invalid",
            r"BAR\d is 0M @ 0x0|request_mem_region failed for 0M",
            _LARGE_BAR,
            r"64-bit BAR[^\n]*(not|fail|unassigned)",
        ),
        sample=(
            "NVRM: This PCI I/O region assigned to your NVIDIA device is invalid: NVRM: BAR1 is 0M @ 0x0"
            " (PCI:0000:02:01.0)"
        ),
        symptom="the GPU's memory window (64-bit BAR) was not mapped in the guest's address space",
        cause=(
            "the VM boots with BIOS firmware, or its 64-bit MMIO space is disabled or too small for the"
            " GPU's memory"
        ),
        check=(
            "ls /sys/firmware/efi in the guest: the directory must exist",
            (
                "govc vm.info -e VM: pciPassthru.use64bitMMIO is TRUE, and pciPassthru.64bitMMIOSizeGB is"
                " twice the GPUs' memory, rounded up to a power of two"
            ),
        ),
        remedy=(
            "recreate the VM from an EFI template with use64bitMMIO and a larger 64bitMMIOSizeGB, both of"
            " which `vgpu-cfg` sets"
        ),
        source=(
            "the kernel module's own messages (github.com/NVIDIA/open-gpu-kernel-modules);"
            " https://www.dell.com/support/kbdoc/en-us/000199172 (wording from memory, not verified)"
        ),
        confidence=Confidence.INFERRED,
        kernel=(r"NVRM: This PCI I/O region", r"NVRM: BAR\d is 0M @ 0x0", _LARGE_BAR),
    ),
    FaultRow(
        "adapter-init-failed",
        (r"RmInitAdapter failed", r"rm_init_adapter failed"),
        sample="NVRM: GPU 0000:02:01.0: RmInitAdapter failed! (0x26:0x56:1474)",
        symptom="the driver cannot initialize the GPU",
        cause=(
            "the 64-bit MMIO space is too small for the passthrough GPU, the previous VM left the GPU in a"
            " bad state, or the GSP firmware does not load"
        ),
        check=(
            "dmesg | grep NVRM in the guest: look at the first lines, not the last ones",
            "lspci -vv -d 10de: in the guest: the sizes of the memory regions",
        ),
        remedy=(
            "check the MMIO size and EFI first, then power-cycle the VM; if this does not help, power-cycle"
            " the host"
        ),
        source=(
            "the kernel module's own messages (github.com/NVIDIA/open-gpu-kernel-modules) (causes from"
            " memory, not verified)"
        ),
        confidence=Confidence.INFERRED,
        kernel=(r"NVRM: .*(RmInitAdapter|rm_init_adapter) failed",),
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
            " does not include the required functions"
        ),
        check=("dmesg | tail in the guest, after modprobe nvidia-peermem; ofed_info -s: the RDMA stack",),
        remedy=(
            "install the RDMA stack first, and then rebuild the NVIDIA driver with dkms; `vgpu-cfg`"
            " installs them in this order"
        ),
        source="NVIDIA GPUDirect RDMA documentation: nvidia-peermem (wording from memory, not verified)",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "cuda-no-device",
        (
            r"no CUDA-capable device is detected",
            r"CUDA_ERROR_NO_DEVICE|cudaErrorNoDevice|\bcuda\w* (failure|error) 100\b",
        ),
        sample="CUDA error: no CUDA-capable device is detected",
        symptom="CUDA finds no GPU",
        cause=(
            "the program cannot see a GPU because of CUDA_VISIBLE_DEVICES, a container without --gpus, a"
            " MIG GPU without compute instances, or a missing driver"
        ),
        check=(
            "echo $CUDA_VISIBLE_DEVICES; nvidia-smi -L, in the program's environment",
            "nvidia-smi mig -lci in the guest, if the GPU is in MIG mode",
        ),
        remedy=(
            "start the container with --gpus all, create the compute instance, or specify the GPU by its UUID"
        ),
        source="CUDA runtime API: error types (wording from memory, not verified)",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "cuda-driver-too-old",
        (
            r"driver version is insufficient for CUDA runtime",
            r"NVIDIA driver on your system is too old",
            r"cudaErrorInsufficientDriver",
            r"\bcuda\w* (failure|error) 35\b",
        ),
        sample="CUDA error: CUDA driver version is insufficient for CUDA runtime version",
        symptom="the driver is too old for the program's CUDA version",
        cause="the program or image was built for a newer CUDA version than the guest driver supports",
        check=(
            (
                "nvidia-smi in the guest shows the CUDA version in its header; nvcc --version in the image"
                " shows the image's version"
            ),
        ),
        remedy="use an older image, or a newer guest driver from a branch that the host supports",
        source="CUDA runtime API: error types (wording from memory, not verified)",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "cuda-out-of-memory",
        (
            r"CUDA out of memory",
            r"CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|\bcuda\w* failure 2\b",
            r"CUDA error: out of memory",
        ),
        sample="torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        symptom="a program requires more GPU memory than is available",
        cause="the vGPU profile is too small for the program, or another process is using the memory",
        check=("nvidia-smi in the guest: how much memory is used, and by which process",),
        remedy=(
            "reduce the batch size, stop the other process, or use a larger profile for the VM (`vgpu-cfg"
            " profiles BOARD`)"
        ),
        source="CUDA runtime API: error types (wording from memory, not verified)",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "cuda-busy",
        (
            r"CUDA-capable device\(s\) is/are busy or unavailable",
            r"devices? (are|is) busy or unavailable",
            r"cudaErrorDevicesUnavailable|\bcuda\w* (failure|error) 46\b",
        ),
        sample="CUDA error: CUDA-capable device(s) is/are busy or unavailable",
        symptom="CUDA reports that the GPUs are busy or unavailable",
        cause=(
            "another process is using the GPU in exclusive mode, the GPU is in MIG mode without a compute"
            " instance, or the vGPU has been unlicensed for a day"
        ),
        check=(
            "nvidia-smi -q -d COMPUTE in the guest: Compute Mode",
            "nvidia-smi mig -lci in the guest: the instances; nvidia-smi -q: License Status",
        ),
        remedy=(
            "run nvidia-smi -c DEFAULT, stop the other process, create the compute instance, or license the"
            " vGPU"
        ),
        source="CUDA runtime API: error types (wording from memory, not verified)",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "cuda-ecc",
        (
            r"uncorrectable ECC error",
            r"CUDA_ERROR_ECC_UNCORRECTABLE|cudaErrorECCUncorrectable|\bcuda\w* (failure|error) 214\b",
        ),
        sample="CUDA error: uncorrectable ECC error encountered",
        symptom="a program was stopped by an uncorrectable ECC error",
        cause="GPU memory failed while in use (the host and the guest log Xid 48, 94, or 95)",
        check=(
            "dmesg | grep -i xid in the guest and on the host",
            "nvidia-smi -q -d ECC,ROW_REMAPPER on the host",
        ),
        remedy=(
            "reboot the host so that the bad row is remapped; if the error recurs, have the board replaced"
        ),
        source=(
            "CUDA runtime API: error types; https://docs.nvidia.com/deploy/xid-errors/ (wording from"
            " memory, not verified)"
        ),
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "fabric-not-ready",
        (
            r"system not yet initialized",
            r"cudaErrorSystemNotReady|CUDA_ERROR_SYSTEM_NOT_READY",
            r"\bcuda\w*[^\n]{0,24}(failure|error|code)[ =:(]{1,3}802\b",
            r"UVM persistence mode because ?the NVLink fabric",
        ),
        sample="CUDA error 802: system not yet initialized",
        symptom="CUDA is waiting for the NVLink fabric of an NVSwitch server",
        cause="Fabric Manager is not running, or its version differs from the driver version",
        check=(
            (
                "nvidia-smi -q: Fabric State; systemctl status nvidia-fabricmanager on the machine that runs"
                " it (for vGPUs, the host)"
            ),
        ),
        remedy=(
            "start the Fabric Manager version that matches the driver, and then restart the programs"
            " that use the GPUs"
        ),
        source=(
            "NVIDIA Fabric Manager user guide; CUDA runtime API: error types (wording from memory, not"
            " verified)"
        ),
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "no-kernel-image",
        (
            r"no kernel image is available for execution",
            r"with CUDA capability sm_\d+ is not compatible with",
        ),
        sample="CUDA error: no kernel image is available for execution on the device",
        symptom="the program contains no code for this GPU",
        cause="the program or image was built for older GPUs and does not support this newer board",
        check=(
            (
                "nvidia-smi --query-gpu=compute_cap --format=csv in the guest: the compute capability to"
                " build for"
            ),
        ),
        remedy=(
            "use an image that supports the GPU, or rebuild the program for the GPU's compute capability"
        ),
        source="CUDA runtime API: error types (wording from memory, not verified)",
        confidence=Confidence.INFERRED,
    ),
)


_LICENSING = "NVIDIA virtual GPU client licensing user guide"

LICENCE_ROWS = (
    FaultRow(
        "licence-not-acquired",
        (
            r"failed to acquire(?:/renew)? (NVIDIA [\w ]+ )?licen[sc]e",
            r"unable to connect to (the )?licen[sc]e server",
            r"gridd[^\n]*failed to (register client|renew|borrow|check ?out)",
        ),
        sample="nvidia-gridd: Failed to acquire license from nls.example.com",
        symptom="the guest cannot get a vGPU license from its server",
        cause=(
            "check in this order: the license server is not reachable (ports 443 and 80), the token was"
            " revoked or belongs to another server, the clock is wrong, or no licenses are available"
        ),
        check=(
            "journalctl -u nvidia-gridd in the guest: the preceding lines show the reason",
            (
                "ls -l /etc/nvidia/ClientConfigToken in the guest: there must be one token that all users"
                " can read"
            ),
            "timedatectl status in the guest and date on the license server: both must show the same time",
            (
                "docker logs or the events page of the license server (DLS) or the portal (CLS): whether"
                " the server received the request"
            ),
        ),
        remedy=(
            "allow access to the server, correct the clock, or install a new token, and then run systemctl"
            " restart nvidia-gridd"
        ),
        source="github.com/NVIDIA/nvidia-docker/issues/1787; NVIDIA virtual GPU client licensing user guide",
        words="license server unreachable token checkout",
    ),
    FaultRow(
        "licence-not-configured",
        (
            r"configuration parameter \([^)]*\) not set",
            r"unable to open directory /etc/nvidia/license",
            r"valid GRID licen[sc]e not found",
        ),
        sample="nvidia-gridd: Configuration parameter ( ServerAddress FeatureType) not set",
        symptom="gridd has no license server configured",
        cause="there is no client configuration token, and gridd.conf does not specify a license server",
        check=(
            (
                "ls /etc/nvidia/ClientConfigToken /etc/nvidia/gridd.conf in the guest: which of these files"
                " exist"
            ),
        ),
        remedy=(
            "copy the token to /etc/nvidia/ClientConfigToken (guest.licence does this), and then run"
            " systemctl restart nvidia-gridd"
        ),
        source="github.com/MicrosoftDocs/azure-docs/issues/32746",
    ),
    FaultRow(
        "licence-feature-type",
        (r"invalid feature type requested", r"FeatureType[^\n]*(invalid|wrong|not supported)"),
        sample="nvidia-gridd: Invalid feature type requested",
        symptom="gridd requests a license type that the vGPU cannot use",
        cause="FeatureType in gridd.conf does not match the vGPU's series",
        check=(
            (
                "grep FeatureType /etc/nvidia/gridd.conf in the guest: 1 is for a vGPU, 2 for a"
                " workstation, and 4 for compute with passthrough"
            ),
        ),
        remedy=(
            "set FeatureType to match the license and the device (1 for every vGPU), and then run systemctl"
            " restart nvidia-gridd"
        ),
        source=(
            "github.com/MicrosoftDocs/azure-docs/issues/32746; NVIDIA virtual GPU client licensing user guide"
        ),
    ),
    FaultRow(
        "licence-unlicensed",
        (r"licen[sc]e status\s*:\s*unlicensed", r"vGPU[^\n]*\bunlicensed\b"),
        sample="License Status : Unlicensed (Unrestricted)",
        symptom="nvidia-smi reports that the vGPU is unlicensed",
        cause=(
            "no license has been acquired yet, so the vGPU runs at full speed for 20 minutes and then"
            " becomes slower and slower"
        ),
        check=(
            "nvidia-smi -q in the guest: License Status under vGPU Software Licensed Product",
            "journalctl -u nvidia-gridd in the guest: the reason",
        ),
        remedy=(
            "check that the service is running (systemctl status nvidia-gridd), and run `vgpu-cfg explain`"
            " on the last line that gridd logged"
        ),
        source="github.com/NVIDIA/gpu-operator/issues/220; NVIDIA virtual GPU client licensing user guide",
        words="restricted slow throttled after twenty minutes",
    ),
    FaultRow(
        "licence-expired",
        (
            r"licen[sc]e status\s*:\s*(expired|licensed \(expiry[^)]*\bpast)",
            r"(gridd|vGPU|NVIDIA|GRID)[^\n]*(lease|licen[sc]e) (has )?expired",
            r"licen[sc]e lease (has )?expired",
        ),
        sample="License Status : Expired",
        symptom="the vGPU's license has expired",
        cause=(
            "gridd could not renew its lease in time because the server was unavailable for too long or the"
            " clock jumped"
        ),
        check=("nvidia-smi -q in the guest: License Status and its expiry; timedatectl status: the clock",),
        remedy=(
            "check that the license server is reachable and the clock is correct, and then run systemctl"
            " restart nvidia-gridd"
        ),
        source=f"{_LICENSING}; wording from memory, not verified",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "licence-certificate",
        (
            r"certificate is not yet valid",
            r"certificate (has )?expired[^\n]*(gridd|licen[sc]e)",
            r"gridd[^\n]*(SSL|TLS|certificate)",
        ),
        sample="nvidia-gridd: SSL certificate problem: certificate is not yet valid",
        symptom="gridd rejects the license server's certificate",
        cause=(
            "the guest's clock is wrong (for example, in a new VM without NTP), or the server's certificate"
            " does not match the token"
        ),
        check=(
            "timedatectl status in the guest: the clock must be synchronized and show the correct date",
            "curl -v https://SERVER/ in the guest: the certificate's dates",
        ),
        remedy=(
            "correct the clock with NTP or VMware Tools, or download a new token if the server's"
            " certificate was changed"
        ),
        source=(
            "libcurl's certificate error message; NVIDIA virtual GPU client licensing user guide; the link"
            " to gridd is from memory"
        ),
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "host-licence",
        (
            r"licen[sc]e (is )?not available to perform the operation",
            r"not enough licen[sc]es",
            r"\bNotEnoughLicenses\b",
        ),
        sample="License not available to perform the operation.",
        symptom="vCenter has no license for the operation",
        cause=(
            "the host's or vCenter's license does not include this feature; vGPUs require vSphere"
            " Enterprise Plus or a subscription that includes vGPUs"
        ),
        check=("Administration > Licensing > Licenses > Assets: the host's license and its features",),
        remedy="assign a license that includes this feature to the host",
        source=(
            "vSphere API reference: LicenseRestricted, NotEnoughLicenses; the edition required for vGPU is"
            " from memory"
        ),
        confidence=Confidence.INFERRED,
        faults=frozenset({"LicenseRestricted", "NotEnoughLicenses"}),
    ),
)
