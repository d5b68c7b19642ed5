"""The options of a VM that a plan file may state: one model, from the file to what is desired.

Each is a row of the table of VM settings (`planning.vms.table`), which says how it is read, written and
shown. An option that is absent is None and not among `model_fields_set`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.plan_file.fields import Stated, TakesEffect, Texts, key

CategoryName = Annotated[str, StringConstraints(min_length=1, max_length=256)]
AttributeName = Annotated[str, StringConstraints(min_length=1, max_length=80)]


def _attribute(value: object) -> object:
    """Write numbers and truth as text, which is all that a custom attribute holds."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else value


AttributeValue = Annotated[str, BeforeValidator(_attribute, json_schema_input_type=str | int | bool)]


class HaOptions(Frozen):
    """What vSphere HA does with a VM other than with the rest of its cluster."""

    restart: Stated[Literal["disabled", "lowest", "low", "medium", "high", "highest"]] = key(
        "When HA starts the VM again after its host failed, among the others; disabled: never.",
        TakesEffect.LIVE,
        "the cluster's",
    )
    monitoring: Stated[Literal["off", "vm", "vm-and-app"]] = key(
        "Whether HA resets the VM when its tools, or an application, are silent.",
        TakesEffect.LIVE,
        "the cluster's",
    )


class VmOptions(Frozen):
    """The options of a VM, each a row of the table of VM settings."""

    secure_boot: Stated[bool] = key("UEFI secure boot.", TakesEffect.AT_CREATION, "the template's")
    boot_delay: Stated[Annotated[int, Field(ge=0, le=3600)]] = key(
        "Seconds that the firmware waits before it boots; from the next start on.",
        TakesEffect.LIVE,
        "the template's",
    )
    cpu_hot_add: Stated[bool] = key(
        "Whether CPUs can be added while the VM runs. That hides the virtual NUMA nodes from the guest.",
        TakesEffect.AT_POWER_CYCLE,
        "false",
    )
    memory_hot_add: Stated[bool] = key(
        "Whether memory can be added while the VM runs; not where a device is passed through.",
        TakesEffect.AT_POWER_CYCLE,
        "false",
    )
    latency_sensitivity: Stated[Literal["normal", "high"]] = key(
        "high: every CPU has a core of its own. All CPU and memory is reserved then.",
        TakesEffect.AT_POWER_CYCLE,
        "the template's",
    )
    vtpm: Stated[bool] = key(
        "A virtual TPM 2.0; vCenter needs a key provider.", TakesEffect.AT_POWER_CYCLE, "the template's"
    )
    drs: Stated[Literal["manual", "partial", "full", "off"]] = key(
        "What DRS may do with this VM: manual, partial, full (automated), or off.",
        TakesEffect.LIVE,
        "the cluster's",
    )
    ha: Stated[HaOptions] = key("What vSphere HA does with this VM.", TakesEffect.LIVE, "the cluster's")
    attributes: Stated[dict[AttributeName, AttributeValue]] = key(
        "Custom attributes of the VM, by name; an empty text clears one.", TakesEffect.LIVE
    )
    tags: Stated[dict[CategoryName, Texts]] = key(
        "Tags of the VM by their category: one, or a list; an empty list takes away those of the category.",
        TakesEffect.LIVE,
    )


OPTIONS = frozenset(VmOptions.model_fields)


def stated_options(options: VmOptions) -> Iterator[tuple[str, Any]]:
    """Yield the options that have a value."""
    for name in sorted(OPTIONS):
        value = getattr(options, name)
        if value is not None:
            yield name, value
