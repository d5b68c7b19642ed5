"""How the runbook tells to customise a guest, and to see that it was."""

from __future__ import annotations

from ipaddress import ip_interface

from vgpu_cfg.changes.change import AwaitCustomization
from vgpu_cfg.changes.commands import command
from vgpu_cfg.changes.customization import Customization
from vgpu_cfg.model.wording import duration
from vgpu_cfg.render.markdown.parts import Part


def customization_part(name: str, asked: Customization) -> Part:
    """Tell how a VM that was cloned, and is off, is customised at its first start."""
    words = ["-vm", name, "-name", asked.host_name]
    if asked.kind == "linux":
        words += ["-domain", asked.domain]
    for nic in asked.nics:
        if not nic.ip:
            break  # govc takes addresses in order: one that follows is typed in by hand
        words += ["-ip", nic.ip.partition("/")[0]]
        if nic.ip != "dhcp":
            words += ["-netmask", str(ip_interface(nic.ip).netmask)]
        if nic.gateway:
            words += ["-gateway", nic.gateway]
    if asked.dns:
        words += ["-dns-server", ",".join(asked.dns)]
    nics = [
        f"NIC {number}: {nic.ip or 'as the specification has it'}"
        + (f", gateway {nic.gateway}" if nic.gateway else "")
        for number, nic in enumerate(asked.nics, 1)
    ]
    told = [f"host name {asked.host_name}", *([f"domain {asked.domain}"] if asked.sets_domain else []), *nics]
    told += [f"DNS {', '.join(asked.dns)}"] if asked.dns else []
    return Part(
        heading="Customise",
        what=f"Let {name} be customised at its first start by the specification {asked.spec}, with "
        f"{'; '.join(told)}. It must be off.",
        client=f"{name} > Actions > Guest OS > Customize Guest OS > {asked.spec}",
        commands=(command("govc", "vm.customize", *words, asked.spec),),
        expected="the task ends without error",
    )


def awaiting_part(change: AwaitCustomization) -> Part:
    """Tell how to see that a guest was customised."""
    name = change.vm.name
    return Part(
        what=f"Wait until the guest of {name} is customised, {duration(change.wait_seconds)} at most.",
        client=f"{name} > Monitor > Events",
        expected=f'the events have "Customization of VM {name} succeeded"',
        verify=(command("govc", "events", name), command("govc", "vm.info", name)),
    )
