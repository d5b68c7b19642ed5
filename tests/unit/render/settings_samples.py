"""A settings table as the render tests need it: paragraphs that say what they were given."""

from __future__ import annotations

from tests.unit.render.host_samples import TITLES, WRITES, ref
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.model.observed.inventory import Host
from vgpu_cfg.planning.host_settings.entry import DesiredSetting, HostSetting, HostView, Instructions, Reading


def how(view: HostView, desired: DesiredSetting) -> Instructions:
    return Instructions(
        why=f"VMs of {view.host.name} need {desired.setting}",
        client="{host} > Configure > {device}: {value}",
        commands=("govc host.option.set -host {host} key {value}", "esxcli system shutdown reboot"),
        expected="{value} instead of {before}",
        verify=("esxcli graphics host get",),
        undo=("govc host.option.set -host {host} key {before}", "in the vSphere Client, look at {device}"),
    )


def setting(key: str, title: str) -> HostSetting:
    return HostSetting(
        key=key,
        title=title,
        source="made up",
        desired_settings=lambda _entry, _view: (),
        read=lambda _view, _device: Reading(),
        write=lambda _view, _desired_settings: (WRITES[key],),
        impact=lambda _view, _desired: Impact.NONE,
        how=how,
        group=key,
        remembered=None,
    )


TABLE = {key: setting(key, title) for key, title in TITLES.items()}
VIEWS = {
    ref(name).moid: HostView(host=Host(moid=ref(name).moid, name=name, version="8.0.3"))
    for name in ("esx-01", "esx-02")
}


def lookup(key: str) -> HostSetting:
    return TABLE[key]
