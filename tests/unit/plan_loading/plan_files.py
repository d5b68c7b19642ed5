"""Plan files that a test writes and loads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vgpu_cfg.model.desired import DesiredPlan, DesiredVm
from vgpu_cfg.plan_loading import LoadedPlan, load_plan

HEADER = "version: 1\nname: p\nvcenter: prod\n"
Loader = Callable[..., LoadedPlan]
VmLoader = Callable[[str], DesiredVm]


@pytest.fixture(name="load")
def load_fixture(tmp_path: Path) -> Loader:
    """Write a plan file, and others beside it by name, and load it; what it asks survives a saved plan."""

    def write_and_load(text: str, files: dict[str, str] | None = None, **options: Any) -> LoadedPlan:
        for name, content in {"plan.yaml": text, **(files or {})}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        loaded = load_plan(tmp_path / "plan.yaml", **options)
        text = loaded.desired.model_dump_json()
        saved = DesiredPlan.model_validate_json(text)
        assert (saved, saved.model_dump_json()) == (loaded.desired, text)
        return loaded

    return write_and_load


def asked(loaded: LoadedPlan) -> str:
    """Return what a plan file asks, without where in it that stands."""
    origins: dict[str, Any] = {section: {"__all__": {"origin"}} for section in ("hosts", "networks", "vms")}
    return loaded.desired.model_dump_json(exclude={**origins, "training": {"origin"}})


@pytest.fixture(name="load_vm")
def load_vm_fixture(load: Loader) -> VmLoader:
    """Load one VM called a, cloned from t, with the keys given."""

    def one(keys: str) -> DesiredVm:
        body = "".join(f"  {line}\n" for line in keys.splitlines())
        (vm,) = load(f"{HEADER}vms:\n- name: a\n  template: t\n{body}").desired.vms
        return vm

    return one
