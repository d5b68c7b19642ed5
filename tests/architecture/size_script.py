"""`script/size` as a module, whose name has no ending: tests ask it what imports what."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from typing import Any

from tests.architecture.sources import ROOT

SCRIPT = ROOT / "script" / "size"


@cache
def size() -> Any:
    """Load the script."""
    spec = spec_from_loader("size", SourceFileLoader("size", str(SCRIPT)))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["size"] = module  # its dataclasses ask for their module
    spec.loader.exec_module(module)
    return module


@cache
def imports() -> Mapping[str, frozenset[str]]:
    """Return the program's modules that each of them names in an import, anywhere in it."""
    graph: Mapping[str, frozenset[str]] = size().import_graph(size().read_modules(ROOT))
    return graph
