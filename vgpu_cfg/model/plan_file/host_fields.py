"""The types that only the keys of `hosts` and `networks` have, each with its form in the JSON schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

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
from vgpu_cfg.model.observed.graphics import AssignmentPolicy, GraphicsType
from vgpu_cfg.model.plan_file.fields import Text, in_words, is_from_file
from vgpu_cfg.model.plan_file.host_values import (
    DEPOT_PATTERN,
    FIRMWARE_NAME_PATTERN,
    VMKNIC_PATTERN,
    VMNIC_PATTERN,
    WINDOW_PATTERN,
    check_depot,
    check_firmware_name,
    check_vmknic,
    check_vmnic,
    check_window,
    parse_drs_value,
    parse_firmware_value,
    parse_interface_address,
    parse_version,
    parse_vmknic_address,
)


def _secret_name(value: object) -> object:
    """Return the name. No message holds what stands there instead: it may be the secret itself."""
    if isinstance(value, str):
        return value
    message = "a secret's name is text\nas in {secret: esxi}"
    raise ValueError(message)


SecretName = Annotated[Text, BeforeValidator(_secret_name, json_schema_input_type=str)]


class SecretUse(Frozen):
    """The name of one of the plan's `secrets`."""

    secret: SecretName = Field(description="A name that stands under `secrets`.")


def secret_use(value: object) -> object:
    """Refuse anything but a mapping, without repeating it."""
    if isinstance(value, Mapping | Frozen):
        return value
    message = "a secret is named here, never written out\nas in {secret: esxi}, with esxi under `secrets`"
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
    """Apply a check to text; empty text is an absent key, and what is no text its type tells."""

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
        message = f"{value!r} is esxcli's word for a graphics type\nwrite sharedDirect"
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
"""Bytes. What a switch of vSphere takes at most, its version tells; 9216 is what physical switches take."""
