"""Single values of a plan file as written: sizes, addresses, names, secret references.

Every parser raises ValueError; where there is something to suggest, the hint
is on the message's second line. Text with `{k}` in it is checked as for the
first device.
"""

from __future__ import annotations

import re
from typing import get_args

from vgpu_cfg.model.identity import is_id
from vgpu_cfg.model.plan_values import SecretReference

_UNITS_MIB = {"MiB": 1, "GiB": 1024, "TiB": 1024 * 1024}
_SIZE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?([A-Za-z]*)")
_MOST_MIB = 2**30 - 1
"""Less than a PiB; vSphere counts no memory and no disk beyond."""
_PCI_ADDRESS = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-1][0-9a-f])\.([0-7])")
_PCI_IDS = re.compile(r"([0-9a-f]{4}):([0-9a-f]{4})")
_MAC = re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}")
_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

LONGEST_VM_NAME = 80
_NOT_IN_NAMES = "/\\%"
"""vCenter stores these escaped, and an inventory path with them in it is ambiguous."""
MEMORY_STEP_MIB = 4
"""vSphere takes memory in multiples of 4 MB."""


def parse_size(text: object) -> int:
    """Return the MiB of a size such as `64GiB`."""
    if text is None:
        message = "the size is missing\nexample: 64GiB; or remove the key"
        raise ValueError(message)
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        message = "a size must be text such as 64GiB"
        raise ValueError(message)
    found = _SIZE.fullmatch(str(text).strip())
    if found is None:
        message = f"{str(text)!r} is not a valid size\nuse a number with MiB, GiB or TiB, such as 64GiB"
        raise ValueError(message)
    number, unit = found.groups()
    if unit not in _UNITS_MIB:
        raise ValueError(_unit_complaint(str(text), number, unit))
    mib = float(number) * _UNITS_MIB[unit]
    if mib > _MOST_MIB:
        message = f"the size {text} is too large\nuse less than 1 PiB"
        raise ValueError(message)
    if mib != int(mib):
        message = f"{text} is not a whole number of MiB\nuse a smaller unit"
        raise ValueError(message)
    if mib <= 0:
        message = "a size must be greater than 0"
        raise ValueError(message)
    return int(mib)


def _unit_complaint(text: str, number: str, unit: str) -> str:
    if not unit:
        return f"the size {text} has no unit\nexample: {number}GiB"
    binary = f"{unit[0].upper()}iB"
    if binary in _UNITS_MIB and unit.upper() in ("M", "G", "T", "MB", "GB", "TB", "MIB", "GIB", "TIB"):
        hint = f"vSphere uses powers of 1024; use {number}{binary}"
        return f"{unit!r} is not a valid unit\n{hint}"
    return f"{unit!r} is not a valid unit\nuse MiB, GiB or TiB"


def size_text(mib: int) -> str:
    """Write MiB as a size that `parse_size` reads back, in the largest unit that keeps it whole."""
    unit = next(name for name, each in reversed(_UNITS_MIB.items()) if not mib % each)
    return f"{mib // _UNITS_MIB[unit]}{unit}"


def parse_memory(text: object) -> int:
    """Return the MiB of a VM's memory, which vSphere takes in steps of 4 MiB."""
    mib = parse_size(text)
    if mib % MEMORY_STEP_MIB:
        below, above = mib - mib % MEMORY_STEP_MIB, mib - mib % MEMORY_STEP_MIB + MEMORY_STEP_MIB
        near = f"{below}MiB or {above}MiB" if below else f"{above}MiB"
        message = f"memory must be a multiple of {MEMORY_STEP_MIB} MiB, but {text} is not\nuse {near}"
        raise ValueError(message)
    return mib


def gpu_item(text: str) -> dict[str, object]:
    """Return the item of `gpus` that a text is short for: a size is its memory, all else its profile."""
    found = _SIZE.fullmatch(text.strip())
    return {"memory" if found is not None and found[2] in _UNITS_MIB else "profile": text}


def parse_pci_address(text: str) -> str:
    """Return a PCI address as `dddd:bb:dd.f`; `3b:00.0` is short for segment 0000."""
    found = _PCI_ADDRESS.fullmatch(text.strip().lower())
    if found is None:
        message = f"{text!r} is not a valid PCI address\nexample: 0000:3b:00.0"
        raise ValueError(message)
    segment, bus, slot, function = found.groups()
    return f"{segment or '0000'}:{bus}:{slot}.{function}"


def parse_pci_ids(text: str) -> tuple[int, int]:
    """Return vendor and device id of `10de:20f1`."""
    found = _PCI_IDS.fullmatch(text.strip().lower())
    if found is None:
        message = (
            f"{text!r} is not a valid vendor and device ID\nuse hexadecimal digits, for example 10de:20f1"
        )
        raise ValueError(message)
    return int(found[1], 16), int(found[2], 16)


def parse_mac(text: str) -> str:
    """Return a MAC address in lowercase; it can contain `{k}`."""
    sample = text.replace("{k}", "1").strip().lower()
    if _MAC.fullmatch(sample) is None:
        tidy = re.sub(r"[^0-9a-f]", "", sample)
        hint = ":".join(tidy[n : n + 2] for n in range(0, 12, 2)) if len(tidy) == 12 else "00:50:56:01:02:03"
        message = f"{text!r} is not a valid MAC address\nexample: {hint}"
        raise ValueError(message)
    if int(sample[:2], 16) & 1:
        message = f"{text} is a multicast address, which cannot be assigned to a NIC"
        raise ValueError(message)
    return text.strip().lower()


def is_reserved_mac(mac: str) -> bool:
    """Whether ESXi keeps a MAC address for itself and vCenter; from 00:50:56, they leave the first quarter.

    Source: vSphere Networking, "Static MAC Addresses"; ansible-collections/community.vmware, issue 1159.
    """
    return mac.startswith("00:0c:29:") or "00:50:56:40" <= mac < "00:50:57"


def parse_secret(value: object) -> SecretReference:
    """Return a reference to a secret. No message holds the value: it may be the secret itself."""
    kinds = get_args(SecretReference.model_fields["kind"].annotation)
    shape = (
        "a secret must be a reference, never the value\nuse env:NAME, file:PATH, keyring:NAME, "
        "command:WORDS, age:PATH or sops:PATH#KEY"
    )
    if not isinstance(value, str):
        raise ValueError(shape)
    kind, colon, rest = value.partition(":")
    if not colon or kind not in kinds:
        raise ValueError(shape)
    if not rest.strip():
        message = f"the reference {kind}: is incomplete\n{shape.splitlines()[1]}"
        raise ValueError(message)
    if kind == "env" and not _ENVIRONMENT_NAME.fullmatch(rest):
        message = "the text after env: is not a valid environment variable name\nexample: env:NGC_KEY"
        raise ValueError(message)
    if kind == "sops" and not all(part.strip() for part in rest.partition("#")):
        message = "the text after sops: must be a file and one of its keys\nexample: sops:secrets.yaml#ngc"
        raise ValueError(message)
    return SecretReference.model_validate({"kind": kind, "value": rest.strip()})


PLAN_NAME_PATTERN = "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"
VARIABLE_PATTERN = "^[A-Za-z_][A-Za-z0-9_-]*$"
CHECK_PATTERN = "^VG[0-9]{3}$"


def check_plan_name(name: str) -> str:
    """Return the name if it can be an owner mark and part of a rule's name."""
    if re.search(PLAN_NAME_PATTERN, name) is None or name.endswith("\n"):
        hint = "use at most 63 letters, digits, '.', '_' and '-', such as horovod-a100"
        message = f"{name!r} is not a valid plan name\n{hint}"
        raise ValueError(message)
    return name


def check_plan_id(text: str) -> str:
    """Return a plan's id in small letters."""
    if not is_id(text):
        hint = "the first apply creates it and writes it to a file with the extension .id in the same folder"
        message = f"{text!r} is not a valid plan ID; it must be a UUID\n{hint}"
        raise ValueError(message)
    return text.lower()


def check_variable_name(name: str) -> str:
    """Return the name if `${name}` can be written with it."""
    if re.fullmatch(VARIABLE_PATTERN, name) is None:
        message = (
            f"{name!r} is not a valid name\nbegin with a letter, followed by letters, digits, '_' and '-'"
        )
        raise ValueError(message)
    return name


def check_code(code: str) -> str:
    """Return the code if a finding can have it."""
    if re.fullmatch(CHECK_PATTERN, code) is None:
        message = f"{code!r} is not a valid check code\nexample: VG031"
        raise ValueError(message)
    return code


def check_vm_name(name: str) -> str:
    """Return the name if vSphere takes it as a VM's."""
    if not name.strip():
        message = "a VM's name must not be empty"
        raise ValueError(message)
    if name != name.strip():
        message = f"the VM name {name!r} begins or ends with a space\nremove it"
        raise ValueError(message)
    if len(name) > LONGEST_VM_NAME:
        message = f"the VM name {name[:20]!r}... has {len(name)} characters\nuse at most {LONGEST_VM_NAME}"
        raise ValueError(message)
    wrong = sorted({letter for letter in name if letter in _NOT_IN_NAMES or not letter.isprintable()})
    if wrong:
        shown = " ".join(repr(letter)[1:-1] for letter in wrong)
        message = f"the VM name {name!r} contains {shown}\nuse letters, digits, '-', '_' and '.'"
        raise ValueError(message)
    return name
