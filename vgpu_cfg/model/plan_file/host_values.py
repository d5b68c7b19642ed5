"""Values of `hosts` and `networks` as written: windows, firmware, versions, depots, addresses; their types.

Every parser raises ValueError; where there is something to suggest, the hint
is on the message's second line.

The types that only these keys have carry their form in the JSON schema.
"""

from __future__ import annotations

import difflib
import ipaddress
import re
import zoneinfo
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
)
from pydantic_core import core_schema

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.observed.gpu_use import AssignmentPolicy, GraphicsType
from vgpu_cfg.model.plan_file.fields import Text, in_words, is_from_file

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
"""In the order of `datetime.date.weekday`."""
_DAILY = "daily"
_DAY = "|".join(DAYS)
WINDOW_PATTERN = rf"^({_DAILY}|({_DAY})(, ?({_DAY}))*) +\d\d:\d\d-\d\d:\d\d +\S+$"
_WINDOW = re.compile(r"(?P<days>[^\s,]+(?:, ?[^\s,]+)*) +(?P<start>[^\s-]+)-(?P<end>[^\s-]+) +(?P<zone>\S+)")
_CLOCK = re.compile(r"([0-9]{2}):([0-9]{2})")
_WINDOW_EXAMPLE = "example: Sat 22:00-04:00 Europe/Berlin, where the days can also be Sat,Sun or daily"
MINUTES_A_DAY = 24 * 60

FIRMWARE_NAME_PATTERN = r"^[A-Z][A-Z0-9_]*(\[[0-9]+\])?$"
_FIRMWARE_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
VMNIC_PATTERN = r"^$|^vmnic[0-9]+$"
VMKNIC_PATTERN = r"^$|^vmk[0-9]+$"
DEPOT_PATTERN = r"^(/|https?://)\S+$"


class WindowParts(NamedTuple):
    """A window as written: weekdays (Monday is 0), minutes from midnight, and a zone that exists.

    `end` may be 1440; where it is not after `start`, the window ends on the next day.
    """

    days: frozenset[int]
    start: int
    end: int
    zone: str


def split_window(text: str) -> WindowParts:
    """Take `Sat 22:00-04:00 Europe/Berlin` apart; the days may be several (`Sat,Sun`) or `daily`."""
    found = _WINDOW.fullmatch(text)
    if found is None:
        why = "has no time zone" if _WINDOW.fullmatch(f"{text} UTC") else "is not a valid maintenance window"
        raise ValueError(f"{text!r} {why}\n{_WINDOW_EXAMPLE}")
    start, end = _minutes(found["start"]), _minutes(found["end"])
    if start == MINUTES_A_DAY:
        raise ValueError("a window cannot begin at 24:00\nuse 00:00 on the next day")
    if start == end:
        raise ValueError("a window cannot begin and end at the same time\nuse 00:00-24:00 for an entire day")
    return WindowParts(_days(found["days"]), start, end, _zone(found["zone"]))


def check_window(text: str) -> str:
    """Return the window unchanged if it is valid."""
    split_window(text)
    return text


def _days(text: str) -> frozenset[int]:
    if text == _DAILY:
        return frozenset(range(len(DAYS)))
    words = re.split(", ?", text)
    for word in words:
        if word not in DAYS:
            near = [
                day for day in (*DAYS, _DAILY) if day.casefold() in (word[:3].casefold(), word.casefold())
            ]
            hint = f"use {near[0]}" if near else f"use {', '.join(DAYS)} or {_DAILY}"
            hint = "list the days, for example Sat,Sun" if "-" in word else hint
            raise ValueError(f"{word!r} is not a day of the week\n{hint}")
    return frozenset(DAYS.index(word) for word in words)


def _minutes(text: str) -> int:
    found = _CLOCK.fullmatch(text)
    if found is not None:
        minutes = int(found[1]) * 60 + int(found[2])
        if int(found[2]) < 60 and minutes <= MINUTES_A_DAY:
            return minutes
    raise ValueError(f"{text!r} is not a valid time of day\nuse hours and minutes from 00:00 to 24:00")


def _zone(name: str) -> str:
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        known = sorted(zoneinfo.available_timezones())
        of_city = [zone for zone in known if zone.rpartition("/")[2].casefold() == name.casefold()]
        near = of_city or difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else "example: Europe/Berlin or UTC"
        raise ValueError(f"this machine does not recognize the time zone {name!r}\n{hint}") from None
    return name


def check_firmware_name(name: str) -> str:
    """Return the name if mlxconfig prints parameters so: capitals, and an index for one of an array."""
    if re.fullmatch(FIRMWARE_NAME_PATTERN.strip("^$"), name) is None:
        near = re.sub(r"[^A-Z0-9_]", "_", name.upper())
        hint = f"did you mean {near}?" if re.fullmatch("[A-Z][A-Z0-9_]*", near) else "example: ATS_ENABLED"
        raise ValueError(f"{name!r} is not a valid mlxconfig firmware parameter\n{hint}")
    return name


def parse_firmware_value(value: object) -> str:
    """Return a value in mlxconfig's own words: `True`, `False`, a whole number, or a word such as `ETH`."""
    match value:
        case bool():
            return str(value)
        case int() if value >= 0:
            return str(value)
        case str() if value.casefold() in ("true", "false"):
            return value.capitalize()
        case str() if re.fullmatch("[0-9]{1,40}", value):
            return str(int(value))
        case str() if _FIRMWARE_WORD.fullmatch(value):
            return value
        case _:
            hint = "use true, false, an integer, or a word such as ETH"
            raise ValueError(f"this is not a valid value for a firmware parameter\n{hint}")


def parse_version(value: object) -> str:
    """Return the glob of a version; a number is rejected because `580.10` would become 580.1."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise ValueError(
            "an unquoted version is read as a number, which drops trailing zeros\nquote it, for "
            'example "580.10" or '
            '"580.*"'
        )
    if not isinstance(value, str) or not value.strip() or " " in value.strip():
        raise ValueError('a version must be text, which can contain globs\nexample: "580.95.*"')
    return value.strip()


def check_depot(text: str) -> str:
    """Return a depot's place if a host can find it: a path from its root, or an address."""
    if re.fullmatch(DEPOT_PATTERN.strip("^$"), text) is None:
        hint = "use the full path, such as /vmfs/volumes/ds1/driver.zip, or an https:// address"
        raise ValueError(f"{text!r} is not a depot location that a host can access\n{hint}")
    return text


def parse_interface_address(value: object) -> str | None:
    """Return an IPv4 address with its prefix, such as `10.111.0.21/24`; empty text is no address."""
    if not isinstance(value, str):
        raise ValueError("an address must be text such as 10.111.0.21/24")
    if not value:
        return None
    try:
        interface = ipaddress.IPv4Interface(value)
    except ValueError:
        raise ValueError(f"{value!r} is not an IPv4 address with a prefix\nexample: 10.111.0.21/24") from None
    if "/" not in value:
        raise ValueError(f"the address {value} has no prefix\nexample: {value}/24")
    network = interface.network
    if network.prefixlen < 31 and interface.ip in (network.network_address, network.broadcast_address):
        raise ValueError(
            f"{value} is the address of a network, not of a host\nexample: {network[1]}/{network.prefixlen}"
        )
    if network.prefixlen == 32:
        raise ValueError(
            f"the prefix of {value} leaves no room for another machine on the network\nexample: "
            f"{interface.ip}/24"
        )
    return str(interface)


def parse_vmknic_address(value: object) -> str | None:
    """Return `dhcp`, or an IPv4 address with its prefix."""
    return "dhcp" if value == "dhcp" else parse_interface_address(value)


def check_vmnic(text: str) -> str:
    """Return the name of a physical NIC as ESXi gives it."""
    if re.fullmatch(VMNIC_PATTERN, text) is None:
        raise ValueError(f"{text!r} is not a valid name of a host NIC\nexample: vmnic4")
    return text


def check_vmknic(text: str) -> str:
    """Return the name of a VMkernel NIC as ESXi gives it."""
    if re.fullmatch(VMKNIC_PATTERN, text) is None:
        raise ValueError(f"{text!r} is not a valid name of a VMkernel NIC\nexample: vmk2")
    return text


def parse_drs_value(value: object) -> str:
    """Return an option of DRS as text; empty text removes it."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError('a DRS option must be text or an integer\nexample: "-1"')
    return str(value)


def _secret_name(value: object) -> object:
    """Return the name. No message repeats an invalid value, because it may be the secret itself."""
    if isinstance(value, str):
        return value
    message = "a secret's name must be text\nexample: {secret: esxi}"
    raise ValueError(message)


SecretName = Annotated[Text, BeforeValidator(_secret_name, json_schema_input_type=str)]


class SecretUse(Frozen):
    """The name of one of the plan's `secrets`."""

    secret: SecretName = Field(description="A name from `secrets`.")


def secret_use(value: object) -> object:
    """Refuse anything but a mapping, without repeating it."""
    if isinstance(value, Mapping | Frozen):
        return value
    message = (
        "use the name of a secret here, never its value\nexample: {secret: esxi}, with esxi under `secrets`"
    )
    raise ValueError(message)


class _Named:
    """Read `{secret: NAME}` of a plan file, and keep the name."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        del source
        written = Annotated[SecretUse, BeforeValidator(secret_use, json_schema_input_type=SecretUse)]
        schema = handler.generate_schema(written)
        return core_schema.with_info_wrap_validator_function(
            _name_of, schema, serialization=core_schema.to_string_ser_schema()
        )


def _name_of(value: Any, read: ValidatorFunctionWrapHandler, info: ValidationInfo) -> str:
    if isinstance(value, str) and not is_from_file(info):
        return value
    use: SecretUse = read(value)
    return use.secret


def if_text(check: Callable[[str], str]) -> Callable[[object], object]:
    """Apply a check to text; empty text is an absent key, and its type rejects other values."""

    def checked(value: object) -> object:
        if not isinstance(value, str):
            return value
        return check(value) if value else None

    return checked


def one_or_list(what: str, single: type, written: Any) -> BeforeValidator:
    """Take one `single` for a list of one; `written` is the type for the schema."""

    def unfold(value: object) -> object:
        if isinstance(value, single):
            return [value]
        if not isinstance(value, list | tuple):
            message = f"this must be {what}, or a list of these"
            raise ValueError(message)
        return value

    return BeforeValidator(unfold, json_schema_input_type=written)


def _graphics_type(value: object) -> object:
    """Refuse esxcli's word by the one that is meant; vim and esxcli call the same type differently."""
    if isinstance(value, str) and value.replace(" ", "").casefold() == "sharedpassthru":
        message = f"{value!r} is esxcli's name for a graphics type\nuse sharedDirect"
        raise ValueError(message)
    return value


_CIDR = r"[0-9]{1,3}(\.[0-9]{1,3}){3}/[0-9]{1,2}"

NamedSecret = Annotated[str, _Named()]
"""A secret's name, which a plan file writes as {secret: NAME}."""
WindowText = Annotated[
    str | None,
    BeforeValidator(
        if_text(check_window),
        json_schema_input_type=Annotated[
            str, Field(pattern=f"^$|{WINDOW_PATTERN}", examples=["Sat 22:00-04:00 Europe/Berlin"])
        ],
    ),
]
HostGraphicsType = Annotated[
    Literal[GraphicsType.SHARED, GraphicsType.SHARED_DIRECT],
    BeforeValidator(_graphics_type, json_schema_input_type=Literal["shared", "sharedDirect"]),
]
HostAssignmentPolicy = Annotated[AssignmentPolicy, in_words(AssignmentPolicy)]
Version = Annotated[str, BeforeValidator(parse_version, json_schema_input_type=str)]
_DepotText = Annotated[str, Field(pattern=DEPOT_PATTERN)]
Depots = Annotated[
    tuple[Annotated[str, BeforeValidator(if_text(check_depot), json_schema_input_type=_DepotText)], ...],
    one_or_list("a depot", str, _DepotText | list[_DepotText]),
]
Vmnic = Annotated[
    str | None,
    BeforeValidator(
        if_text(check_vmnic), json_schema_input_type=Annotated[str, Field(pattern=VMNIC_PATTERN)]
    ),
]
Vmknic = Annotated[
    str | None,
    BeforeValidator(
        if_text(check_vmknic), json_schema_input_type=Annotated[str, Field(pattern=VMKNIC_PATTERN)]
    ),
]
FirmwareName = Annotated[str, AfterValidator(check_firmware_name)]
FirmwareValue = Annotated[str, BeforeValidator(parse_firmware_value, json_schema_input_type=str | int | bool)]
FIRMWARE_NAMES = {"pattern": FIRMWARE_NAME_PATTERN}
DrsValue = Annotated[str, BeforeValidator(parse_drs_value, json_schema_input_type=str | int)]
VmknicAddress = Annotated[
    str | None,
    BeforeValidator(
        parse_vmknic_address,
        json_schema_input_type=Annotated[str, Field(pattern=rf"^$|^dhcp$|^{_CIDR}$")],
    ),
]
InterfaceAddress = Annotated[
    str,
    BeforeValidator(
        parse_interface_address, json_schema_input_type=Annotated[str, Field(pattern=f"^{_CIDR}$")]
    ),
]
Node = Annotated[int, Field(ge=0)]
Mtu = Annotated[int, Field(ge=1280, le=9216)]
"""Bytes. A vSphere switch's maximum depends on its version; physical switches accept 9216."""
