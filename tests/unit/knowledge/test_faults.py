"""Every failure that is known is known by its own words, and says how to be sure and what to do."""

from __future__ import annotations

import re
import textwrap
from dataclasses import replace
from typing import Any

import pytest
from typer.main import get_command

from tests.extent import each, examples
from tests.unit.knowledge.paraphrases import PARAPHRASES, UNRELATED
from vgpu_cfg.cli.app import app
from vgpu_cfg.knowledge.fault_rows import Confidence
from vgpu_cfg.knowledge.faults import (
    LEAST,
    count_known,
    explain_fault,
    explain_lines,
    explain_log,
    explain_text,
    explanation_of,
    is_machine_fault,
)
from vgpu_cfg.knowledge.rows.table import PLACES, ROWS, place_of

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
    r"\b(govc|vgpu-cfg|esxcli|esxcfg-dumppart|nvidia-smi|mlxconfig|mlnx_qos|lspci|grep|cat|dmesg|docker|ping|vmkping|ip|ssh|vmtoolsd"
    r"|mokutil|uname|lsmod|timedatectl|journalctl|systemctl|curl|nvidia-ctk|ls|df|ulimit|show_gids|ibv_devinfo"
    r"|ib_write_bw|ethtool|modprobe|py-spy|compute-sanitizer|NCCL_DEBUG|scontrol|sinfo|slurmd|sacctmgr|nc"
    r"|ps|ss|env|stat|which|getent|id|lsb_release|dcgmi|nv-hostengine|nv-fabricmanager|nvidia-container-cli|gres"
    r"|vmkload_mod|vmware|cloud-init|cloud-id|munge|time|chronyc|timedatectl|vmware-rpctool|fuser|kubectl|gcc|apt|dpkg"
    r"|resolvectl|mount|showmount|exportfs|modinfo|netplan|ofed_info|mpirun|whoami|lscpu|sacct"
    r"|python3|ldd|ray|ds_report|ompi_info|ucx_info|crictl|podman|dnf|sysctl|terraform|ansible|packer|ibstat|mst)\b"
    r"|/etc/|/sys/| > "
)
"""A program that is there to be typed, a file, or a place in the vSphere Client ("VM > Edit Settings")."""

SAMPLES = {row.key: row.sample for row in ROWS}
SOME = ROWS[:: examples(5, 1)]
"""Rows whose samples are tried in another dress too."""


def test_keys_name_their_rows_for_good_and_every_place_has_some() -> None:
    assert len(ROWS) == len(SAMPLES) == count_known()
    assert count_known() >= 60
    assert all(PLACES.values())
    assert place_of("xid-79").startswith("Xid")


def known_by(text: str) -> list[str]:
    """Name the rows that a text is known by, with a question mark those that it is only like."""
    return [f"{found.explanation.key}{'?' if found.is_likely else ''}" for found in explain_text(text)]


def test_a_text_as_it_is_met_is_known_by_its_own_row_alone() -> None:
    assert {row.key: known_by(row.sample) for row in ROWS} == {row.key: [row.key] for row in ROWS}
    assert [row.key for row in ROWS if explain_fault(row.sample) != explanation_of(row.key)] == []


@pytest.mark.parametrize(
    ("width", "before"),
    each(
        [(28, ""), (45, ""), (60, "> "), (60, "[  269.516977] ")],
        "every row, wrapped otherwise",
        lambda width, _: width == 28,
        one_of=0,
    ),
)
def test_a_wrapped_text_is_known_too(width: int, before: str) -> None:
    for row in SOME:
        wrapped = "\n".join(
            f"{before}{line}" for line in textwrap.wrap(row.sample, width, break_long_words=False)
        )
        assert known_by(wrapped) == [row.key], wrapped


@pytest.mark.parametrize(
    "before",
    each(
        [("2026-03-02T10:11:12.345Z In(05) vmx - ",), ("Mar  2 10:11:12 hvd-01 kernel: ",), ("[ 9.516] ",)],
        "every row, with another prefix",
        lambda before: before.startswith("Mar"),
        one_of=0,
    ),
)
def test_what_a_log_writes_before_a_text_does_not_matter(before: str) -> None:
    for row in SOME:
        log = f"{before}first line\n{before}{row.sample}\n{before}last line"
        assert [found.explanation.key for found in explain_text(log)] == [row.key], log


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("no coredump target", {"coredump"}),
        ("not found|is absent", {"found", "absent"}),
        ("(driver|kernel module) is gone", {"driver", "kernel"}),
        ("colou?r", {"colo"}),
        ("err(or)? of GPU", {"err"}),
        ("x{0,3}id", {"id"}),
        ("ab+c", {"ab"}),
        ("a+?b", {"a"}),
        (r"\bXid\b\D*[0-9]+", {"xid"}),
        ("fail(?=ed)(?!ing) [abc]?", {"fail"}),
        ("[^])]*left", {"left"}),
        (".*|word", {"", "word"}),
    ],
)
def test_a_text_without_the_sure_words_of_a_pattern_cannot_match(pattern: str, words: set[str]) -> None:
    assert replace(ROWS[0], patterns=(pattern,)).sure_words == words


def test_quotes_of_other_languages_are_quotes() -> None:
    curled = "The name \u201ehvd-01\u201c already exists"
    assert [found.explanation.key for found in explain_text(curled)] == ["duplicate-name"]


def test_the_threshold_of_likeness_is_frozen() -> None:
    """It was set by the paraphrases, before fresh texts were collected; what is measured must not move it."""
    assert LEAST == {2: 0.85, 3: 0.75}


def test_a_text_in_other_words_is_known_by_its_likeness_or_not_at_all() -> None:
    assert [key for key, text in PARAPHRASES.items() if text in SAMPLES[key]] == []
    found = {key: known_by(text) for key, text in PARAPHRASES.items()}
    known = {key for key, keys in found.items() if keys}
    assert {key: found[key] for key in known} == {
        key: [key if explain_log(PARAPHRASES[key]) else f"{key}?"] for key in known
    }
    assert len(known) >= 0.75 * len(PARAPHRASES), sorted(set(PARAPHRASES) - known)


def test_every_row_is_told_in_other_words_somewhere() -> None:
    assert set(PARAPHRASES) == {row.key for row in ROWS if not row.is_verbatim}


def test_what_only_words_tell_is_marked_and_never_reported_by_a_run() -> None:
    text = PARAPHRASES["wrong-system-id"]
    (found,) = explain_text(text)
    assert found.is_likely
    assert explain_fault(text) is None
    assert explain_log(text) == ()


@pytest.mark.parametrize("text", UNRELATED)
def test_a_text_about_something_else_stays_unknown(text: str) -> None:
    assert explain_text(text) == ()


def test_every_row_names_its_source_and_admits_what_is_recalled() -> None:
    assert [row.key for row in ROWS if len(row.source) <= 10] == []
    inferred = [row.key for row in ROWS if row.confidence is Confidence.INFERRED]
    assert [row.key for row in ROWS if "from memory" in row.source] == inferred


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("NCCL WARN NET/IB : Got completion from peer with status=12", "nccl-ib-completion"),
        ("NCCL: IB transport error", "nccl-ib-completion"),
        ("local_ack_timeout_err: 17", "nccl-ib-completion"),
        ("mlx5 command timed out", "mlx5-command-timeout"),
        ("The virtual machine requires full memory reservation", "memory-not-reserved"),
        ("Failed to start vGPU plugin", "vgpu-plugin"),
        ("MMIO space exhausted", "mmio-firmware"),
        ("Failed to initialize NVML: Driver/library version mismatch", "driver-versions-differ"),
        ("SR-IOV is not enabled in the BIOS", "sriov-off"),
        ("No compatible host was found", "no-compatible-host"),
    ],
)
def test_a_text_that_is_met_in_several_forms_is_known_in_each(text: str, key: str) -> None:
    assert [found.explanation.key for found in explain_text(text)] == [key]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("Xid 79", 79),
        ("xid=79", 79),
        ("XID error code 79", 79),
        ("NVRM: Xid (PCI:0000:3b:00): 79, pid=2817, GPU has fallen off the bus.", 79),
        ("NVRM: Xid (PCI:0000:13:00): 79, pid=31, name=python3", 79),
        ("NVRM: Xid (PCI:0000:01:00 GPU-I:05 GPU-CI:00): 94, Contained: CE User Channel (0x9).", 94),
        ("NVRM: Xid (0000:03:00): 31, Ch 00000010, engmask 00000101, intr 10000000", 31),
        ("[Sun Nov 22 10:11:12 2026] NVRM: Xid (PCI:0000:3b:00): 63, pid=1896, Row Remapper: New row", 63),
    ],
)
def test_an_xid_is_told_by_its_number_alone(text: str, number: int) -> None:
    assert [found.explanation.key for found in explain_text(text)] == [f"xid-{number}"]


def test_commands_and_options_that_rows_name_are_there() -> None:
    group: Any = get_command(app)
    texts = [text for row in ROWS for text in (row.remedy, *row.check)]
    found = [match for text in texts for match in re.finditer(r"vgpu-cfg ([a-z]+)\b([^:;`]*)", text)]
    assert {"apply", "inventory", "fit", "profiles", "explain", "verify"} <= {match[1] for match in found}
    for match in found:
        if match[1] != "workers":
            options = {name for param in group.commands[match[1]].params for name in param.opts}
            assert set(re.findall(r"--[a-z-]+", match[2])) <= options, match[0]


def test_what_verify_reports_of_a_kernel_log_is_explained() -> None:
    of_machine = [row for row in ROWS if row.kernel]
    assert len(of_machine) >= 9
    for row in of_machine:
        assert is_machine_fault(row.sample), row.key
        assert known_by(row.sample) == [row.key]
    for line in (
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module",
        "mlx5_core 0000:03:00.0: Port module event",
    ):
        assert not is_machine_fault(line)


def test_every_symptom_of_the_facts_has_its_row() -> None:
    assert sorted(REFERENCE) == list(range(1, 41))
    keys = [key for key, _ in REFERENCE.values()]
    assert len(set(keys)) == 40
    assert set(keys) <= {row.key for row in ROWS}


def test_every_row_says_what_is_seen_why_how_to_be_sure_and_what_to_do() -> None:
    texts = {row.key: (row.symptom, row.cause, row.remedy, *row.check) for row in ROWS}
    assert [key for key, said in texts.items() if len(said) < 4 or not all(said)] == []
    every = [text for said in texts.values() for text in said]
    assert [text for text in every if text != " ".join(text.split()) or text.endswith(".")] == []


def test_how_to_be_sure_names_a_command_or_a_place() -> None:
    assert [line for row in ROWS for line in row.check if not COMMAND.search(line)] == []


def test_case_and_white_space_do_not_matter() -> None:
    spelt = {key: explain_fault(text.upper().replace(" ", "  ")) for key, text in SAMPLES.items()}
    assert spelt == {key: explanation_of(key) for key in SAMPLES}


def test_a_text_nobody_knows_is_not_explained() -> None:
    assert explain_fault("The operation is not supported on the object.") is None
    assert explain_fault("") is None
    assert explain_log("all is well") == ()


def test_a_faults_type_helps_where_the_text_does_not() -> None:
    found = explain_fault("Es sind nicht genügend Ressourcen da.", "InsufficientGraphicsResourcesFault")
    assert found is not None
    assert found.key == "graphics-resources"
    assert explain_fault("A general system error occurred.", "SystemError") is None
    none = explain_fault("Kein Host ist kompatibel.", "NoCompatibleHost")
    assert none is not None
    assert none.key == "no-compatible-host"


def test_the_telling_row_comes_before_the_general_one() -> None:
    log = f"{SAMPLES['device-power-on']}\n2026-03-02 vmx| {SAMPLES['mmio-too-small']}"
    assert [found.key for found in explain_log(log)] == ["mmio-too-small"]
    assert [found.key for found in explain_log(SAMPLES["device-power-on"])] == ["device-power-on"]


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
