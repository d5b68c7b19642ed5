"""The types that the plan file's keys share: short forms, lists of one, absent keys, templated text."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from functools import lru_cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    PlainSerializer,
    StringConstraints,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
)
from pydantic_core import core_schema

from vgpu_cfg.model.choices import Approval
from vgpu_cfg.model.frozen import FROM_FILE, in_utc
from vgpu_cfg.model.plan_file.values import (
    check_code,
    check_plan_id,
    check_plan_name,
    check_variable_name,
    parse_mac,
    parse_memory,
    parse_pci_address,
    parse_pci_ids,
    parse_secret,
    parse_size,
)
from vgpu_cfg.model.plan_values import DesiredNuma, NumaPolicy, SecretReference
from vgpu_cfg.model.vgpu import VgpuProfile


class TakesEffect(StrEnum):
    """When a changed value of a key reaches a VM that exists, or a host."""

    AT_CREATION = "at creation only"
    AT_POWER_CYCLE = "at a power cycle"
    MOVE = "with a move"
    """It waits for leave: `apply --allow-move`."""
    LIVE = "live"
    REPORTING = "in reports only"
    SERVICE_RESTART = "at an Xorg restart"
    """The host's service `xorg`; no VM with a vGPU may run there meanwhile."""
    MAINTENANCE = "in maintenance mode"
    HOST_REBOOT = "at a host reboot"
    HOST_COLD_BOOT = "at a host reboot or cold boot"
    BY_HAND = "manually"
    IN_GUEST = "in the running guest"
    """It is staged again in a guest that runs."""
    GUEST_RESTART = "in the guest, possibly with a guest restart"
    FIRST_BOOT = "at the guest's first boot only"
    NEXT_RUN = "in the next run"
    """The key is not a host setting: it controls vgpu-cfg."""


def key(
    description: str,
    takes_effect: TakesEffect | None = None,
    default: str = "",
    *,
    value: object = None,
    **schema: Any,
) -> Any:
    """Declare a key that may be absent; `schema` adds keywords to its rule in the JSON schema.

    `value` is the key's default value (a type creates an empty one); `default` describes it in words, if
    that is not the value itself. `model_fields_set` shows whether the key is in the file.
    """
    extra: dict[str, Any] = dict(schema)
    if takes_effect is not None:
        extra["x-takes-effect"] = takes_effect.value
    if default or isinstance(value, str | int):
        extra["x-default"] = default or (str(value).lower() if isinstance(value, bool) else str(value))
    make: Callable[[], Any] = value if isinstance(value, type) else lambda: value
    return Field(default_factory=make, description=description, json_schema_extra=extra or None)


def is_from_file(info: ValidationInfo) -> bool:
    """Whether the validated value is from a plan file, not from a saved plan or the program."""
    return bool(info.context == FROM_FILE)


@dataclass(frozen=True, slots=True)
class Kept:
    """Accept a value of this kind unless it is from a plan file, which uses another form."""

    kind: type | UnionType

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        schema = handler(source)
        if schema["type"] == "nullable":  # None is how it is kept, never how it is written
            schema = schema["schema"]
        return core_schema.with_info_wrap_validator_function(self._read, schema)

    def _read(self, value: Any, read: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        is_kept = isinstance(value, self.kind) and not is_from_file(info)
        return value if is_kept else read(value)


T = TypeVar("T")
Stated = Annotated[T | None, Kept(NoneType)]
"""The value of a key that may be absent, and then is None."""


def in_words(words: type[StrEnum]) -> WithJsonSchema:
    """List the words of an enumeration at its key in the JSON schema."""
    return WithJsonSchema({"enum": [str(word) for word in words], "type": "string"})


def _one_or_many(value: object) -> object:
    if not isinstance(value, str | list | tuple):
        message = "this must be a string or a list of strings"
        raise ValueError(message)
    return [value] if isinstance(value, str) else value


def mapping_or_text(short: str, written: Any) -> BeforeValidator:
    """Take text for a mapping that has only the key `short`; `written` is the type for the schema."""

    def unfold(value: object) -> object:
        return {short: value} if isinstance(value, str) else value

    return BeforeValidator(unfold, json_schema_input_type=written)


def one_or_many_of(
    short: str, written: Any, item_of: Callable[[str], Mapping[str, object]] | None = None
) -> BeforeValidator:
    """Take text, a mapping, or a list of both; text is short for a mapping with the key `short`.

    `item_of` returns the mapping where the text decides on its key.
    """

    def unfold(value: object) -> object:
        if isinstance(value, str | Mapping):
            value = [value]
        if not isinstance(value, list):
            message = f"this must be a {short}, a mapping, or a list of these"
            raise ValueError(message)
        spelled = item_of or (lambda text: {short: text})
        return [spelled(item) if isinstance(item, str) else item for item in value]

    return BeforeValidator(unfold, json_schema_input_type=written)


def _empty_is_absent(value: object) -> object:
    return None if value == "" else value


def _profile(value: object) -> VgpuProfile:
    if isinstance(value, VgpuProfile):
        return value
    if not isinstance(value, str):
        message = "a profile must be text such as grid_a100-40c"
        raise ValueError(message)
    return _parsed(value)


@lru_cache(maxsize=1024)
def _parsed(name: str) -> VgpuProfile:
    """Take a profile's name apart once, however many VMs it is written out for."""
    return VgpuProfile.parse(name)


def _at_least_one(profiles: tuple[VgpuProfile, ...], info: ValidationInfo) -> tuple[VgpuProfile, ...]:
    if not profiles and is_from_file(info):
        message = "the list of profiles is empty\nexample: [nvidia_l40s-48c, grid_a100d-40c]"
        raise ValueError(message)
    return profiles


def _numa(value: object) -> DesiredNuma:
    match value:
        case DesiredNuma():
            return value
        case "follow-gpu" | "node" | "off":
            return DesiredNuma(policy=NumaPolicy(value))
        case bool():
            pass
        case int() if value >= 0:
            return DesiredNuma(policy=NumaPolicy.NODE, nodes=(value,))
        case str() if value.isdecimal():
            return DesiredNuma(policy=NumaPolicy.NODE, nodes=(int(value),))
        case [_, *_]:
            nodes = [
                node for node in value if isinstance(node, int) and not isinstance(node, bool) and node >= 0
            ]
            if len(nodes) == len(value):
                return DesiredNuma(policy=NumaPolicy.NODE, nodes=tuple(sorted(set(nodes))))
        case _:
            pass
    message = "'numa' must be follow-gpu, node, off, a node number or a list of node numbers"
    raise ValueError(message)


def _date(value: object) -> date:
    if isinstance(value, date):
        return value
    try:
        if len(str(value)) != len("2027-03-31"):  # fromisoformat takes shorter forms too
            raise ValueError
        return date.fromisoformat(str(value))
    except ValueError:
        message = f"{str(value)!r} is not a valid date\nexample: 2027-03-31"
        raise ValueError(message) from None


def _zoned_moment(value: object) -> datetime:
    try:
        if isinstance(value, bool | int | float):
            raise ValueError
        found = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
        if found.tzinfo is None:
            raise ValueError
        return in_utc(found)
    except ValueError:
        message = (
            f"{str(value)!r} is not a valid time with a time zone\nexample: 2027-01-11T08:00+01:00, or Z "
            "for UTC"
        )
        raise ValueError(message) from None


def _config_value(value: object) -> object:
    """Write numbers and truth as vmx files do; a fraction must be quoted, since its digits matter."""
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value)
        case _:
            return value


_COMPUTED_CONFIG = {
    "pcipassthru.use64bitmmio": "it is derived from `gpus`",
    "pcipassthru.64bitmmiosizegb": "it is derived from `gpus`",
    "numa.nodeaffinity": "use `numa` instead",
    "memsize": "use `memory` instead",
    "numvcpus": "use `cpus` instead",
    "firmware": "every VM uses EFI firmware",
    "uefi.secureboot.enabled": "use `secure_boot` instead",
    "sched.mem.min": "all memory is always reserved",
    "sched.mem.minsize": "all memory is always reserved",
    "sched.mem.pin": "all memory is always reserved",
}


def _is_control(letter: str) -> bool:
    return letter in "\ufffe\uffff" or (
        unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") and letter != "\t"
    )


def _one_line(text: str) -> str:
    """Return text that a vmx file and XML can store: dropped characters would differ on every run."""
    wrong = sorted({letter for letter in text if _is_control(letter)})
    if wrong:
        shown = " ".join(repr(letter)[1:-1] for letter in wrong)
        message = f"a setting contains {shown}\nuse a single line of printable characters"
        raise ValueError(message)
    return text


def _config_key(name: str) -> str:
    folded = _one_line(name).casefold()
    if not name.strip() or name != name.strip() or "=" in name:
        message = f"{name!r} is not a valid setting name\nexample: svga.present"
        raise ValueError(message)
    remedy = _COMPUTED_CONFIG.get(folded, "")
    if folded.startswith("vgpu_cfg."):
        remedy = "keys that begin with vgpu_cfg. are reserved for the owner mark"
    if folded.startswith("pcipassthru") and folded.endswith(".cfg.enable_uvm"):
        remedy = "use `uvm` in `gpus` instead"
    if remedy:
        message = f"extra_config cannot set {name!r}, because vgpu-cfg sets it\n{remedy}"
        raise ValueError(message)
    return name


def _pci_address(value: object, info: ValidationInfo) -> object:
    is_written = isinstance(value, str) and value and is_from_file(info)
    return parse_pci_address(str(value)) if is_written else value or None


def _as_it_is(value: Any) -> Any:
    return value


PlanName = Annotated[str, AfterValidator(check_plan_name)]
PlanId = Annotated[str, AfterValidator(check_plan_id)]
VariableName = Annotated[str, AfterValidator(check_variable_name)]
CheckCode = Annotated[str, AfterValidator(check_code)]
Text = Annotated[str, StringConstraints(min_length=1)]
OptionalText = Annotated[str | None, BeforeValidator(_empty_is_absent, json_schema_input_type=str)]
RemovableText = Annotated[str | None, BeforeValidator(_as_it_is, json_schema_input_type=str)]
"""Text in which an empty value removes the current one."""
Texts = Annotated[tuple[Text, ...], BeforeValidator(_one_or_many, json_schema_input_type=Text | list[Text])]
_ApprovalWord = Literal["network", "training", "irreversible"]
Approvals = Annotated[
    tuple[Approval, ...],
    BeforeValidator(_one_or_many, json_schema_input_type=_ApprovalWord | list[_ApprovalWord]),
]
Profile = Annotated[VgpuProfile, BeforeValidator(_profile)]
Profiles = Annotated[
    tuple[Profile, ...],
    AfterValidator(_at_least_one),
    BeforeValidator(_one_or_many, json_schema_input_type=Text | list[Text]),
]
_SizeText = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)? ?(MiB|GiB|TiB)$", examples=["64GiB"])]
Size = Annotated[int, BeforeValidator(parse_size, json_schema_input_type=_SizeText)]
Memory = Annotated[int, BeforeValidator(parse_memory, json_schema_input_type=_SizeText)]
GpuMemory = Annotated[Size | None, Kept(int | NoneType)]
"""Written as a size; kept as its MiB, None where a profile or a device is asked for."""
Count = Annotated[int, Field(ge=1, le=64)]
_Node = Annotated[int, Field(ge=0)]
Numa = Annotated[
    DesiredNuma,
    BeforeValidator(_numa, json_schema_input_type=Literal["follow-gpu", "node", "off"] | _Node | list[_Node]),
]
Day = Annotated[
    date, BeforeValidator(_date, json_schema_input_type=Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\d$")])
]
ZonedMoment = Annotated[
    datetime,
    BeforeValidator(
        _zoned_moment,
        json_schema_input_type=Annotated[
            str, Field(pattern=r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(Z|[+-]\d\d:\d\d)$")
        ],
    ),
]
PciAddress = Annotated[
    str | None,
    BeforeValidator(
        _pci_address,
        json_schema_input_type=Annotated[
            str, Field(pattern=r"^$|^([0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[01][0-9A-Fa-f]\.[0-7]$")
        ],
    ),
]
PciIds = Annotated[
    tuple[int, int],
    BeforeValidator(
        lambda value: value if isinstance(value, tuple) else parse_pci_ids(str(value)),
        json_schema_input_type=Annotated[str, Field(pattern="^[0-9A-Fa-f]{4}:[0-9A-Fa-f]{4}$")],
    ),
    PlainSerializer(lambda ids: f"{ids[0]:04x}:{ids[1]:04x}", when_used="json-unless-none"),
]

if TYPE_CHECKING:
    PeersNumber = int | None
else:
    PeersNumber = Annotated[
        bool,
        AfterValidator(lambda is_asked: 1 if is_asked else None),
        Kept(int | NoneType),
        PlainSerializer(_as_it_is),
    ]
"""Written as true or false. Kept as a number that peers have in common, None where no peer is asked for."""
Mac = Annotated[
    str | None,
    BeforeValidator(
        lambda value: parse_mac(value) if isinstance(value, str) and value else value or None,
        json_schema_input_type=Annotated[str, Field(pattern="^$|^[0-9A-Fa-f]{2}(:([0-9A-Fa-f]{2})){5}$")],
    ),
]
Secret = Annotated[
    SecretReference,
    BeforeValidator(
        parse_secret,
        json_schema_input_type=Annotated[
            str, Field(pattern="^((env|file|keyring|command|age):.+|sops:.+#.+)")
        ],
    ),
]
ConfigKey = Annotated[str, BeforeValidator(lambda name: _config_key(name) if isinstance(name, str) else name)]
ConfigValue = Annotated[
    str, AfterValidator(_one_line), BeforeValidator(_config_value, json_schema_input_type=str | int | bool)
]
