"""The types that only the keys of `guest` and `training` have, each with its form in the JSON schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from vgpu_cfg.model.plan_file.fields import Text
from vgpu_cfg.model.plan_file.guest_values import (
    CUDA_PATTERN,
    DOMAIN_PATTERN,
    DURATION_PATTERN,
    ELASTIC_PATTERN,
    FEATURE_TYPES,
    FOLDER_PATTERN,
    IMAGE_PATTERN,
    LABEL_PATTERN,
    PACKAGE_PATTERN,
    PLAIN_URL_PATTERN,
    RATE_PATTERN,
    SHA256_PATTERN,
    SHELL_PATTERN,
    SHELL_VARIABLE_PATTERN,
    USER_PATTERN,
    check_cuda_version,
    check_domain,
    check_elastic,
    check_feature_type,
    check_folder,
    check_host_name,
    check_image,
    check_mount,
    check_package,
    check_public_key,
    check_registry,
    check_registry_user,
    check_sha256,
    check_shell,
    check_shell_variable,
    check_time_server,
    check_url,
    check_user,
    parse_duration,
    parse_rate,
    parse_variable_value,
)
from vgpu_cfg.model.plan_file.host_fields import if_text, one_or_list


def _patterned(pattern: str, *, or_empty: bool = False) -> Any:
    return Annotated[str, Field(pattern=f"^({pattern})?$" if or_empty else f"^{pattern}$")]


def _checked(check: Callable[[str], str], written: Any) -> BeforeValidator:
    """Apply a check to text; the empty one is an absent key."""
    return BeforeValidator(if_text(check), json_schema_input_type=written)


def word_or_mapping(short: str, words: tuple[str, ...], written: Any) -> BeforeValidator:
    """Take one of the words as it is, and any other text for a mapping that has only the key `short`."""

    def unfold(value: object) -> object:
        return {short: value} if isinstance(value, str) and value not in words else value

    return BeforeValidator(unfold, json_schema_input_type=written)


def flag_or_mapping(written: Any) -> BeforeValidator:
    """Take `true` for an empty mapping, and `false` for an absent key."""

    def unfold(value: object) -> object:
        if value is True or value == "true":
            return {}
        return None if value is False or value == "false" else value

    return BeforeValidator(unfold, json_schema_input_type=written)


HostName = Annotated[str | None, _checked(check_host_name, _patterned(LABEL_PATTERN, or_empty=True))]
Domain = Annotated[str | None, _checked(check_domain, _patterned(DOMAIN_PATTERN, or_empty=True))]
UserName = Annotated[str, _checked(check_user, _patterned(USER_PATTERN))]
PublicKeys = Annotated[
    tuple[Annotated[Text, AfterValidator(check_public_key)], ...],
    one_or_list("a public key", str, Text | list[Text]),
]
TimeServers = Annotated[
    tuple[Annotated[Text, AfterValidator(check_time_server)], ...],
    one_or_list("an NTP server", str, Text | list[Text]),
]
Shell = Annotated[str, _checked(check_shell, _patterned(SHELL_PATTERN))]
SharedPath = Annotated[str, _checked(check_folder, _patterned(FOLDER_PATTERN))]
Package = Annotated[str | None, _checked(check_package, _patterned(PACKAGE_PATTERN, or_empty=True))]
CudaVersion = Annotated[str, _checked(check_cuda_version, _patterned(CUDA_PATTERN))]
Url = Annotated[str | None, _checked(check_url, _patterned(PLAIN_URL_PATTERN, or_empty=True))]
Sha256 = Annotated[str | None, _checked(check_sha256, _patterned(SHA256_PATTERN, or_empty=True))]
Image = Annotated[str | None, _checked(check_image, _patterned(IMAGE_PATTERN, or_empty=True))]
NeededImage = Annotated[str, _checked(check_image, _patterned(IMAGE_PATTERN))]
Registry = Annotated[str | None, _checked(check_registry, str)]
RegistryUser = Annotated[str | None, _checked(check_registry_user, str)]
Elastic = Annotated[str | None, _checked(check_elastic, _patterned(ELASTIC_PATTERN, or_empty=True))]
Port = Annotated[int, Field(ge=1, le=65535)]
Duration = Annotated[
    int, BeforeValidator(parse_duration, json_schema_input_type=_patterned(DURATION_PATTERN))
]
Rate = Annotated[int, BeforeValidator(parse_rate, json_schema_input_type=_patterned(RATE_PATTERN))]
Mounts = Annotated[
    tuple[Annotated[Text, AfterValidator(check_mount)], ...],
    one_or_list("a mount", str, Text | list[Text]),
]
ShellVariable = Annotated[str, AfterValidator(check_shell_variable)]
SHELL_VARIABLES = {"pattern": f"^{SHELL_VARIABLE_PATTERN}$"}
VariableValue = Annotated[
    str, BeforeValidator(parse_variable_value, json_schema_input_type=str | int | float)
]
FeatureType = Annotated[
    int, AfterValidator(check_feature_type), Field(json_schema_extra={"enum": list(FEATURE_TYPES)})
]
Containers = Literal["docker", "containerd", "apptainer", "leave"]
