"""Turn variables of the environment into values, and report the invalid ones."""

from __future__ import annotations

import os
from typing import TypeVar

from pydantic import ValidationError

from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.model.frozen import Frozen

Settings = TypeVar("Settings", bound=Frozen)


def read_variables(settings: type[Settings], prefix: str) -> Settings:
    """Read each field from the variable of its name in capitals, after the prefix; an empty one is none.

    Raises DocumentError for variables that cannot be used: each is a document of one line.
    """
    stated = {
        name: value for name in settings.model_fields if (value := os.environ.get(f"{prefix}{name.upper()}"))
    }
    try:
        return settings.model_validate(stated)
    except ValidationError as error:
        faults = [
            DocumentFault(
                f"{prefix}{fault['loc'][0]!s}".upper(), 1, 1, fault["msg"], "correct it, or unset it"
            )
            for fault in error.errors(include_url=False, include_input=False)
        ]
        raise DocumentError(faults, remedy="correct the variables, or unset them") from error
